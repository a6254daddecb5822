"""The whole procedure: from the source to a verified daemon that runs what was built."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from cuzkops.records import RunRecord
from cuzkops.remote.lock import held, planned, refuse_locked
from cuzkops.remote.probes import host_script, processes_script
from cuzkops.steps.already import running_already
from cuzkops.steps.build import built, load_artifact
from cuzkops.steps.check_here import check_by_tool, check_here
from cuzkops.steps.findings import raise_findings
from cuzkops.steps.launch import DEADLINE_S, READINESS_S
from cuzkops.steps.observer import Observer, observed, warn
from cuzkops.steps.preflight import preflight_host, preflight_manifest, with_python
from cuzkops.steps.replace import Replacement, Terms, plan_replacement
from cuzkops.steps.ship import ShipRequest, plan_ship, preflight_space, present_items_script, ship
from cuzkops.steps.verify import Release
from cuzkops.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.configuration import DeployConfig
    from cuzkops.memory_verdict import MemoryVerdict
    from cuzkops.records import LockOwner
    from cuzkops.remote.host import Host, Script
    from cuzkops.remote.layout import Layout
    from cuzkops.remote.probes import HostFacts
    from cuzkops.state import State
    from cuzkops.steps.build import Artifact, BuildRequest
    from cuzkops.steps.findings import Finding
    from cuzkops.steps.kill import KillResult
    from cuzkops.steps.launch import LaunchResult
    from cuzkops.steps.preflight import PreflightReport
    from cuzkops.steps.ship import ShipResult
    from prover.protocol import CheckAnswer, DaemonRecord


@dataclass(frozen=True)
class DeployRequest:
    """What to deploy.

    Args:
        source: What to build, or the folder of an artifact that was built before.
        config: The configuration with the circuits that it carries.
        owner: This process as the owner of the host's lock; its ``run_id`` names the run and the launch.
        need_bytes: Memory that the new daemon needs; None: the budget, else what its own check says.
        last_peak_bytes: Peak memory of the last run, where known: a need that the check may not foresee.
        grace_s: Time for the old daemon to stop on its own; None: as long as its drain may take.
        wait_timeout_s: Longest wait for the memory.
        readiness_s: The new daemon must still live this long after its start.
        launch_deadline_s: It must be ready this long after its start.
        thorough: Hash every key on the host, also one that was hashed before and has not changed since.
        keep: How many releases of this daemon stay, besides those in use; None: all of them.
        state: Where the samples of a kill are kept; a deploy that is run again goes on with them.
    """

    source: BuildRequest | Path
    config: DeployConfig
    owner: LockOwner
    need_bytes: int | None = None
    last_peak_bytes: int | None = None
    grace_s: float | None = None
    wait_timeout_s: float = 1800
    readiness_s: float = READINESS_S
    launch_deadline_s: float = DEADLINE_S
    thorough: bool = False
    keep: int | None = None
    state: State | None = None

    @property
    def declared_need_bytes(self) -> int | None:
        """What is needed as far as it is known before the check: ``auto`` is never a need."""
        return self.need_bytes if self.need_bytes is not None else self.config.budget_bytes

    @property
    def terms(self) -> Terms:
        """How the daemon that runs is replaced."""
        return Terms(
            run_id=self.owner.run_id,
            reason=f"deploy {self.owner.run_id}",
            need_bytes=self.need_bytes,
            last_peak_bytes=self.last_peak_bytes,
            grace_s=self.grace_s,
            wait_timeout_s=self.wait_timeout_s,
            readiness_s=self.readiness_s,
            launch_deadline_s=self.launch_deadline_s,
            state=self.state,
        )

    def shipping(self, artifact: Artifact) -> ShipRequest:
        """What travels."""
        return ShipRequest(artifact, self.config, self.thorough, self.keep)


@dataclass(frozen=True)
class DeployResult:
    """A deploy that went through.

    Args:
        run: What identifies the run, for run.json.
        warnings: What preflight found odd.
        shipped: What travelled.
        check: What the release said of its configuration there.
        killed: What was stopped before.
        memory: How the memory came back.
        launched: The new daemon.
        seconds: Time of the whole.
    """

    run: RunRecord
    warnings: tuple[Finding, ...]
    shipped: ShipResult
    check: CheckAnswer
    killed: KillResult
    memory: MemoryVerdict
    launched: LaunchResult
    seconds: float


@dataclass(frozen=True)
class AlreadyRunning:
    """A deploy that had nothing to do.

    Args:
        release_id: What it would have started.
        daemon: The daemon that runs exactly that, and is ready.
        warnings: What preflight found odd.
        shipped: What was looked at on the host.
        seconds: Time of the whole.
    """

    release_id: str
    daemon: DaemonRecord
    warnings: tuple[Finding, ...]
    shipped: ShipResult
    seconds: float


def deploy(host: Host, layout: Layout, request: DeployRequest, observer: Observer) -> DeployResult:
    """Preflight, build, preflight of the result, lock, ship, check, kill, wait, launch, unlock.

    Args:
        host: The host.
        layout: Which daemon there.
        request: What to deploy.
        observer: Told of every step.

    Raises:
        UsageError: Preflight or the check refuse: the running daemon was not touched.
        LockedError: Another deploy holds the lock.
        TimeoutExpired: The memory did not come back: nothing was launched.
        OpsError: A step failed; if the new daemon failed, the release that ran before was started again where one did.
    """
    return cast("DeployResult", _Deploy(host, layout, request, observer).run(restart=True))


def deploy_changes(
    host: Host, layout: Layout, request: DeployRequest, observer: Observer
) -> DeployResult | AlreadyRunning:
    """Do the same as ``deploy``, but leave a daemon alone that runs exactly this release and is ready."""
    return _Deploy(host, layout, request, observer).run(restart=False)


class _Deploy:
    """One deploy at work: the facts that later steps need from earlier ones."""

    def __init__(self, host: Host, layout: Layout, request: DeployRequest, observer: Observer) -> None:
        self._host = host
        self._layout = layout
        self._request = request
        self._observer = observer
        self._begin_s = time.monotonic()

    def run(self, *, restart: bool) -> DeployResult | AlreadyRunning:
        """The procedure; without ``restart`` it ends where what it would start runs already."""
        self._observer.if_interrupted("nothing was changed")
        report = self._preflight_host()
        with self._artifact() as artifact:
            warnings = [*report.findings, *self._preflight_manifest(report.facts, artifact)]
            with held(self._host, self._layout, self._request.owner, self._observer.says) as set_step:
                shipped = self._ship(artifact, set_step)
                release = release_of(shipped.release_id, artifact, self._request.config)
                if not restart and (daemon := self._already(release, shipped)) is not None:
                    took_s = time.monotonic() - self._begin_s
                    return AlreadyRunning(release.release_id, daemon, tuple(warnings), shipped, took_s)
                replacement = Replacement(self._host, self._layout, release, self._request.terms, self._observer)
                replaced = replacement.run(set_step)
        return DeployResult(
            self._run_record(replaced.launched, report.facts),
            warnings=tuple(warnings),
            shipped=shipped,
            check=replaced.check,
            killed=replaced.killed,
            memory=replaced.memory,
            launched=replaced.launched,
            seconds=time.monotonic() - self._begin_s,
        )

    def _preflight_host(self) -> PreflightReport:
        with observed(self._observer, "preflight") as done:
            refuse_locked(self._host, self._layout, self._request.owner)  # before a build that may take minutes
            need_bytes = self._request.declared_need_bytes
            config = self._request.config
            # How much of a GPU is needed is known after the check.
            report = preflight_host(
                self._host,
                self._layout,
                need_bytes,
                budget_bytes=config.budget_bytes,
                needs_gpu=config.uses_gpu,
                need_gpu_bytes=int(config.uses_gpu),
            )
            if any(finding.severity == "error" for finding in report.findings):
                raise_findings([*report.findings, *self._foreseen(report.facts)])
            warn(self._observer, report.findings)
            runs = "no daemon runs there"
            if report.daemon is not None and report.daemon.is_live:
                record = report.daemon.record
                runs = f"{record.name} runs there as pid {record.pid}, release {record.release_id}"
            available = format_bytes(report.facts.available_bytes)
            done(f"{report.facts.hostname}: {available} of memory are available; {runs}")
        return report

    @contextmanager
    def _artifact(self) -> Iterator[Artifact]:
        source = self._request.source
        with ExitStack() as kept:
            with observed(self._observer, "build") as done:
                if isinstance(source, Path):
                    artifact = load_artifact(source)
                else:
                    artifact = kept.enter_context(built(source, self._observer.detail))
                n_bytes = sum(layer.n_bytes for layer in artifact.manifest.layers)
                where = source if isinstance(source, Path) else source.out
                done(f"build {artifact.manifest.build_id} in {where}, {format_bytes(n_bytes)}")
            yield artifact

    def _foreseen(self, facts: HostFacts) -> list[Finding]:
        """What would be refused next, for the refusal that comes anyway: mistakes shall not come in rounds."""
        source = self._request.source
        if isinstance(source, Path):
            return self._manifest_findings(facts, load_artifact(source))[0]
        return check_by_tool(self._request.config).findings

    def _manifest_findings(self, facts: HostFacts, artifact: Artifact) -> tuple[list[Finding], str]:
        facts = with_python(self._host, facts, artifact.manifest)
        here = check_here(artifact, self._request.config)  # before anything travels
        space = preflight_space(self._host, self._layout, self._request.shipping(artifact))
        fits = preflight_manifest(facts, artifact.manifest, uses_gpu=self._request.config.uses_gpu)
        return [*fits, *space, *here.findings], here.sentence

    def _preflight_manifest(self, facts: HostFacts, artifact: Artifact) -> list[Finding]:
        with observed(self._observer, "preflight of the build") as done:
            findings, checked = self._manifest_findings(facts, artifact)
            raise_findings(findings)
            warn(self._observer, findings)
            needs = f"{artifact.manifest.target}, glibc {artifact.manifest.glibc_floor} or newer"
            done(f"{needs}: it fits the host; {checked}")
        return findings

    def _ship(self, artifact: Artifact, set_step: Callable[[str], None]) -> ShipResult:
        self._observer.if_interrupted("the running daemon was not touched; what arrived is not sent again")
        set_step("ship")
        with observed(self._observer, "ship") as done:
            request = self._request.shipping(artifact)
            shipped = ship(self._host, self._layout, request, self._observer.transferred, self._observer.says)
            sent = f"sent {', '.join(shipped.sent)}" if shipped.sent else "nothing had to travel"
            done(f"release {shipped.release_id}: {sent} ({format_bytes(shipped.bytes_sent)})")
        return shipped

    def _already(self, release: Release, shipped: ShipResult) -> DaemonRecord | None:
        if shipped.sent or shipped.repaired:  # the daemon may have the files that were damaged
            return None
        return running_already(self._host, self._layout, release, _host_keys(self._request.config))

    def _run_record(self, launched: LaunchResult, facts: HostFacts) -> RunRecord:
        config = self._request.config
        circuits = {name: circuit.sha256 for name, circuit in config.circuits.items()} | config.host_circuits
        return record_run(self._request.owner.run_id, str(self._host.target), launched, facts, circuits)


def release_of(release_id: str, artifact: Artifact, config: DeployConfig) -> Release:
    """The release that an artifact and a configuration make on the host."""
    circuits = {name: circuit.sha256 for name, circuit in config.circuits.items()} | config.host_digests
    sources = {name: str(circuit.path) for name, circuit in config.circuits.items()}
    return Release(release_id, artifact.manifest, config.sha256, circuits, config.budget_bytes, sources=sources)


def _host_keys(config: DeployConfig) -> list[str]:
    return [where for where in config.host_circuits.values() if where.startswith("/")]


def record_run(
    run_id: str,
    target: str,
    launched: LaunchResult,
    facts: HostFacts,
    circuits: dict[str, str],
    *,
    kind: Literal["deploy", "rollback"] = "deploy",
) -> RunRecord:
    """Put together what identifies a run, for run.json.

    Args:
        run_id: The run.
        target: Where it runs.
        launched: Its daemon.
        facts: The host.
        circuits: Name -> digest of its key, or its path where only the host has it.
        kind: What was done.
    """
    daemon = launched.daemon
    return RunRecord(
        run_id=run_id,
        target=target,
        name=daemon.name,
        daemon_kind="cuzkops",
        log_grammar="cuzkops",
        build_id=daemon.build_id,
        exe_sha256=daemon.exe_sha256,
        config_sha256=daemon.config_sha256,
        circuits=circuits,
        host=facts.hostname,
        gpus=[gpu.name for gpu in facts.gpus],
        driver=facts.nvidia_driver or None,
        started_unix_ns=daemon.started_unix_ns,
        kind=kind,
        release_id=daemon.release_id,
        launch_id=daemon.launch_id,
    )


def plan(
    host: Host, layout: Layout, request: DeployRequest, artifact: Artifact, *, restart: bool = True
) -> list[Script]:
    """Every script by which a deploy of this artifact would change the host, in order, and the longer looks between.

    Looks at the host to know whom it would stop; changes nothing.

    Args:
        host: The host.
        layout: Which daemon there.
        request: What to deploy.
        artifact: What would be shipped.
        restart: Whether a daemon that runs exactly this is replaced, too.

    Raises:
        UsageError: The daemon that runs may not be stopped.
    """
    shipping = request.shipping(artifact)
    release = release_of(shipping.release_id, artifact, request.config)
    steps = {"ship": plan_ship(layout, shipping)}
    if restart or running_already(host, layout, release, _host_keys(request.config)) is None:
        steps |= plan_replacement(host, layout, release, request.terms)
    look = [host_script(layout.home), processes_script(), present_items_script(layout, shipping)]
    return [*look, *planned(layout, request.owner, steps)]

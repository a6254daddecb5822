"""The whole procedure: from the source to a verified daemon that runs what was built."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cuzkops.errors import OpsError
from cuzkops.records import RunRecord
from cuzkops.remote.daemon import find_daemon
from cuzkops.remote.lock import held, planned
from cuzkops.remote.probes import host_script, processes_script
from cuzkops.remote.releases import layers_script
from cuzkops.steps.build import build, load_artifact
from cuzkops.steps.check import check, check_script, raise_problems
from cuzkops.steps.kill import KillRequest, kill, plan_kill
from cuzkops.steps.launch import DEADLINE_S, READINESS_S, LaunchRequest, launch, plan_launch
from cuzkops.steps.preflight import preflight_host, preflight_manifest, raise_findings, with_python
from cuzkops.steps.ship import ShipRequest, missing_layers, plan_ship, ship
from cuzkops.steps.verify import read_release
from cuzkops.steps.wait_memory import WaitRequest, samples_script, wait_memory
from cuzkops.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.configuration import DeployConfig
    from cuzkops.memory_verdict import MemoryVerdict, Reason, Sample
    from cuzkops.records import LockOwner, Manifest
    from cuzkops.remote.host import Host, Script
    from cuzkops.remote.layout import Layout
    from cuzkops.remote.probes import HostFacts
    from cuzkops.steps.build import Artifact, BuildRequest
    from cuzkops.steps.kill import KillResult
    from cuzkops.steps.launch import LaunchResult
    from cuzkops.steps.preflight import Finding, PreflightReport
    from cuzkops.steps.ship import ShipResult, Transfer
    from prover.protocol import CheckAnswer


class Observer(Protocol):
    """Watches a deploy; whoever shows it decides how."""

    def step_begins(self, step: str) -> None:
        """A step begins."""

    def step_ended(self, step: str, sentence: str, seconds: float) -> None:
        """It is done; the sentence says what it did."""

    def says(self, text: str) -> None:
        """Something worth a line of its own, such as a warning."""

    def detail(self, text: str) -> None:
        """Something for those who watch closely, such as a line of the build."""

    def transferred(self, transfer: Transfer) -> None:
        """Bytes travelled."""

    def sampled(self, sample: Sample, reason: Reason) -> None:
        """A look at the memory while it comes back."""

    def if_interrupted(self, text: str) -> None:
        """What an interruption from now on leaves behind, and how to go on."""


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

    @property
    def declared_need_bytes(self) -> int | None:
        """What is needed as far as it is known before the check: ``auto`` is never a need."""
        return self.need_bytes if self.need_bytes is not None else self.config.budget_bytes


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
        OpsError: A step failed; if the new daemon failed, the previous release was started again where one ran.
    """
    return _Deploy(host, layout, request, observer).run()


class _Deploy:
    """One deploy at work: the facts that later steps need from earlier ones."""

    def __init__(self, host: Host, layout: Layout, request: DeployRequest, observer: Observer) -> None:
        self._host = host
        self._layout = layout
        self._request = request
        self._observer = observer
        self._begin_s = time.monotonic()
        self._set_step: Callable[[str], None] = lambda _: None

    def run(self) -> DeployResult:
        """The procedure."""
        self._observer.if_interrupted("nothing was changed")
        report = self._preflight_host()
        artifact = self._artifact()
        warnings = [*report.findings, *self._preflight_manifest(report.facts, artifact)]
        with held(self._host, self._layout, self._request.owner, self._observer.says) as self._set_step:
            shipped = self._ship(artifact)
            answer = self._check(shipped.release_id)
            need_bytes = self._judge_need(answer)
            previous = self._release_that_runs()
            killed = self._kill()
            memory = self._wait(need_bytes)
            launched = self._launch(artifact, shipped.release_id, previous)
        return DeployResult(
            self._run_record(launched, report.facts),
            warnings=tuple(warnings),
            shipped=shipped,
            check=answer,
            killed=killed,
            memory=memory,
            launched=launched,
            seconds=time.monotonic() - self._begin_s,
        )

    def _preflight_host(self) -> PreflightReport:
        with self._step("preflight", locked=False) as done:
            need_bytes = self._request.declared_need_bytes
            # Whether others on the GPU stand in the way is known after the check.
            report = preflight_host(self._host, self._layout, need_bytes, needs_gpu=False)
            raise_findings(report)
            self._warn(report.findings)
            done(f"{report.facts.hostname}: {format_bytes(report.facts.available_bytes)} of memory are available")
        return report

    def _artifact(self) -> Artifact:
        with self._step("build", locked=False) as done:
            source = self._request.source
            artifact = load_artifact(source) if isinstance(source, Path) else build(source, self._observer.detail)
            n_bytes = sum(layer.n_bytes for layer in artifact.manifest.layers)
            done(f"build {artifact.manifest.build_id} in {artifact.directory}, {format_bytes(n_bytes)}")
        return artifact

    def _preflight_manifest(self, facts: HostFacts, artifact: Artifact) -> list[Finding]:
        with self._step("preflight of the build", locked=False) as done:
            missing = missing_layers(self._host, self._layout, artifact)
            facts = with_python(self._host, facts, artifact.manifest)
            findings = preflight_manifest(facts, artifact.manifest, sum(layer.n_bytes for layer in missing))
            raise_findings(findings)
            self._warn(findings)
            done(f"{artifact.manifest.target}, glibc {artifact.manifest.glibc_floor} or newer: it fits the host")
        return findings

    def _ship(self, artifact: Artifact) -> ShipResult:
        self._observer.if_interrupted("the running daemon was not touched; what arrived is not sent again")
        with self._step("ship") as done:
            request = ShipRequest(artifact, self._request.config, self._request.thorough)
            shipped = ship(self._host, self._layout, request, self._observer.transferred, self._observer.says)
            sent = f"sent {', '.join(shipped.sent)}" if shipped.sent else "nothing had to travel"
            done(f"release {shipped.release_id}: {sent} ({format_bytes(shipped.bytes_sent)})")
        return shipped

    def _check(self, release_id: str) -> CheckAnswer:
        with self._step("check") as done:
            answer = check(self._host, self._layout, release_id)
            raise_problems(answer)
            if answer.config_sha256 != self._request.config.sha256:
                raise OpsError("check", f"the release on the host read another configuration ({answer.config_sha256})")
            done(f"the configuration is in order; it will need {format_bytes(answer.need_host_bytes)} of memory")
        return answer

    def _judge_need(self, answer: CheckAnswer) -> int:
        """Settle the need, and look again whether the host can meet it, now that the daemon itself has spoken."""
        declared = self._request.declared_need_bytes
        foreseen = max(answer.need_host_bytes, self._request.last_peak_bytes or 0)
        need_bytes = declared if declared is not None else foreseen
        needs_gpu = answer.need_gpu_bytes > 0
        raise_findings(preflight_host(self._host, self._layout, need_bytes, needs_gpu=needs_gpu))
        return need_bytes

    def _release_that_runs(self) -> str | None:
        daemon = find_daemon(self._host, self._layout)
        return daemon.record.release_id if daemon is not None and daemon.status == "running" else None

    def _kill(self) -> KillResult:
        self._observer.if_interrupted("the old daemon may have been told to stop; nothing is sent twice")
        with self._step("kill") as done:
            request = KillRequest(grace_s=self._request.grace_s, reason=_reason(self._request))
            killed = kill(self._host, self._layout, request, self._observer.says)
            done(killed.sentence)
        return killed

    def _wait(self, need_bytes: int | None) -> MemoryVerdict:
        with self._step("wait-memory") as done:
            request = WaitRequest(need_bytes, self._request.wait_timeout_s)
            verdict = wait_memory(self._host, self._layout, request, self._observer.sampled)
            done(verdict.sentence)
        return verdict

    def _launch(self, artifact: Artifact, release_id: str, previous: str | None) -> LaunchResult:
        launch_id = self._request.owner.run_id
        request = self._launch_request(release_id, launch_id, artifact.manifest, self._request.config.sha256)
        try:
            return self._start("launch", request)
        except OpsError as error:
            if previous is None:
                raise
            raise type(error)(
                error.code, f"{error.message}; {self._start_again(previous)}", error.hint, error.details
            ) from error

    def _start(self, step: str, request: LaunchRequest) -> LaunchResult:
        with self._step(step) as done:
            launched = launch(self._host, self._layout, request, self._observer.says, self._observer.if_interrupted)
            done(f"pid {launched.daemon.pid} runs release {request.release_id}; its log is {launched.log}")
        return launched

    def _start_again(self, release_id: str) -> str:
        """Start the release that ran before, after its own wait; says in a clause how that went."""
        self._observer.if_interrupted(f"nothing runs: the new release did not start, nor again release {release_id}")
        try:
            release = read_release(self._host, self._layout, release_id)
            self._wait(None)
            launch_id = f"{self._request.owner.run_id}-back"
            launched = self._start(
                "launch the previous release",
                self._launch_request(release_id, launch_id, release.manifest, release.config_sha256),
            )
        except OpsError as error:
            return f"the previous release {release_id} could not be started again: {error.message}"
        return f"the previous release {release_id} runs again as pid {launched.daemon.pid}"

    def _launch_request(self, release_id: str, launch_id: str, manifest: Manifest, config_sha256: str) -> LaunchRequest:
        readiness_s, deadline_s = self._request.readiness_s, self._request.launch_deadline_s
        return LaunchRequest(release_id, launch_id, manifest, config_sha256, readiness_s, deadline_s)

    def _run_record(self, launched: LaunchResult, facts: HostFacts) -> RunRecord:
        daemon, config = launched.daemon, self._request.config
        return RunRecord(
            run_id=self._request.owner.run_id,
            target=str(self._host.target),
            name=daemon.name,
            daemon_kind="cuzkops",
            log_grammar="cuzkops",
            build_id=daemon.build_id,
            exe_sha256=daemon.exe_sha256,
            config_sha256=daemon.config_sha256,
            circuits={name: circuit.sha256 for name, circuit in config.circuits.items()} | config.host_circuits,
            host=facts.hostname,
            gpus=[gpu.name for gpu in facts.gpus],
            driver=facts.nvidia_driver or None,
            started_unix_ns=daemon.started_unix_ns,
        )

    @contextmanager
    def _step(self, name: str, *, locked: bool = True) -> Iterator[Callable[[str], None]]:
        """A step that is shown and, under the lock, recorded there; the block says what it did."""
        self._observer.step_begins(name)
        if locked:
            self._set_step(name)
        begin_s = time.monotonic()
        sentences: list[str] = []
        yield sentences.append
        self._observer.step_ended(name, " ".join(sentences), time.monotonic() - begin_s)

    def _warn(self, findings: list[Finding]) -> None:
        for finding in findings:
            self._observer.says(f"{finding.severity}: {finding.message}")


def plan(host: Host, layout: Layout, request: DeployRequest, artifact: Artifact) -> list[Script]:
    """Every script by which a deploy of this artifact would change the host, in order, and the longer looks between.

    Looks at the host to know whom it would stop; changes nothing.

    Args:
        host: The host.
        layout: Which daemon there.
        request: What to deploy.
        artifact: What would be shipped.

    Raises:
        UsageError: The daemon that runs may not be stopped.
    """
    shipping = ShipRequest(artifact, request.config)
    launching = LaunchRequest(shipping.release_id, request.owner.run_id, artifact.manifest, request.config.sha256)
    look = [host_script(layout.home), processes_script()]
    steps = {
        "ship": plan_ship(layout, shipping),
        "check": [check_script(layout, shipping.release_id), *look],
        "kill": plan_kill(host, layout, KillRequest(reason=_reason(request))),
        "wait-memory": [samples_script(None)],
        "launch": plan_launch(layout, launching),
    }
    layers = layers_script(layout, [layer.sha256 for layer in artifact.manifest.layers])
    return [*look, layers, *planned(layout, request.owner, steps)]


def _reason(request: DeployRequest) -> str:
    return f"deploy {request.owner.run_id}"

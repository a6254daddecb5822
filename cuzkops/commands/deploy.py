"""``cuzkops deploy``: the whole procedure, from the source to a verified daemon."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cuzkops.commands.build import DEFAULT_ARTIFACT, build_request
from cuzkops.commands.options import (
    KEEP,
    Artifact,
    BaseImage,
    Budget,
    Builder,
    Circuits,
    Config,
    DryRun,
    GpuArchs,
    Grace,
    Keep,
    Need,
    Thorough,
    Timeout,
    grace_s,
    on_host,
    size_bytes,
)
from cuzkops.commands.ship import carried_config, transfers_shown
from cuzkops.errors import OpsError, UsageError
from cuzkops.session import Place
from cuzkops.state import new_run_id
from cuzkops.units import format_bytes, format_duration_s, format_instant, parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cuzkops.commands.options import BuilderName
    from cuzkops.memory_verdict import Reason, Sample
    from cuzkops.remote.host import Script
    from cuzkops.rendering import Screen
    from cuzkops.session import Session
    from cuzkops.state import RunFolder, State
    from cuzkops.steps.build import Artifact as BuiltArtifact
    from cuzkops.steps.build import BuildRequest
    from cuzkops.steps.deploy import AlreadyRunning, DeployResult
    from cuzkops.steps.ship import Transfer


@on_host
def deploy(
    place: Place,
    *,
    config: Config = None,
    circuit: Circuits = None,
    budget: Budget = None,
    builder: Builder = None,
    base_image: BaseImage = None,
    gpu_archs: GpuArchs = None,
    artifact: Artifact = None,
    need: Need = None,
    timeout: Timeout = "30m",
    grace: Grace = None,
    thorough: Thorough = False,
    keep: Keep = KEEP,
    restart: Annotated[
        bool, typer.Option("--restart", help="Stop and start the daemon also where it runs exactly this already.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Build, ship, check, stop the old daemon, wait for its memory, launch the new one, and verify what runs.

    What can be found without stopping the running daemon is checked before it is touched: the host, its memory and
    disk, the configuration, and the keys, of which as much is read as a minute allows. A daemon that runs exactly this
    already, and is ready, is left alone; --restart starts it anew. If the memory does not come back within --timeout,
    nothing is launched (status 4). If the new daemon does not start, the release that ran before is started again.
    --dry-run shows what would happen with --artifact, or with what `cuzkops build` made last.
    """
    from cuzkops.remote.lock import this_process  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.steps import deploy as step  # noqa: PLC0415 - the same
    from cuzkops.steps.build import load_artifact  # noqa: PLC0415 - the same
    from cuzkops.steps.preflight import refuse_losing_circuits  # noqa: PLC0415 - the same

    source = _source(artifact, builder, base_image, gpu_archs)
    with _host_joins_in(place, size_bytes(need)):
        carried = carried_config(place, config, circuit, budget)
    place, state = replace(place, name=carried.name), place.session.state
    with place.open(remember=not dry_run) as (host, layout):
        refuse_losing_circuits(host, layout, carried)
        run = state.run(new_run_id()) if dry_run else state.new_run()
        request = step.DeployRequest(
            source=source,
            config=carried,
            owner=this_process(state.client_id(), run.run_id, "deploy"),
            need_bytes=size_bytes(need),
            last_peak_bytes=last_peak_bytes(state, str(place.target), place.name),
            grace_s=grace_s(grace),
            wait_timeout_s=parse_duration_s(timeout),
            thorough=thorough,
            keep=keep,
            state=state,
        )
        if dry_run:
            built = load_artifact(artifact or DEFAULT_ARTIFACT)
            _show_plan(place, built, step.plan(host, layout, request, built, restart=restart))
            return
        with recorded(place, run, "deploy"):
            view = DeployView(place.session, run, place.again("deploy"), place.placed)
            result = (step.deploy if restart else step.deploy_changes)(host, layout, request, view)
        _show(place, run, result)


def _show_plan(place: Place, built: BuiltArtifact, scripts: list[Script]) -> None:
    made, layers = format_instant(built.manifest.built_unix_ns // 10**9), built.manifest.layers
    names, size = ", ".join(layer.name for layer in layers), format_bytes(sum(layer.n_bytes for layer in layers))
    place.screen.say(f"would deploy build {built.manifest.build_id} of {built.directory}, made {made}: {names}, {size}")
    place.screen.plan(scripts)


def _source(
    artifact: Path | None, builder: BuilderName | None, base_image: str | None, gpu_archs: str | None
) -> Path | BuildRequest:
    """What is deployed: an artifact that was built, or one to build."""
    if artifact is None:
        return build_request(builder, base_image, gpu_archs, DEFAULT_ARTIFACT, "60m")
    if (builder, base_image, gpu_archs) != (None, None, None):
        message = "--builder, --base-image and --gpu-archs say how to build, and --artifact names what was built"
        raise UsageError("build", message, "leave them out, or leave out --artifact")
    return artifact


def _show(place: Place, run: RunFolder, result: DeployResult | AlreadyRunning) -> None:
    from cuzkops.steps.deploy import AlreadyRunning  # noqa: PLC0415 - `--help` loads no records

    if isinstance(result, AlreadyRunning):
        run.remove_empty()
        place.screen.result(result, already_text(place, result))
        return
    run.write(result.run)
    place.screen.result(result, deployed_text(place, result))


@contextlib.contextmanager
def _host_joins_in(place: Place, need_bytes: int | None) -> Iterator[None]:
    """A refusal gets what the host would refuse next, where it can be asked: mistakes shall not come in rounds."""
    from cuzkops.configuration import ConfigurationProblemsError  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.steps.preflight import preflight_host  # noqa: PLC0415 - the same

    try:
        yield
    except ConfigurationProblemsError as error:
        rest, problems = error.rest, error.problems
        need_bytes = rest.budget_bytes if need_bytes is None else need_bytes
        with contextlib.suppress(OpsError), replace(place, name=rest.name).open(remember=False) as (host, layout):
            report = preflight_host(host, layout, need_bytes, budget_bytes=rest.budget_bytes, needs_gpu=False)
            wrong = [finding for finding in report.findings if finding.severity == "error"]
            problems = [*problems, *((place.placed(found.message), place.placed(found.hint)) for found in wrong)]
        raise ConfigurationProblemsError(problems, rest) from None


@contextlib.contextmanager
def recorded(place: Place, run: RunFolder, kind: Literal["deploy", "rollback"]) -> Iterator[None]:
    """Record a run that comes to nothing, and why, so that the list of runs has it too."""
    from cuzkops.records import RunRecord  # noqa: PLC0415 - `--help` loads no records

    begin_unix_ns = time.time_ns()
    try:
        yield
    except (OpsError, KeyboardInterrupt) as error:
        why, details = (error.message, error.details) if isinstance(error, OpsError) else ("interrupted", {})
        release_id = str(details.get("release_id", ""))
        record = RunRecord(
            run_id=run.run_id,
            target=str(place.target),
            name=place.name,
            daemon_kind="cuzkops",
            log_grammar="cuzkops",
            build_id=release_id.partition("-")[0],
            exe_sha256="",
            config_sha256="",
            circuits={},
            host="",
            gpus=[],
            driver=None,
            started_unix_ns=begin_unix_ns,
            kind=kind,
            failed=why,
            release_id=release_id,
        )
        with contextlib.suppress(OpsError):  # why it failed matters more
            run.write(record)
        raise


class DeployView:
    """Shows a deploy as it goes, and keeps the samples of the memory.

    Args:
        session: The command.
        run: Folder of the run.
        again: The command line that goes on after an interruption.
        placed: Names the place in the commands of a sentence.
    """

    def __init__(
        self, session: Session, run: RunFolder, again: str, placed: Callable[[str], str] = lambda text: text
    ) -> None:
        from cuzkops.memory_series import Series  # noqa: PLC0415 - `--help` loads no records

        self._session = session
        self._screen: Screen = session.screen
        self._again = again
        self._placed = placed
        self._step = ""
        self._series = Series(run)
        self._n_before = 0  # samples of earlier waits, which the curve leaves out
        self._show_transfer = transfers_shown(self._screen)

    def step_begins(self, step: str) -> None:
        """See ``Observer.step_begins``."""
        self._step, self._n_before = step, len(self._series.points)
        self._screen.detail(f"{step} begins")

    def step_ended(self, step: str, sentence: str, seconds: float) -> None:
        """See ``Observer.step_ended``."""
        self._screen.say(f"{step}: {sentence} ({format_duration_s(seconds)})")

    def says(self, text: str) -> None:
        """See ``Observer.says``."""
        self._screen.say(f"{self._step}: {text}")

    def detail(self, text: str) -> None:
        """See ``Observer.detail``."""
        if self._screen.verbose:
            self._screen.say(f"  {text}")
        else:
            self._screen.progress(f"{self._step}: {text}")

    def transferred(self, transfer: Transfer) -> None:
        """See ``Observer.transferred``."""
        self._show_transfer(transfer)

    def sampled(self, sample: Sample, reason: Reason) -> None:
        """See ``Observer.sampled``."""
        was_kept = not self._series.problem
        self._series.add(sample, reason)
        self._screen.progress(f"{self._step}: {reason.sentence}", self._curve)
        if was_kept and self._series.problem:
            self.says(f"the samples of the memory are not kept from here on: {self._series.problem}")

    def _curve(self, columns: int, unicode: bool) -> list[str]:
        """The memory since the wait began."""
        from cuzkops.memory_curve import curve_lines  # noqa: PLC0415 - `--help` draws nothing

        return curve_lines(self._series.points[self._n_before :], None, columns=columns, blocks=unicode)

    def if_interrupted(self, text: str) -> None:
        """See ``Observer.if_interrupted``."""
        self._session.interrupted = f"{self._placed(text)}; go on with: {self._again}"


def last_peak_bytes(state: State, target: str, name: str) -> int | None:
    """The peak memory of the last run of this daemon on this target, as far as its log was read."""
    from cuzkops.errors import UnreadableError  # noqa: PLC0415 - with the records that `--help` does not load

    for run in state.runs():
        try:
            record = run.read()
        except UnreadableError:
            continue  # of another version: what it says is not known
        if (record.target, record.name) == (target, name) and record.peak_bytes is not None:
            return record.peak_bytes
    return None


def deployed_text(place: Place, result: DeployResult) -> str:
    """What runs now, and what to do next, for people."""
    daemon = result.launched.daemon
    circuit = next(iter(result.run.circuits), "CIRCUIT")
    return (
        f"{daemon.name} on {place.target} runs release {daemon.release_id} as pid {daemon.pid} "
        f"(deployed in {format_duration_s(result.seconds)})\n"
        f"prove:  {place.command(f'prove {circuit} WITNESS.wtns')}\n"
        f"timing: {place.command('logs')} --parse"
    )


def already_text(place: Place, result: AlreadyRunning) -> str:
    """Why nothing was done, for people."""
    daemon = result.daemon
    return (
        f"{daemon.name} on {place.target} is already running release {result.release_id} as pid {daemon.pid}: "
        f"nothing to do\nto start it anew: {place.again('deploy')} --restart"
    )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops deploy root@gpu1 --circuit mul60=mul60.zkey --budget 2GiB")(deploy)

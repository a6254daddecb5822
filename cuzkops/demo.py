"""The whole loop on this machine: a host of its own on loopback, two deploys, proofs, the log, and a clean end.

Everything is real: an SSH connection, a built artifact, a detached daemon, verified proofs. The host is a process that
ends with the demo, and what it holds lies in one folder.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuzkops.configuration import load_configuration
from cuzkops.demohost import DemoHost
from cuzkops.errors import OpsError
from cuzkops.remote.layout import Layout
from cuzkops.remote.local import LocalHost
from cuzkops.remote.lock import this_process
from cuzkops.remote.opening import open_host, resolve_layout
from cuzkops.remote.procfs import DEAD_STATES, parse_stats
from cuzkops.steps.build import Artifact, BuildRequest, build
from cuzkops.steps.collect import collect
from cuzkops.steps.deploy import DeployRequest, DeployResult, deploy
from cuzkops.steps.kill import KillRequest, kill
from cuzkops.steps.load import ProveRequest, prove
from cuzkops.steps.wait_memory import WaitRequest, wait_memory
from cuzkops.timing.read import read_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.remote.host import Host
    from cuzkops.state import RunFolder, State
    from cuzkops.steps.observer import Observer
    from cuzkops.timing.table import TimingTable

DATA = Path(__file__).parent / "demo_data"
# circuit -> proofs after each deploy
PROOFS = {"mul60": 4, "cube500": 2}
BUDGETS = ("512MiB", "640MiB")
"""Memory budgets of the two releases: what changes between them is one value of the configuration."""
_WAIT_S = 120.0


@dataclass(frozen=True)
class DemoStep:
    """One thing that the demo did."""

    title: str
    seconds: float


@dataclass(frozen=True)
class DemoReport:
    """What the demo did and measured.

    Args:
        steps: What it did, in order.
        releases: The two releases that were deployed.
        n_proofs: Proofs that the daemons made and verified.
        table: The parsed timing logs of both runs.
        seconds: Time of the whole.
    """

    steps: tuple[DemoStep, ...]
    releases: tuple[str, ...]
    n_proofs: int
    table: TimingTable
    seconds: float


@dataclass
class Demo:
    """One demo at work.

    Args:
        folder: Where everything lies.
        state: The tool's state for the demo: another one than the user's.
        observer: Makes the observer of a deploy from the folder of its run.
        say: Gets a sentence a step.
        show: Gets the lines of the build.
    """

    folder: Path
    state: State
    observer: Callable[[RunFolder], Observer]
    say: Callable[[str], None]
    show: Callable[[str], None]

    def __post_init__(self) -> None:
        self._steps: list[DemoStep] = []
        self._n_proofs = 0

    def run(self) -> DemoReport:
        """Do it all; whatever happens, nothing is left running.

        Raises:
            OpsError: A step failed, or the end could not be put in order.
        """
        begin_s = time.monotonic()
        with self._step("start a host of our own on loopback"):
            demo_host = DemoHost(self.folder / "host")
            demo_host.start()
        try:
            with _environment(demo_host.env), self._daemon_ended(demo_host):
                artifact = self._build()
                with open_host(demo_host.target, on_host_key=self.say) as host:
                    layout = resolve_layout(host)
                    deployed = [self._round(host, layout, artifact, budget) for budget in BUDGETS]
                    table = self._read_logs(host, layout, deployed)
                    self._stop(host, layout)
        finally:
            demo_host.stop()
        releases = tuple(result.launched.daemon.release_id for result in deployed)
        return DemoReport(tuple(self._steps), releases, self._n_proofs, table, time.monotonic() - begin_s)

    def _build(self) -> Artifact:
        with self._step("build the prover on this machine"):
            return build(BuildRequest("local", self.folder / "artifact"), self.show)

    def _round(self, host: Host, layout: Layout, artifact: Artifact, budget: str) -> DeployResult:
        """Deploy, then prove each circuit a few times."""
        run = self.state.new_run()
        circuits = {name: DATA / name / "circuit.zkey" for name in PROOFS}
        config = load_configuration(None, name=layout.name, circuits=circuits, budget=budget)
        owner = this_process(self.state.client_id(), run.run_id, "deploy")
        request = DeployRequest(artifact.directory, config, owner, wait_timeout_s=_WAIT_S, launch_deadline_s=_WAIT_S)
        with self._step(f"deploy with a memory budget of {budget}"):
            result = deploy(host, layout, request, self.observer(run))
            run.write(result.run)
        for name, count in PROOFS.items():
            with self._step(f"prove {name} {count} times through the daemon"):
                jobs = prove(
                    host, layout, ProveRequest(name, DATA / name / "witness.wtns", count=count, timeout_s=_WAIT_S)
                )
                self._n_proofs += sum(len(job.proofs) for job in jobs)
        return result

    def _read_logs(self, host: Host, layout: Layout, deployed: list[DeployResult]) -> TimingTable:
        with self._step("pull both timing logs and parse them"):
            files = []
            for result in deployed:
                launch_id = result.launched.daemon.launch_id
                collected = collect(host, layout, self.state.run(launch_id).logs, launch_id=launch_id)
                files += [file.path for file in collected.files if file.name.endswith(".log")]
            return read_table(files)

    def _stop(self, host: Host, layout: Layout) -> None:
        with self._step("stop the daemon and wait for its memory"):
            kill(host, layout, KillRequest(reason="end of the demo"), self.show)
            wait_memory(host, layout, WaitRequest(timeout_s=_WAIT_S))
            if left := daemons_under(layout):
                raise OpsError("demo-left-running", f"processes {left} of the demo still run", "stop them by hand")

    @contextlib.contextmanager
    def _step(self, title: str) -> Iterator[None]:
        begin_s = time.monotonic()
        self.say(f"{len(self._steps) + 1}. {title}")
        yield
        self._steps.append(DemoStep(title, round(time.monotonic() - begin_s, 3)))

    @contextlib.contextmanager
    def _daemon_ended(self, demo_host: DemoHost) -> Iterator[None]:
        """End the daemon of the demo also where the block failed: without SSH, which may be what failed."""
        try:
            yield
        except BaseException:
            layout = Layout(str(demo_host.home / ".cuzkops"), "prover")
            self.say("stopping what the demo started")
            with LocalHost() as host:
                for pid in daemons_under(layout):  # also one that has not written its record yet
                    kill(host, layout, KillRequest(pid, grace_s=5, reason="the demo ended early"))
            raise


def daemons_under(layout: Layout) -> list[int]:
    """Processes of this machine that run a release below a folder; each line of the daemon's start names it."""
    mark = f"{layout.releases}/".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or belongs to somebody else
            (process,) = parse_stats((folder / "stat").read_text(errors="replace"))
            if mark in (folder / "cmdline").read_bytes() and process.state not in DEAD_STATES:
                found.append(process.pid)
    return found


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

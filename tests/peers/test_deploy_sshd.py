"""The whole deploy of the real daemon over a real SSH connection."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuzkops.configuration import DeployConfig, load_configuration
from cuzkops.errors import OpsError, UsageError
from cuzkops.remote.ctl import ctl
from cuzkops.remote.layout import Layout
from cuzkops.remote.local import LocalHost
from cuzkops.remote.lock import this_process
from cuzkops.state import new_run_id
from cuzkops.steps.collect import collect
from cuzkops.steps.deploy import DeployRequest, DeployResult, deploy
from cuzkops.steps.follow import follow
from cuzkops.steps.kill import KillRequest, kill
from cuzkops.steps.load import ProveRequest, prove
from cuzkops.steps.ship import ShipRequest, ship
from cuzkops.steps.status import status
from cuzkops.timing.parse import LogEvent, parse_file
from prover.protocol import JobAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from peer_sshd import Sshd

    from cuzkops.memory_verdict import Reason, Sample
    from cuzkops.remote.host import Host
    from cuzkops.steps.build import Artifact
    from cuzkops.steps.ship import Transfer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

GROTH16 = Path(__file__).parents[1] / "data" / "groth16"


class Silent:
    """An observer that only counts."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def step_begins(self, step: str) -> None:
        self.steps.append(step)

    def step_ended(self, step: str, sentence: str, seconds: float) -> None:
        del step, sentence, seconds

    def says(self, text: str) -> None:
        del text

    def detail(self, text: str) -> None:
        del text

    def transferred(self, transfer: Transfer) -> None:
        del transfer

    def sampled(self, sample: Sample, reason: Reason) -> None:
        del sample, reason

    def if_interrupted(self, text: str) -> None:
        del text


@pytest.fixture(scope="module")
def remote_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One folder for all tests here: what one has shipped, the next does not send again."""
    return str(tmp_path_factory.mktemp("on the host"))


@pytest.fixture
def layout(
    remote_dir: str, ssh_host: Host, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Layout]:
    monkeypatch.setattr("cuzkops.memory_verdict.CALM_S", 0.5)  # a host where nothing was killed: its window is not ours
    layout = Layout(remote_dir, request.node.name[:30])
    yield layout
    kill(ssh_host, layout, KillRequest(grace_s=10))


def config(layout: Layout, budget: str = "512MiB", path: Path | None = None) -> DeployConfig:
    keys = {name: GROTH16 / name / "circuit.zkey" for name in ("mul60", "cube500")}
    return load_configuration(path, name=layout.name, circuits=keys, budget=budget)


@pytest.fixture
def run(ssh_host: Host, layout: Layout, local_artifact: Artifact) -> Callable[..., DeployResult]:
    def run(carried: DeployConfig, observer: Silent | None = None) -> DeployResult:
        owner = this_process("client", new_run_id(), "deploy")
        request = DeployRequest(local_artifact.directory, carried, owner)
        return deploy(ssh_host, layout, request, observer or Silent())

    return run


def test_a_log_that_is_followed_is_the_one_that_is_pulled(
    ssh_host: Host, layout: Layout, run: Callable[[DeployConfig], DeployResult], tmp_path: Path
) -> None:
    first = run(config(layout))
    assert len(first.shipped.sent) + len(first.shipped.skipped) == 5
    lines: list[bytes] = []
    log, daemon = first.launched.log, first.launched.daemon
    following = threading.Thread(
        target=lambda: lines.extend(follow(ssh_host, layout, log=log, process=(daemon.pid, daemon.start_ticks)))
    )
    following.start()
    jobs = prove(ssh_host, layout, ProveRequest("mul60", GROTH16 / "mul60" / "witness.wtns", count=2))
    public = json.loads((GROTH16 / "mul60" / "public.json").read_text())
    assert [job.proofs[0].public for job in jobs] == [public, public]
    assert jobs[0].proofs[0].proof["curve"] == "bls12381"
    report = status(ssh_host, layout)
    assert report.answer is not None
    assert report.answer.jobs["done"] == 2  # type: ignore[index] # JobState is a str

    assert kill(ssh_host, layout, KillRequest()).how == "drained"
    following.join(20)
    assert not following.is_alive()  # the stream ended with its daemon
    collected = collect(ssh_host, layout, tmp_path / "logs", launch_id=daemon.launch_id)
    assert b"".join(line + b"\n" for line in lines) == collected.files[0].path.read_bytes()
    events = [record for record in parse_file(collected.files[0].path) if isinstance(record, LogEvent)]
    assert [event.event for event in events if event.family == "JOB"].count("done") == 2
    assert events[-1].event == "stopped"


class CancelsAtKill(Silent):
    """Cancels jobs, the last one first, as soon as the kill of a deploy waits for the daemon."""

    def __init__(self, layout: Layout, job_ids: list[str]) -> None:
        super().__init__()
        self.layout = layout
        self.job_ids = job_ids

    def says(self, text: str) -> None:
        if not text.startswith("waiting up to"):
            return
        # The first ones may have ended by themselves: then the daemon goes while they are still to be cancelled.
        with LocalHost() as host, contextlib.suppress(OpsError):  # the daemon is on this machine
            while self.job_ids:
                ctl(host, self.layout, JobAnswer, "cancel", self.job_ids.pop())

    def detail(self, text: str) -> None:
        self.says(text)


def test_a_job_outlives_an_interrupted_kill_and_a_deploy(
    ssh_host: Host, layout: Layout, run: Callable[..., DeployResult], tmp_path: Path
) -> None:
    one_thread = tmp_path / "one-thread.toml"  # what is in front works all the time, and other tests beside it
    one_thread.write_text("[synthesis]\nthreads = 1\n")
    first = run(config(layout, path=one_thread)).launched.daemon
    witness = ["--witness-path", str(GROTH16 / "cube500" / "witness.wtns")]
    # Eight long ones in front, minutes of work that are cancelled later: until then the last has no turn.
    ahead = [ctl(ssh_host, layout, JobAnswer, "submit", "--circuit", "cube500", *witness * 256).id for _ in range(8)]
    last = ctl(ssh_host, layout, JobAnswer, "submit", "--circuit", "cube500", *witness, "--priority", "-1")

    def interrupt(text: str) -> None:
        if text.startswith("waiting up to"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kill(ssh_host, layout, KillRequest(), interrupt)
    assert not ctl(ssh_host, layout, JobAnswer, "job", last.id).state.is_final
    second = run(config(layout, "600MiB"), CancelsAtKill(layout, ahead))
    assert second.killed.how == "drained"
    collected = collect(ssh_host, layout, tmp_path / "logs", launch_id=first.launch_id)
    events = [record for record in parse_file(collected.files[0].path) if isinstance(record, LogEvent)]
    happened = Counter(event.event for event in events if event.family == "JOB")
    assert happened["accepted"] == happened["done"] + happened["cancelled"] == 9
    assert happened["cancelled"] >= 1, "else nothing was in front of the last one when the daemon was told to end"
    assert [e.event for e in events if e.family == "JOB" and e.job == last.id] == ["accepted", "started", "done"]


def test_a_broken_configuration_keeps_the_old_daemon(
    ssh_host: Host, layout: Layout, run: Callable[[DeployConfig], DeployResult], tmp_path: Path
) -> None:
    pid = run(config(layout)).launched.daemon.pid
    broken = tmp_path / "broken.toml"
    broken.write_text("[daemon]\nqueue_limmit = 3\n")
    with pytest.raises(UsageError, match=r"daemon\.queue_limmit: there is no such key \(did you mean queue_limit\?\)"):
        run(load_configuration(broken, name=layout.name))
    report = status(ssh_host, layout)
    assert report.daemon is not None
    assert (report.daemon.status, report.daemon.record.pid) == ("running", pid)


SHIP = """
import sys
from pathlib import Path
from cuzkops.configuration import load_configuration
from cuzkops.remote.layout import Layout
from cuzkops.remote.opening import open_host
from cuzkops.steps.build import load_artifact
from cuzkops.steps.ship import ShipRequest, ship
from cuzkops.target import parse_target
def show(transfer):
    print(transfer.done_bytes, flush=True)
with open_host(parse_target(sys.argv[1])) as host:
    layout = Layout(sys.argv[2], "prover")
    ship(host, layout, ShipRequest(load_artifact(Path(sys.argv[3])), load_configuration(None)), show)
"""


def is_open(path: Path) -> bool:
    """Whether a process of this user holds a file open."""
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if descriptor.readlink() == path:
                return True
    return False


def test_a_client_that_is_killed_in_an_upload_leaves_nothing_that_counts(
    ssh_host: Host, sshd: Sshd, local_artifact: Artifact, tmp_path: Path
) -> None:
    layout = Layout(str(tmp_path / "fresh"), "prover")
    command = [sys.executable, "-c", SHIP, str(sshd.target), layout.remote_dir, str(local_artifact.directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as client:
        assert client.stdout
        for line in client.stdout:
            if int(line) > 2**20:
                break
        client.kill()
    runtime = local_artifact.manifest.layers[0]
    (part,) = Path(layout.layers).iterdir()  # what arrived, under a name that nobody takes for the layer
    assert part.name == f"{runtime.sha256}.tar.gz.part-of-{runtime.n_bytes}"
    deadline = time.monotonic() + 30
    while is_open(part):  # the host notices by itself that its client is gone
        assert time.monotonic() < deadline
        time.sleep(0.05)
    n_arrived = part.stat().st_size
    result = ship(ssh_host, layout, ShipRequest(local_artifact, load_configuration(None)))
    assert len(result.sent) == 3
    layers = local_artifact.manifest.layers
    assert result.bytes_sent == sum(layer.n_bytes for layer in layers) - n_arrived
    names = {path.name for path in Path(layout.layers).iterdir()}
    assert names == {layer.sha256 for layer in layers}


HOLD = """
import fcntl, sys, time
with open(sys.argv[1], "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(300)
"""


def test_a_daemon_that_dies_while_it_loads_is_reported_with_its_words(
    ssh_host: Host, layout: Layout, run: Callable[[DeployConfig], DeployResult]
) -> None:
    """Somebody holds the daemon's lock, which only the start finds out."""
    Path(layout.run).mkdir(parents=True)
    command = [sys.executable, "-c", HOLD, f"{layout.run}/daemon.lock"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(OpsError, match=r"ended within .* a daemon already runs in") as caught:
                run(config(layout))
        finally:
            holder.kill()
    lines = caught.value.details["last_lines"]
    assert isinstance(lines, list)
    assert any("a daemon already runs in" in line for line in lines)
    assert not Path(layout.current).is_symlink()
    assert status(ssh_host, layout).daemon is None

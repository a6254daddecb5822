"""Kill, interrupted and repeated: it converges, and a daemon that drains keeps its jobs and the time it promised."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import running
from test_kill import kill_json

from cuzkops.profiles import CUZKOPS
from cuzkops.remote.ctl import ctl
from cuzkops.steps import aim as aim_step
from cuzkops.steps import kill as kill_step
from cuzkops.steps.kill import KillRequest, kill, plan_kill
from cuzkops.steps.launch import LaunchRequest, launch
from cuzkops.steps.ship import ShipRequest, ship
from prover.protocol import JobAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.configuration import DeployConfig
    from cuzkops.remote.host import Completed, Host, Script
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.build import Artifact

COUNTING = """
import signal, sys, time
n = 0
def count(*_):
    global n
    n += 1
    open(sys.argv[1], "w").write(str(n))
signal.signal(signal.SIGTERM, count)
print("ready", flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture
def daemon(
    host: Host, layout: Layout, make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> Iterator[Callable[..., int]]:
    """Launch the small daemon; returns its PID."""

    def start(**small: object) -> int:
        artifact, config = make_artifact(), make_config(**small)
        release_id = ship(host, layout, ShipRequest(artifact, config)).release_id
        return launch(
            host, layout, LaunchRequest(release_id, "one", artifact.manifest, config.sha256, 0, 20)
        ).daemon.pid

    yield start
    kill(host, layout, KillRequest(grace_s=0))


def submit(host: Host, layout: Layout, circuit: str, key: str = "k") -> None:
    ctl(host, layout, JobAnswer, "submit", "--circuit", circuit, "--witness-path", "/w", "--key", key)


def go(layout: Layout, n_jobs: int) -> None:
    """Let the daemon finish that many slow jobs."""
    (Path(layout.home) / "state/go").write_text(str(n_jobs))


def states(layout: Layout) -> list[str]:
    return [json.loads(path.read_text())["state"] for path in (Path(layout.home) / "state/jobs").glob("*.json")]


def interrupt_at(word: str) -> Callable[[str], None]:
    def say(text: str) -> None:
        if word in text:
            raise KeyboardInterrupt

    return say


def test_a_drain_that_is_interrupted_and_repeated_loses_no_job(
    host: Host, layout: Layout, daemon: Callable[..., int]
) -> None:
    daemon()
    submit(host, layout, "slow")
    for moment in ("it takes no new jobs", "waiting up to"):
        with pytest.raises(KeyboardInterrupt):
            kill(host, layout, KillRequest(), interrupt_at(moment))
    baseline = kill_json(layout)
    result = kill(host, layout, KillRequest(), lambda text: go(layout, 1) if "waiting up to" in text else None)
    assert result.how == "drained"
    assert states(layout) == ["done"]
    assert result.record == baseline, "the interrupted kill's baseline counts"


def test_a_stop_signal_is_sent_once(host: Host, layout: Layout, tmp_path: Path) -> None:
    with running(sys.executable, "-c", COUNTING, str(tmp_path / "n")) as process:
        with pytest.raises(KeyboardInterrupt):
            kill(host, layout, KillRequest(pid=process.pid), interrupt_at("waiting up to"))
        said: list[str] = []
        assert kill(host, layout, KillRequest(grace_s=0.5), said.append).how == "killed"
    assert (tmp_path / "n").read_text() == "1"
    assert "it was told to stop before" in said


def test_a_daemon_gets_the_time_that_it_promised(
    host: Host, layout: Layout, daemon: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aim_step, "profile_of", lambda _: replace(CUZKOPS, grace_s=0.5))
    monkeypatch.setattr(kill_step, "_ASK_S", 0.1)
    daemon()
    for key in ("one", "two"):
        submit(host, layout, "slow", key)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if "left to finish" in text:
            time.sleep(1)  # longer than what the profile gives
            go(layout, 1 if "2 jobs" in text else 2)

    result = kill(host, layout, KillRequest(), say)
    assert result.how == "drained"
    assert states(layout) == ["done", "done"]
    told = [text for text in said if "left to finish" in text]
    assert told[0].startswith("it takes no new jobs; 2 jobs are left to finish, within ")
    assert told[-1].startswith("1 job is left to finish, within ")
    assert "waiting up to 10 min 3" in "".join(said)


def test_a_grace_time_that_was_asked_for_counts(host: Host, layout: Layout, daemon: Callable[..., int]) -> None:
    daemon()
    submit(host, layout, "stuck")
    result = kill(host, layout, KillRequest(grace_s=0.5))
    assert (result.how, states(layout)) == ("killed", ["queued"])


class Watched:
    """A host that keeps the titles of what changed it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.target, self.stream = host.target, host.stream
        self.ran: list[str] = []

    def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
        if script.changes:
            self.ran.append(script.title)
        return self._host.run(script, timeout_s=timeout_s)


def changing(scripts: list[Script]) -> list[str]:
    """Titles of a plan, without those that need a condition."""
    return [script.title for script in scripts if script.changes and " (only if " not in script.title]


def test_the_plan_is_what_runs(host: Host, layout: Layout, daemon: Callable[..., int]) -> None:
    daemon()
    planned = plan_kill(host, layout, KillRequest())
    watched = Watched(host)
    kill(watched, layout, KillRequest())  # type: ignore[arg-type] # two methods do
    assert watched.ran == changing(planned)
    assert "ask the daemon: drain" in watched.ran


def test_the_plan_of_a_stranger_names_its_family_and_no_drain(host: Host, layout: Layout) -> None:
    code = "import os, time\nif os.fork():\n    print('ready', flush=True)\ntime.sleep(600)"
    with running(sys.executable, "-c", code, new_session=True) as process:
        planned = plan_kill(host, layout, KillRequest(pid=process.pid))
        watched = Watched(host)
        killed = kill(watched, layout, KillRequest(pid=process.pid))  # type: ignore[arg-type] # two methods do
    assert watched.ran == changing(planned)
    signal = next(script for script in planned if script.title == "send SIGTERM")
    assert [int(entry.partition(":")[0]) for entry in signal.parameters["PROCESSES"].split()] == [
        process.pid for process in killed.processes
    ]
    assert len(killed.processes) == 2
    assert plan_kill(host, layout, KillRequest()) == []

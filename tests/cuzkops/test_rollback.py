"""Going back: to what ran before, or to a named release, by the steps of a deploy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import NEED_BYTES
from test_ship_damage import flip

from cuzkops.errors import LockedError, OpsError, UsageError
from cuzkops.remote import lock
from cuzkops.steps.deploy import deploy
from cuzkops.steps.replace import Terms
from cuzkops.steps.rollback import RollbackRequest, find_release, plan_rollback, rollback

if TYPE_CHECKING:
    from collections.abc import Callable

    from stand_ins import Recorder

    from cuzkops.remote.host import Completed, Host, Script
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.deploy import DeployRequest, DeployResult
    from cuzkops.steps.rollback import RollbackResult

pytestmark = pytest.mark.usefixtures("unlocked")


def request(release_id: str | None = None, run_id: str = "back-1") -> RollbackRequest:
    owner = lock.this_process("client", run_id, "rollback")
    return RollbackRequest(
        release_id, owner, Terms(run_id, "rollback", wait_timeout_s=60, readiness_s=0.2, need_bytes=NEED_BYTES)
    )


def pid_of(layout: Layout) -> int:
    return int(json.loads(Path(layout.daemon_json).read_text())["pid"])


@pytest.fixture
def back(host: Host, layout: Layout, recorder: Recorder) -> Callable[..., RollbackResult]:
    return lambda *words: rollback(host, layout, request(*words), recorder)


class Watched:
    """A host that keeps what changed it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.target, self.resume, self.stream = host.target, host.resume, host.stream
        self.ran: list[tuple[str, str]] = []

    def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
        if script.changes:
            self.ran.append((script.title, script.body))
        return self._host.run(script, timeout_s=timeout_s)


def test_back_and_forth_and_to_a_named_release_that_lost_a_file(
    host: Host,
    layout: Layout,
    run: Callable[..., DeployResult],
    back: Callable[..., RollbackResult],
    recorder: Recorder,
) -> None:
    first, second = run(app="one"), run(app="two")
    recorder.steps.clear()
    planned = [(script.title, script.body) for script in plan_rollback(host, layout, request()) if script.changes]
    watched = Watched(host)
    result = rollback(watched, layout, request(), recorder)  # type: ignore[arg-type] # four methods do
    assert recorder.steps == ["preflight", "verify", "check", "kill", "wait-memory", "launch"]
    assert watched.ran == [(title, body) for title, body in planned if "(only if " not in title]
    assert result.release_id == result.launched.daemon.release_id == first.shipped.release_id
    assert result.launched.previous == second.shipped.release_id
    assert result.killed.how in ("drained", "terminated")
    assert result.launched.daemon.config_sha256 == first.launched.daemon.config_sha256
    assert result.run.circuits == first.run.circuits
    assert (first.run.kind, result.run.kind) == ("deploy", "rollback")
    lost = Path(layout.release(second.shipped.release_id)) / "native" / "lib.so"
    lost.unlink()
    assert back(None, "back-2").release_id == second.shipped.release_id
    assert lost.exists()
    assert any(said.endswith("it was made again from its layers") for said in recorder.sentences)
    assert back(first.shipped.release_id, "back-3").release_id == first.shipped.release_id
    assert not Path(layout.lock).exists()


def test_what_cannot_be_gone_back_to_is_refused_and_what_runs_runs_on(
    host: Host,
    layout: Layout,
    run: Callable[..., DeployResult],
    back: Callable[..., RollbackResult],
) -> None:
    with pytest.raises(UsageError, match=r"releases there, the newest first: none"):
        find_release(host, layout, None)
    first = run(app="one")
    with pytest.raises(UsageError, match=f"nothing ran before .*: {first.shipped.release_id}"):
        back()
    with pytest.raises(UsageError, match=f"there is no release other on local; .*: {first.shipped.release_id}"):
        back("other")
    assert find_release(host, layout, first.shipped.release_id[:6]).release_id == first.shipped.release_id
    second = run(app="two")
    pid = pid_of(layout)
    flip(Path(layout.release(first.shipped.release_id)) / "app" / "code.py", 0)  # and so of its layer, the same file
    with pytest.raises(OpsError, match=r"is damaged: app/code.py was changed") as refused:
        back()
    assert refused.value.code == "damaged-release"
    other = lock.this_process("somebody", "run-x", "ship")
    with lock.held(host, layout, other, lambda _: None), pytest.raises(LockedError):
        back()
    assert pid_of(layout) == pid == second.launched.daemon.pid
    assert not Path(layout.lock).exists()


@pytest.mark.alone  # what ran before is started again by the baseline, not by a need
def test_a_release_that_does_not_start_any_more_gives_way_to_the_one_that_ran(
    layout: Layout,
    run: Callable[..., DeployResult],
    back: Callable[..., RollbackResult],
) -> None:
    first = run(app="one")
    with pytest.raises(OpsError, match="runs again as pid"):
        run(app="two", mode="crash")
    crashing = {path.name for path in Path(layout.releases).iterdir()} - {first.shipped.release_id}
    with pytest.raises(OpsError, match=f"release {first.shipped.release_id}, which ran until now, runs again as pid"):
        back(crashing.pop())
    assert json.loads(Path(layout.daemon_json).read_text())["launch_id"] == "back-1-back"


def test_the_lock_is_noticed_before_anything_is_built(
    host: Host,
    layout: Layout,
    make_request: Callable[..., DeployRequest],
    recorder: Recorder,
) -> None:
    other = lock.this_process("somebody", "run-x", "ship")
    with lock.held(host, layout, other, lambda _: None), pytest.raises(LockedError, match="in step ship"):
        deploy(host, layout, make_request(), recorder)
    assert recorder.steps == ["preflight"]

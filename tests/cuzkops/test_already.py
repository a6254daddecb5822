"""When a deploy has nothing to do, and when that cannot be said."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import Recorder, wait_until

from cuzkops.steps.already import running_already
from cuzkops.steps.deploy import AlreadyRunning, DeployRequest, DeployResult, deploy_changes
from cuzkops.steps.verify import read_release

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout

pytestmark = pytest.mark.usefixtures("unlocked")


@pytest.fixture
def again(
    host: Host, layout: Layout, make_request: Callable[..., DeployRequest], run: Callable[..., DeployResult]
) -> Callable[[], DeployResult | AlreadyRunning]:
    """Deploys what runs already; `run` ends it."""
    run()
    return lambda: deploy_changes(host, layout, make_request(), Recorder())


def test_what_runs_already_is_left_alone(layout: Layout, again: Callable[[], DeployResult | AlreadyRunning]) -> None:
    pid = json.loads(Path(layout.daemon_json).read_text())["pid"]
    result = again()
    assert isinstance(result, AlreadyRunning)
    assert result.daemon.pid == pid
    assert result.shipped.sent == ()
    assert not Path(layout.lock).exists()
    assert Path(f"/proc/{pid}").exists()


def test_a_daemon_that_has_ended_is_started_again(
    layout: Layout, again: Callable[[], DeployResult | AlreadyRunning]
) -> None:
    pid = json.loads(Path(layout.daemon_json).read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())
    assert isinstance(again(), DeployResult)


def test_a_daemon_whose_files_were_damaged_is_started_anew(
    layout: Layout, again: Callable[[], DeployResult | AlreadyRunning]
) -> None:
    release = Path(layout.current).resolve()
    (release / "app" / "code.py").unlink()
    result = again()
    assert isinstance(result, DeployResult)
    assert result.shipped.repaired


def test_a_key_of_the_host_that_changed_since_may_be_another_one(
    host: Host, layout: Layout, run: Callable[..., DeployResult], tmp_path: Path
) -> None:
    release = read_release(host, layout, run().shipped.release_id)
    key = tmp_path / "a key's own"
    key.write_bytes(b"key")
    os.utime(key, ns=(0, 0))
    assert running_already(host, layout, release, [str(key)]) is not None
    os.utime(key)
    assert running_already(host, layout, release, [str(tmp_path / "none"), str(key)]) is None

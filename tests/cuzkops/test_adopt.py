"""Adopt: a process that was started by hand becomes the daemon of a name."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import holding

from cuzkops.errors import OpsError, UsageError
from cuzkops.remote.daemon import find_daemon
from cuzkops.steps import adopt as adopt_step
from cuzkops.steps.adopt import adopt
from cuzkops.steps.kill import KillRequest, kill
from prover.protocol import DaemonRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuzkops.remote.layout import Layout
    from cuzkops.remote.local import LocalHost


@pytest.fixture
def by_hand(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose output goes to files, as ``nohup prover >out 2>err &`` leaves it."""
    with (tmp_path / "my out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=out, stderr=err)
    yield process
    process.kill()
    process.wait()


def test_the_record_names_process_executable_and_logs(
    host: LocalHost, layout: Layout, by_hand: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    record = adopt(host, layout, by_hand.pid)
    assert record == DaemonRecord.model_validate_json(Path(layout.daemon_json).read_bytes())
    assert (record.pid, record.name, record.api, record.state) == (by_hand.pid, layout.name, "", "ready")
    assert record.exe_sha256 == hashlib.sha256(Path(f"/proc/{by_hand.pid}/exe").read_bytes()).hexdigest()
    assert record.logs == [str(tmp_path / "my out"), str(tmp_path / "err")]
    assert record.launch_id.startswith(f"adopted-{by_hand.pid}-")
    assert not record.is_ours
    assert record.session_id == os.getsid(by_hand.pid)
    assert json.loads(Path(layout.audit).read_text())["action"] == "adopt"


def test_the_adopted_process_is_what_kill_stops(
    host: LocalHost, layout: Layout, by_hand: subprocess.Popen[bytes]
) -> None:
    adopt(host, layout, by_hand.pid)
    view = find_daemon(host, layout)
    assert view is not None
    assert view.status == "foreign"
    result = kill(host, layout, KillRequest())
    assert [process.pid for process in result.processes] == [by_hand.pid]
    assert by_hand.wait() != 0


def test_adopting_twice_changes_nothing(host: LocalHost, layout: Layout, by_hand: subprocess.Popen[bytes]) -> None:
    first = adopt(host, layout, by_hand.pid)
    assert adopt(host, layout, by_hand.pid) == first


def test_a_second_live_daemon_is_refused(host: LocalHost, layout: Layout, by_hand: subprocess.Popen[bytes]) -> None:
    with holding(1) as other:
        adopt(host, layout, other.pid)
        with pytest.raises(UsageError, match=f"has a live daemon already: pid {other.pid}"):
            adopt(host, layout, by_hand.pid)
        assert json.loads(Path(layout.daemon_json).read_text())["pid"] == other.pid


def test_a_daemon_that_ended_is_replaced(host: LocalHost, layout: Layout, by_hand: subprocess.Popen[bytes]) -> None:
    with holding(1) as other:
        adopt(host, layout, other.pid)
    assert adopt(host, layout, by_hand.pid).pid == by_hand.pid


def test_pipes_and_devices_are_no_logs(host: LocalHost, layout: Layout) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            assert adopt(host, layout, process.pid).logs == []
        finally:
            process.kill()


def test_no_such_process(host: LocalHost, layout: Layout) -> None:
    with pytest.raises(UsageError, match="there is no process"):
        adopt(host, layout, 2**22 + 5)


def test_an_executable_that_cannot_be_read_is_said(
    host: LocalHost, layout: Layout, by_hand: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adopt_step, "_LOOK", "echo 'sha256 '\n")
    with pytest.raises(OpsError, match="cannot be read"):
        adopt(host, layout, by_hand.pid)
    assert not Path(layout.daemon_json).exists()

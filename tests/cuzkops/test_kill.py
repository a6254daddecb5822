"""Kill: exactly the processes that are meant, on this machine, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import MIB, frozen_writer, holding, leader_zombie, running

from cuzkops.errors import OpsError, UsageError
from cuzkops.records import KillRecord, ProcessId
from cuzkops.remote.baseline import take_baseline
from cuzkops.remote.killing import signal_script
from cuzkops.remote.probes import probe_processes
from cuzkops.remote.process_table import ProcessTable, parse_process_table, read_process_table
from cuzkops.steps import aim as aim_step
from cuzkops.steps import kill as kill_step
from cuzkops.steps.aim import inspect_pid
from cuzkops.steps.kill import KillRequest, kill
from prover.protocol import DaemonRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuzkops.remote.host import Script
    from cuzkops.remote.layout import Layout
    from cuzkops.remote.local import LocalHost

# Starts a process in its session every 20 ms, and does not listen to SIGTERM.
SPAWNER = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
for _ in range(500):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    time.sleep(0.02)
"""

CHILD = """
import subprocess, sys, time
code = "import time; x = bytearray(30 << 20); print('up', flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
child.stdout.readline()
print("ready", flush=True)
time.sleep(600)
"""


def write_daemon(layout: Layout, pid: int, *, api: str = "", **changes: object) -> DaemonRecord:
    """Record a process as the daemon of this layout."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    fields: dict[str, object] = {
        "name": layout.name,
        "release_id": "adopted",
        "launch_id": "test",
        "state": "ready",
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "pid": pid,
        "start_ticks": int(stat[19]),
        "session_id": int(stat[3]),
        "exe_sha256": "",
        "build_id": "",
        "config_sha256": "",
        "api": api,
        "logs": [],
        "started_unix_ns": 0,
    }
    record = DaemonRecord.model_validate(fields | changes)
    Path(layout.run).mkdir(parents=True, exist_ok=True)
    Path(layout.daemon_json).write_text(record.model_dump_json(by_alias=True))
    return record


def kill_json(layout: Layout) -> KillRecord:
    return KillRecord.model_validate_json(Path(layout.kill_json).read_bytes())


def test_nothing_runs_is_no_failure(host: LocalHost, layout: Layout) -> None:
    result = kill(host, layout, KillRequest())
    assert (result.how, result.record, result.processes) == ("nothing", None, ())
    assert not Path(layout.kill_json).exists()


def test_a_pid_that_does_not_exist_is_no_failure(host: LocalHost, layout: Layout) -> None:
    assert kill(host, layout, KillRequest(pid=2**22 + 5)).how == "nothing"


def test_a_foreign_process_is_stopped_and_its_baseline_is_written(host: LocalHost, layout: Layout) -> None:
    with holding(200) as process:
        shown = inspect_pid(host, process.pid)
        said: list[str] = []
        request = KillRequest(pid=process.pid, expected_start_ticks=shown.start_ticks, reason="test")
        result = kill(host, layout, request, said.append)
        assert (result.how, result.remaining) == ("terminated", ())
        assert process.wait() == -signal.SIGTERM
    record = kill_json(layout)
    assert record == result.record
    assert [p.pid for p in record.processes] == [process.pid]
    assert 200 * MIB <= record.footprint_bytes < 240 * MIB
    assert record.signalled_uptime_s is not None
    assert record.signalled_uptime_s >= record.uptime_s
    assert "python" in record.exe
    assert any("SIGTERM" in text for text in said)
    audit = json.loads(Path(layout.audit).read_text())
    assert (audit["action"], audit["pid"], audit["how"], audit["reason"]) == ("kill", process.pid, "terminated", "test")


def test_a_stubborn_process_gets_sigkill_after_the_grace_time(host: LocalHost, layout: Layout) -> None:
    with holding(10, "stubborn") as process:
        started = time.monotonic()
        result = kill(host, layout, KillRequest(pid=process.pid, grace_s=1))
        assert result.how == "killed"
        assert time.monotonic() - started >= 1
        assert process.wait() == -signal.SIGKILL


def test_a_reused_pid_is_refused(host: LocalHost, layout: Layout) -> None:
    with holding(1) as process:
        shown = inspect_pid(host, process.pid)
        request = KillRequest(pid=process.pid, expected_start_ticks=shown.start_ticks - 1)
        with pytest.raises(UsageError, match="is reused"):
            kill(host, layout, request)
        assert process.poll() is None
        assert not Path(layout.kill_json).exists()


def test_a_signal_never_reaches_a_process_that_started_later(host: LocalHost) -> None:
    with holding(1) as process:
        info = inspect_pid(host, process.pid)
        right = ProcessId(pid=info.pid, start_ticks=info.start_ticks)
        wrong = ProcessId(pid=info.pid, start_ticks=info.start_ticks + 1)
        assert f"gone {info.pid}" in host.run(signal_script([wrong], "KILL")).out
        assert process.poll() is None
        assert f"sent {info.pid}" in host.run(signal_script([right], "KILL")).out
        assert process.wait() == -signal.SIGKILL


def test_a_stale_daemon_json_kills_nobody(host: LocalHost, layout: Layout) -> None:
    with holding(1) as process:
        record = write_daemon(layout, process.pid)
        write_daemon(layout, process.pid, start_ticks=record.start_ticks - 1)
        assert kill(host, layout, KillRequest()).how == "nothing"
        write_daemon(layout, process.pid, boot_id="another")
        assert kill(host, layout, KillRequest()).how == "nothing"
        assert process.poll() is None


def test_the_recorded_daemon_is_stopped_with_its_whole_session(host: LocalHost, layout: Layout) -> None:
    with running(sys.executable, "-c", CHILD, new_session=True) as process:
        write_daemon(layout, process.pid)
        result = kill(host, layout, KillRequest())
        assert result.how == "terminated"
        assert len(result.processes) == 2
        assert result.processes[0].pid == process.pid
        child = result.processes[1].pid
        assert not [p for p in probe_processes(host, pids=[child]) if p.n_live_threads]


def test_what_the_session_starts_while_it_is_stopped_is_stopped_too(host: LocalHost, layout: Layout) -> None:
    with running(sys.executable, "-c", SPAWNER, new_session=True) as process:
        write_daemon(layout, process.pid)
        said: list[str] = []
        result = kill(host, layout, KillRequest(grace_s=1), said.append)
        table = read_process_table(host)
    assert result.how == "killed"
    assert [s.pid for s in table.stats.values() if s.session_id == process.pid and s.state not in "ZX"] == []
    assert any("more processes were started in its session meanwhile" in text for text in said)
    assert len(kill_json(layout).processes) > 10


def test_descendants_go_too_and_the_shared_session_stays(host: LocalHost, layout: Layout) -> None:
    with holding(1) as bystander, running(sys.executable, "-c", CHILD) as process:
        result = kill(host, layout, KillRequest(pid=process.pid))
        assert len(result.processes) == 2
        assert bystander.poll() is None
        assert process.wait() == -signal.SIGTERM


def test_pid_one_the_tool_and_its_ancestors_are_refused(host: LocalHost, layout: Layout) -> None:
    for pid in (1, os.getpid(), os.getppid()):
        with pytest.raises(UsageError) as refused:
            kill(host, layout, KillRequest(pid=pid))
        assert refused.value.code == "kill-refused"


def test_a_zombie_is_gone_already(host: LocalHost, layout: Layout) -> None:
    with subprocess.Popen(["/bin/true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert kill(host, layout, KillRequest(pid=process.pid)).how == "nothing"
        with pytest.raises(UsageError, match="is a zombie"):
            inspect_pid(host, process.pid)


def test_an_unreaped_zombie_counts_as_stopped(host: LocalHost, layout: Layout) -> None:
    with holding(50) as process:  # nobody waits for it before the block ends
        result = kill(host, layout, KillRequest(pid=process.pid))
        assert (result.how, result.remaining) == ("terminated", ())
        assert Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        assert kill(host, layout, KillRequest(pid=process.pid)).how == "nothing"


def test_a_leader_that_ended_before_its_threads_is_not_gone(host: LocalHost, layout: Layout, tmp_path: Path) -> None:
    with leader_zombie(tmp_path, 150) as process:
        info = inspect_pid(host, process.pid)
        assert (info.state, info.n_live_threads) == ("Z", 1)
        assert info.footprint_bytes >= 150 * MIB
        assert info.exe.endswith("leader")
        assert process.pid in [p.pid for p in probe_processes(host, min_bytes=100 * MIB)]
        result = kill(host, layout, KillRequest(pid=process.pid, grace_s=1))
        assert result.how == "killed", "its thread ignores SIGTERM"
        assert result.record is not None
        assert result.record.footprint_bytes >= 150 * MIB
        assert process.wait() == -signal.SIGKILL


def test_an_interrupted_kill_keeps_its_baseline(host: LocalHost, layout: Layout) -> None:
    with holding(100, "stubborn") as process:
        before = take_baseline(host, layout.name, [process.pid])
        told = {"available_bytes": 4711, "footprint_bytes": 815, "signalled_uptime_s": before.uptime_s}
        earlier = before.model_copy(update=told)
        Path(layout.run).mkdir(parents=True)
        Path(layout.kill_json).write_text(earlier.model_dump_json(by_alias=True))
        result = kill(host, layout, KillRequest(grace_s=0.5))  # no pid: the unfinished one is found in kill.json
        assert result.how == "killed"
        assert process.wait() == -signal.SIGKILL
    record = kill_json(layout)
    assert (record.available_bytes, record.footprint_bytes) == (4711, 815)
    assert record.signalled_uptime_s == before.uptime_s


def test_a_kill_that_was_interrupted_before_it_told_anybody_begins_anew(host: LocalHost, layout: Layout) -> None:
    with holding(100) as process:
        earlier = take_baseline(host, layout.name, [process.pid]).model_copy(update={"footprint_bytes": 815})
        Path(layout.run).mkdir(parents=True)
        Path(layout.kill_json).write_text(earlier.model_dump_json(by_alias=True))
        assert kill(host, layout, KillRequest()).how == "terminated"
    assert kill_json(layout).footprint_bytes > 815


def test_a_baseline_of_a_finished_kill_is_replaced(host: LocalHost, layout: Layout) -> None:
    with holding(20) as first:
        kill(host, layout, KillRequest(pid=first.pid))
        first.wait()
    with holding(60) as second:
        kill(host, layout, KillRequest(pid=second.pid))
        assert kill_json(layout).processes[0].pid == second.pid


def test_the_baseline_is_there_before_the_first_signal(host: LocalHost, layout: Layout) -> None:
    said: list[tuple[str, bool]] = []
    with holding(20) as process:
        kill(
            host,
            layout,
            KillRequest(pid=process.pid),
            lambda text: said.append((text, Path(layout.kill_json).exists())),
        )
    assert said[0][0].startswith("stopping")
    assert all(there for _, there in said)


def test_our_daemon_is_drained_by_its_own_release(host: LocalHost, layout: Layout) -> None:
    release = Path(layout.release("r1"))
    release.mkdir(parents=True)
    with holding(20, new_session=True) as process:
        asked, answer = str(release / "asked"), '{"state": "draining", "n_jobs_left": 0, "time_left_s": 9}'
        body = f"#!/bin/sh\necho \"$@\" >{asked!r}\nkill -INT {process.pid}\necho '{answer}'\n"
        (release / "prover").write_text(body)
        (release / "prover").chmod(0o755)
        write_daemon(layout, process.pid, api=f"{layout.run}/api.sock", release_id="r1")
        result = kill(host, layout, KillRequest())
        assert process.wait() == -signal.SIGINT, "no signal of ours"
    assert result.how == "drained"
    assert result.record == kill_json(layout)
    assert result.record.signalled_uptime_s is not None
    assert result.record.uptime_s < result.record.signalled_uptime_s < result.record.uptime_s + 60
    assert (release / "asked").read_text() == f"ctl drain --json --home {layout.home}\n"


def test_a_drain_that_fails_does_not_stop_the_stop(host: LocalHost, layout: Layout) -> None:
    said: list[str] = []
    with holding(20, new_session=True) as process:
        write_daemon(layout, process.pid, api=f"{layout.run}/api.sock", release_id="gone")
        result = kill(host, layout, KillRequest(), said.append)
    assert result.how == "terminated"
    assert any("could not be drained" in text for text in said)


def test_files_in_dev_shm_that_the_daemon_maps_are_its_own(host: LocalHost, tmp_path: Path) -> None:
    file = Path("/dev/shm") / f"cuzkops-test-{tmp_path.name}-{os.getpid()}"  # noqa: S108 - what the kernel calls it
    code = f"import mmap, time; f = open({str(file)!r}, 'w+b'); f.truncate({8 * MIB}); m = mmap.mmap(f.fileno(), 0); "
    code += f"m[:] = bytes({8 * MIB}); print('ready', flush=True); time.sleep(600)"
    try:
        with running(sys.executable, "-c", code) as process:
            record = take_baseline(host, "prover", [process.pid])
        assert record.own_shm == [str(file)]
        assert record.dev_shm[str(file)] == 8 * MIB
        assert record.footprint_bytes >= 8 * MIB
    finally:
        file.unlink(missing_ok=True)


def test_memory_that_a_session_shares_is_counted_once(host: LocalHost) -> None:
    code = "import mmap, os, time; m = mmap.mmap(-1, 100 << 20); m[:] = bytes(100 << 20)\n"
    code += "if os.fork() == 0:\n    m[:] = m[:]\n    print('ready', flush=True)\ntime.sleep(600)"
    with running(sys.executable, "-c", code, new_session=True) as process:
        pids = read_process_table(host).family(process.pid)
        record = take_baseline(host, "prover", pids)
        os.killpg(process.pid, signal.SIGKILL)
    assert len(record.processes) == 2
    assert 100 * MIB <= record.footprint_bytes < 190 * MIB


def test_without_permission_it_is_said_and_nothing_is_touched(
    host: LocalHost, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holding(1) as process:
        monkeypatch.setattr(
            aim_step, "read_process_table", lambda host: _as_user(read_process_table(host), os.getuid() + 4711)
        )
        with pytest.raises(UsageError) as refused:
            kill(host, layout, KillRequest(pid=process.pid))
        assert refused.value.code == "kill-permission"
        assert process.poll() is None


def _as_user(table: ProcessTable, uid: int) -> ProcessTable:
    return replace(table, uid=uid)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_signal_that_the_kernel_denies_is_an_error(host: LocalHost) -> None:
    with holding(1) as process:
        info = inspect_pid(host, process.pid)
        script = signal_script([ProcessId(pid=info.pid, start_ticks=info.start_ticks)], "TERM")
        done = subprocess.run(
            ["/bin/sh", "-s"], input=script.text, text=True, capture_output=True, user=65534, check=True
        )
        assert f"denied {info.pid}" in done.stdout
        assert process.poll() is None


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with frozen_writer(tmp_path, 50) as (process, _):
        yield process


@pytest.mark.peers
def test_a_process_in_state_d_is_reported(
    host: LocalHost, layout: Layout, frozen: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kill_step, "AFTER_SIGKILL_S", 1)
    said: list[str] = []
    result = kill(host, layout, KillRequest(pid=frozen.pid, grace_s=1), said.append)
    assert result.how == "killed"
    assert [process.pid for process in result.remaining] == [frozen.pid]
    assert "still taking" in result.sentence
    assert any("inside the kernel" in text for text in said)


def test_a_table_without_its_head_is_refused() -> None:
    with pytest.raises(ValueError, match="no process table"):
        parse_process_table("sh: not found\n")


def test_a_denied_signal_raises(host: LocalHost, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    with holding(1) as process:
        monkeypatch.setattr(
            kill_step, "signal_script", lambda processes, name: _denying(signal_script(processes, name))
        )
        with pytest.raises(OpsError) as denied:
            kill(host, layout, KillRequest(pid=process.pid))
        assert denied.value.code == "kill-permission"


def _denying(script: Script) -> Script:
    return replace(script, body="kill() { return 1; }\n" + script.body)

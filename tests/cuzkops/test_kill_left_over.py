"""What is left where no daemon says who it is: orphans, a daemon that just starts, zombies, numbers that are reused."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import MIB, family, holding, leader_zombie, recorded_kernel, reusing, running, start_ticks, wait_until
from test_kill import kill_json, write_daemon

from cuzkops import cli
from cuzkops.commands.status import status_text
from cuzkops.errors import OpsError, TimeoutExpired, UsageError
from cuzkops.records import ProcessId
from cuzkops.remote.baseline import take_baseline
from cuzkops.remote.daemon import find_daemon
from cuzkops.remote.killing import signal_script
from cuzkops.remote.probes import probe_processes
from cuzkops.remote.run_files import write_record
from cuzkops.steps import launch as launch_step
from cuzkops.steps.adopt import adopt
from cuzkops.steps.aim import KillRequest, find_aim
from cuzkops.steps.kill import kill, plan_kill
from cuzkops.steps.preflight import preflight_host
from cuzkops.steps.status import status
from cuzkops.steps.wait_memory import WaitRequest, wait_memory

if TYPE_CHECKING:
    from cuzkops.remote.layout import Layout
    from cuzkops.remote.local import LocalHost

HELD_MIB = 50

GONE = WaitRequest(need_bytes=MIB, timeout_s=60)
"""Only whether everything has ended is judged: other programs of this machine may take the memory meanwhile."""

# Opens the file that stands for a GPU and forgets its name: what an orphan of a worker pool looks like.
GPU_HOLDER = """
import sys, time
file = open(sys.argv[1])
print("ready", flush=True)
time.sleep(600)
"""


def has_ended(pid: int) -> bool:
    return (
        not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    )


def write_started(layout: Layout, pid: int, *, ticks: int | None = None) -> None:
    """What a launch leaves on the host until its daemon has said who it is."""
    stat = Path(f"/proc/{pid}/stat").read_text().strip()
    if ticks is not None:
        stat = stat.replace(f" {start_ticks(pid)} ", f" {ticks} ")
    Path(layout.run).mkdir(parents=True, exist_ok=True)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    Path(layout.started).write_text(f"{boot} {pid} r1\n{stat}\n")


@pytest.mark.parametrize("reaped", [True, False])
def test_what_a_daemon_left_that_ended_by_itself_is_found_and_stopped(
    host: LocalHost, layout: Layout, reaped: bool
) -> None:
    with family(HELD_MIB) as (leader, worker):
        write_daemon(layout, leader.pid)
        leader.kill()
        if reaped:
            leader.wait()
        wait_until(lambda: has_ended(leader.pid))
        said = status_text(layout.name, status(host, layout))
        assert "its process has ended" in said
        assert f"of its session this lives on: pid {worker}" in said
        with pytest.raises(OpsError, match=f"has ended by itself, but pid {worker} .* lives on in its session"):
            launch_step._refuse_second(host, layout)
        report = preflight_host(host, layout, 1 << 50)
        assert report.findings[0].details["giving_back_bytes"] >= HELD_MIB * MIB, "the coming kill ends it"
        assert str(worker) not in str([holder["pid"] for holder in report.findings[0].details["holders"]])
        told: list[str] = []
        result = kill(host, layout, KillRequest(), told.append)
        assert [process.pid for process in result.processes] == [worker]
        assert result.how == "terminated"
        assert any(f"pid {leader.pid}, has ended by itself, and this lives on" in text for text in told)
        record = kill_json(layout)
        assert record.leader.pid == leader.pid
        assert record.footprint_bytes >= HELD_MIB * MIB
        assert wait_memory(host, layout, GONE).code == "released"
        assert kill(host, layout, KillRequest()).how == "nothing"


def test_the_command_shows_what_it_would_stop(
    layout: Layout, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with family(1) as (leader, worker):
        write_daemon(layout, leader.pid)
        place = ["local", "--remote-dir", str(tmp_path / "remote dir")]
        assert cli.run(["kill", *place, "--dry-run"]) == 0
        shown = capsys.readouterr().err
        assert f"pid {leader.pid} " in shown
        assert f"and with it pid {worker} " in shown
        leader.kill()
        leader.wait()
        assert cli.run(["kill", *place, "--dry-run"]) == 0
        assert f"the daemon, pid {leader.pid}, has ended by itself, and this lives on" in capsys.readouterr().err
        assert not has_ended(worker)


def test_the_session_of_a_shell_is_never_an_orphan(host: LocalHost, layout: Layout) -> None:
    with holding(1) as bystander, holding(1) as daemon:  # both in the session of this test
        write_daemon(layout, daemon.pid)
        daemon.kill()
        daemon.wait()
        assert kill(host, layout, KillRequest()).how == "nothing"
        assert bystander.poll() is None


def test_a_session_whose_number_is_somebody_elses_is_left_alone(host: LocalHost, layout: Layout) -> None:
    with family(1) as (leader, worker):
        # The record is of an older process with that number: its session ended, or this one could not have it.
        write_daemon(layout, leader.pid, start_ticks=start_ticks(leader.pid) - 1)
        assert kill(host, layout, KillRequest()).how == "nothing"
        write_daemon(layout, leader.pid, boot_id="another")
        assert kill(host, layout, KillRequest()).how == "nothing"
        assert leader.poll() is None
        assert not has_ended(worker)


def test_a_worker_in_a_session_of_its_own_goes_with_its_parent(host: LocalHost, layout: Layout) -> None:
    with family(1, "own") as (leader, worker):
        write_daemon(layout, leader.pid)
        assert os.getsid(worker) == worker
        result = kill(host, layout, KillRequest())
        assert [process.pid for process in result.processes] == [leader.pid, worker]
        wait_until(lambda: has_ended(worker))


def test_kill_and_launch_see_a_daemon_that_has_no_record_yet(host: LocalHost, layout: Layout) -> None:
    with holding(20, new_session=True) as process:
        write_started(layout, process.pid)
        with pytest.raises(OpsError, match=f"that was launched last lives: pid {process.pid}, release r1") as refused:
            launch_step._refuse_second(host, layout)
        assert (refused.value.code, refused.value.exit_status) == ("runs-already", 1)
        titles = [script.title for script in plan_kill(host, layout, KillRequest())]
        assert "send SIGTERM" in titles
        told: list[str] = []
        result = kill(host, layout, KillRequest(), told.append)
        assert (result.how, [p.pid for p in result.processes]) == ("terminated", [process.pid])
        assert "a launch has just started it, release r1" in told
        assert process.wait() == -signal.SIGTERM
    launch_step._refuse_second(host, layout)  # nothing is in the way any more


def test_a_started_file_of_another_process_means_nobody(host: LocalHost, layout: Layout) -> None:
    with holding(1) as process:
        write_started(layout, process.pid, ticks=start_ticks(process.pid) - 1)
        assert find_aim(host, layout, KillRequest()) is None
        launch_step._refuse_second(host, layout)


def test_a_zombie_of_an_earlier_kill_does_not_hide_a_daemon_that_starts(host: LocalHost, layout: Layout) -> None:
    with holding(1) as old, holding(1, new_session=True) as new:
        kill(host, layout, KillRequest(pid=old.pid))  # not reaped
        write_started(layout, new.pid)
        aim = find_aim(host, layout, KillRequest())
        assert aim is not None
        assert [process.pid for process in aim.processes] == [new.pid]


def test_a_leader_zombie_with_live_threads_is_adopted_and_stopped(
    host: LocalHost, layout: Layout, tmp_path: Path
) -> None:
    with leader_zombie(tmp_path, 150) as process:
        record = adopt(host, layout, process.pid)
        assert len(record.exe_sha256) == 64
        view = find_daemon(host, layout)
        assert view is not None
        assert view.status == "foreign"
        assert view.process is not None
        assert (view.process.state, view.process.n_live_threads) == ("Z", 1)
        result = kill(host, layout, KillRequest(grace_s=0.5))
        assert result.how == "killed", "its thread ignores SIGTERM"
        assert process.wait() == -signal.SIGKILL


@pytest.mark.alone  # the numbers of other tests' processes would be given out anew as well
@pytest.mark.skipif(os.getuid() != 0, reason="only root can choose the next PID")
def test_a_number_that_is_really_reused_is_nobody_we_know(host: LocalHost, layout: Layout) -> None:
    with holding(HELD_MIB) as process:
        pid, ticks = process.pid, start_ticks(process.pid)
        write_daemon(layout, pid)
        write_record(host, layout.kill_json, take_baseline(host, layout.name, [pid]))
    with reusing(pid) as stranger:
        assert start_ticks(stranger.pid) != ticks
        assert f"gone {pid}" in host.run(signal_script([ProcessId(pid=pid, start_ticks=ticks)], "KILL")).out
        assert kill(host, layout, KillRequest()).how == "nothing"
        with pytest.raises(UsageError, match="its number is reused"):
            kill(host, layout, KillRequest(pid=pid, expected_start_ticks=ticks))
        assert wait_memory(host, layout, GONE).code == "released"
        assert stranger.poll() is None


def test_a_member_of_the_session_that_nobody_stopped_is_never_taken_for_released(
    host: LocalHost, layout: Layout
) -> None:
    with family(HELD_MIB) as (leader, worker):
        baseline = take_baseline(host, layout.name, [leader.pid])  # the worker was started later, say
        write_record(host, layout.kill_json, baseline.model_copy(update={"signalled_uptime_s": baseline.uptime_s}))
        leader.kill()
        leader.wait()
        with pytest.raises(TimeoutExpired) as expired:
            wait_memory(host, layout, WaitRequest(check=True))
        assert (expired.value.code, expired.value.exit_status) == ("still-running", 4)
        assert f"process {worker} (S) of its session lives on: run kill again" in expired.value.message
        result = kill(host, layout, KillRequest())  # and that is what finds it, without a daemon.json
        assert [process.pid for process in result.processes] == [worker]
        assert wait_memory(host, layout, GONE).code == "released"


def test_an_orphan_that_has_the_gpu_open_is_named(host: LocalHost, layout: Layout, tmp_path: Path) -> None:
    kernel = recorded_kernel(tmp_path / "k", files={"dev/nvidia0": ""}) | {"PROC": "/proc"}
    device = f"{kernel['DEV']}/nvidia0"
    with running(sys.executable, "-c", GPU_HOLDER, device, new_session=True) as orphan:
        [info] = [p for p in probe_processes(host, kernel=kernel) if p.pid == orphan.pid]
        assert info.gpu_files == [device]
        with holding(HELD_MIB) as process:
            kill(host, layout, KillRequest(pid=process.pid))
        verdict = wait_memory(host, layout, GONE, kernel=kernel)
        assert verdict.code == "released", "its memory is back, whoever has the device"
        assert f"; pid {orphan.pid} (python" in verdict.sentence
        assert "has a GPU open" in verdict.sentence

"""Stop a daemon: exactly the processes that are meant, with the baseline for ``wait-memory`` written before.

The order is fixed: find, refuse what must not be killed, write run/kill.json, drain, stop signal, watch the exit,
SIGKILL after the grace time. A process is (pid, start_ticks), compared again on the host right before each signal.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cuzkops.errors import OpsError, UsageError
from cuzkops.profiles import Profile, profile_of
from cuzkops.records import KillRecord, ProcessId
from cuzkops.remote import audit
from cuzkops.remote.baseline import take_baseline
from cuzkops.remote.blocks import read_blocks
from cuzkops.remote.host import Script
from cuzkops.remote.probes import ProcessInfo, probe_processes
from cuzkops.remote.process_table import ProcessTable, read_process_table
from cuzkops.remote.procfs import parse_threads
from cuzkops.remote.run_files import read_record, write_record
from cuzkops.remote.script import PRELUDE, PROCESSES, roots
from cuzkops.steps.preflight import DaemonView, find_daemon
from cuzkops.units import format_bytes, format_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout

How = Literal["nothing", "drained", "terminated", "killed"]

AFTER_SIGKILL_S = 10
"""How long the exit is watched after SIGKILL; a kernel that unpins memory takes longer, and wait-memory tells."""
_DRAIN_S = 30

_DRAIN = """
[ -x "$RELEASE/prover" ] || { echo "no $RELEASE/prover"; exit 1; }
exec "$RELEASE/prover" ctl drain --json --home "$DAEMON_HOME"
"""

# Compare and signal in one script on the host: no time in between for the PID to become somebody else's.
_SIGNAL = r"""
for entry in $PROCESSES; do
    pid=${entry%:*} stat=''
    [ -r "/proc/$pid/stat" ] || { echo "gone $pid"; continue; }
    while IFS= read -r line; do stat="$stat $line"; done 2>/dev/null <"/proc/$pid/stat"
    set -- ${stat##*) }
    [ "${20}" = "${entry#*:}" ] || { echo "gone $pid"; continue; }
    if kill -s "$SIGNAL" "$pid" 2>/dev/null; then echo "sent $pid"
    elif [ -e "/proc/$pid" ]; then echo "denied $pid"
    else echo "gone $pid"; fi
done
read -r uptime _ </proc/uptime
echo "uptime $uptime"
"""

_WATCH = r"""
exec 2>/dev/null
interval=0.25
sleep 0.01 || interval=1
while :; do
    threads $PIDS
    echo "end-of-look"
    sleep "$interval"
done
"""


@dataclass(frozen=True)
class KillRequest:
    """What to stop.

    Args:
        pid: Exactly this process with its session or descendants; None: the daemon that is recorded.
        expected_start_ticks: The process's start as it was shown before; another one is refused.
        grace_s: Time for a stop without SIGKILL; None: what the daemon's profile says.
        reason: Why, for the audit log of the host.
    """

    pid: int | None = None
    expected_start_ticks: int | None = None
    grace_s: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class KillResult:
    """What happened.

    Args:
        record: The baseline in run/kill.json; None where nothing ran.
        how: nothing ran; drained on its own; terminated by its stop signal; killed by SIGKILL.
        processes: What was stopped, leader first, as it was before.
        seconds: From the first signal to the end of the watch.
        remaining: Processes that the kernel is still taking apart; wait-memory waits for them.
        sentence: The same for people.
    """

    record: KillRecord | None
    how: How
    processes: tuple[ProcessInfo, ...]
    seconds: float
    remaining: tuple[ProcessInfo, ...] = ()
    sentence: str = ""


@dataclass(frozen=True)
class _Aim:
    """The processes to stop, leader first, how to stop them, and the baseline of an interrupted kill of them."""

    processes: list[ProcessInfo]
    profile: Profile
    daemon: DaemonView | None
    earlier: KillRecord | None


def inspect_pid(host: Host, pid: int) -> ProcessInfo:
    """Describe a process for showing it before it is stopped or adopted.

    Raises:
        UsageError: There is no such process, or it is a zombie that holds nothing.
    """
    found = probe_processes(host, pids=[pid])
    if not found:
        raise UsageError("no-such-process", f"there is no process {pid} on {host.target}")
    if not found[0].n_live_threads:
        message = f"process {pid} on {host.target} is a zombie: it has ended, holds no memory and cannot be stopped"
        raise UsageError("zombie", message, f"its parent, process {found[0].ppid}, has to reap it")
    return found[0]


def kill(host: Host, layout: Layout, request: KillRequest, progress: Callable[[str], None] | None = None) -> KillResult:
    """Stop a daemon and watch its exit. Repeating it goes on where an interrupted one stopped.

    Raises:
        UsageError: The process is not the one that was shown, or must not be killed: nothing was touched.
        OpsError: A signal was not permitted, or the process survived SIGKILL.
    """
    say = progress or (lambda _: None)
    aim = _aim(host, layout, request)
    if aim is None:
        what = f"process {request.pid}" if request.pid is not None else f"daemon {layout.name}"
        return KillResult(None, "nothing", (), 0.0, sentence=f"no {what} runs on {host.target}: nothing to stop")
    record = _record(host, layout, aim)
    write_record(host, layout.kill_json, record)
    leader = aim.processes[0]
    say(f"stopping {leader.label} with {format_bytes(record.footprint_bytes)}")
    started = time.monotonic()
    drained = aim.daemon is not None and aim.profile.has_ctl and _drain(host, layout, aim.daemon, say)
    stop = _Stop(host, layout, aim.profile, request.grace_s, say)
    record, states, by_force = stop.run(record)
    how: How = "killed" if by_force else "drained" if drained else "terminated"
    seconds = time.monotonic() - started
    remaining = tuple(process for process in aim.processes if process.pid in states)
    sentence = _sentence(leader, how, seconds, states)
    details = {"pid": leader.pid, "exe": leader.exe, "how": how, "seconds": round(seconds, 2), "reason": request.reason}
    audit.append(host, layout, "kill", details)
    return KillResult(record, how, tuple(aim.processes), seconds, remaining, sentence)


def signal_script(processes: Sequence[ProcessId], signal: str) -> Script:
    """Build the script that sends a signal to those of the processes that are still the same."""
    entries = " ".join(f"{process.pid}:{process.start_ticks}" for process in processes)
    return Script(f"send SIG{signal}", _SIGNAL, {"PROCESSES": entries, "SIGNAL": signal}, changes=True)


def drain_script(layout: Layout, release_id: str) -> Script:
    """Build the script that asks the running release's own ctl to drain its daemon."""
    parameters = {"RELEASE": layout.release(release_id), "DAEMON_HOME": layout.home}
    return Script("drain the daemon", _DRAIN, parameters, changes=True)


def watch_script(processes: Sequence[ProcessId]) -> Script:
    """Build the script that prints the threads of the processes until its reader goes away."""
    parameters = {**roots(), "PIDS": " ".join(str(process.pid) for process in processes)}
    return Script("watch the exit", PRELUDE + PROCESSES + _WATCH, parameters)


def _aim(host: Host, layout: Layout, request: KillRequest) -> _Aim | None:
    daemon = find_daemon(host, layout)
    live = daemon if daemon is not None and daemon.is_live else None
    table = read_process_table(host)
    earlier = read_record(host, layout.kill_json, KillRecord)
    unfinished = _unfinished(earlier, table)
    pid, expected = request.pid, request.expected_start_ticks
    if pid is None and live is not None:
        pid, expected = live.record.pid, live.record.start_ticks
    elif pid is None and unfinished:
        pid, expected = unfinished[0].pid, unfinished[0].start_ticks
    if pid is None or pid not in table.stats:
        return None
    if expected is not None and table.stats[pid].start_ticks != expected:
        message = (
            f"process {pid} on {host.target} is not the one that was shown: that one ended and its number is reused"
        )
        raise UsageError("pid-reused", message, "look again before you kill")
    going_on = earlier if earlier and any(process.pid == pid for process in unfinished) else None
    pids = table.family(pid)
    if going_on:
        pids += [process.pid for process in unfinished if process.pid not in pids]
    _refuse(host, table, pids)
    found = {process.pid: process for process in probe_processes(host, pids=pids)}
    processes = [found[pid] for pid in pids if pid in found and found[pid].n_live_threads]
    if not processes:
        return None
    _refuse_strangers(host, table, processes)
    ours = live if live is not None and live.record.pid in pids else None
    return _Aim(processes, profile_of(ours.record if ours else None), ours, going_on)


def _unfinished(record: KillRecord | None, table: ProcessTable) -> list[ProcessId]:
    """Processes of an earlier kill that exist still; a zombie among them is sorted out later."""
    if record is None or record.boot_id != table.boot_id:
        return []
    same = table.stats
    return [p for p in record.processes if p.pid in same and same[p.pid].start_ticks == p.start_ticks]


def _refuse(host: Host, table: ProcessTable, pids: Sequence[int]) -> None:
    for pid in pids:
        if pid == 1:
            raise UsageError("kill-refused", f"process 1 of {host.target} is never killed: the host would go down")
        if pid in table.ancestors_of_self:
            who = table.stats[pid].comm
            message = f"process {pid} ({who}) on {host.target} carries this very connection: it is not killed"
            raise UsageError("kill-refused", message, "name the prover's process, not the shell or sshd above it")
        if table.stats[pid].pgrp == 0 and table.stats[pid].session_id == 0 and table.stats[pid].ppid in (0, 2):
            raise UsageError("kill-refused", f"process {pid} on {host.target} is a thread of the kernel")


def _refuse_strangers(host: Host, table: ProcessTable, processes: Sequence[ProcessInfo]) -> None:
    stranger = next((process for process in processes if table.uid not in (0, process.uid)), None)
    if stranger:
        message = f"{stranger.label} on {host.target} belongs to {stranger.user}: you may not stop it"
        raise UsageError("kill-permission", message, f"connect as {stranger.user} or as root")


def _record(host: Host, layout: Layout, aim: _Aim) -> KillRecord:
    """Make the baseline, or keep the one of an interrupted kill: it was taken when the daemon still held everything."""
    if aim.earlier is None:
        return take_baseline(host, layout.name, [process.pid for process in aim.processes])
    known = {process.pid for process in aim.earlier.processes}
    new = [ProcessId(pid=p.pid, start_ticks=p.start_ticks) for p in aim.processes if p.pid not in known]
    return aim.earlier.model_copy(update={"processes": [*aim.earlier.processes, *new]})


def _drain(host: Host, layout: Layout, daemon: DaemonView, say: Callable[[str], None]) -> bool:
    """Ask politely; a daemon that does not answer is told by its stop signal anyway."""
    script = drain_script(layout, daemon.record.release_id)
    try:
        host.run(script, timeout_s=_DRAIN_S).check()
    except OpsError as error:
        say(f"it could not be drained ({error.message}); its stop signal follows")
        return False
    say("it takes no new jobs; it finishes those that run")
    return True


@dataclass(frozen=True)
class _Stop:
    """Signals one after another until nothing lives."""

    host: Host
    layout: Layout
    profile: Profile
    grace_s: float | None
    say: Callable[[str], None]

    def run(self, record: KillRecord) -> tuple[KillRecord, dict[int, str], bool]:
        """Return the record with its signal time, the states of what still lives, and whether SIGKILL was needed."""
        grace_s = self.profile.grace_s if self.grace_s is None else self.grace_s
        states: dict[int, str] = {}
        for signal in self.profile.stop_signals:
            record = self._send(record, signal)
            self.say(f"SIG{signal} sent; waiting up to {format_duration_s(grace_s)} for its exit")
            states = self._watch(record, grace_s)
            if not states:
                return record, {}, False
        record = self._send(record, "KILL")
        self.say(f"still there after {format_duration_s(grace_s)}: {_states_text(states)}; SIGKILL sent")
        states = self._watch(record, AFTER_SIGKILL_S)
        if states and not set("".join(states.values())) & set("DR"):
            message = f"process {_states_text(states)} on {self.host.target} survived SIGKILL for {AFTER_SIGKILL_S} s"
            raise OpsError("kill-survived", message, "look at it there: is it the first process of a container?")
        return record, states, True

    def _send(self, record: KillRecord, signal: str) -> KillRecord:
        answers = self.host.run(signal_script(record.processes, signal)).check().out.splitlines()
        denied = [answer.split()[1] for answer in answers if answer.startswith("denied ")]
        if denied:
            message = f"SIG{signal} to process {', '.join(denied)} on {self.host.target} was not permitted"
            raise OpsError("kill-permission", message, "connect as the owner of the process, or as root")
        if record.signalled_uptime_s is not None:
            return record
        uptime_s = next((float(answer.split()[1]) for answer in answers if answer.startswith("uptime ")), None)
        record = record.model_copy(update={"signalled_uptime_s": uptime_s})
        write_record(self.host, self.layout.kill_json, record)
        return record

    def _watch(self, record: KillRecord, timeout_s: float) -> dict[int, str]:
        """Watch until no thread lives or the time is over; returns the live PIDs with their threads' states."""
        deadline = time.monotonic() + timeout_s
        told, states = "", dict[int, str]()
        with contextlib.closing(read_blocks(self.host, watch_script(record.processes), "end-of-look")) as blocks:
            for block in blocks:
                states = _live_states(block, record)
                if not states or time.monotonic() >= deadline:
                    break
                in_kernel = _states_text({pid: letters for pid, letters in states.items() if "D" in letters})
                if in_kernel and in_kernel != told:
                    self.say(f"process {in_kernel} is inside the kernel, and no signal can hurry it")
                told = in_kernel
        return states


def _live_states(block: str, record: KillRecord) -> dict[int, str]:
    starts = {process.pid: process.start_ticks for process in record.processes}
    return {
        pid: "".join(sorted(set(threads.live_states)))
        for pid, threads in parse_threads(block).items()
        if threads.live_states and threads.leader.start_ticks == starts.get(pid)
    }


def _states_text(states: dict[int, str]) -> str:
    return ", ".join(f"{pid} (state {letters})" for pid, letters in states.items())


def _sentence(leader: ProcessInfo, how: str, seconds: float, states: dict[int, str]) -> str:
    if states:
        return f"{leader.label} got SIGKILL; the kernel is still taking {_states_text(states)} apart"
    words = {"drained": "finished its work and ended", "terminated": "ended", "killed": "was ended by SIGKILL"}
    return f"{leader.label} {words[how]} after {format_duration_s(seconds)}"

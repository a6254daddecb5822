"""Stop a daemon: exactly the processes that are meant, with the baseline for ``wait-memory`` written before.

The order is fixed: find, refuse what must not be killed, write run/kill.json, drain (or, where there is nobody to be
asked, the stop signal), watch the exit, SIGKILL after the grace time. A process is (pid, start_ticks), compared again
on the host right before each signal.

It may be repeated. A daemon is told to stop once: to ours a second signal means to end at once, with jobs unfinished.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from cuzkops.errors import OpsError
from cuzkops.remote import audit
from cuzkops.remote.baseline import baseline_script
from cuzkops.remote.blocks import read_blocks
from cuzkops.remote.ctl import ctl, ctl_script
from cuzkops.remote.killing import signal_script, watch_script
from cuzkops.remote.process_table import read_process_table
from cuzkops.remote.procfs import live, parse_threads
from cuzkops.remote.run_files import write_record, write_script
from cuzkops.steps.aim import Aim, KillRequest, find_aim
from cuzkops.units import format_bytes, format_duration_s
from prover.protocol import DrainAnswer

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuzkops.records import KillRecord
    from cuzkops.remote.host import Host, Script
    from cuzkops.remote.layout import Layout
    from cuzkops.remote.probes import ProcessInfo
    from prover.protocol import DaemonRecord

__all__ = ["How", "KillRequest", "KillResult", "kill", "plan_kill"]

How = Literal["nothing", "drained", "terminated", "killed"]

AFTER_SIGKILL_S = 10
"""How long the exit is watched after SIGKILL; a kernel that unpins memory takes longer, and wait-memory tells."""
DRAIN_MARGIN_S = 30.0
"""Added to what a daemon promises: it puts its files in order after its last job."""
_LATE_ROUNDS = 5
"""How often the session is looked at for processes that were started while the others were being stopped."""
_ASK_S = 5.0
_REMIND_S = 30.0


@dataclass(frozen=True)
class KillResult:
    """What happened.

    Args:
        record: The baseline in run/kill.json; None where nothing ran.
        how: nothing ran; drained on its own; terminated by its stop signal; killed by SIGKILL.
        processes: What was stopped, leader first, as it was before.
        seconds: From right before the drain, or the first signal, to the end of the watch.
        remaining: Processes that the kernel is still taking apart; wait-memory waits for them.
        sentence: The same for people.
    """

    record: KillRecord | None
    how: How
    processes: tuple[ProcessInfo, ...]
    seconds: float
    remaining: tuple[ProcessInfo, ...] = ()
    sentence: str = ""


def kill(host: Host, layout: Layout, request: KillRequest, progress: Callable[[str], None] | None = None) -> KillResult:
    """Stop a daemon and watch its exit. Repeating it goes on where an interrupted one stopped.

    Raises:
        UsageError: The process is not the one that was shown, or must not be killed: nothing was touched.
        OpsError: A signal was not permitted, or the process survived SIGKILL.
    """
    say = progress or (lambda _: None)
    aim = find_aim(host, layout, request)
    if aim is None:
        what = f"process {request.pid}" if request.pid is not None else f"daemon {layout.name}"
        return KillResult(None, "nothing", (), 0.0, sentence=f"no {what} runs on {host.target}: nothing to stop")
    record = aim.record(host, layout)
    stop = _Stop(host, layout, aim, request.grace_s, say)
    write_record(host, layout.kill_json, record)
    leader = aim.processes[0]
    if aim.what:
        say(aim.what)
    say(f"stopping {leader.label} with {format_bytes(record.footprint_bytes)}")
    begin_s = time.monotonic()
    record, states, how = stop.run(record)
    seconds = time.monotonic() - begin_s
    remaining = tuple(process for process in aim.processes if process.pid in states)
    sentence = _sentence(leader, how, seconds, states)
    details = {"pid": leader.pid, "exe": leader.exe, "how": how, "seconds": round(seconds, 2), "reason": request.reason}
    try:
        audit.append(host, layout, "kill", details)
    except OpsError as error:  # it is stopped all the same
        say(f"the audit log was not written: {error.message}")
    return KillResult(record, how, tuple(aim.processes), seconds, remaining, sentence)


def plan_kill(host: Host, layout: Layout, request: KillRequest) -> list[Script]:
    """Every script by which ``kill`` would change the host now, in order; looks at the host and changes nothing.

    Raises:
        UsageError: ``kill`` would refuse.
    """
    aim = find_aim(host, layout, request)
    if aim is None:
        return []
    record = aim.record(host, layout)
    write = write_script(layout.kill_json, record.model_dump_json(by_alias=True))
    watch, stop_signal = watch_script(record.processes), signal_script(record.processes, aim.profile.stop_signal)
    scripts = [write] if aim.earlier else [baseline_script([process.pid for process in aim.processes]), write]
    if aim.daemon:
        scripts.append(ctl_script(layout, "drain", release_id=aim.daemon.release_id))
        stop_signal = _only_if(stop_signal, "it does not answer")
    if record.signalled_uptime_s is None:
        scripts += [stop_signal, write]
    leader = aim.processes[0]
    entry = audit.entry(layout.name, "kill", {"pid": leader.pid, "exe": leader.exe, "reason": request.reason})
    force = _only_if(signal_script(record.processes, "KILL"), "it lives on after the grace time")
    return [*scripts, watch, force, watch, audit.append_script(layout, entry)]


def _only_if(script: Script, condition: str) -> Script:
    return replace(script, title=f"{script.title} (only if {condition})")


@dataclass(frozen=True)
class _Stop:
    """Tells the processes to stop, once, watches their exit, and uses SIGKILL at the end."""

    host: Host
    layout: Layout
    aim: Aim
    grace_s: float | None
    say: Callable[[str], None]
    baseline_s: float = field(default_factory=time.monotonic)

    def run(self, record: KillRecord) -> tuple[KillRecord, dict[int, str], How]:
        """Return the record with the time of the stop, the states of what still lives, and how it ended."""
        record, states, how = self._escalate(record)
        for _ in range(_LATE_ROUNDS):
            late = read_process_table(self.host).joined_later(record.leader, record.processes)
            if not late:
                return record, states, how
            self.say(f"{len(late)} more processes were started in its session meanwhile")
            record = record.model_copy(update={"processes": [*record.processes, *late]})
            write_record(self.host, self.layout.kill_json, record)
            record, how = self._send(record, "KILL"), "killed"
            states = self._watch(record, AFTER_SIGKILL_S, None)
        message = f"the session of {self.aim.processes[0].label} on {self.host.target} goes on starting processes"
        raise OpsError("kill-survived", message, "look at it there, then run kill again")

    def _escalate(self, record: KillRecord) -> tuple[KillRecord, dict[int, str], How]:
        """Tell the recorded processes to stop, watch, and use SIGKILL at the end; returns what ``run`` does."""
        drain = self._drain()
        if record.signalled_uptime_s is not None:
            self.say("it was told to stop before")
        elif drain is None:
            record = self._send(record, self.aim.profile.stop_signal)
        else:
            record = self._told(record, record.uptime_s + time.monotonic() - self.baseline_s)
        grace_s = self._grace_s(drain)
        self.say(f"waiting up to {format_duration_s(grace_s)} for its exit")
        states = self._watch(record, grace_s, drain)
        if not states:
            return record, {}, "terminated" if drain is None else "drained"
        record = self._send(record, "KILL")
        self.say(f"still there after {format_duration_s(grace_s)}: {_states_text(states)}")
        states = self._watch(record, AFTER_SIGKILL_S, None)
        if states and not set("".join(states.values())) & set("DR"):
            message = f"process {_states_text(states)} on {self.host.target} survived SIGKILL for {AFTER_SIGKILL_S} s"
            raise OpsError("kill-survived", message, "look at it there: is it the first process of a container?")
        return record, states, "killed"

    def _drain(self) -> DrainAnswer | None:
        """Ask politely; a daemon that does not answer gets its stop signal."""
        if self.aim.daemon is None:
            return None
        try:
            answer = self.ask(self.aim.daemon)
        except OpsError as error:
            self.say(f"it could not be drained ({error.message})")
            return None
        self.say(f"it takes no new jobs; {_jobs_text(answer)}")
        return answer

    def ask(self, daemon: DaemonRecord) -> DrainAnswer:
        """Drain; to a daemon that drains already it is a question."""
        return ctl(self.host, self.layout, DrainAnswer, "drain", release_id=daemon.release_id)

    def _grace_s(self, drain: DrainAnswer | None) -> float:
        if self.grace_s is not None:
            return self.grace_s
        return self.aim.profile.grace_s if drain is None else drain.time_left_s + DRAIN_MARGIN_S

    def _send(self, record: KillRecord, signal: str) -> KillRecord:
        answers = self.host.run(signal_script(record.processes, signal)).check().out.splitlines()
        denied = [answer.split()[1] for answer in answers if answer.startswith("denied ")]
        if denied:
            message = f"SIG{signal} to process {', '.join(denied)} on {self.host.target} was not permitted"
            raise OpsError("kill-permission", message, "connect as the owner of the process, or as root")
        self.say(f"SIG{signal} sent")
        uptime_s = next(float(answer.split()[1]) for answer in answers if answer.startswith("uptime "))
        return record if record.signalled_uptime_s is not None else self._told(record, uptime_s)

    def _told(self, record: KillRecord, uptime_s: float) -> KillRecord:
        record = record.model_copy(update={"signalled_uptime_s": uptime_s})
        write_record(self.host, self.layout.kill_json, record)
        return record

    def _watch(self, record: KillRecord, timeout_s: float, drain: DrainAnswer | None) -> dict[int, str]:
        """Watch until no thread lives or the time is over; returns the live PIDs with their threads' states."""
        deadline_s = time.monotonic() + timeout_s
        told, states = "", dict[int, str]()
        jobs = _JobsLeft(self, drain) if drain else None
        with contextlib.closing(read_blocks(self.host, watch_script(record.processes), "end-of-look")) as blocks:
            for block in blocks:
                states = live(parse_threads(block), record.processes)
                if not states or time.monotonic() >= deadline_s:
                    break
                in_kernel = _states_text({pid: letters for pid, letters in states.items() if "D" in letters})
                if in_kernel and in_kernel != told:
                    self.say(f"process {in_kernel} is inside the kernel, and no signal can hurry it")
                told = in_kernel
                if jobs:
                    jobs.look()
        return states


class _JobsLeft:
    """Shows how a drain goes on, for as long as the daemon answers."""

    def __init__(self, stop: _Stop, answer: DrainAnswer) -> None:
        self._stop = stop
        self._n_told = answer.n_jobs_left
        self._told_s = self._asked_s = time.monotonic()

    def look(self) -> None:
        """Ask again from time to time; say what changed, and now and then that nothing did."""
        now_s = time.monotonic()
        daemon = self._stop.aim.daemon
        if daemon is None or now_s - self._asked_s < _ASK_S:
            return
        self._asked_s = now_s
        with contextlib.suppress(OpsError):  # it ends just now, or is too busy to answer: the watch goes on
            answer = self._stop.ask(daemon)
            if answer.n_jobs_left != self._n_told or now_s - self._told_s >= _REMIND_S:
                self._stop.say(_jobs_text(answer))
                self._n_told, self._told_s = answer.n_jobs_left, now_s


def _jobs_text(answer: DrainAnswer) -> str:
    if answer.n_jobs_left == 0:
        return "no job is left"
    jobs = "1 job is" if answer.n_jobs_left == 1 else f"{answer.n_jobs_left} jobs are"
    return f"{jobs} left to finish, within {format_duration_s(answer.time_left_s)}"


def _states_text(states: dict[int, str]) -> str:
    return ", ".join(f"{pid} (state {letters})" for pid, letters in states.items())


def _sentence(leader: ProcessInfo, how: str, seconds: float, states: dict[int, str]) -> str:
    if states:
        return f"{leader.label} got SIGKILL; the kernel is still taking {_states_text(states)} apart"
    words = {"drained": "finished its work and ended", "terminated": "ended", "killed": "was ended by SIGKILL"}
    return f"{leader.label} {words[how]} after {format_duration_s(seconds)}"

"""Aim: find the processes that ``kill`` is to stop, and refuse those that must not be stopped. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.errors import UsageError
from cuzkops.profiles import CUZK, CUZKOPS, Profile, profile_of
from cuzkops.records import KillRecord, ProcessId
from cuzkops.remote.baseline import take_baseline
from cuzkops.remote.daemon import find_daemon
from cuzkops.remote.orphans import orphans_of
from cuzkops.remote.probes import ProcessInfo, probe_processes
from cuzkops.remote.process_table import ProcessTable, read_process_table
from cuzkops.remote.run_files import read_record
from cuzkops.remote.starting import find_starting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from prover.protocol import DaemonRecord


@dataclass(frozen=True)
class KillRequest:
    """What to stop.

    Args:
        pid: Exactly this process with its session or descendants; None: the daemon of this name.
        expected_start_ticks: The process's start as it was shown before; another one is refused.
        grace_s: Time for a stop without SIGKILL; None: what the daemon promises, else what its profile says.
        reason: Why, for the audit log of the host.
    """

    pid: int | None = None
    expected_start_ticks: int | None = None
    grace_s: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Aim:
    """Whom to stop and how.

    Args:
        processes: Leader first.
        leader: The leader of their session; one that ended by itself is not among ``processes``.
        profile: What kind of daemon it is.
        daemon: Its record, where a drain can be asked for.
        earlier: Record of an interrupted kill that told them to stop.
        what: How it was found, where it is not simply the recorded daemon; empty otherwise.
    """

    processes: list[ProcessInfo]
    leader: ProcessId
    profile: Profile
    daemon: DaemonRecord | None
    earlier: KillRecord | None
    what: str = ""

    def record(self, host: Host, layout: Layout) -> KillRecord:
        """Take the baseline, or keep the interrupted kill's: it was taken when the daemon still held everything."""
        if self.earlier is None:
            record = take_baseline(host, layout.name, [process.pid for process in self.processes])
            return record.model_copy(update={"session_leader": self.leader})
        known = {process.pid for process in self.earlier.processes}
        new = [ProcessId(pid=p.pid, start_ticks=p.start_ticks) for p in self.processes if p.pid not in known]
        return self.earlier.model_copy(update={"processes": [*self.earlier.processes, *new]})


@dataclass(frozen=True)
class _Candidate:
    """Processes that may be meant, leader first; they may have ended, or be somebody else's numbers by now."""

    processes: tuple[ProcessId, ...]
    leader: ProcessId
    profile: Profile
    daemon: DaemonRecord | None = None
    what: str = ""


def find_aim(host: Host, layout: Layout, request: KillRequest) -> Aim | None:
    """Find what a request means; None where nothing of it lives.

    In this order: the daemon that is recorded and lives; what an earlier kill did not end; what a launch has just
    started; what lives on of the session of a daemon that ended by itself.

    Raises:
        UsageError: The process is not the one that was shown, or must not be killed.
    """
    table = read_process_table(host)
    earlier = read_record(host, layout.kill_json, KillRecord)
    if earlier is not None and (earlier.boot_id != table.boot_id or not earlier.processes):
        earlier = None
    if request.pid is not None:
        candidates = iter(_asked_for(host, layout, request, table))
    else:
        candidates = _candidates(host, layout, table, earlier)
    for candidate in candidates:
        if aim := _aim(host, table, candidate, earlier):
            return aim
    return None


def _asked_for(host: Host, layout: Layout, request: KillRequest, table: ProcessTable) -> list[_Candidate]:
    seen = table.stats.get(request.pid or 0)
    if seen is None:
        return []
    if request.expected_start_ticks not in (None, seen.start_ticks):
        message = (
            f"process {seen.pid} on {host.target} is not the one that was shown: "
            "that one ended and its number is reused"
        )
        raise UsageError("pid-reused", message, "look again before you kill")
    daemon = find_daemon(host, layout)
    process = ProcessId(pid=seen.pid, start_ticks=seen.start_ticks)
    is_meant = daemon is not None and daemon.is_live and daemon.record.pid in table.family(seen.pid)
    ours = daemon.record if daemon is not None and is_meant else None
    return [_Candidate((process,), process, profile_of(ours), ours)]


def _candidates(host: Host, layout: Layout, table: ProcessTable, earlier: KillRecord | None) -> Iterator[_Candidate]:
    daemon = find_daemon(host, layout)
    record = daemon.record if daemon is not None else None
    if daemon is not None and daemon.is_live:
        process = ProcessId(pid=daemon.record.pid, start_ticks=daemon.record.start_ticks)
        yield _Candidate((process,), process, profile_of(record), record)
    if earlier is not None:
        yield _Candidate(tuple(earlier.processes), earlier.leader, CUZK, what="an earlier kill did not end it")
    if starting := find_starting(host, layout):
        what = f"a launch has just started it, release {starting.release_id}"
        yield _Candidate((starting.process,), starting.process, CUZKOPS, what=what)
    if record is not None:
        leader = ProcessId(pid=record.pid, start_ticks=record.start_ticks)
        what = f"the daemon, pid {record.pid}, has ended by itself, and this lives on in its session"
        yield _Candidate(tuple(orphans_of(table, record)), leader, CUZK, what=what)
    if earlier is not None:
        what = f"process {earlier.leader.pid} was killed, and this lives on in its session"
        yield _Candidate(tuple(table.session_of(earlier.leader)), earlier.leader, CUZK, what=what)


def _aim(host: Host, table: ProcessTable, candidate: _Candidate, earlier: KillRecord | None) -> Aim | None:
    """The live processes of a candidate with their families; None where there are none."""
    pids: list[int] = []
    for process in candidate.processes:
        seen = table.stats.get(process.pid)
        if seen is not None and seen.start_ticks == process.start_ticks:
            pids += [pid for pid in table.family(process.pid) if pid not in pids]
    unfinished = {process.pid for process in _unfinished(earlier, table)}
    going_on = bool(pids) and pids[0] in unfinished
    if going_on:
        pids += [pid for pid in sorted(unfinished) if pid not in pids]
    _refuse(host, table, pids)
    found = {process.pid: process for process in probe_processes(host, pids=pids)}
    processes = [found[pid] for pid in pids if pid in found and found[pid].n_live_threads]
    if not processes:
        return None
    _refuse_strangers(host, table, processes)
    told = earlier if earlier and going_on and earlier.signalled_uptime_s is not None else None
    daemon = candidate.daemon if candidate.profile.has_ctl else None
    return Aim(processes, candidate.leader, candidate.profile, daemon, told, candidate.what)


def _unfinished(record: KillRecord | None, table: ProcessTable) -> list[ProcessId]:
    """Processes of an earlier kill that exist still; a zombie among them is sorted out later."""
    same = table.stats
    processes = record.processes if record is not None else []
    return [p for p in processes if p.pid in same and same[p.pid].start_ticks == p.start_ticks]


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

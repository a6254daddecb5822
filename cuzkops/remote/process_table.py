"""Who descends from whom on a host: one look at every process."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.records import ProcessId
from cuzkops.remote.host import Script
from cuzkops.remote.procfs import DEAD_STATES, Stat, parse_stats
from cuzkops.remote.script import roots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuzkops.remote.host import Host

_TABLE = r"""
echo "boot $(cat "$PROC/sys/kernel/random/boot_id")"
echo "uid $(id -u)"
echo "self $$"
cat "$PROC"/[0-9]*/stat 2>/dev/null
:
"""


@dataclass(frozen=True)
class ProcessTable:
    """Every process of a host at one instant.

    Args:
        boot_id: The boot that the start times belong to.
        uid: Who looked.
        self_pid: The shell that looked.
        stats: By PID.
    """

    boot_id: str
    uid: int
    self_pid: int
    stats: dict[int, Stat]

    @property
    def ancestors_of_self(self) -> set[int]:
        """The shell that looked and everything above it: sshd, and on this machine the tool itself."""
        found: set[int] = set()
        pid = self.self_pid
        while pid in self.stats and pid not in found:
            found.add(pid)
            pid = self.stats[pid].ppid
        return found

    def family(self, pid: int) -> list[int]:
        """Return the process first, then its session where it leads one, then all their descendants.

        A process that was started by hand from a shell shares that shell's session, which must not be touched; a child
        may have made a session of its own.
        """
        found = [pid]
        if self.stats[pid].session_id == pid:
            found += sorted(p for p, stat in self.stats.items() if stat.session_id == pid and p != pid)
        for parent in found:
            found += sorted(p for p, stat in self.stats.items() if stat.ppid == parent and p not in found)
        return found

    def session_of(self, leader: ProcessId) -> list[ProcessId]:
        """Return the members of the session that a process leads, or led: the oldest first, without the leader.

        The number of a session is not given to another process while it has members; a new leader of that number, or
        members that are older than the leader, mean that the old session is over. Members that have ended and were not
        reaped are among them.
        """
        seen = self.stats.get(leader.pid)
        if seen is not None and seen.start_ticks != leader.start_ticks:
            return []
        members = [
            ProcessId(pid=stat.pid, start_ticks=stat.start_ticks)
            for stat in self.stats.values()
            if stat.session_id == leader.pid != stat.pid and stat.start_ticks >= leader.start_ticks
        ]
        return sorted(
            (member for member in members if member.pid not in self.ancestors_of_self),
            key=lambda member: (member.start_ticks, member.pid),
        )

    def joined_later(self, leader: ProcessId, processes: Sequence[ProcessId]) -> list[ProcessId]:
        """Return the live members of that session which are not among ``processes``."""
        known = {process.pid for process in processes}
        return [
            member
            for member in self.session_of(leader)
            if member.pid not in known and self.stats[member.pid].state not in DEAD_STATES
        ]


def read_process_table(host: Host, *, kernel: dict[str, str] | None = None) -> ProcessTable:
    """Look at every process of a host, with one script; ``kernel`` is ``roots(...)`` of a recording."""
    return parse_process_table(host.run(Script("list processes", _TABLE, kernel or roots())).check().out)


def parse_process_table(output: str) -> ProcessTable:
    """Read what the script prints.

    Raises:
        ValueError: The head of the output is missing.
    """
    head = re.match(r"boot (\S*)\nuid (\d+)\nself (\d+)\n", output)
    if head is None:
        raise ValueError(f"no process table: {output[:80]!r}")
    stats = {stat.pid: stat for stat in parse_stats(output[head.end() :])}
    return ProcessTable(head[1], int(head[2]), int(head[3]), stats)

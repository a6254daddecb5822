"""What a daemon leaves behind when it ends by itself: the other processes of the session that it led."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuzkops.records import ProcessId
from cuzkops.remote.probes import ProcessInfo, probe_processes
from cuzkops.remote.process_table import ProcessTable, read_process_table

if TYPE_CHECKING:
    from cuzkops.remote.host import Host
    from prover.protocol import DaemonRecord


def find_orphans(host: Host, record: DaemonRecord, *, kernel: dict[str, str] | None = None) -> list[ProcessInfo]:
    """Describe the live members of a daemon's session, without the daemon itself; the oldest first.

    Args:
        host: Where it ran.
        record: What it said of itself.
        kernel: ``roots(...)`` of a recording; the real folders by default.
    """
    members = orphans_of(read_process_table(host, kernel=kernel), record)
    if not members:
        return []
    found = {
        (info.pid, info.start_ticks): info
        for info in probe_processes(host, pids=[m.pid for m in members], kernel=kernel)
    }
    keys = [(member.pid, member.start_ticks) for member in members]
    return [found[key] for key in keys if key in found]


def orphans_of(table: ProcessTable, record: DaemonRecord) -> list[ProcessId]:
    """The members of the session that a recorded daemon led; none where it shared the session of a shell."""
    if record.boot_id != table.boot_id or record.session_id != record.pid:
        return []
    return table.session_of(ProcessId(pid=record.pid, start_ticks=record.start_ticks))

"""Who runs on a host, what it says of itself, and how much memory there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError, UsageError
from cuzkops.remote import lock
from cuzkops.remote.ctl import ctl
from cuzkops.remote.daemon import DaemonView, find_daemon
from cuzkops.remote.host import Script
from cuzkops.remote.orphans import find_orphans
from cuzkops.remote.procfs import Memory, parse_memory
from cuzkops.remote.script import MEMORY, PRELUDE, roots
from cuzkops.remote.starting import STARTED, Starting, parse_started
from prover.protocol import StatusAnswer

if TYPE_CHECKING:
    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.remote.lock import Holder
    from cuzkops.remote.probes import ProcessInfo

_FACTS = r"""
exec 2>/dev/null
echo "current $(readlink "$CURRENT")"
memory "$(limited_cgroups)"
echo "started"
# Told to stop since, and without a record: it ends, and does not begin.
[ "$KILL" -nt "$STARTED" ] || started
"""


@dataclass(frozen=True)
class StatusReport:
    """What is true on a host now.

    Args:
        daemon: What daemon.json says, checked against the process; None where nothing was ever recorded.
        answer: The daemon's own status, or None where it does not live, does not answer or is not ours.
        problem: Why a live daemon of ours does not answer; empty where it does.
        current: The release that was launched last, or None.
        memory: The host's memory.
        holder: Who holds the lock, or None.
        starting: What a launch started that has not written daemon.json yet, or None.
        orphans: What lives on of the session of a daemon that has ended by itself.
    """

    daemon: DaemonView | None
    answer: StatusAnswer | None
    problem: str
    current: str | None
    memory: Memory
    holder: Holder | None
    starting: Starting | None = None
    orphans: tuple[ProcessInfo, ...] = ()


def status(host: Host, layout: Layout) -> StatusReport:
    """Look at a host and its daemon; changes nothing.

    Raises:
        OpsError: The host cannot be read; a daemon that does not answer is no error but a ``problem``.
    """
    daemon = find_daemon(host, layout)
    answer, problem = None, ""
    if daemon is not None and daemon.status == "running":
        try:
            answer = ctl(host, layout, StatusAnswer, "status", release_id=daemon.record.release_id)
        except OpsError as error:
            problem = error.message
    first, _, rest = host.run(status_script(layout)).check().out.partition("\n")
    memory, _, started = rest.partition("started\n")
    current = first.partition(" ")[2].rpartition("/")[2] or None
    starting = None if daemon is not None and daemon.is_live else parse_started(started)
    orphans = () if daemon is None or daemon.is_live else tuple(find_orphans(host, daemon.record))
    holder = lock.read(host, layout)
    return StatusReport(daemon, answer, problem, current, parse_memory(memory), holder, starting, orphans)


def current_release(host: Host, layout: Layout) -> str:
    """The release that was launched last.

    Raises:
        UsageError: None was; names those that are there.
    """
    script = Script(
        "find the current release",
        'readlink "$CURRENT"; cd "$RELEASES" 2>/dev/null && ls; exit 0',
        {"CURRENT": layout.current, "RELEASES": layout.releases},
    )
    current, *found = host.run(script).check().out.splitlines() or [""]
    if "/" in current:
        return current.rpartition("/")[2]
    releases = [name for name in [current, *found] if name]
    raise UsageError(
        "no-release",
        f"nothing was launched here yet; releases on the host: {', '.join(releases) or 'none'}",
        "name one with --release" if releases else "bring one with `cuzkops ship`, or run `cuzkops deploy`",
    )


def status_script(layout: Layout) -> Script:
    """Read the link ``current``, the memory, and what the last launch started."""
    return Script(
        "look at the host",
        PRELUDE + MEMORY + STARTED + _FACTS,
        {**roots(), "CURRENT": layout.current, "STARTED": layout.started, "KILL": layout.kill_json},
    )

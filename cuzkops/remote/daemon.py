"""The daemon of a host as it is seen from here: its record and its process, read at one instant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cuzkops.remote.host import Script
from cuzkops.remote.probes import ProcessInfo, parse_processes
from cuzkops.remote.run_files import parse_record
from cuzkops.remote.script import PRELUDE, PROCESSES, roots
from cuzkops.units import format_bytes, format_instant
from prover.protocol import DaemonRecord

if TYPE_CHECKING:
    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout

# A string of the record cannot hold "pid": because its quotes are escaped there; what was read is compared afterwards.
_OBSERVE = r"""
text=''
if [ -e "$RECORD" ]; then
    text=$(cat "$RECORD") || { [ -e "$RECORD" ] && exit 1; text=''; }
fi
exec 2>/dev/null
read -r boot <"$PROC/sys/kernel/random/boot_id"
echo "boot $boot"
[ -z "$RELEASE" ] || echo "folder $(cd "$RELEASE" && pwd -P)"
if [ -z "$PID" ] && [ -n "$text" ]; then
    PID=$(printf '%s' "$text" | tr -d ' \n\r\t')
    PID=${PID#*\"pid\":} PID=${PID%%[!0-9]*}
fi
printf 'record\n%s\nend-of-record\n' "$text"
filter '^btime ' <"$PROC/stat"
[ -z "$PID" ] || describe "$PID"
exit 0
"""


@dataclass(frozen=True)
class Observation:
    """What is seen of a daemon: its own record, and a process.

    Args:
        boot_id: This boot of the host.
        folder: Folder of the release that was asked for, without symbolic links; empty where none was.
        record: ``daemon.json``, or None where there is none.
        process: The process that was asked for, else the record's; None where it does not exist.
    """

    boot_id: str
    folder: str
    record: DaemonRecord | None
    process: ProcessInfo | None


@dataclass(frozen=True)
class DaemonView:
    """What run/daemon.json says, checked against the process that it names.

    Args:
        record: The file.
        status: running: our daemon lives; foreign: an adopted process lives; gone: it ended; stale: the file is of
            another boot, or its PID belongs to somebody else now.
        process: The live process, or None.
    """

    record: DaemonRecord
    status: Literal["running", "foreign", "gone", "stale"]
    process: ProcessInfo | None

    @property
    def is_live(self) -> bool:
        """Whether the recorded process still has a live thread."""
        return self.process is not None


def find_daemon(host: Host, layout: Layout, *, kernel: dict[str, str] | None = None) -> DaemonView | None:
    """Look for the daemon of this layout; None where none was ever recorded.

    Raises:
        UnreadableError: run/daemon.json is not such a record.
    """
    seen = observe(host, layout, kernel=kernel)
    record, process = seen.record, seen.process
    if record is None:
        return None
    if process is None:
        return DaemonView(record, "gone", None)
    if (process.pid, process.start_ticks, seen.boot_id) != (record.pid, record.start_ticks, record.boot_id):
        return DaemonView(record, "stale", None)
    if process.n_live_threads == 0:
        return DaemonView(record, "gone", None)
    return DaemonView(record, "running" if record.is_ours else "foreign", process)


def observe(
    host: Host,
    layout: Layout,
    *,
    pid: int | None = None,
    release_id: str | None = None,
    kernel: dict[str, str] | None = None,
) -> Observation:
    """Look at ``daemon.json`` and at one process, with one script. Arguments as for ``observe_script``.

    Raises:
        UnreadableError: run/daemon.json is not such a record.
        OpsError: It cannot be read.
    """
    script = observe_script(layout, pid=pid, release_id=release_id, kernel=kernel)
    head, _, rest = host.run(script).check().out.partition("\nrecord\n")
    text, _, processes = rest.rpartition("\nend-of-record\n")
    words = dict(line.partition(" ")[::2] for line in head.splitlines())
    found = parse_processes(processes)
    record = parse_record(host, layout.daemon_json, text.encode(), DaemonRecord)
    return Observation(words.get("boot", ""), words.get("folder", ""), record, found[0] if found else None)


def observe_script(
    layout: Layout, *, pid: int | None = None, release_id: str | None = None, kernel: dict[str, str] | None = None
) -> Script:
    """Build the script behind ``observe``.

    Args:
        layout: Which daemon.
        pid: The process to look at; None for the one that the record names.
        release_id: A release whose folder is wanted.
        kernel: ``roots(...)`` of a recording; the real folders by default.
    """
    parameters = {
        **(kernel or roots()),
        "RELEASE": "" if release_id is None else layout.release(release_id),
        "RECORD": layout.daemon_json,
        "PID": "" if pid is None else str(pid),
    }
    return Script("look at the daemon", PRELUDE + PROCESSES + _OBSERVE, parameters)


def boot_id(host: Host) -> str:
    """Return the host's boot identity: PIDs and start times mean nothing across two of them."""
    script = Script("read the boot identity", 'cat "$PROC/sys/kernel/random/boot_id"', roots())
    return host.run(script).check().out.strip()


def describe_process(process: ProcessInfo) -> str:
    """Name a process in full: pid, executable, owner, start and size."""
    started = format_instant(process.started_unix_s)
    return f"{process.label}, started {started}, {format_bytes(process.footprint_bytes)}"

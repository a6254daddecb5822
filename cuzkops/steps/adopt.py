"""Take over a daemon that somebody started by hand: from then on kill, wait-memory, status and logs know it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError, UsageError
from cuzkops.remote import audit
from cuzkops.remote.daemon import boot_id, describe_process, find_daemon
from cuzkops.remote.host import Script
from cuzkops.remote.run_files import write_record
from cuzkops.remote.script import PRELUDE, PROCESSES, roots
from cuzkops.steps.aim import inspect_pid
from prover.protocol import DaemonRecord, DaemonState

if TYPE_CHECKING:
    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout

# The digest comes from /proc/PID/exe: it is the running file even where the path now leads to another one.
# A leader that ended before its threads shows neither: what it ran and wrote to is seen through one of those.
_LOOK = r"""
view_of "$TARGET"
for fd in 1 2; do
    file=$(readlink "$view/fd/$fd") && [ -f "$file" ] && echo "log $file"
done
echo "sha256 $(sha256sum <"$view/exe" 2>/dev/null)"
"""


def adopt(host: Host, layout: Layout, pid: int) -> DaemonRecord:
    """Write run/daemon.json for a process that was not launched by this tool.

    Args:
        host: Where it runs.
        layout: The name that it gets.
        pid: The process.

    Raises:
        UsageError: There is no such process, or this name has another live daemon.
        OpsError: Its executable cannot be read: it belongs to somebody else.
    """
    process = inspect_pid(host, pid)
    daemon = find_daemon(host, layout)
    if daemon is not None and daemon.process is not None:
        if daemon.record.pid == pid:
            return daemon.record
        message = f"{layout.name} on {host.target} has a live daemon already: {describe_process(daemon.process)}"
        raise UsageError("daemon-exists", message, "kill it first, or adopt under another --name")
    logs, exe_sha256 = _look(host, pid)
    if not exe_sha256:
        message = f"the executable of {process.label} on {host.target} cannot be read"
        raise OpsError(
            "adopt-permission",
            message,
            f"connect as {' or as '.join(dict.fromkeys((process.user, 'root')))}",
        )
    started_unix_ns = round(process.started_unix_s * 1e9)
    record = DaemonRecord(
        name=layout.name,
        release_id="adopted",
        launch_id=f"adopted-{pid}-{process.start_ticks}",
        state=DaemonState.READY,
        boot_id=boot_id(host),
        pid=pid,
        start_ticks=process.start_ticks,
        session_id=process.session_id,
        exe_sha256=exe_sha256,
        build_id="",
        config_sha256="",
        api="",
        logs=logs,
        started_unix_ns=started_unix_ns,
    )
    write_record(host, layout.daemon_json, record)
    audit.append(host, layout, "adopt", {"pid": pid, "exe": process.exe})
    return record


def _look(host: Host, pid: int) -> tuple[list[str], str]:
    """Return the regular files that its two output streams go to, each once, and the digest of its executable."""
    script = Script("look at the process", PRELUDE + PROCESSES + _LOOK, {**roots(), "TARGET": str(pid)})
    out = host.run(script, timeout_s=300).check().out
    logs = list(dict.fromkeys(re.findall(r"^log (/.+)$", out, re.MULTILINE)))
    digest = re.search(r"^sha256 ([0-9a-f]{64})\b", out, re.MULTILINE)
    return logs, digest[1] if digest else ""

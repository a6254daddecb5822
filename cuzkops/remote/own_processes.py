"""The processes of the machine that this tool runs on: a PID alone may be reused."""

from __future__ import annotations

from pathlib import Path

from cuzkops.remote.procfs import DEAD_STATES, TICKS_PER_S, parse_stats


def start_ticks(pid: int) -> int | None:
    """Start of a process in clock ticks since the boot, or None when it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self").exists() else _start_ticks_elsewhere(pid)
    (found,) = parse_stats(stat)
    return None if found.state in DEAD_STATES else found.start_ticks


def _start_ticks_elsewhere(pid: int) -> int | None:
    """The same for an operator's machine without /proc."""
    import psutil  # noqa: PLC0415 - not needed on Linux

    try:
        started_s: float = psutil.Process(pid).create_time() - psutil.boot_time()
    except psutil.NoSuchProcess:
        return None
    return round(started_s * TICKS_PER_S)

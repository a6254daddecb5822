"""Scripts that stop processes and watch their exit. Pure; see ``steps/kill.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuzkops.remote.host import Script
from cuzkops.remote.script import LIVES, PRELUDE, PROCESSES, roots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuzkops.records import ProcessId

# Compare and signal in one script on the host: no time in between for the PID to become somebody else's.
_SIGNAL = r"""
for entry in $PROCESSES; do
    pid=${entry%:*}
    if ! lives "$pid" "${entry#*:}"; then echo "gone $pid"
    elif kill -s "$SIGNAL" "$pid" 2>/dev/null; then echo "sent $pid"
    elif lives "$pid" "${entry#*:}"; then echo "denied $pid"
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


def signal_script(processes: Sequence[ProcessId], signal: str) -> Script:
    """Build the script that sends a signal to those of the processes that still live."""
    entries = " ".join(f"{process.pid}:{process.start_ticks}" for process in processes)
    return Script(f"send SIG{signal}", LIVES + _SIGNAL, {"PROCESSES": entries, "SIGNAL": signal}, changes=True)


def watch_script(processes: Sequence[ProcessId]) -> Script:
    """Build the script that prints the threads of the processes until its reader goes away."""
    parameters = {**roots(), "PIDS": " ".join(str(process.pid) for process in processes)}
    return Script("watch the exit", PRELUDE + PROCESSES + _WATCH, parameters)

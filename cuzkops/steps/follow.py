"""Follow a daemon's log: line by line as it is written, through rotation and truncation, to the daemon's end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuzkops.errors import UsageError
from cuzkops.remote.daemon import find_daemon
from cuzkops.remote.host import Script
from cuzkops.remote.script import LIVES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from prover.protocol import DaemonRecord

_HEARTBEAT_S = 10
_IDLE_S = 60  # six heartbeats missed: the connection is gone

# The open descriptor keeps its place in the old file, whatever happens to its name: `cat <&4` prints what is new.
# Lines that begin with \001 are ours.
_FOLLOW = r"""
[ -r "$LOG" ] || { echo "there is no log $LOG" >&2; exit 1; }
exec 4<"$LOG"
if [ "$LINES_BACK" = 0 ]; then
    cat <&4 >/dev/null # tail would end at once, without moving to the end
else
    tail -n "$LINES_BACK" <&4
fi
beats=0
while :; do
    [ -z "$PID" ] || lives "$PID" "$START_TICKS"
    gone=$?
    cat <&4
    if [ "$gone" -ne 0 ]; then
        printf '\001ended\n'
        exit 0
    fi
    if [ -e "$LOG" ] && ! [ "$LOG" -ef /dev/fd/4 ]; then
        cat <&4
        printf '\001rotated\n'
        exec 4<"$LOG"
    else
        while read -r key value; do
            [ "$key" = pos: ] && break
        done </proc/self/fdinfo/4
        set -- $(ls -lnL /dev/fd/4)
        if [ "$5" -lt "$value" ]; then
            printf '\001truncated\n'
            exec 4<"$LOG"
        fi
    fi
    beats=$((beats + 1))
    [ $((beats % BEATS)) -ne 0 ] || printf '\001\n'
    sleep "$INTERVAL" 2>/dev/null || sleep 1
done
"""


def writer(host: Host, layout: Layout) -> DaemonRecord | None:
    """The daemon whose log grows, or None where none lives.

    Raises:
        UsageError: One lives and writes no log to a file.
    """
    daemon = find_daemon(host, layout)
    if daemon is None or not daemon.is_live:
        return None
    if not daemon.record.logs:
        raise UsageError("no-logs", f"daemon {layout.name} on {host.target} writes no log to a file")
    return daemon.record


def follow(
    host: Host,
    layout: Layout,
    *,
    log: str,
    process: tuple[int, int] | None = None,
    lines_back: int | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> Iterator[bytes]:
    """Yield the lines of a log as they are written, until the daemon ends or the iterator is closed.

    Args:
        host: The host.
        layout: Which daemon there.
        log: Absolute path of the log on the host.
        process: (pid, start_ticks) of its writer: the stream ends with it; None follows for ever.
        lines_back: How many of the lines that are there come first; None for all.
        on_notice: Called with a sentence when the log was rotated or truncated, or the daemon ended.

    Raises:
        OpsError: There is no such log.
        TimeoutExpired: The host fell silent.
    """
    sentences = {
        b"rotated": f"{log} was rotated: going on with the new file",
        b"truncated": f"{log} was truncated: lines may have been lost",
        b"ended": "the daemon ended",
    }
    kept = b""
    for raw in host.stream(follow_script(layout, log, process, lines_back), idle_timeout_s=_IDLE_S):
        begin, ours, word = raw.rpartition(b"\x01")
        if not ours or (word and word not in sentences):  # a log may hold that byte itself
            yield kept + raw
            kept = b""
            continue
        kept += begin  # a line without an end as yet, before a word of ours
        if word in sentences:
            if kept:
                yield kept
                kept = b""
            on_notice(sentences[word])


def follow_script(layout: Layout, log: str, process: tuple[int, int] | None, lines_back: int | None) -> Script:
    """Build the script behind ``follow``; arguments as there."""
    interval_s = 0.5
    pid, start_ticks = process or ("", "")
    return Script(
        f"follow {log.removeprefix(layout.logs + '/')}",
        LIVES + _FOLLOW,
        {
            "LOG": log,
            "PID": str(pid),
            "START_TICKS": str(start_ticks),
            "LINES_BACK": "+1" if lines_back is None else str(lines_back),
            "INTERVAL": str(interval_s),
            "BEATS": str(int(_HEARTBEAT_S / interval_s)),
        },
    )

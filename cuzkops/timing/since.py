"""Only what ended since an instant. A log's clock is monotonic; the header of each run joins it to the wall clock."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from cuzkops.errors import UnreadableError, UsageError
from cuzkops.units import parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuzkops.timing.spans import Run, Timeline

_LINE = re.compile(rb"[A-Z][A-Z0-9_]* run=(\S+)(?: \S+)*? t_ns=(\d+)(?: |$)")
_HEADER = re.compile(rb"HEADER run=.* wall_unix_ns=(\d+)(?: |$)")


def parse_instant(text: str, now_unix_ns: int) -> int:
    """Read ``10m`` (so long before now) or ``2026-11-29T22:00:00Z``; returns Unix time in nanoseconds.

    Args:
        text: What was given.
        now_unix_ns: Now, by the clock of the host that wrote the log.

    Raises:
        UsageError: It is neither, or a time without its zone.
    """
    if not re.match(r"\d{4}-", text):
        return now_unix_ns - round(parse_duration_s(text) * 1e9)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError("since", f"{text!r} is not a time: {error}", "write 10m, or 2026-11-29T22:00:00Z") from error
    if instant.tzinfo is None:
        raise UsageError("since", f"{text!r} has no time zone", "add Z for UTC, or an offset such as +01:00")
    return round(instant.timestamp() * 1e6) * 1000


def lines_since(lines: Iterable[bytes], since_unix_ns: int) -> Iterator[bytes]:
    """Leave out the lines before an instant; a line without a time of its own goes with the one before it.

    Raises:
        UnreadableError: No line says when it was written.
    """
    walls: dict[bytes, int] = {}  # run -> wall clock minus the run's clock
    is_kept, n_lines, n_placed = False, 0, 0
    for line in lines:
        n_lines += 1
        found, header = _LINE.match(line), _HEADER.match(line)
        if found and header:
            walls[found[1]] = int(header[1]) - int(found[2])
        if found and found[1] in walls:
            n_placed += 1
            is_kept = walls[found[1]] + int(found[2]) >= since_unix_ns
        if is_kept:
            yield line
    if n_lines and not n_placed:
        raise _timeless(f"none of {n_lines} lines")


def timeline_since(timeline: Timeline, since_unix_ns: int) -> Timeline:
    """Leave out what ended before an instant, and the runs that were over by then; lines that are bad stay.

    Raises:
        UnreadableError: No run has a header.
    """
    placed = [run for run in timeline.runs if run.header is not None]
    if timeline.runs and not placed:
        raise _timeless(f"none of {len(timeline.runs)} runs")
    kept = (_run_since(run, since_unix_ns) for run in placed)
    return replace(timeline, runs=tuple(run for run in kept if run is not None))


def _run_since(run: Run, since_unix_ns: int) -> Run | None:
    if run.header is None:
        return None
    since_ns = since_unix_ns - int(run.header.values["wall_unix_ns"]) + run.header.t_ns
    instants = [span.end_ns if span.end_ns is not None else span.start_ns or 0 for span in run.spans]
    if max([run.header.t_ns, *instants]) < since_ns:
        return None
    spans = tuple(s for s in run.spans if s.job is None or s.end_ns is None or s.end_ns >= since_ns)
    return replace(run, spans=spans)


def _timeless(what: str) -> UnreadableError:
    hint = "leave --since out: this log has no header, or is of another daemon"
    return UnreadableError("no-times", f"{what} of the log can be placed in time", hint)

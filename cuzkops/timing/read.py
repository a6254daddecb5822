"""Logs to the table: the whole way, for everybody who has files."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from cuzkops.errors import UnreadableError
from cuzkops.timing.parse import parse_file
from cuzkops.timing.since import timeline_since
from cuzkops.timing.spans import build_timeline
from cuzkops.timing.table import TimingTable, tabulate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def read_table(files: Sequence[Path], since_unix_ns: int | None = None) -> TimingTable:
    """Read timing logs, those of one daemon the oldest first.

    Args:
        files: The logs.
        since_unix_ns: Only what ended since then counts; None for everything.

    Raises:
        UnreadableError: There is no timing line in them, a file cannot be read, a header has a later schema, or
            nothing in them can be placed in time where that is asked for.
    """
    records = itertools.chain.from_iterable(parse_file(path, path.name) for path in files)
    timeline = build_timeline(records)
    table = tabulate(timeline if since_unix_ns is None else timeline_since(timeline, since_unix_ns))
    if not timeline.runs:
        first = f": {table.bad_lines[0].reason}" if table.bad_lines else ""
        raise UnreadableError(
            "no-timing-lines",
            f"no line of {', '.join(path.name for path in files) or 'the logs'} is a timing line "
            f"({table.n_bad_lines} other lines{first})",
            "is this the log of another daemon? docs/TIMELINE_FORMAT.md has the grammar",
            {"bad_lines": [f"{bad.file}:{bad.line}: {bad.reason}" for bad in table.bad_lines[:20]]},
        )
    return table

"""The curve of what is available, drawn with characters: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.units import format_bytes, format_duration_s

if TYPE_CHECKING:
    from collections.abc import Sequence

_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII = " ....####"
_STEPS = len(_BLOCKS) - 1
_LABEL_WIDTH = 11


@dataclass(frozen=True)
class Point:
    """One sample as it is drawn."""

    uptime_s: float
    available_bytes: int


def curve_lines(
    points: Sequence[Point], goal_bytes: int | None, *, columns: int, rows: int = 6, blocks: bool = True
) -> list[str]:
    """Draw available memory over time, from the least that was seen up to the goal.

    Args:
        points: The samples, in order of time; at least one.
        goal_bytes: What is waited for: the top, unless more was seen.
        columns: Width of the terminal.
        rows: Height of the curve without its axis.
        blocks: Draw with block elements; else with ASCII.

    Returns:
        ``rows`` lines and the axis below; empty where the terminal is too narrow.
    """
    width = columns - _LABEL_WIDTH - 2
    if width < 10 or not points:
        return []
    seen = [point.available_bytes for point in points]
    low, high = min(seen), max([*seen, goal_bytes or 0])
    heights = [_height(value, low, high, rows) for value in _per_column(points, width)]
    signs = _BLOCKS if blocks else _ASCII
    lines = []
    for row in range(rows):
        floor = (rows - 1 - row) * _STEPS
        cells = "".join(signs[min(_STEPS, max(0, height - floor))] for height in heights)
        label = format_bytes(high) if row == 0 else format_bytes(low) if row == rows - 1 else ""
        lines.append(f"{label:>{_LABEL_WIDTH}} {cells.rstrip()}")
    lasted = format_duration_s(float(points[-1].uptime_s - points[0].uptime_s))
    lines.append(f"{'':>{_LABEL_WIDTH}} 0 s{lasted:>{width - 3}}")
    return lines


def _per_column(points: Sequence[Point], width: int) -> list[int]:
    """The last value that was seen up to the end of each column; a gap shows the value before it."""
    begin_s = points[0].uptime_s
    span_s = (points[-1].uptime_s - begin_s) or 1.0
    columns: list[int | None] = [None] * width
    for point in points:
        columns[min(width - 1, int((point.uptime_s - begin_s) / span_s * width))] = point.available_bytes
    values, last = [], points[0].available_bytes
    for value in columns:
        last = last if value is None else value
        values.append(last)
    return values


def _height(value: int, low: int, high: int, rows: int) -> int:
    """Eighths of a row above the bottom; what is there shows at least one."""
    if high <= low:
        return rows * _STEPS
    return max(1, round((value - low) / (high - low) * rows * _STEPS))

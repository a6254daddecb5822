"""How a limit of memory is best spent on tables for several sets of bases. Plain numbers, no device needed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kernels.cuda.msm_shape import CURVES, choose_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernels.cuda.msm_shape import Shape
    from kernels.interface import Group

MOST_TABLES = 8


def split_limit(sets: Sequence[tuple[Group, int, int]], limit_bytes: int) -> list[int]:
    """Share a limit out so that MSMs against all sets take the least time, by the model of ``msm_shape``.

    Again and again the step is taken that saves the most time a byte.

    Args:
        sets: Group, number of points, and how many such sets there are: those get the same.
        limit_bytes: What all of them may take: points, images and tables.

    Returns:
        ``table_limit_bytes`` of each such set.
    """
    chosen = [_shape(group, n, 0) for group, n, _ in sets]
    left_bytes = limit_bytes - sum(count * _bytes(shape) for (*_, count), shape in zip(sets, chosen, strict=True))
    while True:
        steps = []
        for i, now in enumerate(chosen):
            for more in range(1, MOST_TABLES):
                step = _shape(now.group, now.n_points, now.tables - 1 + more)
                cost_bytes = _bytes(step) - _bytes(now)
                if cost_bytes > 0 and sets[i][2] * cost_bytes <= left_bytes and step.cost_s < now.cost_s:
                    steps.append(((now.cost_s - step.cost_s) / cost_bytes, i, step))
        if not steps:
            break
        _, i, step = max(steps, key=lambda found: found[0])
        left_bytes -= sets[i][2] * (_bytes(step) - _bytes(chosen[i]))
        chosen[i] = step
    return [_bytes(shape) - _bytes(_shape(shape.group, shape.n_points, 0)) for shape in chosen]


@cache
def _shape(group: Group, n_points: int, more_tables: int) -> Shape:
    return choose_shape(group, n_points, more_tables * n_points * CURVES[group].record_bytes)


def _bytes(shape: Shape) -> int:
    return shape.n_records * shape.curve.record_bytes

"""How many scalars of a vector are wide: few in a witness, which is mostly zeros and ones, so that small windows do."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from kernels.cuda.arrays import address
from kernels.cuda.msm import Kernels
from kernels.cuda.msm_shape import MAX_ENTRIES, choose_shape

if TYPE_CHECKING:
    from kernels.cuda.msm_shape import Shape
    from kernels.cuda.workspace import Workspace
    from kernels.interface import FrPlain

NARROW_BITS, SMALLEST_WINDOW_BITS = 16, 13
FEWEST = 1 << 12
"""Scalars that are worth the count."""


class WideScalars:
    """Counts of vectors that were put on the device; what was written there later costs time, not correctness."""

    def __init__(self) -> None:
        self._counts: WeakKeyDictionary[FrPlain, int] = WeakKeyDictionary()

    def count(self, workspace: Workspace, scalars: FrPlain) -> None:
        """Count those of a vector on the device; waits for it."""
        n = len(scalars)
        if n < FEWEST:
            return
        found = workspace.array(1, 1, "a number of scalars")
        found.fill(0)
        launch = Kernels(workspace.device, "g1").launch
        launch("count_wide", n, 256, n, np.uint32(NARROW_BITS), address(scalars), found.data.ptr)
        self._counts[scalars] = int(found.get()[0, 0])

    def of(self, scalars: FrPlain) -> int:
        """Return the count, or the length of a vector that was not counted."""
        return self._counts.get(scalars, len(scalars))


def fit_windows(shape: Shape, n_wide: int) -> Shape:
    """Choose the windows of an MSM by the number of wide scalars; tables fit those of their own alone."""
    if shape.tables > 1 or n_wide >= shape.n_points:
        return shape
    step = 1 << max(0, n_wide.bit_length() - 3)
    return _fitted(shape, -(-n_wide // step) * step)


@lru_cache(maxsize=256)
def _fitted(shape: Shape, n_wide: int) -> Shape:
    few = choose_shape(shape.group, n_wide, 0)
    bits = min(max(SMALLEST_WINDOW_BITS, few.window_bits), shape.window_bits)
    fitted = replace(few, n_points=shape.n_points, window_bits=bits)
    return fitted if fitted.max_entries <= MAX_ENTRIES else shape

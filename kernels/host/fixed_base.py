"""Many multiples of one point, on CPU threads."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np

from kernels.host.library import load_library
from kernels.interface import FrPlain, G1Affine, G2Affine

PointsT = TypeVar("PointsT", G1Affine, G2Affine)

SCALAR_BITS = 255
MAX_TABLE_BYTES = 32 * 2**20  # larger tables save additions and lose more to memory that no cache holds


class FixedBase(Generic[PointsT]):
    """A point with a table of its multiples.

    Args:
        point: One point on the curve, not infinity.
        n_expected: How many multiples will be asked for; decides the size of the table.
        threads: CPU threads that one operation uses.

    Attributes:
        bits: Of a window.
        table: ``n_windows(bits)`` rows of 2^bits - 1 points, as kernels/src/include/fixed_base.hpp wants them.

    Raises:
        KernelError: The library is missing, or there is not enough memory or threads.
    """

    def __init__(self, point: PointsT, n_expected: int, threads: int) -> None:
        if len(point) != 1 or not point.limbs.any():
            raise ValueError("a fixed base is one point that is not infinity")
        self._kind: type[PointsT] = type(point)
        self._group = "g1" if self._kind is G1Affine else "g2"
        self._threads = threads
        self._library = load_library()
        self.bits: int = best_bits(n_expected, point.n_bytes)
        n_table = n_windows(self.bits) * (2**self.bits - 1)
        self.table = np.empty((n_table, self._kind.width), dtype=np.uint64)
        self._library.call_with_best_leaf(
            f"cuzkops_fixed_base_table_{self._group}", point.limbs, self.bits, threads, self.table
        )

    def multiples(self, scalars: FrPlain) -> PointsT:
        """Multiply the point with each scalar.

        Args:
            scalars: n elements, each below r.

        Returns:
            n points: scalars[i] * point.

        Raises:
            KernelError: There is not enough memory or threads.
        """
        out = np.empty((len(scalars), self._kind.width), dtype=np.uint64)
        arguments = (self.table, self.bits, scalars.limbs, len(scalars), self._threads, out)
        self._library.call_with_best_leaf(f"cuzkops_fixed_base_{self._group}", *arguments)
        points: PointsT = self._kind(out)
        return points


def n_windows(bits: int) -> int:
    """Windows of ``bits`` bits in a scalar: the mixed additions of one multiple."""
    return -(-SCALAR_BITS // bits)


def best_bits(n: int, point_bytes: int) -> int:
    """The window with the fewest additions for the table and n multiples, within ``MAX_TABLE_BYTES``."""
    fitting = [b for b in range(1, 17) if n_windows(b) * 2**b * point_bytes <= MAX_TABLE_BYTES]
    return min(fitting, key=lambda bits: n_windows(bits) * (n + 2**bits))

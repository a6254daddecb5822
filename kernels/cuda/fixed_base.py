"""Many multiples of one point on a device; the host makes the table for them, in a fraction of a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from kernels.cuda.arrays import address, check_alignment, check_place, copy_in, copy_out, is_on_device, to_device
from kernels.host import fixed_base
from kernels.interface import FrPlain, G1Affine, G2Affine

if TYPE_CHECKING:
    from kernels.cuda.workspace import Workspace

PointsT = TypeVar("PointsT", G1Affine, G2Affine)

EACH = 4
"""Multiples of a thread; kernels/src/cuda/fixed_base.cuh has the same number."""
_THREADS = 128


class FixedBase(Generic[PointsT]):
    """A point with a table of its multiples in the memory of a device.

    Args:
        workspace: Where the table is, and what gives the memory for results.
        point: One point of the host, on the curve and not infinity.
        n_expected: How many multiples will be asked for; decides the size of the table.
        threads: CPU threads that make the table.

    Raises:
        KernelError: There is not enough memory, or the host library is missing.
    """

    def __init__(self, workspace: Workspace, point: PointsT, n_expected: int, threads: int) -> None:
        self._workspace = workspace
        self._kind: type[PointsT] = type(point)
        there = fixed_base.FixedBase(point, n_expected, threads)
        self._bits: int = there.bits
        with workspace.device.running("a table of multiples", bits=there.bits) as stream:
            self._table: Any = workspace.take(there.table.nbytes, f"a table of {len(there.table)} multiples")
            copy_in(int(self._table.ptr), there.table)
            stream.synchronize()

    def multiples(self, scalars: FrPlain) -> PointsT:
        """Multiply the point with each scalar.

        Args:
            scalars: n elements, each below r, on the host or on the device.

        Returns:
            n points, scalars[i] * point, on the side of the scalars.

        Raises:
            KernelError: There is not enough memory, or the kernel failed.
        """
        n, width = len(scalars), self._kind.width
        check_place(self._workspace, scalars)
        check_alignment(scalars)
        with self._workspace.device.running("multiples", n=n) as stream:
            there: FrPlain = to_device(self._workspace, scalars, f"{n} scalars")
            points: Any = self._kind(self._workspace.array(n, width, f"{n} multiples of a point"))
            if n:
                self._launch(address(there), n, address(points))
            if not is_on_device(scalars):
                on_host = self._kind(np.empty((n, width), dtype=np.uint64))
                copy_out(on_host, address(points))
                points = on_host
            stream.synchronize()
        result: PointsT = points
        return result

    def _launch(self, scalars: int, n: int, points: int) -> None:
        stage = "fixed_base_g1" if self._kind is G1Affine else "fixed_base_g2"
        kernel = self._workspace.device.kernel(stage, "cuzkops_multiples")
        table, bits = np.uint64(self._table.ptr), np.uint32(self._bits)
        arguments = (table, bits, np.uint64(scalars), np.uint64(n), np.uint64(points))
        kernel((-(-n // (_THREADS * EACH)),), (_THREADS,), arguments)

"""Bases that do not fit on the device: they stay in page-locked memory of the host and come piece by piece.

While the MSM of a piece is computed the next one is copied. Pieces have the same windows, so that the sums of each bit
of the buckets' numbers are added up over all pieces, and the doublings at the end are done once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kernels.cuda.arrays import copy_in, copying
from kernels.cuda.device import cupy
from kernels.cuda.msm import Kernels, Run
from kernels.cuda.msm_shape import CURVES, Shape, choose_shape
from kernels.interface import Bases, G1Affine, G2Affine, KernelError

if TYPE_CHECKING:
    from kernels.cuda.device import Device, Phases
    from kernels.cuda.workspace import Workspace
    from kernels.interface import Group, Limbs

PointsT = TypeVar("PointsT", G1Affine, G2Affine)
SMALLEST_PIECE = 1 << 10
"""Points: a limit that has no room for them is refused."""


@dataclass(frozen=True, eq=False)
class StreamedBases(Bases[PointsT]):
    """Points in page-locked memory of the host; the handle keeps nothing on the device.

    Args:
        points: All points, infinities before them included.
        shape: How an MSM over one piece is cut.
    """

    points: Limbs
    shape: Shape

    @property
    def n_pieces(self) -> int:
        """How often an MSM copies."""
        return -(-self.n // self.shape.n_points)


def keep_on_host(device: Device, points: PointsT, held_limit_bytes: int, n_before: int) -> StreamedBases[PointsT]:
    """Hold points for MSMs that take ``held_limit_bytes`` of the device for them: see ``Backend.load_bases``.

    Raises:
        KernelError: The limit has no room for a piece, or there is not enough page-locked memory.
    """
    kind = type(points)
    group: Group = "g1" if kind is G1Affine else "g2"
    n = n_before + len(points)
    point_bytes = 8 * kind.width + CURVES[group].record_bytes
    most = held_limit_bytes // point_bytes
    if most < SMALLEST_PIECE:
        least_bytes = SMALLEST_PIECE * point_bytes
        raise KernelError(f"{held_limit_bytes} bytes for bases of {group}: a piece of them takes {least_bytes}")
    with device.running("keeping bases on the host", n=n):
        memory = cupy().cuda.PinnedMemoryPointer(cupy().cuda.PinnedMemory(8 * kind.width * n), 0)
        held = np.frombuffer(memory, dtype=np.uint64, count=kind.width * n).reshape(n, kind.width)
        held[:n_before] = 0
        held[n_before:] = points.limbs if isinstance(points.limbs, np.ndarray) else points.limbs.get()
    n_pieces = -(-n // most)
    return StreamedBases(kind, n, 0, held, choose_shape(group, -(-n // n_pieces), 0))


def put_sum(workspace: Workspace, bases: StreamedBases[Any], places: tuple[int, int], parts: Phases) -> None:
    """Put an MSM on the current stream: of n scalars at one address of the device, to a point at another."""
    scalars, result = places
    shape = bases.shape
    kernels = Kernels(workspace.device, shape.group)
    points = workspace.take(shape.n_points * 8 * bases.kind.width, "a piece of bases")
    records = workspace.take(shape.n_records * shape.curve.record_bytes, "a piece of bases with their images")
    total: Any = None
    with copying() as copies:
        current = cupy().cuda.get_current_stream()
        free = current.record()  # what had this memory before is done with it
        for first in range(0, bases.n, shape.n_points):
            piece = bases.points[first : first + shape.n_points]
            copies.wait_event(free)
            with copies:
                copy_in(points.ptr, piece)
            current.wait_event(copies.record())
            parts.mark("copy_wait")
            run = Run(workspace.device, workspace, replace(shape, n_points=len(piece)))
            spacing = np.uint32(shape.table_spacing)
            kernels.launch("records", len(piece), 128, points.ptr, len(piece), np.uint32(1), spacing, records.ptr)
            free = current.record()  # the next piece may come: this one is in records
            slots = run.slots([records.ptr], scalars + 32 * first, parts)
            if total is None:
                total = slots
            else:
                n_slots = shape.modules * shape.window_bits
                kernels.launch("add_sums", n_slots, 128, total.ptr, slots.ptr, n_slots)
    run.finish(total, 1, result, parts)

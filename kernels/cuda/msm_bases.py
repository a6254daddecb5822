"""Bases of multi-scalar multiplications in the memory of a device, and the check of points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kernels.cuda.arrays import copy_in
from kernels.cuda.device import cupy
from kernels.cuda.msm import Kernels
from kernels.cuda.msm_shape import CURVES, Shape, choose_shape
from kernels.cuda.msm_streamed import StreamedBases, keep_on_host
from kernels.interface import Bases, G1Affine, G2Affine

if TYPE_CHECKING:
    from kernels.cuda.device import Device
    from kernels.cuda.workspace import Workspace
    from kernels.interface import Group

PointsT = TypeVar("PointsT", G1Affine, G2Affine)


@dataclass(frozen=True, eq=False)
class CudaBases(Bases[PointsT]):
    """Points on a device, with their images under the endomorphism and tables of multiples.

    Args:
        shape: How MSMs over them are cut; the tables fit no other.
        records: Device memory; see msm_shape.cuh.
    """

    shape: Shape
    records: Any


def load_bases(
    device: Device,
    workspace: Workspace,
    points: PointsT,
    table_limit_bytes: int = 0,
    *,
    shape: Shape | None = None,
    n_before: int = 0,
    held_limit_bytes: int | None = None,
) -> CudaBases[PointsT] | StreamedBases[PointsT]:
    """Hold points for MSMs: see ``Backend.load_bases``. The images by the endomorphism are always held with them.

    Args:
        device: That holds them.
        workspace: That gives the memory; of the same device.
        points: On the host or on the device.
        table_limit_bytes: What tables of multiples may take besides the points and their images.
        shape: How to cut, instead of the cheapest way; for measurements.
        n_before: Infinities before the points.
        held_limit_bytes: See ``Backend.load_bases``.

    Raises:
        KernelError: There is not enough memory, or a kernel failed.
        ValueError: There are too many points.
    """
    kind = type(points)
    group: Group = "g1" if kind is G1Affine else "g2"
    n = n_before + len(points)
    if held_limit_bytes is not None and n * CURVES[group].record_bytes > held_limit_bytes:
        return keep_on_host(device, points, held_limit_bytes, n_before)
    if held_limit_bytes is not None:
        table_limit_bytes = min(table_limit_bytes, held_limit_bytes - n * CURVES[group].record_bytes)
    shape = shape or choose_shape(group, n, table_limit_bytes)
    held_bytes = shape.n_records * shape.curve.record_bytes
    with device.running(f"loading bases of {group}", n=n, tables=shape.tables) as stream:
        records = workspace.take(max(held_bytes, 1), f"{n} bases of {group} with {shape.tables} tables")
        if n:
            limbs = on_device(workspace, points.limbs, f"{n} points of {group}", n_before)
            arguments = (limbs.data.ptr, n, np.uint32(shape.tables), np.uint32(shape.table_spacing), records.ptr)
            Kernels(device, group).launch("records", n, 128, *arguments)
            stream.synchronize()  # the points may be the caller's
    return CudaBases(kind, n, held_bytes, shape, records)


def first_invalid(device: Device, workspace: Workspace, points: G1Affine | G2Affine) -> int | None:
    """Index of the first point that is not sound: see ``Backend.first_invalid``."""
    group: Group = "g1" if isinstance(points, G1Affine) else "g2"
    n = len(points)
    if n == 0:
        return None
    with device.running(f"checking points of {group}", n=n) as stream:
        first = workspace.array(1, 1, "an index")
        copy_in(first.data.ptr, np.array([n], dtype=np.uint64))
        limbs = on_device(workspace, points.limbs, f"{n} points of {group}")
        Kernels(device, group).launch("first_invalid", n, 128, limbs.data.ptr, n, first.data.ptr)
        stream.synchronize()
        found = int(first.get()[0, 0])
    return None if found == n else found


def on_device(workspace: Workspace, limbs: Any, what: str, n_before: int = 0) -> Any:
    """Return the array itself where it is on the device, else a copy there, behind rows of zeros.

    Kernels read 16 bytes at a time, so that an array that starts elsewhere is copied too.
    """
    on_host = isinstance(limbs, np.ndarray)
    if not on_host and not n_before and limbs.data.ptr % 16 == 0:
        return limbs
    copy = workspace.array(max(n_before + len(limbs), 1), limbs.shape[1], what)
    stream = cupy().cuda.get_current_stream()
    if n_before:
        copy[:n_before].fill(0)
    there = copy[n_before : n_before + len(limbs)]
    if len(limbs) and on_host:
        there.set(limbs, stream=stream)
    elif len(limbs):
        there.data.copy_from_device_async(limbs.data, limbs.nbytes, stream)
    return copy

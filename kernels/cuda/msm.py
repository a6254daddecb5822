"""Multi-scalar multiplication on a device: the order of the kernels of kernels/src/cuda/msm_*.cuh, and their memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kernels.cuda.device import Phases, cupy
from kernels.cuda.msm_accumulate import MSM_THREADS, Accumulation, choose_chunks
from kernels.cuda.msm_shape import SHORTEST_SEGMENT, Shape, choose_shape
from kernels.interface import Bases, FrPlain, G1Affine, G2Affine

if TYPE_CHECKING:
    from kernels.cuda.device import Device
    from kernels.cuda.workspace import Workspace
    from kernels.interface import Group, Timer

PointsT = TypeVar("PointsT", G1Affine, G2Affine)

SORT_THREADS, SORTED_AT_ONCE, MOST_TILE_BITS = 1024, 16384, 11  # of msm_sort.cuh
MODULE_TILES, TILE_ENTRIES = 1024, 2048  # tiles of a module at most, and entries of one that are worth a block
SLOT_THREADS, FINISH_THREADS = 128, 128
LINE_THREADS, LONGEST_PART = 1 << 16, 32  # parts of lines: about as many as fill the device, and how long at most
SLOT_SUMS = 512  # that a block adds up, 4 for each thread
STAGE_OF_KERNEL = {  # those of the stage msm_GROUP are not named
    "accumulate": "accumulate",
    **dict.fromkeys(("count_final", "place_final", "plan_pairs", "go_forwards", "invert", "go_backwards"), "affine"),
}


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
    device: Device, workspace: Workspace, points: PointsT, table_limit_bytes: int = 0, shape: Shape | None = None
) -> CudaBases[PointsT]:
    """Hold points for MSMs: see ``Backend.load_bases``. The images by the endomorphism are always held with them.

    Args:
        device: That holds them.
        workspace: That gives the memory; of the same device.
        points: On the host or on the device.
        table_limit_bytes: What tables of multiples may take besides the points and their images.
        shape: How to cut, instead of the cheapest way; for measurements.

    Raises:
        KernelError: There is not enough memory, or a kernel failed.
        ValueError: There are too many points.
    """
    kind = type(points)
    group: Group = "g1" if kind is G1Affine else "g2"
    n = len(points)
    shape = shape or choose_shape(group, n, table_limit_bytes)
    held_bytes = shape.n_records * shape.curve.record_bytes
    with device.running(f"loading bases of {group}", n=n, tables=shape.tables) as stream:
        records = workspace.take(max(held_bytes, 1), f"{n} bases of {group} with {shape.tables} tables")
        if n:
            limbs = _on_device(workspace, points.limbs, f"{n} points of {group}")
            arguments = (limbs.data.ptr, n, np.uint32(shape.tables), np.uint32(shape.table_spacing), records.ptr)
            _Kernels(device, group).launch("records", n, 128, *arguments)
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
        first.fill(n)
        limbs = _on_device(workspace, points.limbs, f"{n} points of {group}")
        _Kernels(device, group).launch("first_invalid", n, 128, limbs.data.ptr, n, first.data.ptr)
        stream.synchronize()
        found = int(first.get()[0, 0])
    return None if found == n else found


def msm(
    device: Device,
    workspace: Workspace,
    bases: Bases[PointsT],
    scalars: FrPlain,
    *,
    out: PointsT | None = None,
    stream: Any | None = None,
    timer: Timer | None = None,
    stages: Timer | None = None,
) -> PointsT:
    """Sum of scalars[i] * bases[i]: see ``Backend.msm``.

    Args:
        device: Of the bases.
        workspace: That gives the memory; of the same device.
        bases: A handle of ``load_bases``.
        scalars: On the device, or on the host: then the call copies them and waits for the result.
        out: One point that takes the result, on the side of the scalars.
        stream: CUDA stream; None is CuPy's current one.
        timer: Phases ``h2d`` (scalars on the host only) and ``msm``, by CUDA events.
        stages: Phases ``sort``, ``accumulate``, ``reduce`` and ``finish`` of the same time.

    Returns:
        One affine point, on the side of the scalars.

    Raises:
        KernelError: There is not enough memory, or a kernel failed.
        ValueError: Bases and scalars do not fit.
    """
    if not isinstance(bases, CudaBases):
        raise TypeError("these bases belong to another backend")
    if len(scalars) != bases.n:
        raise ValueError(f"{len(scalars)} scalars for {bases.n} bases")
    cp = cupy()
    on_host = isinstance(scalars.limbs, np.ndarray)
    with device.running("msm", stream, n=bases.n, tables=bases.shape.tables) as used:
        result = workspace.array(1, bases.kind.width, "the result of an MSM")
        if out is not None and not on_host:
            result = out.limbs
        phases, parts = Phases(timer), Phases(stages)
        limbs = _on_device(workspace, scalars.limbs, f"{bases.n} scalars")
        if on_host:
            phases.mark("h2d")
        if bases.n:
            _Run(device, workspace, bases.shape).sum(bases.records.ptr, limbs.data.ptr, result.data.ptr, parts)
        else:
            result.fill(0)
        phases.mark("msm")
        if on_host:
            host = np.empty((1, bases.kind.width), dtype=np.uint64) if out is None else out.limbs
            cp.asnumpy(result, stream=used, out=host)
            used.synchronize()
            result = host
        phases.add_up()
        parts.add_up()
    return out if out is not None else bases.kind(result)


class _Kernels:
    """The kernels of a group, launched on the current stream."""

    def __init__(self, device: Device, group: Group) -> None:
        self.device, self.group = device, group

    def launch(
        self, name: str, n_threads: int, block: int, *arguments: Any, rows: int = 1, shared_bytes: int = 0
    ) -> None:
        """Launch one; Python integers are passed as 64-bit numbers."""
        stage = "_".join(filter(None, ("msm", self.group, STAGE_OF_KERNEL.get(name))))
        kernel = self.device.kernel(stage, f"cuzkops_msm_{name}", shared_bytes)
        passed = tuple(np.uint64(value) if isinstance(value, int) else value for value in arguments)
        kernel((-(-n_threads // block), rows), (block,), passed, shared_mem=shared_bytes)


def tile_bits(shape: Shape) -> int:
    """Choose the size of the tiles that entries are sorted by first: see msm_sort.cuh."""
    bits = max(0, shape.window_bits - 1 - (MODULE_TILES.bit_length() - 1))
    while bits < MOST_TILE_BITS and shape.max_entries < TILE_ENTRIES * (shape.n_buckets >> bits):
        bits += 1
    return bits


class _Run:
    """One MSM: memory from the workspace, then one kernel after another on the current stream."""

    def __init__(self, device: Device, workspace: Workspace, shape: Shape) -> None:
        self.workspace, self.shape = workspace, shape
        self.launch = _Kernels(device, shape.group).launch
        self.sum_bytes = 4 * shape.curve.coordinate_bytes
        memory_bytes = min(device.total_bytes, workspace.limit_bytes or device.total_bytes)
        chunks = choose_chunks(shape, memory_bytes)
        self.accumulation = Accumulation(shape, self.launch, self._take, device.n_multiprocessors, chunks)

    def sum(self, records: int, scalars: int, result: int, parts: Phases) -> None:
        """Put the whole MSM on the stream; the addresses are those of device memory."""
        plan = self._take(8, "plan")
        entries, offsets = self._sort(scalars, plan)
        parts.mark("sort")
        buckets = self.accumulation.sums(records, plan, entries, offsets)
        parts.mark("accumulate")
        slots = self._reduce(buckets, offsets)
        parts.mark("reduce")
        modules, bits = np.uint32(self.shape.modules), np.uint32(self.shape.window_bits)
        self.launch("finish", FINISH_THREADS, FINISH_THREADS, slots.ptr, modules, bits, result)
        parts.mark("finish")

    def _sort(self, scalars: int, plan: Any) -> tuple[Any, Any]:
        """Split scalars, sort their digits by tiles of buckets, and each tile by buckets."""
        shape, n = self.shape, self.shape.n_points
        bits = tile_bits(shape)
        n_tiles = -(-shape.n_buckets >> bits)
        parts, tiles = self._take(32 * n, "parts of scalars"), self._take(4 * n_tiles, "tiles")
        tiles.memset_async(0, 4 * n_tiles)
        self.launch("split", n, 256, n, scalars, parts.ptr)
        cut = (n, np.uint32(shape.window_bits), np.uint32(shape.windows), np.uint32(shape.modules), parts.ptr)
        n_threads = -(-n * shape.curve.images * SORT_THREADS // SORTED_AT_ONCE)
        words = -(-shape.n_buckets // shape.modules >> bits) + 1
        options = {"rows": shape.windows, "shared_bytes": 4 * words}
        self.launch("count_tiles", n_threads, SORT_THREADS, *cut, np.uint32(bits), tiles.ptr, **options)
        limits = (np.uint32(n_tiles), np.uint32(SHORTEST_SEGMENT), np.uint32(self.accumulation.n_segments), plan.ptr)
        self.launch("scan_tiles", SORT_THREADS, SORT_THREADS, tiles.ptr, *limits)
        in_tiles = self._take(8 * shape.max_entries, "entries in tiles")
        options["shared_bytes"] = 8 * (SORTED_AT_ONCE + MODULE_TILES + 1)  # the most: a kernel is told only once
        arguments = (*cut, np.uint32(bits), tiles.ptr, in_tiles.ptr)
        self.launch("place_in_tiles", n_threads, SORT_THREADS, *arguments, **options)
        offsets, entries = self._take(4 * shape.n_buckets + 4, "offsets"), self._take(4 * shape.max_entries, "entries")
        found = (np.uint32(bits), np.uint32(shape.n_buckets), offsets.ptr, entries.ptr)
        self.launch("sort_tiles", n_tiles * SORT_THREADS, SORT_THREADS, in_tiles.ptr, tiles.ptr, *found)
        return entries, offsets

    def _reduce(self, buckets: Any, offsets: Any) -> Any:
        """Sum the lines of the matrix of buckets, then the lines of each bit of their numbers."""
        bits, modules = self.shape.window_bits, self.shape.modules
        n_columns, n_rows = 1 << bits // 2, 1 << (bits - 1 - bits // 2)
        length = 1
        while length < min(n_rows, LONGEST_PART) and 2 * self.shape.n_buckets >= 2 * length * LINE_THREADS:
            length *= 2
        row_parts, column_parts = n_columns // length, n_rows // length
        n_sums = modules * 2 * n_rows * n_columns // length
        cut = (np.uint32(bits), np.uint32(modules))
        sums = self._take(self.sum_bytes * n_sums, "lines of buckets")
        parts = (np.uint32(row_parts), np.uint32(column_parts))
        self.launch("sum_lines", n_sums, MSM_THREADS, *cut, *parts, buckets.ptr, offsets.ptr, sums.ptr)
        while column_parts > 1 and n_rows * row_parts > SLOT_SUMS:
            count = min(column_parts, 8)
            n_sums, row_parts, column_parts = n_sums // count, row_parts // count, column_parts // count
            out = self._take(self.sum_bytes * n_sums, "lines of buckets")
            self.launch("sum_neighbours", n_sums, MSM_THREADS, sums.ptr, out.ptr, np.uint32(count), n_sums)
            sums = out
        parts = (np.uint32(row_parts), np.uint32(column_parts))
        slots = self._take(self.sum_bytes * modules * bits, "slots")
        self.launch("sum_slots", modules * bits * SLOT_THREADS, SLOT_THREADS, *cut, *parts, sums.ptr, slots.ptr)
        return slots

    def _take(self, n_bytes: int, what: str) -> Any:
        return self.workspace.take(n_bytes, f"an MSM of {self.shape.n_points} in {self.shape.group}: {what}")


def _on_device(workspace: Workspace, limbs: Any, what: str) -> Any:
    """Return the array itself where it is on the device, else a copy there; kernels read 16 bytes at a time."""
    on_host = isinstance(limbs, np.ndarray)
    if not on_host and limbs.data.ptr % 16 == 0:
        return limbs
    copy = workspace.array(max(len(limbs), 1), limbs.shape[1], what)
    stream = cupy().cuda.get_current_stream()
    if len(limbs) and on_host:
        copy[: len(limbs)].set(limbs, stream=stream)
    elif len(limbs):
        copy.data.copy_from_device_async(limbs.data, limbs.nbytes, stream)
    return copy

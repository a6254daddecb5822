"""Multi-scalar multiplication on a device: the order of the kernels of kernels/src/cuda/msm_*.cuh, and their memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.cuda.msm_accumulate import GROUP_LANES, MSM_THREADS, Accumulation, choose_chunks
from kernels.cuda.msm_shape import SHORTEST_SEGMENT, Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernels.cuda.device import Device, Phases
    from kernels.cuda.workspace import Workspace
    from kernels.interface import Group

SORT_THREADS, SORTED_AT_ONCE, MOST_TILE_BITS = 1024, 16384, 11  # of msm_sort.cuh
MODULE_TILES, TILE_ENTRIES = 1024, 2048  # tiles of a module at most, and entries of one that are worth a block
SLOT_THREADS, COMBINE_THREADS = 256, 64  # of msm_g1.cu and msm_g2.cu, and of msm_finish.cuh
FINISH_THREADS: dict[Group, int] = {"g1": 160, "g2": COMBINE_THREADS}  # of msm_g1.cu and msm_g2.cu
LINE_THREADS, LONGEST_PART = 1 << 15, 32  # for lines: about as many as fill the device, and buckets of a part at most
FEW_BUCKETS = 1 << 16  # whose lines are summed up by groups of lanes
SLOT_SUMS = 512  # that a block adds up, 8 for each group of lanes
STAGE_OF_KERNEL = {  # those of the stage msm_GROUP are not named
    **dict.fromkeys(("accumulate", "sum_lines"), "accumulate"),
    **dict.fromkeys(("count_final", "place_final", "plan_pairs", "go_forwards", "invert", "go_backwards"), "affine"),
}


@dataclass(frozen=True)
class Lines:
    """The matrices of a set's buckets, and how its lines are cut: see msm_reduce.cuh.

    Args:
        modules: Matrices, those of all vectors.
        n_rows: Rows of each.
        row_parts: Parts of a row.
        column_parts: Parts of a column.
        n_sums: Parts in all.
    """

    modules: int
    n_rows: int
    row_parts: int
    column_parts: int
    n_sums: int

    @property
    def parts(self) -> tuple[np.uint32, np.uint32]:
        """The arguments of the kernels."""
        return np.uint32(self.row_parts), np.uint32(self.column_parts)

    def joined(self, count: int) -> Lines:
        """Cut the lines into parts that are ``count`` times as long."""
        shorter = (self.row_parts // count, self.column_parts // count, self.n_sums // count)
        return Lines(self.modules, self.n_rows, *shorter)


class Kernels:
    """The kernels of a group, launched on the current stream."""

    def __init__(self, device: Device, group: Group) -> None:
        self.device, self.group = device, group

    def launch(
        self,
        name: str,
        n_threads: int,
        block: int,
        *arguments: Any,
        rows: int = 1,
        layers: int = 1,
        shared_bytes: int = 0,
    ) -> None:
        """Launch one; Python integers are passed as 64-bit numbers."""
        stage = "_".join(filter(None, ("msm", self.group, STAGE_OF_KERNEL.get(name))))
        kernel = self.device.kernel(stage, f"cuzkops_msm_{name}", shared_bytes)
        passed = tuple(np.uint64(value) if isinstance(value, int) else value for value in arguments)
        kernel((-(-n_threads // block), rows, layers), (block,), passed, shared_mem=shared_bytes)


def tile_bits(shape: Shape) -> int:
    """Choose the size of the tiles that entries are sorted by first: see msm_sort.cuh."""
    bits = max(0, shape.window_bits - 1 - (MODULE_TILES.bit_length() - 1))
    while bits < MOST_TILE_BITS and shape.max_entries < TILE_ENTRIES * (shape.n_buckets >> bits):
        bits += 1
    return bits


class Run:
    """MSMs over the same scalars: memory from the workspace, then one kernel after another on the current stream."""

    def __init__(self, device: Device, workspace: Workspace, shape: Shape) -> None:
        self.workspace, self.shape = workspace, shape
        self.launch = Kernels(device, shape.group).launch
        self.sum_bytes = 4 * shape.curve.coordinate_bytes
        memory_bytes = min(device.total_bytes, workspace.limit_bytes or device.total_bytes)
        chunks = choose_chunks(shape, memory_bytes)
        self.accumulation = Accumulation(shape, self.launch, self._take, device.n_multiprocessors, chunks)

    def sum(self, sets: Sequence[int], scalars: int, results: int, parts: Phases) -> None:
        """Put the MSMs of all vectors against each set of records on the stream.

        Args:
            sets: Addresses of the records of each set of bases, all of the same shape.
            scalars: Address of the vectors.
            results: Address of a point for each set and vector, the vectors of a set in a row.
            parts: Gets the stages.
        """
        slots = self.slots(sets, scalars, parts)
        self.finish(slots, len(sets) * self.shape.n_vectors, results, parts)

    def slots(self, sets: Sequence[int], scalars: int, parts: Phases) -> Any:
        """Put all but the last stage on the stream: see ``sum``; returns the block of the sums of each bit."""
        plan = self._take(8, "plan")
        entries, offsets = self._sort(scalars, plan)
        parts.mark("sort")
        lines = self._lines()
        sums = self._take(self.sum_bytes * lines.n_sums * len(sets), "lines of buckets")
        for i, records in enumerate(sets):
            buckets = self.accumulation.sums(records, plan, entries, offsets)
            parts.mark("accumulate")
            self._sum_lines(lines, buckets, offsets, sums.ptr + i * self.sum_bytes * lines.n_sums)
            parts.mark("reduce")
        slots = self._sum_slots(lines, sums, len(sets))
        parts.mark("reduce")
        return slots

    def finish(self, slots: Any, n_results: int, results: int, parts: Phases) -> None:
        """Put the last stage on the stream: from the slots of each result to an affine point."""
        modules, bits = np.uint32(self.shape.modules), np.uint32(self.shape.window_bits)
        n_blocks = n_results * self.shape.modules
        self.launch("combine_slots", n_blocks * COMBINE_THREADS, COMBINE_THREADS, slots.ptr, bits)
        n_threads = FINISH_THREADS[self.shape.group]
        self.launch("finish", n_results * n_threads, n_threads, slots.ptr, modules, bits, results)
        parts.mark("finish")

    def _sort(self, scalars: int, plan: Any) -> tuple[Any, Any]:
        """Split scalars, sort their digits by tiles of buckets, and each tile by buckets."""
        shape, n, n_scalars = self.shape, self.shape.n_points, self.shape.n_points * self.shape.n_vectors
        bits = tile_bits(shape)
        n_tiles = -(-shape.n_buckets >> bits)
        parts, indices = self._take(32 * n_scalars, "parts of scalars"), self._take(4 * n_scalars, "numbers of scalars")
        tiles, counts = self._take(4 * n_tiles, "tiles"), self._take(8 * shape.n_vectors, "numbers of parts")
        tiles.memset_async(0, 4 * n_tiles)
        counts.memset_async(0, 8 * shape.n_vectors)
        lists = (parts.ptr, indices.ptr, counts.ptr)
        self.launch("split", n, 256, n, np.uint32(shape.window_bits), scalars, *lists, rows=shape.n_vectors)
        cut = (n, np.uint32(shape.window_bits), np.uint32(shape.windows), np.uint32(shape.modules), *lists)
        n_threads = -(-n * shape.curve.images * SORT_THREADS // SORTED_AT_ONCE)
        words = max(1, 1 << shape.window_bits - 1 >> bits) + 1
        options = {"rows": shape.windows, "layers": shape.n_vectors, "shared_bytes": 4 * words}
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

    def _lines(self) -> Lines:
        """Cut the lines of the matrix of buckets into parts: see msm_reduce.cuh."""
        bits = self.shape.window_bits
        n_columns, n_rows = 1 << bits // 2, 1 << (bits - 1 - bits // 2)
        n_parts = LINE_THREADS // self._line_lanes
        length = 1
        while length < min(n_rows, LONGEST_PART) and self.shape.n_buckets >= length * n_parts:
            length *= 2
        modules = self.shape.modules * self.shape.n_vectors
        n_sums = modules * 2 * n_rows * n_columns // length
        return Lines(modules, n_rows, n_columns // length, n_rows // length, n_sums)

    @property
    def _line_lanes(self) -> int:
        """Lanes that sum up a part of a line."""
        return GROUP_LANES if self.shape.n_buckets <= FEW_BUCKETS else 1

    def _sum_lines(self, lines: Lines, buckets: Any, offsets: Any, sums: int) -> None:
        """Sum the parts of the lines of a set's buckets."""
        cut = (np.uint32(self.shape.window_bits), np.uint32(lines.modules), *lines.parts)
        name = "sum_lines" if self._line_lanes == 1 else "sum_lines_together"
        n_threads = self._line_lanes * lines.n_sums
        self.launch(name, n_threads, MSM_THREADS, *cut, buckets.ptr, offsets.ptr, sums)

    def _sum_slots(self, lines: Lines, sums: Any, n_sets: int) -> Any:
        """Sum the lines of each bit of the buckets' numbers, for all sets at once."""
        while lines.column_parts > 1 and lines.n_rows * lines.row_parts > SLOT_SUMS:
            count = min(lines.column_parts, 8)
            lines = lines.joined(count)
            n_out = n_sets * lines.n_sums
            out = self._take(self.sum_bytes * n_out, "lines of buckets")
            self.launch("sum_neighbours", GROUP_LANES * n_out, MSM_THREADS, sums.ptr, out.ptr, np.uint32(count), n_out)
            sums = out
        bits, modules = self.shape.window_bits, n_sets * lines.modules
        slots = self._take(self.sum_bytes * modules * bits, "slots")
        cut = (np.uint32(bits), np.uint32(modules), *lines.parts)
        self.launch("sum_slots", modules * bits * SLOT_THREADS, SLOT_THREADS, *cut, sums.ptr, slots.ptr)
        return slots

    def _take(self, n_bytes: int, what: str) -> Any:
        return self.workspace.take(n_bytes, f"an MSM of {self.shape.n_points} in {self.shape.group}: {what}")

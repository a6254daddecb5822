"""Sums of buckets: rounds of affine additions (msm_affine.cuh), and XYZZ for what they leave (msm_accumulate.cuh)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kernels.cuda.msm_shape import SHORTEST_SEGMENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernels.cuda.msm_shape import Shape

MSM_THREADS = 128
GROUP_LANES = 4  # of msm_together.cuh
WAVES = 2  # segments for each thread that is resident
JOINED = 16  # pieces that a round of msm_accumulate.cuh joins
PLAN_THREADS, PLANNED = 128, 8  # of msm_affine_plan.cuh
SCAN_THREADS, SCANNED = 1024, 8 * 1024
INVERTED_TOGETHER = 4  # of msm_affine.cuh
FEWEST_CHUNKS, MOST_CHUNKS = 1, 64
SCRATCH_SHARE = 8  # of the memory, one part in so many may lie between rounds
ELEMENT_BYTES, PAIR_BYTES = 48, 12


class Launch(Protocol):
    """Launches a kernel of the group on the current stream."""

    def __call__(self, name: str, n_threads: int, block: int, *arguments: Any, shared_bytes: int = 0) -> None:
        """Launch one by its name without the prefix."""


@dataclass(frozen=True)
class Chunks:
    """How entries are cut for affine rounds: see msm_affine_plan.cuh.

    Args:
        shape: Of the MSM.
        n_chunks: Equal parts of the entries.
    """

    shape: Shape
    n_chunks: int

    @property
    def n_entries(self) -> int:
        """The most entries of one chunk."""
        rounds = self.shape.rounds
        return -(-max(1, self.shape.max_entries) // self.n_chunks >> rounds) << rounds

    @property
    def n_pairs(self) -> int:
        """The most pairs of one round of a chunk."""
        return self.n_entries // 2

    @property
    def between_points(self) -> list[int]:
        """Places of the two memories that levels 1, 3, ... and 2, 4, ... of a chunk take in turn."""
        rounds = self.shape.rounds
        return [max(map(self._level_points, range(first, rounds, 2))) for first in (1, 2) if first < rounds]

    def _level_points(self, level: int) -> int:
        return (self.n_entries + ((1 << level) - 1) * (self.shape.n_buckets + 1) >> level) + 1

    @property
    def final_points(self) -> int:
        """The most points that all rounds of all chunks leave."""
        return (self.shape.max_entries >> self.shape.rounds) + self.shape.n_buckets + self.n_chunks

    @property
    def scratch_bytes(self) -> int:
        """Memory for a chunk: two levels, and pairs with the products and norms of their chains."""
        elements = 2 if self.shape.group == "g2" else 1
        pair_bytes = self.n_pairs * (PAIR_BYTES + ELEMENT_BYTES * elements)
        return pair_bytes + sum(self.between_points) * 2 * self.shape.curve.coordinate_bytes


def choose_chunks(shape: Shape, memory_bytes: int) -> Chunks | None:
    """Take the fewest chunks whose scratch memory is within its share of the memory.

    Returns:
        None where no rounds are wanted, or none fit: then everything is added up in XYZZ, which needs no such memory.
    """
    for n_chunks in range(FEWEST_CHUNKS, MOST_CHUNKS + 1) if shape.rounds else ():
        chunks = Chunks(shape, n_chunks)
        if chunks.scratch_bytes * SCRATCH_SHARE <= memory_bytes:
            return chunks
    return None


class Accumulation:
    """The sums of the buckets of one MSM.

    Args:
        shape: Of the MSM.
        launch: Launches a kernel.
        take: Gives memory: bytes, and what for.
        n_multiprocessors: Of the device.
        chunks: Of affine rounds; None does without those.
    """

    def __init__(
        self,
        shape: Shape,
        launch: Launch,
        take: Callable[[int, str], Any],
        n_multiprocessors: int,
        chunks: Chunks | None,
    ) -> None:
        self.shape, self.launch, self.take, self.chunks = shape, launch, take, chunks
        self.n_segments = WAVES * n_multiprocessors * shape.curve.threads_per_multiprocessor
        self.n_chains = n_multiprocessors * shape.curve.chains_per_multiprocessor
        self.point_bytes, self.sum_bytes = 2 * shape.curve.coordinate_bytes, 4 * shape.curve.coordinate_bytes

    def sums(self, records: int, plan: Any, entries: Any, offsets: Any) -> Any:
        """Put everything on the stream.

        Args:
            records: Address of the records of bases.
            plan: Memory of an ``MsmPlan``: how many entries there are.
            entries: In the order of their buckets.
            offsets: Where those of each bucket begin.

        Returns:
            Memory with a sum in XYZZ for each bucket that has entries.
        """
        if self.chunks is None:
            return self._add_segments(plan, entries.ptr, offsets, records)
        numbers = (self.shape.n_buckets, self.chunks.n_chunks, self.shape.rounds)
        cut = (plan.ptr, offsets.ptr, *map(np.uint32, numbers))
        final_offsets, final_plan = self._final_places(cut)
        points = self._add_pairs(self.chunks, (*cut, final_offsets.ptr), (records, entries.ptr))
        return self._add_segments(final_plan, 0, final_offsets, points.ptr)

    def _final_places(self, cut: tuple[Any, ...]) -> tuple[Any, Any]:
        """Count what the rounds will leave of each bucket."""
        n_blocks = self.shape.n_buckets // SCANNED + 1
        sums, final_plan = self.take(4 * n_blocks, "sums over buckets"), self.take(8, "plan")
        final_offsets = self.take(4 * self.shape.n_buckets + 4, "offsets")
        self.launch("count_final", n_blocks * SCAN_THREADS, SCAN_THREADS, *cut, sums.ptr)
        limits = (np.uint32(n_blocks), np.uint32(SHORTEST_SEGMENT), np.uint32(self.n_segments), final_plan.ptr)
        self.launch("scan_tiles", SCAN_THREADS, SCAN_THREADS, sums.ptr, *limits)
        self.launch("place_final", n_blocks * SCAN_THREADS, SCAN_THREADS, *cut, sums.ptr, final_offsets.ptr)
        return final_offsets, final_plan

    def _add_pairs(self, chunks: Chunks, cut: tuple[Any, ...], entries: tuple[int, int]) -> Any:
        """Halve what each bucket has, chunk by chunk and round by round."""
        rounds, n_pairs = self.shape.rounds, chunks.n_pairs
        final = self.take(self.point_bytes * chunks.final_points, "sums of pairs")
        counts = self.take(4 * rounds * chunks.n_chunks, "numbers of pairs")
        counts.memset_async(0, 4 * rounds * chunks.n_chunks)
        words, prefixes = self.take(PAIR_BYTES * n_pairs, "pairs"), self.take(ELEMENT_BYTES * n_pairs, "products")
        norms = self.take(ELEMENT_BYTES * n_pairs if self.shape.group == "g2" else 1, "norms")
        products = self.take(ELEMENT_BYTES * self.n_chains, "products of chains")
        between = [(self.take(self.point_bytes * n, "sums of pairs"), n) for n in chunks.between_points]
        buffers = {"shared_bytes": 4 * self.point_bytes * MSM_THREADS}  # a PairBuffer a thread
        chains = (np.uint32(self.n_chains), prefixes.ptr, norms.ptr, products.ptr)
        for chunk in range(chunks.n_chunks):
            source = (*entries, 0)
            for k in range(rounds):
                memory, plane = (final, 0) if k + 1 == rounds else between[k % 2]
                sums, count = (memory.ptr, 0, plane), counts.ptr + 4 * (chunk * rounds + k)
                arguments = (*source, *sums, words.ptr, np.uint32(n_pairs), count, *chains)
                n_planners = -(-chunks.n_entries // (PLANNED << k + 1))
                place = (np.uint32(chunk), np.uint32(k))
                self.launch("plan_pairs", n_planners, PLAN_THREADS, *cut, *place, *arguments)
                self.launch("go_forwards", self.n_chains, MSM_THREADS, *arguments, **buffers)
                self.launch("invert", -(-self.n_chains // INVERTED_TOGETHER), MSM_THREADS, *arguments)
                self.launch("go_backwards", self.n_chains, MSM_THREADS, *arguments, **buffers)
                source = sums
        return final

    def _add_segments(self, plan: Any, entries: int, offsets: Any, points: int) -> Any:
        """Add up segments in XYZZ, and join the pieces of buckets that lie in several of them."""
        shape, n_segments = self.shape, np.uint32(self.n_segments)
        buckets = self.take(self.sum_bytes * shape.n_buckets, "buckets")
        heads, tails = (self.take(self.sum_bytes * self.n_segments, "pieces of buckets") for _ in range(2))
        tail_bucket = self.take(4 * self.n_segments, "numbers of buckets")
        pieces = (buckets.ptr, heads.ptr, tails.ptr, tail_bucket.ptr, n_segments)
        sources = (plan.ptr, entries, offsets.ptr, np.uint32(shape.n_buckets), points)
        self.launch("accumulate", self.n_segments, MSM_THREADS, *sources, *pieces)
        if shape.max_entries > 2 * self.n_segments and shape.n_buckets < self.n_segments // 2:
            numbers = (np.uint32(shape.n_buckets), *pieces[:-1])
            self.launch("join_buckets", GROUP_LANES * shape.n_buckets, MSM_THREADS, plan.ptr, offsets.ptr, *numbers)
        stride, most_pieces = 1, min(self.n_segments, shape.max_entries // SHORTEST_SEGMENT + 1)
        while stride < most_pieces:
            self.launch("join", self.n_segments, MSM_THREADS, plan.ptr, offsets.ptr, *pieces, np.uint32(stride))
            stride *= JOINED
        return buckets

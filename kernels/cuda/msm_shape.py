"""How a multi-scalar multiplication is cut: windows, tables, buckets, threads. Plain numbers, no device needed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernels.interface import Group

MAX_RECORDS = 2**31  # an entry is a sign and 31 bits that select an image of a record
MAX_ENTRIES = 2**32 - 1  # places of entries are 32-bit numbers
MIN_WINDOW_BITS, MAX_WINDOW_BITS = 3, 22
MOST_ROUNDS = 8
ENTRIES_OF_A_CHUNK = 10**8  # about: see msm_accumulate.py


@dataclass(frozen=True)
class Curve:
    """What the shape of an MSM depends on in each group; times of an NVIDIA H200, docs/decisions/0003-msm.md.

    Args:
        images: Parts of a scalar, and multiples of a base by the endomorphism.
        scalar_bits: Bits of a part, its sign included.
        coordinate_bytes: One coordinate.
        record_bytes: A base with its images.
        sort_s: Seconds for sorting an entry, all multiprocessors at work.
        entry_s: Seconds for an affine point added to a bucket in XYZZ.
        pair_s: Seconds for two affine points added in a round.
        alone_s: Seconds for a point that has no neighbour in a round.
        round_s: Seconds of a round besides.
        bucket_s: Seconds for the two sums that a bucket takes part in.
        point_s: The same where all buckets are points that the rounds have left.
        bit_s: Seconds for the chains of additions that each bit of a digit makes longer.
        doubling_s: Seconds for a doubling in the last, serial stage.
        piece_s: Seconds for each piece that a bucket comes in.
        threads_per_multiprocessor: That are resident in the accumulation.
        chains_per_multiprocessor: That are resident in affine rounds.
    """

    images: int
    scalar_bits: int
    coordinate_bytes: int
    record_bytes: int
    sort_s: float
    entry_s: float
    pair_s: float
    alone_s: float
    round_s: float
    bucket_s: float
    point_s: float
    bit_s: float
    doubling_s: float
    piece_s: float
    threads_per_multiprocessor: int
    chains_per_multiprocessor: int


CURVES: dict[Group, Curve] = {
    "g1": Curve(
        images=2,
        scalar_bits=128,
        coordinate_bytes=48,
        record_bytes=144,
        sort_s=4.3e-11,
        entry_s=4.0e-10,
        pair_s=2.9e-10,
        alone_s=2e-10,
        round_s=1.5e-4,
        bucket_s=1.06e-9,
        point_s=7.9e-10,
        bit_s=3e-5,
        doubling_s=3.9e-6,
        piece_s=2e-5,
        threads_per_multiprocessor=384,
        chains_per_multiprocessor=512,
    ),
    "g2": Curve(
        images=4,
        scalar_bits=64,
        coordinate_bytes=96,
        record_bytes=768,
        sort_s=4.1e-11,
        entry_s=1.45e-9,
        pair_s=6.95e-10,
        alone_s=4e-10,
        round_s=1.5e-4,
        bucket_s=3.0e-9,
        point_s=2.7e-9,
        bit_s=5.5e-5,
        doubling_s=8e-6,
        piece_s=5e-5,
        threads_per_multiprocessor=256,
        chains_per_multiprocessor=256,
    ),
}
TYPICAL_SEGMENTS, SHORTEST_SEGMENT = 100_000, 8  # of the accumulation; shorter segments cost more pieces than they save


@dataclass(frozen=True)
class Shape:
    """The cut of one MSM: see kernels/src/cuda/msm_shape.cuh.

    Args:
        group: Of the bases.
        n_points: Bases and scalars.
        window_bits: Bits of a digit.
        tables: Multiples of each base that are held, the base itself included.
        n_vectors: Vectors of scalars that are sorted and added up together, each with buckets of its own.
        rounds: Of affine additions, before the rest is added up in XYZZ.
    """

    group: Group
    n_points: int
    window_bits: int
    tables: int
    n_vectors: int = 1
    rounds: int = 0

    @property
    def curve(self) -> Curve:
        """Constants of the group."""
        return CURVES[self.group]

    @property
    def windows(self) -> int:
        """Digits of a part of a scalar."""
        return -(-self.curve.scalar_bits // self.window_bits)

    @property
    def modules(self) -> int:
        """Sets of buckets of a vector: windows that have no table of their own."""
        return -(-self.windows // self.tables)

    @property
    def n_buckets(self) -> int:
        """Buckets of all modules and vectors."""
        return self.n_vectors * self.modules << (self.window_bits - 1)

    @property
    def max_entries(self) -> int:
        """Digits of all scalars."""
        return self.n_vectors * self.n_points * self.curve.images * self.windows

    @property
    def table_spacing(self) -> int:
        """Doublings from one table to the next."""
        return self.window_bits * self.modules

    @property
    def n_records(self) -> int:
        """Records of all tables."""
        return self.n_points * self.tables

    @property
    def cost_s(self) -> float:
        """A model of the time, to choose by; what all shapes have in common is left out."""
        curve = self.curve
        return (
            self.max_entries * curve.sort_s
            + self._rounds_s
            + self._left * curve.entry_s
            + self.n_buckets * (curve.point_s if self._leaves_points else curve.bucket_s)
            + self.window_bits * curve.bit_s
            + self.window_bits * (self.modules - 1) * curve.doubling_s
            + (self._pieces(self.max_entries, self.n_buckets) + self._top_pieces) * curve.piece_s
        )

    @property
    def _used_buckets(self) -> float:
        """Buckets that random scalars use: of the top window of those without tables few."""
        top = 2.0 ** min(self.curve.scalar_bits - 1 - self.window_bits * (self.windows - 1), self.window_bits - 1)
        unused = self.n_buckets // self.modules - self.n_vectors * top if self.tables == 1 else 0
        whole = self.n_buckets - unused
        return float(min(whole, self.max_entries))

    @property
    def _leaves_points(self) -> bool:
        """Whether the rounds leave one point of nearly all buckets, if scalars are random; the top window has few."""
        of_a_bucket = self.max_entries / self.n_buckets
        return of_a_bucket + 4 * math.sqrt(of_a_bucket) <= 1 << self.rounds

    @property
    def _left(self) -> float:
        """Points that the rounds leave, of buckets of average size."""
        of_a_bucket = self.max_entries / max(1.0, self._used_buckets) / (1 << self.rounds)
        return self._used_buckets * max(1.0, of_a_bucket + (0.5 if self.rounds else 0.0))

    @property
    def _rounds_s(self) -> float:
        curve, n_chunks = self.curve, 1 + self.max_entries // ENTRIES_OF_A_CHUNK
        pairs = max(0.0, self.max_entries - self._left)
        each_s = n_chunks * curve.round_s + self._used_buckets * curve.alone_s
        return pairs * curve.pair_s + self.rounds * each_s if self.rounds else 0.0

    @property
    def _top_pieces(self) -> float:
        """Pieces of the buckets of the top window, of which few are used where its digits have few bits left."""
        bits = self.curve.scalar_bits - 1 - self.window_bits * (self.windows - 1)
        return self._pieces(self.n_points * self.curve.images, 0.83 * 2**bits)

    def _pieces(self, n_entries: float, n_buckets: float) -> float:
        """Additions one after the other for a bucket of average size, 16 pieces a round."""
        segment = max(SHORTEST_SEGMENT, self._left / TYPICAL_SEGMENTS)
        pieces = n_entries / (1 << self.rounds) / n_buckets / segment
        return min(pieces, 16.0) + min(pieces / 16, 16.0) + min(pieces / 256, 16.0)


def choose_shape(group: Group, n_points: int, table_limit_bytes: int, n_vectors: int = 1) -> Shape:
    """Choose windows and tables for bases: the cheapest by the model within a limit of memory.

    Args:
        group: Of the bases.
        n_points: How many there are.
        table_limit_bytes: What multiples beyond the bases and their images may take.
        n_vectors: Vectors of scalars that are taken together.

    Raises:
        ValueError: There are more points than 31-bit numbers of images.
    """
    curve = CURVES[group]
    if n_points * curve.images > MAX_RECORDS:
        raise ValueError(
            f"an MSM in {group} on this backend takes up to {MAX_RECORDS // curve.images} points, not {n_points}"
        )
    one_table_bytes = max(1, n_points * curve.record_bytes)
    most = min(1 + table_limit_bytes // one_table_bytes, MAX_RECORDS // max(1, n_points * curve.images))
    shapes = [
        Shape(group, n_points, bits, tables, n_vectors, rounds)
        for bits in range(MIN_WINDOW_BITS, MAX_WINDOW_BITS + 1)
        for tables in _useful_tables(-(-curve.scalar_bits // bits), most)
        for rounds in range(MOST_ROUNDS + 1)
    ]
    fitting = [shape for shape in shapes if shape.max_entries <= MAX_ENTRIES]
    if not fitting:
        raise ValueError(f"an MSM of {n_points} points has more digits than 32-bit numbers can count")
    return min(fitting, key=lambda shape: (shape.cost_s, shape.tables))


def _useful_tables(windows: int, most: int) -> list[int]:
    """Numbers of tables up to a limit of which one less would mean more sets of buckets."""
    return sorted({tables for modules in range(1, windows + 1) if (tables := -(-windows // modules)) <= most})

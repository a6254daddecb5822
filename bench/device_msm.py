"""Multi-scalar multiplications: rows of bench/device.py."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import cupy as cp
import numpy as np
from device_rows import Bench, BenchError, Row, compared, overhead

from kernels.interface import FrPlain, G1Affine, G2Affine
from kernels.moduli import P
from prover.curve import generators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kernels.interface import Group

KINDS: dict[str, Any] = {"g1": G1Affine, "g2": G2Affine}
TABLE_BYTES = 48 << 30
MOST_DIFFERENT = 1 << 24


@dataclass(frozen=True)
class Case:
    """Sums of one kind.

    Args:
        group: ``"g1"`` or ``"g2"``.
        sizes: log2 of the numbers of points.
        goal: Of the ratio.
        floor: Of the ratio.
        table_bytes: Limit of tables of multiples.
        is_skewed: 90 % of the scalars are 0 or 1.
    """

    group: Group
    sizes: tuple[int, ...]
    goal: float
    floor: float
    table_bytes: int = 0
    is_skewed: bool = False

    @property
    def work(self) -> str:
        """Name of the row."""
        with_tables = " with tables" if self.table_bytes else ""
        return f"MSM {self.group.upper()}{with_tables}{', 90 % zero or one' if self.is_skewed else ''}"


CASES = [
    Case("g1", (14, 16, 18), 4, 2.5),
    Case("g1", (14, 16, 18), 6, 3.5, TABLE_BYTES),
    Case("g1", (20,), 3, 1.8),
    Case("g1", (20,), 4, 2, TABLE_BYTES),
    Case("g1", (22,), 2.6, 1.8),
    Case("g1", (22,), 2.6, 1.8, is_skewed=True),
    Case("g1", (24,), 2.2, 1.5),
    Case("g1", (24,), 2.5, 1.7, TABLE_BYTES),
    Case("g1", (26,), 2.2, 1.5),
    Case("g2", (16, 20, 24), 2.5, 1.5),
]


def msm_rows(bench: Bench) -> Iterator[tuple[str, Callable[[], Row]]]:
    """Sums with points and scalars on the device; the clock around the whole call, as for the peer."""
    for case in CASES:
        for log2_n in case.sizes:
            if log2_n <= bench.largest:
                yield case.work, partial(_sum, bench, case, log2_n)
    yield "overhead of Python, MSM", lambda: _overhead(bench, 10)


def points_on_device(bench: Bench, group: str, n: int) -> Any:
    """Put n points on the device: up to 2^24 random multiples of the generator, each time the same, repeated."""
    kept = bench.points.get(group)
    n_different = min(n, MOST_DIFFERENT)
    if kept is None or len(kept) < n_different:
        base: Any = bench.backend.fixed_base(generators()[group == "g2"], n_different)
        bench.points[group] = kept = base.multiples(FrPlain(cp.asarray(bench.random(n_different, seed=6)))).limbs
    return KINDS[group](kept[:n] if n <= len(kept) else cp.tile(kept, (n // len(kept), 1)))


def scalars_on_device(bench: Bench, n: int, *, is_skewed: bool = False) -> FrPlain:
    """Put n random scalars on the device, each time the same.

    All are different: a pair of a point and a scalar that comes again is a doubling, which costs both sides more.
    """
    limbs = cp.asarray(bench.random(n, seed=5))
    if is_skewed:
        draw = np.random.default_rng(4).random(n)
        limbs[cp.asarray(draw < 0.9)] = 0
        limbs[cp.asarray(draw < 0.45), 0] = 1
    return FrPlain(limbs)


def peer_sum(bench: Bench, points: Any, scalars: FrPlain) -> tuple[float | None, Any]:
    """Let the peer compute a sum: the median of its milliseconds, and the affine point; None without it."""
    if bench.peer is None:
        return None, None
    there = [ctypes.c_void_p(array.limbs.data.ptr) for array in (points, scalars)]
    width = points.width // 12
    result = ctypes.create_string_buffer(3 * 48 * width)
    ms = bench.peer_ms(f"peer_msm_g{width}", *there, ctypes.c_size_t(len(scalars)), result)
    return ms, _affine(bytes(result), width)


def _sum(bench: Bench, case: Case, log2_n: int) -> Row:
    n = 1 << log2_n
    points: Any = points_on_device(bench, case.group, n)
    scalars = scalars_on_device(bench, n, is_skewed=case.is_skewed)
    bases = bench.backend.load_bases(points, case.table_bytes)
    out = type(points)(cp.empty((1, points.width), dtype=np.uint64))
    ours = bench.wall_ms(lambda: bench.backend.msm(bases, scalars, out=out))
    key = (case.group, log2_n, case.is_skewed)
    if key not in bench.peer_sums:
        bench.peer_sums[key] = peer_sum(bench, points, scalars)
    theirs, point = bench.peer_sums[key]
    if point is not None and not np.array_equal(cp.asnumpy(out.limbs)[0], point):
        raise BenchError(f"{case.work} 2^{log2_n}: the sum is another one than the peer's")
    return compared(case.work, log2_n, ours, theirs, goal=case.goal, floor=case.floor)


def _affine(raw: bytes, width: int) -> Any:
    """Divide Jacobian coordinates, of ``width`` Montgomery numbers each: the limbs of the affine point."""
    numbers = [int.from_bytes(raw[i : i + 48], "little") for i in range(0, len(raw), 48)]
    x, y, z = (tuple(numbers[i : i + width]) for i in range(0, 3 * width, width))
    one = 2**384 % P
    over_r = pow(2**384, -1, P)

    def times(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        if width == 1:
            return (a[0] * b[0] * over_r % P,)
        return (a[0] * b[0] - a[1] * b[1]) * over_r % P, (a[0] * b[1] + a[1] * b[0]) * over_r % P

    norm = sum(c * c for c in z) * over_r % P
    inverse_norm = pow(norm, -1, P) * one * one % P
    inverse = tuple(c * sign * inverse_norm * over_r % P for c, sign in zip(z, (1, -1), strict=False))
    square = times(inverse, inverse)
    coordinates = (*times(x, square), *times(y, times(square, inverse)))
    return np.frombuffer(b"".join(c.to_bytes(48, "little") for c in coordinates), dtype="<u8")


def _overhead(bench: Bench, log2_n: int) -> Row:
    n = 1 << log2_n
    points: Any = points_on_device(bench, "g1", n)
    bases, scalars = bench.backend.load_bases(points), scalars_on_device(bench, n)
    out = G1Affine(cp.empty((1, 12), dtype=np.uint64))
    call = partial(bench.backend.msm, bases, scalars, out=out)
    return overhead(bench, "MSM", log2_n, call, goal=150, floor=300)

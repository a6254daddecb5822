"""Multi-scalar multiplications: rows of bench/device.py."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import cupy as cp
import numpy as np
from device_rows import Bench, Row, compared

from kernels.host.fixed_base import FixedBase
from kernels.interface import FrPlain, G1Affine, G2Affine
from kernels.moduli import P

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# x, y; and x.c0, x.c1, y.c0, y.c1: the generators of the pairing-friendly curves draft of the IETF
GENERATORS = {
    "g1": (
        0x17F1D3A73197D7942695638C4FA9AC0FC3688C4F9774B905A14E3A3F171BAC586C55E83FF97A1AEFFB3AF00ADB22C6BB,
        0x08B3F481E3AAA0F1A09E30ED741D8AE4FCF5E095D5D00AF600DB18CB2C04B3EDD03CC744A2888AE40CAA232946C5E7E1,
    ),
    "g2": (
        0x024AA2B2F08F0A91260805272DC51051C6E47AD4FA403B02B4510B647AE3D1770BAC0326A805BBEFD48056C8C121BDB8,
        0x13E02B6052719F607DACD3A088274F65596BD0D09920B61AB5DA61BBDC7F5049334CF11213945D57E5AC7D055D042B7E,
        0x0CE5D527727D6E118CC9CDC6DA2E351AADFD9BAA8CBDD3A76D429A695160D12C923AC9CC3BACA289E193548608B82801,
        0x0606C4A02EA734CC32ACD2B02BC28B99CB3E287E85A763AF267492AB572E99AB3F370D275CEC1DA1AAA9075FF05F79BE,
    ),
}


@dataclass(frozen=True)
class Case:
    """Sums of one kind.

    Args:
        group: ``"g1"`` or ``"g2"``.
        sizes: log2 of the numbers of points.
        table_bytes: Limit of tables of multiples.
        goal: Of the ratio.
        floor: Of the ratio.
    """

    group: str
    sizes: tuple[int, ...]
    table_bytes: int
    goal: float
    floor: float


CASES = [
    Case("g1", (14, 16, 18), 0, 4, 2.5),
    Case("g1", (14, 16, 18), 48 << 30, 6, 3.5),
    Case("g1", (20,), 0, 3, 1.8),
    Case("g1", (22,), 0, 2.6, 1.8),
    Case("g1", (24, 26), 0, 2.2, 1.5),
    Case("g1", (20,), 48 << 30, 4, 2),
    Case("g1", (24,), 48 << 30, 2.5, 1.7),
    Case("g2", (16, 20, 24), 0, 2.5, 1.5),
]


def msm_rows(bench: Bench) -> Iterator[tuple[str, Callable[[], Row]]]:
    """Sums with points and scalars on the device; the clock around the whole call, as for the peer."""
    for case in CASES:
        for log2_n in case.sizes:
            if log2_n <= bench.largest:
                yield _work(case), partial(_sum, bench, case, log2_n)


def _work(case: Case) -> str:
    return f"MSM {case.group.upper()}{' with tables' if case.table_bytes else ''}"


def points_on_device(group: str, n: int) -> Any:
    """Put n points on the device: up to 2^20 random multiples of the generator (2^18 in G2), repeated."""
    numbers = GENERATORS[group]
    raw = b"".join((number * 2**384 % P).to_bytes(48, "little") for number in numbers)
    kind: Any = G1Affine if group == "g1" else G2Affine
    generator = kind(np.frombuffer(raw, dtype="<u8").reshape(1, -1).copy())
    n_different = min(n, 1 << 20 if group == "g1" else 1 << 18)
    scalars = np.random.default_rng(3).integers(0, 2**62, (n_different, 4), dtype=np.uint64)
    part = FixedBase(generator, n_different, threads=os.cpu_count() or 1).multiples(FrPlain(scalars)).limbs
    return cp.tile(cp.asarray(part), (n // n_different, 1))


def _sum(bench: Bench, case: Case, log2_n: int) -> Row:
    n = 1 << log2_n
    kind: Any = G1Affine if case.group == "g1" else G2Affine
    points = kind(points_on_device(case.group, n))
    scalars = FrPlain(bench.on_device(n))
    bases = bench.backend.load_bases(points, case.table_bytes)
    out = kind(cp.empty((1, kind.width), dtype=np.uint64))
    ours = bench.wall_ms(lambda: bench.backend.msm(bases, scalars, out=out))
    theirs = None
    if case.group == "g1":
        there = [ctypes.c_void_p(array.limbs.data.ptr) for array in (points, scalars)]
        result = ctypes.create_string_buffer(6 * 48)
        theirs = bench.peer_ms("peer_msm_g1", *there, ctypes.c_size_t(n), result)
    return compared(_work(case), log2_n, ours, theirs, goal=case.goal, floor=case.floor)

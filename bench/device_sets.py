"""What MSMs share, on one device: ``python bench/device_sets.py [--only sets|vectors|host|skew] [--largest 24]``.

Several sets of bases for one witness, several witnesses over one set, bases that stay on the host, and windows for
scalars of which most are 0 or 1. Each row is beside the same work done one by one; times are medians, by the clock, of
whole calls with the data on the device.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import cupy as cp
import numpy as np
from device_msm import points_on_device
from device_rows import Bench

import kernels
from kernels.cuda import msm_bases, msm_calls
from kernels.cuda.msm_shape import Shape
from kernels.interface import FrPlain

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARE_OF_SMALL = 0.9


def scalars(bench: Bench, n: int, *, skewed: bool = False) -> FrPlain:
    """Make n random scalars on the device, or such of which 90 % are 0 or 1.

    They repeat with another period than the points: else each bucket of a large sum would get one point many times.
    """
    part = bench.random(min(n, (1 << 20) - 3))
    if skewed:
        draw = np.random.default_rng(2).random(len(part))
        part[draw < SHARE_OF_SMALL] = [1, 0, 0, 0]
        part[draw < SHARE_OF_SMALL / 2] = 0
    there = FrPlain(cp.tile(cp.asarray(part), (-(-n // len(part)), 1))[:n].copy())
    return bench.backend.put(there)  # counted: windows follow the share of wide ones


def sets_rows(bench: Bench) -> Iterator[str]:
    """A, B1 and C against one witness, together and one by one."""
    for log2_n in (14, 16, 18, 20, 22, 24):
        if log2_n > bench.largest:
            return
        n = 1 << log2_n
        points = points_on_device(bench, "g1", n)
        sets = [bench.backend.load_bases(points) for _ in range(3)]
        for skewed in (False, True):
            given = scalars(bench, n, skewed=skewed)
            alone = bench.wall_ms(lambda given=given, sets=sets: [bench.backend.msm(bases, given) for bases in sets])
            together = bench.wall_ms(lambda given=given, sets=sets: bench.backend.msm_sets(sets, given))
            kind = "90 % 0 or 1" if skewed else "dense"
            yield f"3 sets G1 2^{log2_n} {kind}: {together:.3f} ms, one by one {alone:.3f} ms, {alone / together:.2f}"


def vectors_rows(bench: Bench) -> Iterator[str]:
    """Witnesses over one set of bases, together and one by one."""
    for group, sizes in (("g1", (10, 12, 14, 16, 18)), ("g2", (10, 14))):
        for log2_n in sizes:
            n = 1 << log2_n
            bases = bench.backend.load_bases(points_on_device(bench, group, n))
            for n_vectors in (4, 16, 64):
                given = scalars(bench, n * n_vectors)
                one = FrPlain(given.limbs[:n])
                alone = bench.wall_ms(lambda one=one, bases=bases: bench.backend.msm(bases, one))
                together = bench.wall_ms(
                    lambda given=given, bases=bases, k=n_vectors: bench.backend.msm(bases, given, n_vectors=k)
                )
                each = together / n_vectors
                times = f"{each:.3f} ms each, alone {alone:.3f}, {alone / each:.2f}"
                yield f"{n_vectors} vectors {group} 2^{log2_n}: {times}"


def host_rows(bench: Bench) -> Iterator[str]:
    """Bases on the host, copied in pieces, beside bases on the device."""
    for group, log2_n, limits in (("g1", 24, (1 << 29, 1 << 30, 2 << 30)), ("g2", 22, (1 << 30, 2 << 30))):
        if log2_n > bench.largest:
            continue
        n = 1 << log2_n
        points = points_on_device(bench, group, n)
        given = scalars(bench, n)
        resident = bench.backend.load_bases(points)
        there = bench.wall_ms(lambda bases=resident, given=given: bench.backend.msm(bases, given))
        right = bench.backend.get(bench.backend.msm(resident, given)).limbs
        for limit_bytes in limits:
            bases = bench.backend.load_bases(points, held_limit_bytes=limit_bytes)
            same = np.array_equal(bench.backend.get(bench.backend.msm(bases, given)).limbs, right)
            streamed = bench.wall_ms(lambda bases=bases, given=given: bench.backend.msm(bases, given))
            times = f"{streamed:.2f} ms, on the device {there:.2f}, same bits {same}"
            yield f"host bases {group} 2^{log2_n}, {bases.n_pieces} pieces, {limit_bytes >> 20} MiB: {times}"


def skew_rows(bench: Bench) -> Iterator[str]:
    """Windows for scalars of which 90 % are 0 or 1."""
    on, workspace = bench.backend.on, bench.backend.workspace
    for group, log2_n in (("g1", 20), ("g1", 22), ("g2", 20)):
        n = 1 << log2_n
        points = points_on_device(bench, group, n)
        given = scalars(bench, n, skewed=True)
        resident = bench.backend.load_bases(points)
        chosen = resident.shape.window_bits
        wall = bench.wall_ms(lambda bases=resident, given=given: bench.backend.msm(bases, given))
        yield f"skewed {group} 2^{log2_n}, windows by the count of wide ones: {wall:.3f} ms"
        for bits in sorted({chosen, 11, 13, 14, 16, 18}):
            bases = msm_bases.load_bases(on, workspace, points, shape=Shape(group, n, bits, 1))  # type: ignore[arg-type]
            wall = bench.wall_ms(lambda bases=bases, given=given: msm_calls.msm(on, workspace, bases, given))
            stages: dict[str, int] = {}
            for _ in range(4):
                msm_calls.msm(on, workspace, bases, given, stages=stages)
            parts = ", ".join(f"{stage} {time_ns / 4e6:.2f}" for stage, time_ns in stages.items())
            mark = " (chosen for dense ones)" if bits == chosen else ""
            yield f"skewed {group} 2^{log2_n}, windows of {bits} bits{mark}: {wall:.3f} ms: {parts}"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What MSMs share, on one device.")
    parser.add_argument("--only", default="", help="sets, vectors, host or skew")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of a row (default: %(default)s)")
    parser.add_argument("--largest", type=int, default=24, help="log2 of the largest size (default: %(default)s)")
    options = parser.parse_args()
    bench = Bench(kernels.backend("cuda"), None, options.rounds, options.largest)
    parts = {"sets": sets_rows, "vectors": vectors_rows, "host": host_rows, "skew": skew_rows}
    for name, rows in parts.items():
        if options.only in name:
            for line in rows(bench):
                print(line, flush=True)
            bench.backend.workspace.trim()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

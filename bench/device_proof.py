"""Whole proofs of dense synthetic circuits, their keys made on the device: rows of bench/device.py."""

from __future__ import annotations

import ctypes
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cupy as cp
import numpy as np
from device_msm import TABLE_BYTES, peer_sum, points_on_device, scalars_on_device
from device_ntt import pinned
from device_rows import Bench, Row, compared

from kernels.cuda.table_budget import split_limit
from kernels.interface import FrPlain
from prover.formats.wtns import Witness
from prover.groth16 import TableLimits, check, finalise, hold_key, prove_on_device, synthesise
from prover.setup import fresh_trapdoor, make_zkey
from prover.synthetic import constraints, witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prover.groth16 import DeviceParts, LoadedKey

WORK = "whole proof, dense"
GOAL, FLOOR = 2.5, 1.5


def proof_rows(bench: Bench) -> Iterator[tuple[str, Callable[[], Row]]]:
    """From the witness in pinned memory to the five sums; the peer's time is the sum of its parts."""
    for log2_n in (20, 24):
        if log2_n <= bench.largest:
            yield WORK, partial(_proof, bench, log2_n)


def _proof(bench: Bench, log2_n: int) -> Row:
    peer_ms = _peer_parts_ms(bench, log2_n)
    bench.points.clear()
    cp.get_default_memory_pool().free_all_blocks()
    start = time.perf_counter()
    key = _key(bench, log2_n)
    made_s = time.perf_counter() - start
    n_constraints = (1 << log2_n) - 2
    raw = b"".join(value.to_bytes(32, "little") for value in witness(n_constraints))
    values = FrPlain(pinned(np.frombuffer(raw, dtype="<u8").reshape(-1, 4)))
    wires = Witness(values, "witness")

    def five_sums() -> DeviceParts:
        return prove_on_device(key, synthesise(key, wires))

    five_sums()
    held_bytes = bench.backend.workspace.n_bytes
    ours = bench.wall_ms(five_sums)
    more_bytes = bench.backend.workspace.n_bytes - held_bytes
    verified_ms = bench.wall_ms(lambda: check(key, finalise(key, five_sums())))
    there = cp.empty_like(cp.asarray(values.limbs))
    copy_ms = bench.events_ms(lambda: there.set(values.limbs, stream=cp.cuda.get_current_stream()))
    reasons = [
        f"verified proof {verified_ms:.1f} ms",
        f"copy {copy_ms:.2f}",
        *_phases(bench, key, five_sums(), there),
        f"key made in {made_s:.1f} s, {key.held_bytes / 1e9:.1f} GB held, {more_bytes} bytes taken when warm",
    ]
    total = None if peer_ms is None else peer_ms + copy_ms
    row = compared(WORK, log2_n, ours, total, goal=GOAL, floor=FLOOR)
    return Row(**{**vars(row), "reason": ", ".join(filter(None, [row.reason, *reasons]))})


def _key(bench: Bench, log2_n: int) -> LoadedKey:
    """Make a key on the device and hold it there, with tables within 48 GB for all sets of points."""
    circuit = constraints((1 << log2_n) - 2)
    trapdoor = fresh_trapdoor(circuit.header.domain_size)
    zkey = make_zkey(circuit, trapdoor, bench.backend, lambda *_: None)
    limits = TableLimits(*split_limit(TableLimits.sets(zkey.header), TABLE_BYTES))
    return hold_key(zkey, Path("synthetic"), bench.backend, limits)


def _phases(bench: Bench, key: LoadedKey, parts: DeviceParts, values: Any) -> list[str]:
    """Milliseconds of the phases of one proof, by events."""
    there = FrPlain(values)
    csr_ms = bench.events_ms(lambda: [bench.backend.multiply(m, there) for m in (key.matrix_a, key.matrix_b)])
    took = parts.durations
    return [
        f"A and B {csr_ms:.2f}",
        f"transforms {took.ntt_ns / 1e6:.2f}",
        f"MSM H {took.h_msm_ns / 1e6:.2f}",
        f"MSM A, B1, C {took.tail_msm_ns / 1e6:.2f}",
        f"MSM B2 {took.b_g2_msm_ns / 1e6:.2f}",
    ]


def _peer_parts_ms(bench: Bench, log2_n: int) -> float | None:
    """Four MSMs in G1 and one in G2 of full size, three transforms there and three back, at the peer's cheapest."""
    if bench.peer is None:
        return None
    n = 1 << log2_n
    sums: dict[str, float] = {}
    for group in ("g1", "g2"):
        known = bench.peer_sums.get((group, log2_n, False))
        if known is None:
            known = peer_sum(bench, points_on_device(bench, group, n), scalars_on_device(bench, n))
        sums[group] = known[0]
    values = bench.on_device(n)
    lead = (ctypes.c_void_p(bench.lead.data.ptr), ctypes.c_size_t(bench.lead.nbytes))
    transforms = [(1, 1, 0), (2, 0, 1)]  # natural to reversed, inverse; reversed to natural, forward, on a coset
    ms = [
        bench.peer_ms("peer_ntt", ctypes.c_void_p(values.data.ptr), log2_n, *kind, *lead, None) for kind in transforms
    ]
    if sums["g1"] is None or sums["g2"] is None or ms[0] is None or ms[1] is None:
        return None
    return 4 * sums["g1"] + sums["g2"] + 3 * (ms[0] + ms[1])

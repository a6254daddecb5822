"""Arithmetic in registers alone, the ceilings of what the other stages can reach: rows of bench/device.py."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import cupy as cp
import numpy as np
from device_msm import points_on_device
from device_rows import Bench, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THREADS, TIMES = 128, 2000
# Kernel of kernels/src/cuda/rates.cu, blocks of a multiprocessor, limbs of an operand, goal and floor in G/s.
RATES = {
    "Fr products in registers": ("fr_multiply", 8, 4, 72.0, 60.0),
    "G1 mixed additions in registers": ("g1_add", 3, 12, 3.0, None),
}


def register_rows(bench: Bench) -> Iterator[tuple[str, Callable[[], Row]]]:
    """Chains of operations, each on the result of the one before, with all multiprocessors at work."""
    for work in RATES:
        yield work, partial(_rate, bench, work)


def _rate(bench: Bench, work: str) -> Row:
    name, blocks_each, limbs, goal, floor = RATES[work]
    n_blocks = blocks_each * bench.backend.on.n_multiprocessors
    n_threads = n_blocks * THREADS
    if limbs == 4:
        operands = bench.on_device(1 << 20)[: 2 * n_threads].copy()
    else:
        operands = points_on_device(bench, "g1" if limbs == 12 else "g2", 2 * n_threads).limbs.copy()
    kernel = bench.backend.on.kernel("rates", f"cuzkops_rate_{name}")
    arguments = (np.uint64(operands.data.ptr), np.uint32(TIMES))
    ms = bench.events_ms(lambda: kernel((n_blocks,), (THREADS,), arguments))
    rate = n_threads * TIMES / ms / 1e6
    reason = f"{n_threads} threads, {TIMES} each"
    cp.get_default_memory_pool().free_all_blocks()
    return Row(work, 0, "G/s", round(rate, 2), None, "higher", None, goal, floor, reason)

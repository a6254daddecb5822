"""Transforms, H and the overhead of Python: rows of bench/device.py."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import cupy as cp
import numpy as np
from device_rows import Bench, Row, compared, overhead

from kernels.interface import CsrRows, FrMont, FrMontTwice, FrPlain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class Case:
    """A transform as both sides name it.

    Args:
        work: Name of the row.
        options: Of ``Backend.ntt``.
        peer: Order (0 NN, 1 NR, 2 RN), inverse and coset of the adapter.
        sizes: log2 of the sizes.
        goal: Of the ratio.
        floor: Of the ratio.
    """

    work: str
    options: dict[str, Any]
    peer: tuple[int, int, int]
    sizes: tuple[int, ...]
    goal: float | None
    floor: float | None


CASES = [
    Case("NTT NR forward", {"output_order": "reversed"}, (1, 0, 0), (16, 18), None, None),
    Case("NTT NR forward", {"output_order": "reversed"}, (1, 0, 0), (20, 22, 24, 26, 27), 1.4, 1.1),
    Case("NTT RN inverse", {"input_order": "reversed", "inverse": True}, (2, 1, 0), (20, 24), 1.4, 1.1),
    Case("NTT NN coset inverse", {"inverse": True, "coset_shift": 7}, (0, 1, 1), (20, 24), 1.6, 1.2),
]


def ntt_rows(bench: Bench) -> Iterator[tuple[str, Callable[[], Row]]]:
    """Transforms with the data on the device."""
    for case in CASES:
        for log2_n in case.sizes:
            if log2_n <= bench.largest:
                yield case.work, partial(_transform, bench, case, log2_n)


def _transform(bench: Bench, case: Case, log2_n: int) -> Row:
    values = FrMont(bench.on_device(1 << log2_n))
    out = FrMont(cp.empty_like(values.limbs))
    ours = bench.events_ms(lambda: bench.backend.ntt(values, out=out, **case.options))
    there = ctypes.c_void_p(values.limbs.data.ptr)
    lead = (ctypes.c_void_p(bench.lead.data.ptr), ctypes.c_size_t(bench.lead.nbytes))
    theirs = bench.peer_ms("peer_ntt", there, log2_n, *case.peer, *lead, None)
    return compared(case.work, log2_n, ours, theirs, goal=case.goal, floor=case.floor)


def h_rows(bench: Bench) -> Iterator[tuple[str, Callable[[], Row]]]:
    """H from pinned memory over its two bare copies, and from a witness on the device over the former."""
    for log2_n in (24, 26):
        if log2_n <= bench.largest:
            yield "H pinned over its bare copies", partial(_h_pinned, bench, log2_n)
    if bench.largest >= 24:
        yield "H from a witness on the device", partial(_h_from_witness, bench, 24)


def overhead_rows(bench: Bench) -> Iterator[tuple[str, Callable[[], Row]]]:
    """What Python adds to a small transform."""
    yield "overhead of Python, NTT", lambda: _overhead(bench, 10)


def pinned(values: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Copy an array to pinned memory, which the result keeps alive."""
    memory = cp.cuda.alloc_pinned_memory(values.nbytes)
    out = np.frombuffer(memory, dtype=np.uint64, count=values.size).reshape(values.shape)
    out[:] = values
    return out


def _h_pinned(bench: Bench, log2_n: int) -> Row:
    n = 1 << log2_n
    a, b = (FrMont(pinned(np.tile(bench.random(1 << 20), (n >> 20, 1)))) for _ in range(2))
    out = FrPlain(cp.empty((n, 4), dtype=np.uint64))
    there = [cp.empty((n, 4), dtype=np.uint64) for _ in range(2)]

    def copies() -> None:
        for target, source in zip(there, (a, b), strict=True):
            target.set(source.limbs, stream=cp.cuda.get_current_stream())

    ours, bare = bench.events_ms(lambda: bench.backend.h(a, b, out=out)), bench.events_ms(copies)
    reason = f"{ours:.1f} ms; the copies alone {bare:.1f} ms"
    return Row(
        "H pinned over its bare copies", log2_n, "1", round(ours / bare, 3), None, "lower", None, 1.8, 2.1, reason
    )


def _h_from_witness(bench: Bench, log2_n: int) -> Row:
    """A and B of three entries a row over random columns; in place of the peer, H with a and b in pinned memory."""
    n, each = 1 << log2_n, 3
    rng = np.random.default_rng(2)
    starts = np.arange(0, each * n + 1, each, dtype=np.uint64)
    values = FrMontTwice(np.tile(bench.random(1 << 20), (each * n >> 20, 1)))
    matrices = [
        bench.backend.load_matrix(CsrRows(starts, rng.integers(0, n, each * n, dtype=np.uint32), values, n))
        for _ in range(2)
    ]
    witness = FrPlain(bench.on_device(n))
    a, b = (FrMont(cp.empty((n, 4), dtype=np.uint64)) for _ in range(2))
    out = FrPlain(cp.empty((n, 4), dtype=np.uint64))

    def call() -> None:
        for matrix, target in zip(matrices, (a, b), strict=True):
            bench.backend.multiply(matrix, witness, out=target)
        bench.backend.h(a, b, out=out)

    ours = bench.events_ms(call)
    host_a, host_b = (FrMont(pinned(cp.asnumpy(x.limbs))) for x in (a, b))
    from_pinned = bench.events_ms(lambda: bench.backend.h(host_a, host_b, out=out))
    return compared("H from a witness on the device", log2_n, ours, from_pinned, goal=1.4, floor=1.2)


def _overhead(bench: Bench, log2_n: int) -> Row:
    values = FrMont(bench.on_device(1 << log2_n))
    out = FrMont(cp.empty_like(values.limbs))
    call = partial(bench.backend.ntt, values, out=out, output_order="reversed")
    return overhead(bench, "NTT", log2_n, call, goal=40, floor=80)

"""Rows of bench/device.py, and how they are measured."""

from __future__ import annotations

import ctypes
import statistics
import time
from typing import TYPE_CHECKING, Any

import cupy as cp
import numpy as np
from rows import Row

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


LEAD_BYTES = 1 << 30  # a quarter of a millisecond to clear


class BenchError(Exception):
    """What was measured is wrong."""


class Bench:
    """What rows are measured with.

    Args:
        backend: The cuda backend.
        peer: Path of the adapter, or None.
        rounds: Measurements, of which the median counts.
        largest: log2 of the largest size.
    """

    def __init__(self, backend: Any, peer: Path | None, rounds: int, largest: int) -> None:
        self.backend = backend
        self.peer = ctypes.CDLL(str(peer.resolve())) if peer else None
        self.rounds = rounds
        self.largest = largest
        self.lead = cp.empty(LEAD_BYTES, dtype=np.uint8)
        self.points: dict[str, Any] = {}  # by group: see device_msm.points_on_device
        self.peer_sums: dict[tuple[str, int, bool], Any] = {}  # by group, log2 n and whether skewed: measured once
        self._rng = np.random.default_rng(1)

    def random(self, n: int, seed: int | None = None) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """Make n random elements below r, with a seed always the same ones."""
        rng = self._rng if seed is None else np.random.default_rng(seed)
        out = rng.integers(0, 2**64, (n, 4), dtype=np.uint64)
        out[:, 3] %= np.uint64(0x73EDA753299D7D48)
        return out

    def on_device(self, n: int) -> Any:
        """Put n elements on the device: 2^20 random ones, repeated."""
        part = cp.asarray(self.random(min(n, 1 << 20)))
        return cp.tile(part, (n // len(part), 1))

    def events_ms(self, call: Callable[[], object]) -> float:
        """Median time of a call by CUDA events, after two that do not count.

        The device is busy when the call starts, so that it does not wait for Python: that is a row of its own.
        """
        times = []
        for i in range(self.rounds + 2):
            start, end = cp.cuda.Event(), cp.cuda.Event()
            cp.cuda.runtime.memsetAsync(self.lead.data.ptr, 0, self.lead.nbytes, cp.cuda.get_current_stream().ptr)
            start.record()
            call()
            end.record()
            end.synchronize()
            if i >= 2:
                times.append(cp.cuda.get_elapsed_time(start, end))
        return float(statistics.median(times))

    def wall_ms(self, call: Callable[[], object]) -> float:
        """Median time of a call by the clock, the wait for the device included, after two that do not count."""
        times = []
        for i in range(self.rounds + 2):
            cp.cuda.runtime.deviceSynchronize()
            start = time.perf_counter()
            call()
            cp.cuda.runtime.deviceSynchronize()
            if i >= 2:
                times.append((time.perf_counter() - start) * 1e3)
        return float(statistics.median(times))

    def peer_ms(self, function: str, *arguments: Any) -> float | None:
        """Median of what a function of the adapter measures; None without one, or where it fails."""
        if self.peer is None:
            return None
        times = (ctypes.c_float * (self.rounds + 2))()
        arguments = (*arguments[:-1], self.rounds + 2, times, *([arguments[-1]] if arguments[-1] is not None else []))
        if getattr(self.peer, function)(*arguments):
            return None
        return float(statistics.median(list(times)[2:]))


def compared(
    work: str, log2_n: int, ours: float, peer: float | None, *, goal: float | None, floor: float | None
) -> Row:
    """Make a row of times in milliseconds."""
    ratio = None if peer is None else round(peer / ours, 3)
    reason = "below the goal" if ratio is not None and goal is not None and ratio < goal else ""
    return Row(work, log2_n, "ms", round(ours, 4), peer and round(peer, 4), "lower", ratio, goal, floor, reason)


def overhead(bench: Bench, what: str, log2_n: int, call: Callable[..., Any], *, goal: float, floor: float) -> Row:
    """Make a row of what Python adds to a small call: the wall time less that of the device.

    The device's is the least of the events of one call, between which the device may wait for Python, and of calls
    back to back, which are no shorter than their launches.
    """
    rounds, bench.rounds = bench.rounds, 51
    stream_ms = bench.events_ms(lambda: [call() for _ in range(50)]) / 50
    wall_ms = bench.wall_ms(call)
    bench.rounds = rounds
    timer: dict[str, int] = {}
    call(timer=timer)
    device_us = min(sum(timer.values()) / 1e3, stream_ms * 1e3)
    reason = f"wall {wall_ms * 1e3:.0f} us, of which on the device {device_us:.0f} us"
    ours = round(wall_ms * 1e3 - device_us, 1)
    return Row(f"overhead of Python, {what}", log2_n, "us", ours, None, "lower", None, goal, floor, reason)

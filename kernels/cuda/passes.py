"""Which passes a transform of n elements takes over memory: pure numbers, for the device and for its emulation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

LOG2_EACH = 2
"""Elements of a thread; kernels/src/cuda/ntt.cu has the same number."""
LOG2_TILE = 9
"""Elements of a block of threads, where there are as many: 16 KiB of shared memory."""
MAX_LAYERS = 9
"""Layers of a pass: a tile holds at least one column."""
BEST_LAYERS = 8
PERMUTED, ODD_POINTS, LAST = 1, 2, 4


@dataclass(frozen=True)
class PassShape:
    """One pass, as ``Pass`` of kernels/src/cuda/pass.cuh.

    Args:
        log2_n: Of the transform.
        above: Layers of larger blocks.
        layers: Layers of this pass.
        halvings: How often the results are divided by 2.
        flags: ``PERMUTED``, ``ODD_POINTS`` and ``LAST``.
    """

    log2_n: int
    above: int
    layers: int
    halvings: int = 0
    flags: int = 0

    @property
    def packed(self) -> int:
        """The four numbers as the kernels take them."""
        return self.log2_n | self.above << 8 | self.layers << 16 | self.halvings << 24

    @property
    def log2_tile(self) -> int:
        """Elements of a block of threads."""
        return min(LOG2_TILE, self.log2_n)

    @property
    def n_tiles(self) -> int:
        """Blocks of threads for a vector."""
        return 1 << (self.log2_n - self.log2_tile)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 1 << (self.log2_tile - LOG2_EACH)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return 32 << self.log2_tile


def layers_of_passes(log2_n: int) -> list[int]:
    """Split log2_n layers into passes, the largest blocks first.

    Up to two passes: of nearly the same size. More: of at most eight layers, and even numbers of them but for the
    first, because a thread does two at a time; the larger ones last. As measured on an NVIDIA H200: 6 + 6 + 6 + 8
    layers take 4 % less than 9 + 9 + 8.
    """
    if log2_n <= 2 * MAX_LAYERS:
        n_passes = -(-log2_n // MAX_LAYERS)
        return [(log2_n + i) // n_passes for i in reversed(range(n_passes))]
    n_passes = -(-log2_n // BEST_LAYERS)
    layers = [log2_n // (2 * n_passes) * 2] * n_passes
    left = log2_n - sum(layers)
    layers[0] += left % 2
    for i in range(left // 2):
        layers[-1 - i] += 2
    return layers


@lru_cache(maxsize=256)
def passes(
    log2_n: int, *, up: bool, permuted: bool = False, halvings: int = 0, odd: bool = False
) -> tuple[PassShape, ...]:
    """List the passes of a transform in their order.

    Args:
        log2_n: 3 or more.
        up: From bit-reversed to natural order; else from natural to bit-reversed.
        permuted: Natural to natural order: the last pass down writes in natural order, to other memory than it reads.
        halvings: How often the results are divided by 2.
        odd: Between coefficients and the odd points of the domain of 2 n; its factors are those of 2 n.
    """
    layers = layers_of_passes(log2_n)
    above = [sum(layers[:i]) for i in range(len(layers))]
    order = list(zip(above, layers, strict=True))
    if up:
        order.reverse()
    flags = ODD_POINTS if odd else 0
    shapes = [PassShape(log2_n, *pair, flags=flags) for pair in order[:-1]]
    last_flags = flags | LAST | (PERMUTED if permuted else 0)
    return (*shapes, PassShape(log2_n, *order[-1], halvings, last_flags))

"""Transforms on the device: which kernels run, on which memory, with which factors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.cuda.passes import LOG2_EACH, PERMUTED, passes

if TYPE_CHECKING:
    from kernels.cuda.device import Device
    from kernels.cuda.passes import PassShape
    from kernels.cuda.tables import Tables
    from kernels.cuda.workspace import Workspace

UNSCALED, SCALED_INPUT, SCALED_OUTPUT = 0, 1, 2  # enum Scaling of kernels/src/cuda/pass.cuh
_SUFFIXES = ("", "_scaled_input", "_scaled_output")


@dataclass(frozen=True)
class Transform:
    """What a transform does.

    Args:
        log2_n: Of one vector.
        inverse: From values to coefficients.
        reversed_in: The input is in bit-reversed order.
        reversed_out: The output is.
        generator: 5 or 7.
        shift: Of the coset, plain; 1 is none.
        is_divided: Divide by n where ``inverse``; a caller that does it elsewhere says False.
        n_vectors: Vectors that stand one after the other.
    """

    log2_n: int
    inverse: bool = False
    reversed_in: bool = False
    reversed_out: bool = False
    generator: int = 5
    shift: int = 1
    is_divided: bool = True
    n_vectors: int = 1

    @property
    def halvings(self) -> int:
        """How often the kernels divide by 2; a table of a coset has this in its factors."""
        return self.log2_n if self.inverse and self.is_divided and self.shift == 1 else 0

    @property
    def is_up(self) -> bool:
        """Whether it goes from bit-reversed to natural order."""
        return self.reversed_in and not self.reversed_out

    @property
    def scaling(self) -> int:
        """Where the powers of the coset shift are multiplied in."""
        if self.shift == 1:
            return UNSCALED
        return SCALED_OUTPUT if self.inverse else SCALED_INPUT


def run(workspace: Workspace, tables: Tables, what: Transform, source: int, target: int) -> None:
    """Transform ``source`` into ``target``, which may be the same, on the current stream.

    Args:
        workspace: For a vector between the passes, which natural to natural order needs.
        tables: Where factors come from.
        what: The transform.
        source: Address of n_vectors 2^log2_n Montgomery elements.
        target: Address for as many.
    """
    with tables.lock:
        if what.log2_n < LOG2_EACH:
            _run_small(workspace, tables, what, source, target)
        else:
            _run_large(workspace, tables, what, source, target)


def _run_large(workspace: Workspace, tables: Tables, what: Transform, source: int, target: int) -> None:
    scale = 0
    if what.scaling:
        order = what.reversed_out if what.inverse else what.is_up
        scale = tables.scale(what.log2_n, what.shift, inverse=what.inverse, reversed_order=order)
    factors = tables.factors(what.generator, what.log2_n - 1, inverse=what.inverse)
    if what.reversed_in and what.reversed_out:
        _reverse(workspace, what, source, target)
        source = target
    permuted = not what.reversed_in and not what.reversed_out
    shapes = passes(what.log2_n, up=what.is_up, permuted=permuted, halvings=what.halvings)
    run_passes(workspace, what, shapes, (source, target, factors, scale))


def run_passes(
    workspace: Workspace, what: Transform, shapes: tuple[PassShape, ...], memory: tuple[int, int, int, int]
) -> None:
    """Launch the passes of a transform: see ``run``; ``memory`` is source, target, factors and scale."""
    source, target, factors, scale = memory
    between: Any = None
    middle = target
    if shapes[-1].flags & PERMUTED and len(shapes) > 1:
        n_bytes = what.n_vectors << (what.log2_n + 5)
        between = workspace.take(n_bytes, f"a transform of 2^{what.log2_n} elements in natural order")
        middle = int(between.ptr)
    last = len(shapes) - 1
    for i, shape in enumerate(shapes):
        is_scaled = (i == 0 and what.scaling == SCALED_INPUT) or (i == last and what.scaling == SCALED_OUTPUT)
        name = kernel_name(up=what.is_up, scaling=what.scaling if is_scaled else UNSCALED)
        addresses = (source if i == 0 else middle, target if i == last else middle, factors, scale)
        launch(workspace.device, name, shape, addresses, what.n_vectors)


def kernel_name(*, up: bool, scaling: int) -> str:
    """Name the kernel of a pass."""
    return ("cuzkops_up" if up else "cuzkops_down") + _SUFFIXES[scaling]


def launch(
    device: Device,
    name: str,
    shape: PassShape,
    addresses: tuple[int, int, int, int],
    n_vectors: int = 1,
    *,
    piece: int = 0,
    n_pieces: int = 1,
) -> None:
    """Launch one pass, or a piece of its tiles, on the current stream.

    Args:
        device: Where.
        name: See ``kernel_name``.
        shape: The pass.
        addresses: Of what is read and written, of factors, and of what scales.
        n_vectors: Vectors that stand one after the other.
        piece: Which of the pieces: of the first pass, it works on the columns that have the same part of all rows.
        n_pieces: How many there are: a power of two that divides the tiles.
    """
    n_tiles, threads, shared_bytes, packed, flags = _prepared(shape)
    n_tiles //= n_pieces
    arguments = (*map(np.uint64, addresses), packed, flags, np.uint32(piece * n_tiles))
    device.kernel("ntt", name)((n_tiles, n_vectors), (threads,), arguments, shared_mem=shared_bytes)


@lru_cache(maxsize=256)
def _prepared(shape: PassShape) -> tuple[int, int, int, np.uint32, np.uint32]:
    """Compute once what a launch of a pass needs: small transforms wait for Python."""
    return shape.n_tiles, shape.threads, shape.shared_bytes, np.uint32(shape.packed), np.uint32(shape.flags)


def _reverse(workspace: Workspace, what: Transform, source: int, target: int) -> None:
    kernel = workspace.device.kernel("vector", "cuzkops_reverse")
    vector_bytes = 32 << what.log2_n
    for offset in range(0, what.n_vectors * vector_bytes, vector_bytes):
        arguments = (np.uint64(source + offset), np.uint64(target + offset), np.uint32(what.log2_n))
        kernel((max(1, (1 << what.log2_n) // 256),), (256,), arguments)


def _run_small(workspace: Workspace, tables: Tables, what: Transform, source: int, target: int) -> None:
    """One, two or four elements: the powers of w are those of a coset shift w."""
    n = 1 << what.log2_n
    scales = [0, 0]
    if what.scaling:
        address = tables.scale(what.log2_n, what.shift, inverse=what.inverse, reversed_order=False)
        scales[what.scaling - 1] = address
    powers = tables.powers_of_root(what.generator, what.log2_n, inverse=what.inverse)
    orders = int(what.reversed_in) + 2 * int(what.reversed_out)
    pointers = (np.uint64(pointer) for pointer in (source, target, powers, *scales))
    numbers = (np.uint32(what.log2_n), np.uint32(orders), np.uint32(what.halvings))
    workspace.device.kernel("vector", "cuzkops_small")((what.n_vectors,), (n,), (*pointers, *numbers))

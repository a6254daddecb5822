"""The scalars for section 9 of a zkey file, from values of A and B on the host or on the device."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from kernels.cuda.arrays import address, copy_in, copy_out, copying, is_on_device
from kernels.cuda.device import cupy
from kernels.cuda.passes import LOG2_EACH, passes
from kernels.cuda.tables import root_of_unity
from kernels.cuda.transform import SCALED_INPUT, UNSCALED, Transform, kernel_name, launch
from kernels.cuda.transform import run as transform
from kernels.cuda.vectors import combine, h_scalars
from kernels.moduli import R

if TYPE_CHECKING:
    from kernels.cuda.device import Phases
    from kernels.cuda.tables import Tables
    from kernels.cuda.workspace import Workspace
    from kernels.interface import FrMont, FrPlain

PIECES = 8
"""In how many pieces the second operand comes from the host: the first pass works on those that are there."""
SMALLEST_IN_PIECES = 1 << 20


def run(workspace: Workspace, tables: Tables, phases: Phases, values: tuple[FrMont, FrMont], result: FrPlain) -> None:
    """Put all of H on the current stream: six transforms, c = a o b in the first pass of its own, and the end.

    Operands on the host are copied on a stream of their own, so that b travels while a is transformed. Memory beside
    the operands on the device: three vectors, and one for a result on the host.

    Args:
        workspace: For the vectors.
        tables: Of factors.
        phases: Gets ``copy_wait`` (nothing to do until a copy is there), ``ntt``, ``pointwise`` and ``copy_out``.
        values: a and b, n each, on the host or on the device.
        result: n scalars, in other memory.
    """
    with nullcontext() if all(map(is_on_device, values)) else copying() as copies:
        _run(workspace, tables, phases, _Arrivals(workspace, values, copies), result)


def _run(workspace: Workspace, tables: Tables, phases: Phases, arrivals: _Arrivals, result: FrPlain) -> None:
    n = len(result)
    log2_n = n.bit_length() - 1
    raw_a, raw_b = arrivals.addresses
    blocks = [workspace.take(32 * n, f"H of 2^{log2_n}") for is_copy in (False, *arrivals.is_copy) if not is_copy]
    free = [int(block.ptr) for block in blocks]
    work_a = free.pop()
    work_b = raw_b if arrivals.is_copy[1] else free.pop()
    work_c = raw_a if arrivals.is_copy[0] else free.pop()

    arrivals.wait(0)
    phases.mark("copy_wait")
    _to_coefficients(workspace, tables, log2_n, raw_a, work_a)
    _to_odd_points(workspace, tables, log2_n, work_a)
    phases.mark("ntt")
    with tables.lock:
        _second_and_product(workspace, tables, arrivals, log2_n, (work_b, work_c))
        for work in (work_b, work_c):
            _to_odd_points(workspace, tables, log2_n, work)
        phases.mark("ntt")
        target = address(result) if is_on_device(result) else work_a
        factor = tables.number(pow(n, -1, R))
        h_scalars(workspace.device, (work_a, work_b, work_c), factor, target, log2_n)
    phases.mark("pointwise")
    if not is_on_device(result):
        copy_out(result, target)
        phases.mark("copy_out")


def _to_coefficients(workspace: Workspace, tables: Tables, log2_n: int, source: int, target: int) -> None:
    """Take values on the domain to n times the coefficients, in bit-reversed order."""
    back = Transform(log2_n, inverse=True, reversed_out=True, is_divided=False)
    transform(workspace, tables, back, source, target)


def _to_odd_points(workspace: Workspace, tables: Tables, log2_n: int, place: int) -> None:
    """Take coefficients in bit-reversed order to the values on the odd points of the double domain."""
    shift = root_of_unity(5, log2_n + 1)
    transform(workspace, tables, Transform(log2_n, reversed_in=True, shift=shift), place, place)


def _second_and_product(
    workspace: Workspace, tables: Tables, arrivals: _Arrivals, log2_n: int, targets: tuple[int, int]
) -> None:
    """Take b and c = a o b to coefficients; where b comes in pieces, the first pass of both follows them."""
    raw_a, raw_b = arrivals.addresses
    work_b, work_c = targets
    if log2_n < LOG2_EACH:
        arrivals.wait(1)
        combine(workspace.device, "multiply", (raw_a, raw_b), work_c, 1 << log2_n)
        _to_coefficients(workspace, tables, log2_n, raw_b, work_b)
        _to_coefficients(workspace, tables, log2_n, work_c, work_c)
        return
    device = workspace.device
    first, *rest = passes(log2_n, up=False)
    factors = tables.factors(5, log2_n - 1, inverse=True)
    plain, scaled = (kernel_name(up=False, scaling=scaling) for scaling in (UNSCALED, SCALED_INPUT))
    for piece in range(arrivals.n_pieces):
        arrivals.wait(1, piece)
        some = {"piece": piece, "n_pieces": arrivals.n_pieces}
        launch(device, scaled, first, (raw_a, work_c, factors, raw_b), **some)
        launch(device, plain, first, (raw_b, work_b, factors, 0), **some)
    for work in targets:
        for shape in rest:
            launch(device, plain, shape, (work, work, factors, 0))


class _Arrivals:
    """Operands on the device: where they are, or where they will be once their copies have come."""

    def __init__(self, workspace: Workspace, values: tuple[FrMont, FrMont], copies: Any) -> None:
        cp = cupy()
        self.is_copy = [not is_on_device(array) for array in values]
        self.addresses = [address(array) for array in values]
        self.n_pieces = PIECES if self.is_copy[1] and len(values[1]) >= SMALLEST_IN_PIECES else 1
        self._events: list[list[Any]] = [[], []]
        self._blocks: list[Any] = []
        if not any(self.is_copy):
            return
        current = cp.cuda.get_current_stream()
        for i in (0, 1):
            if self.is_copy[i]:
                self._blocks.append(workspace.take(values[i].n_bytes, f"an operand of {len(values[i])} elements"))
                self.addresses[i] = int(self._blocks[-1].ptr)
        self._stream = copies
        self._stream.wait_event(current.record())  # the blocks may still be in use by what was put on it before
        for i in (0, 1):
            if self.is_copy[i]:
                self._copy(i, values[i])

    def _copy(self, i: int, array: FrMont) -> None:
        """Copy an operand; the second one in pieces, each a range of columns of the first pass."""
        if i == 0 or self.n_pieces == 1:
            with self._stream:
                copy_in(self.addresses[i], array.limbs)
            self._events[i].append(self._stream.record())
            return
        runtime = cupy().cuda.runtime
        rows = 1 << passes(len(array).bit_length() - 1, up=False)[0].layers
        pitch = array.n_bytes // rows
        width = pitch // self.n_pieces
        for piece in range(self.n_pieces):
            target, source = self.addresses[i] + piece * width, address(array) + piece * width
            kind = runtime.memcpyHostToDevice
            runtime.memcpy2DAsync(target, pitch, source, pitch, width, rows, kind, self._stream.ptr)
            self._events[i].append(self._stream.record())

    def wait(self, i: int, piece: int = 0) -> None:
        """Hold up the current stream until operand i, or a piece of it, is there."""
        if self._events[i]:
            cupy().cuda.get_current_stream().wait_event(self._events[i][piece])

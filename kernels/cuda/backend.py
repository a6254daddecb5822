"""The interface of ``kernels.interface`` on one CUDA device."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kernels.cuda import h as h_steps
from kernels.cuda import matrix as matrices
from kernels.cuda import msm_bases, msm_calls, vectors
from kernels.cuda.arrays import (
    address,
    check_alignment,
    check_apart,
    check_place,
    check_same_or_apart,
    checked_result,
    copy_out,
    is_on_device,
    to_device,
)
from kernels.cuda.device import Device, LateTimer, Phases, cupy
from kernels.cuda.fixed_base import FixedBase
from kernels.cuda.tables import Tables
from kernels.cuda.transform import Transform, run
from kernels.cuda.wide_scalars import WideScalars
from kernels.cuda.workspace import Workspace
from kernels.interface import Bases, FrMont, FrPlain, G1Affine, G2Affine, KernelError, LimbArray
from kernels.moduli import R

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kernels.interface import CsrRows, Matrix, Order, RootGenerator, Timer, VectorOperation

ArrayT = TypeVar("ArrayT", bound=LimbArray)
PointsT = TypeVar("PointsT", G1Affine, G2Affine)
MAX_LOG2_N = 28
ORDERS = ("natural", "reversed")


class CudaBackend:
    """A ``kernels.interface.Backend`` on a device.

    Arrays may be in host memory (``numpy``, pinned or not) or on the device (``cupy``). A result is where the values
    are, or in ``out``. A call whose arrays are all on the device, and that has no timer, returns when its work is on
    the stream; any other when it is done. ``stream`` is a ``cupy.cuda.Stream``; None is CuPy's current one.

    Args:
        device: Number of the device among those that this process sees.
        memory_limit_bytes: Most memory of the device that this backend takes; None is what there is.

    Raises:
        KernelError: There is no CuPy, no such device, or no compiled kernels.
    """

    name = "cuda"

    def __init__(self, device: int = 0, memory_limit_bytes: int | None = None) -> None:
        self.on = Device(device)
        self.workspace = Workspace(self.on, memory_limit_bytes)
        self.threads = len(os.sched_getaffinity(0))
        self._tables = Tables(self.workspace)
        self._wide = WideScalars()
        self._closed = False
        with self.on.running("the start of the backend"):
            self.on.kernel("vector", "cuzkops_combine")
            self.on.kernel("ntt", "cuzkops_down")

    @property
    def device(self) -> str:
        """``"cuda:"`` and the number of the device."""
        return self.on.name

    def put(self, values: ArrayT) -> ArrayT:
        """Copy values to the device: see ``Backend.put``."""
        self._check_open()
        check_place(self.workspace, values)
        with self.on.running("put", n=len(values)) as stream:
            there = to_device(self.workspace, values, f"{len(values)} {type(values).__name__}")
            if isinstance(there, FrPlain):
                self._wide.count(self.workspace, there)
            stream.synchronize()
        return there

    def get(self, values: ArrayT) -> ArrayT:
        """Copy values to host memory: see ``Backend.get``."""
        self._check_open()
        if not is_on_device(values):
            return values
        check_place(self.workspace, values)
        there = type(values)(np.empty(values.limbs.shape, dtype=np.uint64))
        with self.on.running("get", n=len(values)) as stream:
            copy_out(there, address(values))
            stream.synchronize()
        return there

    def load_bases(
        self, points: PointsT, table_limit_bytes: int = 0, *, n_before: int = 0, held_limit_bytes: int | None = None
    ) -> Bases[PointsT]:
        """Hold points: see ``Backend.load_bases``."""
        self._check_open()
        check_place(self.workspace, points)
        limits: Any = {"n_before": n_before, "held_limit_bytes": held_limit_bytes}
        return msm_bases.load_bases(self.on, self.workspace, points, table_limit_bytes, **limits)

    def fixed_base(self, point: PointsT, n_expected: int) -> FixedBase[PointsT]:
        """Make a table of multiples: see ``Backend.fixed_base``."""
        self._check_open()
        return FixedBase(self.workspace, point, n_expected, self.threads)

    def timer(self) -> Timer:
        """Make a mapping for ``timer=``: see ``Backend.timer``."""
        return LateTimer()

    def first_invalid(self, points: G1Affine | G2Affine) -> int | None:
        """Index of the first point that is not sound: see ``Backend.first_invalid``."""
        self._check_open()
        check_place(self.workspace, points)
        return msm_bases.first_invalid(self.on, self.workspace, points)

    def msm(
        self,
        bases: Bases[PointsT],
        scalars: FrPlain,
        *,
        n_vectors: int = 1,
        out: PointsT | None = None,
        stream: object | None = None,
        workspace: object | None = None,
        timer: Timer | None = None,
    ) -> PointsT:
        """Sum of scalars[i] * bases[i]: see ``Backend.msm``."""
        memory = self._memory(workspace)
        check_place(memory, scalars)
        options: Any = {"n_vectors": n_vectors, "n_wide": self._wide.of(scalars), "stream": stream, "timer": timer}
        return msm_calls.msm(self.on, memory, bases, scalars, out=out, **options)

    def msm_sets(
        self,
        sets: Sequence[Bases[Any]],
        scalars: FrPlain,
        *,
        stream: object | None = None,
        workspace: object | None = None,
        timer: Timer | None = None,
    ) -> list[Any]:
        """Sums against several sets of bases: see ``Backend.msm_sets``."""
        memory = self._memory(workspace)
        check_place(memory, scalars)
        n_wide = self._wide.of(scalars)
        return msm_calls.msm_sets(self.on, memory, sets, scalars, n_wide=n_wide, stream=stream, timer=timer)

    def load_matrix(self, rows: CsrRows) -> matrices.CudaMatrix:
        """Hold a sparse matrix: see ``Backend.load_matrix``."""
        self._check_open()
        with self.on.running("load_matrix", n_rows=rows.n_rows, n_entries=len(rows.columns)) as stream:
            matrix = matrices.load(self.workspace, rows)
            stream.synchronize()
        return matrix

    def ntt(
        self,
        values: FrMont,
        *,
        inverse: bool = False,
        input_order: Order = "natural",
        output_order: Order = "natural",
        root_generator: RootGenerator = 5,
        coset_shift: int = 1,
        out: FrMont | None = None,
        stream: object | None = None,
        workspace: object | None = None,
        timer: Timer | None = None,
        n_vectors: int = 1,
    ) -> FrMont:
        """Transform: see ``Backend.ntt``; here of ``n_vectors`` vectors that stand one after the other."""
        memory = self._memory(workspace)
        log2_n = _log2(len(values), n_vectors)
        orders = (_is_reversed(input_order), _is_reversed(output_order))
        if root_generator not in {5, 7}:
            raise ValueError(f"roots of unity are made from 5 or 7, not {root_generator}")
        if not 0 < coset_shift < R:
            raise ValueError("a coset shift is in [1, r)")
        what = Transform(log2_n, inverse, *orders, root_generator, coset_shift, n_vectors=n_vectors)

        def work(source: int, target: int) -> None:
            run(memory, self._tables, what, source, target)

        with self.on.running("ntt", stream, log2_n=log2_n, n_vectors=n_vectors):
            check_place(memory, values)
            result = checked_result(memory, out, FrMont, len(values), values)
            check_same_or_apart(result, values)
            check_alignment(result, values)
            self._elementwise("ntt", memory, timer, work, values, result)
        return result

    def combine(
        self,
        operation: VectorOperation,
        a: FrMont,
        b: FrMont,
        *,
        out: FrMont | None = None,
        stream: object | None = None,
        workspace: object | None = None,
        timer: Timer | None = None,
    ) -> FrMont:
        """Vector operation: see ``Backend.combine``."""
        memory = self._memory(workspace)
        if operation not in vectors.OPERATIONS:
            raise ValueError(f"there is no vector operation {operation!r}: {', '.join(vectors.OPERATIONS)}")
        if len(a) != len(b):
            raise ValueError(f"vectors of {len(a)} and {len(b)} elements")

        def work(first: int, second: int, target: int) -> None:
            vectors.combine(self.on, operation, (first, second), target, len(a))

        with self.on.running("combine", stream, n=len(a)):
            check_place(memory, a, b)
            result = checked_result(memory, out, FrMont, len(a), a)
            check_same_or_apart(result, a, b)
            check_alignment(result, a, b)
            self._elementwise("combine", memory, timer, work, a, b, result)
        return result

    def multiply(
        self,
        matrix: Matrix,
        witness: FrPlain,
        *,
        out: FrMont | None = None,
        stream: object | None = None,
        workspace: object | None = None,
        timer: Timer | None = None,
    ) -> FrMont:
        """Matrix times vector: see ``Backend.multiply``."""
        memory = self._memory(workspace)
        if not isinstance(matrix, matrices.CudaMatrix):
            raise TypeError("this matrix belongs to another backend")
        if len(witness) != matrix.n_columns:
            raise ValueError(f"a vector of {len(witness)} for a matrix of {matrix.n_columns} columns")
        held = matrix

        def work(source: int, target: int) -> None:
            matrices.multiply(memory, held, source, target)

        with self.on.running("multiply", stream, n_rows=matrix.n_rows):
            check_place(memory, witness)
            result = checked_result(memory, out, FrMont, matrix.n_rows, witness)
            check_apart(result, witness)
            check_alignment(result, witness)
            self._elementwise("multiply", memory, timer, work, witness, result)
        return result

    def h(
        self,
        a: FrMont,
        b: FrMont,
        *,
        out: FrPlain | None = None,
        stream: object | None = None,
        workspace: object | None = None,
        timer: Timer | None = None,
    ) -> FrPlain:
        """The scalars for section 9: see ``Backend.h``; copies from host memory run beside the transforms."""
        memory = self._memory(workspace)
        if len(a) != len(b):
            raise ValueError(f"{len(a)} values of A and {len(b)} of B")
        log2_n = _log2(len(a), 1)
        with self.on.running("h", stream, log2_n=log2_n) as current:
            check_place(memory, a, b)
            result = checked_result(memory, out, FrPlain, len(a), a)
            check_apart(result, a, b)
            check_alignment(result, a, b)
            phases = Phases(timer)
            h_steps.run(memory, self._tables, phases, (a, b), result)
            phases.add_up()
            if not all(is_on_device(array) for array in (a, b, result)):
                current.synchronize()
        return result

    def close(self) -> None:
        """Refuse further work, and give back what nobody holds."""
        if not self._closed:
            self._closed = True
            self._tables.clear()
            self.workspace.trim()

    def _elementwise(
        self,
        phase: str,
        memory: Workspace,
        timer: Timer | None,
        work: Callable[..., None],
        *arrays: LimbArray,
    ) -> None:
        """Copy operands in where they are on the host, do the work, and copy the result, the last array, out."""
        *operands, result = arrays
        if all(is_on_device(array) for array in (*operands, result)):
            phases = Phases(timer)
            work(*map(address, operands), address(result))
            phases.mark(phase)
            phases.add_up()
            return
        what = f"{phase} of {len(operands[0])} elements"
        there = [to_device(memory, operand, what) for operand in operands]
        block = None if is_on_device(result) else memory.take(max(1, result.n_bytes), what)
        target = address(result) if block is None else int(block.ptr)
        phases = Phases(timer)
        work(*map(address, there), target)
        phases.mark(phase)
        if block is not None:
            copy_out(result, target)
        phases.add_up()
        _synchronize()

    def _memory(self, workspace: object | None) -> Workspace:
        self._check_open()
        if workspace is None:
            return self.workspace
        if not isinstance(workspace, Workspace) or workspace.device.ordinal != self.on.ordinal:
            raise ValueError(f"the cuda backend takes a Workspace of {self.on.name}")
        return workspace

    def _check_open(self) -> None:
        if self._closed:
            raise KernelError("the cuda backend was closed")


def _synchronize() -> None:
    cupy().cuda.get_current_stream().synchronize()


def _log2(n: int, n_vectors: int) -> int:
    length = n // n_vectors if n_vectors > 0 else 0
    log2_n = length.bit_length() - 1
    if length < 1 or length * n_vectors != n or length != 1 << log2_n or log2_n > MAX_LOG2_N:
        raise ValueError(
            f"a transform takes a power of two up to 2^{MAX_LOG2_N} elements, not {n} in {n_vectors} vectors"
        )
    return log2_n


def _is_reversed(order: str) -> bool:
    if order not in ORDERS:
        raise ValueError(f"an order is natural or reversed, not {order!r}")
    return order == "reversed"

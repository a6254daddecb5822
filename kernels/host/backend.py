"""The interface of ``kernels.interface`` on CPU threads."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kernels.host.fixed_base import FixedBase
from kernels.host.library import LEAVES, load_library
from kernels.interface import Bases, CsrRows, FrMont, FrPlain, G1Affine, G2Affine, KernelError, LimbArray, Matrix
from kernels.moduli import R

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kernels.interface import Order, RootGenerator, Timer, VectorOperation

PointsT = TypeVar("PointsT", G1Affine, G2Affine)
ArrayT = TypeVar("ArrayT", bound=LimbArray)

MAX_LOG2_N = 31  # a transform of n needs roots of order 2n, and Fr has them up to 2^32
HOST_LEAVES = ("portable64", "adx64")
VECTOR_OPERATIONS: dict[VectorOperation, int] = {"add": 0, "subtract": 1, "multiply": 2}


@dataclass(frozen=True, eq=False)
class HostBases(Bases[PointsT]):
    """Points in this process's memory, as they were given, and how many infinities are before them."""

    points: PointsT
    n_before: int


@dataclass(frozen=True, eq=False)
class HostMatrix(Matrix):
    """A sparse matrix in this process's memory, as it was given."""

    rows: CsrRows


class HostBackend:
    """A ``kernels.interface.Backend`` on threads of this process.

    Args:
        threads: Threads that one operation uses; None is one for each CPU that this process may run on. They are kept
            between operations and shared by all backends of the process, so that operations at the same time do not
            use more CPUs than there are.
        leaf: The arithmetic: ``"adx64"`` (x86-64 with BMI2 and ADX) or ``"portable64"``; None is the fastest that this
            CPU runs. All compute the same.

    Raises:
        KernelError: The library cannot be loaded, this CPU does not run the leaf, or ``threads`` is below 1.
    """

    name = "host"
    device = "host"

    def __init__(self, threads: int | None = None, leaf: str | None = None) -> None:
        if threads is not None and threads < 1:
            raise KernelError(f"the host backend needs at least 1 thread, not {threads}")
        self.threads = threads or len(os.sched_getaffinity(0))
        self._library = load_library()
        best = self._library.best_leaf
        self.leaf = leaf or best
        if self.leaf not in HOST_LEAVES or (self.leaf == "adx64" and best != "adx64"):
            raise KernelError(f"this CPU does not run the arithmetic {leaf!r}: leave it out, or take portable64")
        self._leaf_number = LEAVES[self.leaf]
        self._closed = False

    def put(self, values: ArrayT) -> ArrayT:
        """Return the values: see ``Backend.put``."""
        self._check_open()
        return values

    def get(self, values: ArrayT) -> ArrayT:
        """Return the values: see ``Backend.get``."""
        self._check_open()
        return values

    def load_bases(
        self, points: PointsT, table_limit_bytes: int = 0, *, n_before: int = 0, held_limit_bytes: int | None = None
    ) -> HostBases[PointsT]:
        """Hold points: see ``Backend.load_bases``. This backend makes no tables, and the points stay where they are."""
        del table_limit_bytes, held_limit_bytes
        self._check_open()
        return HostBases(type(points), n_before + len(points), points.n_bytes, points, n_before)

    def load_matrix(self, rows: CsrRows) -> HostMatrix:
        """Hold a sparse matrix: see ``Backend.load_matrix``."""
        self._check_open()
        held_bytes = rows.row_starts.nbytes + rows.columns.nbytes + rows.values.n_bytes
        return HostMatrix(rows.n_rows, rows.n_columns, int(held_bytes), rows)

    def fixed_base(self, point: PointsT, n_expected: int) -> FixedBase[PointsT]:
        """Make a table of multiples: see ``Backend.fixed_base``."""
        self._check_open()
        return FixedBase(point, n_expected, self.threads)

    def timer(self) -> Timer:
        """Make a mapping for ``timer=``: see ``Backend.timer``."""
        return {}

    def first_invalid(self, points: G1Affine | G2Affine) -> int | None:
        """Index of the first point that is not sound: see ``Backend.first_invalid``."""
        self._check_open()
        index = np.zeros(1, dtype=np.uint64)
        function = "cuzkops_first_invalid_g1" if isinstance(points, G1Affine) else "cuzkops_first_invalid_g2"
        self._call(function, points.limbs, len(points), self.threads, index)
        return None if int(index[0]) == len(points) else int(index[0])

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
        self._check_call(stream, workspace)
        held = _own(bases)
        held.check(scalars, n_vectors)
        result: PointsT = _result(out, bases.kind, n_vectors)
        with _timed(timer, "msm"):
            for i in range(n_vectors):
                self._sum(held, scalars.limbs[i * bases.n : (i + 1) * bases.n], result.limbs[i : i + 1])
        return result

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
        self._check_call(stream, workspace)
        own = [_own(bases) for bases in sets]
        results = []
        for held in own:
            held.check(scalars)
        for held in own:
            results.append(_result(None, held.kind, 1))
            with _timed(timer, f"msm_{held.group}"):
                self._sum(held, scalars.limbs, results[-1].limbs)
        return results

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
    ) -> FrMont:
        """Transform: see ``Backend.ntt``."""
        self._check_call(stream, workspace)
        log2_n = _log2(len(values))
        result = _result(out, FrMont, len(values))
        _check_same_or_apart(result, values)
        order = _reversed_bit(input_order) + 2 * _reversed_bit(output_order)
        if root_generator not in {5, 7}:
            raise ValueError(f"roots of unity are made from 5 or 7, not {root_generator}")
        shift = _montgomery(coset_shift)
        with _timed(timer, "ntt"):
            options = (log2_n, int(inverse), order, root_generator, shift)
            self._call("cuzkops_ntt", values.limbs, result.limbs, *options, self.threads)
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
        self._check_call(stream, workspace)
        if operation not in VECTOR_OPERATIONS:
            raise ValueError(f"there is no vector operation {operation!r}: {', '.join(VECTOR_OPERATIONS)}")
        if len(a) != len(b):
            raise ValueError(f"vectors of {len(a)} and {len(b)} elements")
        result = _result(out, FrMont, len(a))
        for operand in (a, b):
            _check_same_or_apart(result, operand)
        with _timed(timer, "combine"):
            number = VECTOR_OPERATIONS[operation]
            self._call("cuzkops_combine", number, a.limbs, b.limbs, len(a), self.threads, result.limbs)
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
        self._check_call(stream, workspace)
        if not isinstance(matrix, HostMatrix):
            raise TypeError("this matrix belongs to another backend")
        if len(witness) != matrix.n_columns:
            raise ValueError(f"a vector of {len(witness)} for a matrix of {matrix.n_columns} columns")
        rows = matrix.rows
        result = _result(out, FrMont, matrix.n_rows)
        _check_apart(result, witness)
        arrays = (rows.row_starts, rows.columns, rows.values.limbs)
        with _timed(timer, "multiply"):
            self._call("cuzkops_multiply", *arrays, matrix.n_rows, witness.limbs, self.threads, result.limbs)
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
        """The scalars for section 9: see ``Backend.h``."""
        self._check_call(stream, workspace)
        if len(a) != len(b):
            raise ValueError(f"{len(a)} values of A and {len(b)} of B")
        log2_n = _log2(len(a))
        result = _result(out, FrPlain, len(a))
        _check_apart(result, a, b)
        phases_ns = np.zeros(2, dtype=np.uint64)
        phase_arrays = (phases_ns[:1], phases_ns[1:])
        self._call("cuzkops_h", a.limbs, b.limbs, result.limbs, log2_n, self.threads, *phase_arrays)
        if timer is not None:
            for phase, duration_ns in zip(("ntt", "pointwise"), phases_ns, strict=True):
                timer[phase] = timer.get(phase, 0) + int(duration_ns)
        return result

    def close(self) -> None:
        """Refuse further work; the memory goes with the handles."""
        self._closed = True

    def _sum(self, bases: HostBases[Any], scalars: NDArray[np.uint64], result: NDArray[np.uint64]) -> None:
        points, numbers = bases.points.limbs, scalars[bases.n_before :]
        self._call(f"cuzkops_msm_{bases.group}", points, numbers, len(points), self.threads, result)

    def _call(self, function: str, *arguments: object) -> None:
        self._library.call(function, self._leaf_number, *arguments)

    def _check_open(self) -> None:
        if self._closed:
            raise KernelError("the host backend was closed")

    def _check_call(self, stream: object | None, workspace: object | None) -> None:
        self._check_open()
        if stream is not None or workspace is not None:
            raise ValueError("the host backend takes no stream and no workspace")


def _own(bases: Bases[PointsT]) -> HostBases[PointsT]:
    if not isinstance(bases, HostBases):
        raise TypeError("these bases belong to another backend")
    return bases


def _log2(n: int) -> int:
    log2_n = n.bit_length() - 1
    if n < 1 or n != 1 << log2_n or log2_n > MAX_LOG2_N:
        raise ValueError(f"a transform takes a power of two up to 2^{MAX_LOG2_N} elements, not {n}")
    return log2_n


def _result(out: ArrayT | None, kind: type[ArrayT], n: int) -> ArrayT:
    """Return ``out`` after a check of its type and length, or a new array."""
    if out is None:
        return kind(np.empty((n, kind.width), dtype=np.uint64))
    if type(out) is not kind or len(out) != n or not out.limbs.flags.writeable:
        raise ValueError(f"out must be a writable {kind.__name__} of {n}, not a {type(out).__name__} of {len(out)}")
    return out


def _reversed_bit(order: str) -> int:
    if order not in {"natural", "reversed"}:
        raise ValueError(f"an order is natural or reversed, not {order!r}")
    return int(order == "reversed")


def _montgomery(number: int) -> NDArray[np.uint64]:
    if not 0 < number < R:
        raise ValueError("a coset shift is in [1, r)")
    return np.frombuffer((number * 2**256 % R).to_bytes(32, "little"), dtype=np.uint64)


def _check_same_or_apart(result: LimbArray, operand: LimbArray) -> None:
    """Refuse a result that overlaps an operand without being the same array."""
    same = result.limbs.ctypes.data == operand.limbs.ctypes.data and len(result) == len(operand)
    if not same and np.may_share_memory(result.limbs, operand.limbs):
        raise ValueError("out overlaps the values without being the same array")


def _check_apart(result: LimbArray, *operands: LimbArray) -> None:
    if any(np.may_share_memory(result.limbs, operand.limbs) for operand in operands):
        raise ValueError("out shares memory with an operand")


@contextmanager
def _timed(timer: Timer | None, phase: str) -> Iterator[None]:
    start_ns = time.perf_counter_ns()
    try:
        yield
    finally:
        if timer is not None:
            timer[phase] = timer.get(phase, 0) + time.perf_counter_ns() - start_ns

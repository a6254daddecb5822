"""What every backend of this library offers, and the arrays that go in and out.

An element of the scalar field Fr is 4 little-endian 64-bit limbs, of the base field Fp 6. The domain of the numbers is
in the type of an array, never in a flag: see ``FrPlain``, ``FrMont``, ``FrMontTwice``, ``G1Affine`` and ``G2Affine``.

The roots of unity are those of zkey files unless a call asks for others: powers of 5^((r-1)/2^k), because snarkjs takes
the smallest quadratic non-residue of Fr as generator. Other libraries use 7, and a proof for a zkey file that is made
with those roots never verifies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence

    from kernels.fixed_base import FixedBase

Limbs = NDArray[np.uint64]
Group = Literal["g1", "g2"]
Order = Literal["natural", "reversed"]  # reversed: element i stands where the bits of i read backwards say
RootGenerator = Literal[5, 7]
VectorOperation = Literal["add", "subtract", "multiply"]
Timer: TypeAlias = "MutableMapping[str, int]"  # phase -> nanoseconds


class KernelError(Exception):
    """A backend cannot be had, or an operation in it failed; the message is one sentence."""


@dataclass(frozen=True, eq=False)
class LimbArray:
    """Base of the typed arrays: rows of little-endian 64-bit limbs.

    Args:
        limbs: (n, width) uint64, C-contiguous; not copied. A ``numpy.ndarray``, or for the cuda backend a
            ``cupy.ndarray`` of the same kind.

    Raises:
        ValueError: Another type, shape or memory order. The numbers themselves are not looked at here: readers of
            files do that, and ``Backend.first_invalid`` does it for points.
    """

    limbs: Limbs
    width: ClassVar[int] = 0

    def __post_init__(self) -> None:
        a = self.limbs
        if a.dtype != np.uint64 or a.ndim != 2 or a.shape[1] != self.width or not a.flags.c_contiguous:
            raise ValueError(
                f"{type(self).__name__} takes a C-contiguous (n, {self.width}) array of uint64, not {a.dtype} {a.shape}"
            )

    def __len__(self) -> int:
        return int(self.limbs.shape[0])

    @property
    def n_bytes(self) -> int:
        """Bytes that the limbs take."""
        return int(self.limbs.nbytes)


class FrPlain(LimbArray):
    """(n, 4) elements of Fr as they are, each below r."""

    width = 4


class FrMont(LimbArray):
    """(n, 4) elements of Fr in Montgomery form, x * 2^256 mod r."""

    width = 4


class FrMontTwice(LimbArray):
    """(n, 4) elements of Fr as x * 2^512 mod r: the coefficients of a zkey file; times ``FrPlain`` gives ``FrMont``."""

    width = 4


class G1Affine(LimbArray):
    """(n, 12) points of G1: x | y in Montgomery form; (0, 0) is infinity."""

    width = 12


class G2Affine(LimbArray):
    """(n, 24) points of G2: x.c0 | x.c1 | y.c0 | y.c1 in Montgomery form; (0, 0) is infinity."""

    width = 24


PointsT = TypeVar("PointsT", G1Affine, G2Affine)
ArrayT = TypeVar("ArrayT", bound=LimbArray)


@dataclass(frozen=True, eq=False)
class CsrRows:
    """A sparse matrix over Fr by rows; several entries in one place add up.

    Args:
        row_starts: (n_rows + 1,) uint64, rising from 0 to the number of entries.
        columns: (n_entries,) uint32, each below ``n_columns``.
        values: n_entries coefficients.
        n_columns: The length of the vectors that it multiplies.

    Raises:
        ValueError: The parts do not fit each other, or a column is out of range.
    """

    row_starts: NDArray[np.uint64]
    columns: NDArray[np.uint32]
    values: FrMontTwice
    n_columns: int

    def __post_init__(self) -> None:
        starts, columns = self.row_starts, self.columns
        if starts.dtype != np.uint64 or starts.ndim != 1 or len(starts) == 0 or not starts.flags.c_contiguous:
            raise ValueError(f"row_starts takes (n_rows + 1,) uint64, not {starts.dtype} {starts.shape}")
        if columns.dtype != np.uint32 or columns.ndim != 1 or not columns.flags.c_contiguous:
            raise ValueError(f"columns takes (n_entries,) uint32, not {columns.dtype} {columns.shape}")
        if len(columns) != len(self.values) or int(starts[0]) != 0 or int(starts[-1]) != len(columns):
            raise ValueError(f"row_starts ends at {int(starts[-1])}, but there are {len(columns)} entries")
        if np.any(starts[1:] < starts[:-1]):
            raise ValueError("row_starts falls somewhere")
        if len(columns) and int(columns.max()) >= self.n_columns:
            raise ValueError(f"column {int(columns.max())} is out of range: there are {self.n_columns}")

    @property
    def n_rows(self) -> int:
        """Number of rows, empty ones included."""
        return len(self.row_starts) - 1


@dataclass(frozen=True, eq=False)
class Bases(Generic[PointsT]):
    """Points that a backend holds for MSMs against them; each backend has its own subclass.

    Args:
        kind: The type of the points, ``G1Affine`` or ``G2Affine``.
        n: Number of points, infinities included: as many scalars belong to them.
        held_bytes: Bytes that this handle keeps, on the backend's device.
    """

    kind: type[PointsT]
    n: int
    held_bytes: int

    @property
    def group(self) -> Group:
        """``"g1"`` or ``"g2"``."""
        return "g1" if self.kind is G1Affine else "g2"

    def check(self, scalars: FrPlain, n_vectors: int = 1) -> None:
        """Raise ``ValueError`` unless there are as many scalars in each vector as there are bases."""
        if n_vectors < 1 or len(scalars) != n_vectors * self.n:
            vectors = f"{n_vectors} vectors of " if n_vectors != 1 else ""
            raise ValueError(f"{len(scalars)} scalars for {vectors}{self.n} bases")


@dataclass(frozen=True, eq=False)
class Matrix:
    """A sparse matrix that a backend holds; each backend has its own subclass.

    Args:
        n_rows: Number of rows.
        n_columns: Number of columns.
        held_bytes: Bytes that this handle keeps, on the backend's device.
    """

    n_rows: int
    n_columns: int
    held_bytes: int


class Backend(Protocol):
    """One device, or the threads of this host.

    Common keywords of the operations: ``out`` takes the result instead of a new array; ``stream`` orders work on a
    device and is None on the host; ``workspace`` is memory of the backend's own kind to use instead of allocating,
    None on the host; ``timer`` is a mapping to which the nanoseconds of each phase are added under its name.
    Different threads may call one backend at the same time, and handles may be shared between them.

    Raises:
        ValueError: Arrays that do not fit each other (a fault of the caller).
        KernelError: Out of memory, threads that cannot be started, a device fault, or a closed backend.
    """

    @property
    def name(self) -> str:
        """``"host"`` or ``"cuda"``."""

    @property
    def device(self) -> str:
        """One word for logs, such as ``"host"``."""

    @property
    def threads(self) -> int:
        """CPU threads that one operation uses."""

    def put(self, values: ArrayT) -> ArrayT:
        """Copy values to where this backend computes: on the host the values themselves, else a copy on the device.

        Operations take arrays of both places; their results are where their values are, or in ``out``.
        """

    def get(self, values: ArrayT) -> ArrayT:
        """Copy values of ``put`` or of an operation to host memory; values that are there come back as they are."""

    def load_bases(
        self, points: PointsT, table_limit_bytes: int = 0, *, n_before: int = 0, held_limit_bytes: int | None = None
    ) -> Bases[PointsT]:
        """Hold points for MSMs.

        Args:
            points: On the curve; ``first_invalid`` checks that. The caller leaves them unchanged afterwards.
            table_limit_bytes: Memory that precomputed multiples may take; 0 is none.
            n_before: Infinities before the points, so that bases of the end of a witness take the whole of it.
            held_limit_bytes: Memory of a device for them. Where they need more they stay on the host (page-locked, a
                copy), and each MSM brings them in pieces while it computes.
        """

    def load_matrix(self, rows: CsrRows) -> Matrix:
        """Hold a sparse matrix; the caller leaves its arrays unchanged afterwards."""

    def fixed_base(self, point: PointsT, n_expected: int) -> FixedBase[PointsT]:
        """Make a table of multiples of one point of the host, not infinity, for about ``n_expected`` multiples."""

    def timer(self) -> Timer:
        """Make a mapping for ``timer=`` that no call waits for: whoever reads it waits until the phases are over."""

    def first_invalid(self, points: G1Affine | G2Affine) -> int | None:
        """Index of the first row that has a coordinate >= p or is not on the curve, or None where all are sound."""

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
        """Sum of scalars[i] * bases[i], for each of several vectors of scalars.

        Args:
            bases: A handle of this backend. The points are in the subgroup of order r: scalars are split by an
                endomorphism that is a multiplication there only.
            scalars: As many as there are bases; none at all gives infinity. They count modulo r.
            n_vectors: Vectors of scalars that stand one after the other.
            out: ``n_vectors`` points.
            stream: See the class.
            workspace: See the class.
            timer: Phase ``msm``.

        Returns:
            ``n_vectors`` affine points, in the group of the bases.
        """

    def msm_sets(
        self,
        sets: Sequence[Bases[Any]],
        scalars: FrPlain,
        *,
        stream: object | None = None,
        workspace: object | None = None,
        timer: Timer | None = None,
    ) -> list[Any]:
        """``msm`` of one vector of scalars against several sets of bases: what they share is done once.

        Args:
            sets: Handles of this backend, of either group.
            scalars: As many as each set has bases.
            stream: See the class.
            workspace: See the class.
            timer: Phases ``msm_g1`` and ``msm_g2``.

        Returns:
            One affine point for each set.
        """

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
        """Number-theoretic transform between coefficients and values on a coset of the n-th roots of unity.

        Args:
            values: n coefficients (n values where ``inverse``), n a power of two up to 2^31.
            inverse: From values to coefficients, the division by n included.
            input_order: Of ``values``. The cheapest are natural to reversed and reversed to natural.
            output_order: Of the result.
            root_generator: What w = root_generator^((r-1)/n) is made from: 5 as in zkey files, 7 as in arkworks.
            coset_shift: s, a plain number in [1, r): the values are those at s * w^i.
            out: n elements; may be ``values`` itself.
            stream: See the class.
            workspace: See the class.
            timer: Phase ``ntt``.

        Returns:
            sum_j values[j] * (s * w^i)^j for each i, or the coefficients that give ``values`` so.
        """

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
        """Sum, difference or product of two vectors, element by element.

        Args:
            operation: ``"add"``, ``"subtract"`` or ``"multiply"``.
            a: n elements.
            b: n elements.
            out: n elements; may be ``a`` or ``b`` itself.
            stream: See the class.
            workspace: See the class.
            timer: Phase ``combine``.

        Returns:
            n elements.
        """

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
        """Matrix times vector.

        Args:
            matrix: A handle of this backend.
            witness: ``matrix.n_columns`` elements.
            out: ``matrix.n_rows`` elements.
            stream: See the class.
            workspace: See the class.
            timer: Phase ``multiply``.

        Returns:
            ``matrix.n_rows`` elements.
        """

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
        """The scalars for section 9 of a zkey file: A*B - C on the odd points of the double domain.

        With c = a o b, three inverse transforms, multiplication of coefficient i by w^i with w = 5^((r-1)/2n), and
        three transforms; no division by Z, which is the constant -2 there and is part of the bases of section 9
        (snarkjs, ``groth16_prove.js``).

        Args:
            a: n values of A on the domain, n a power of two up to 2^31; left as they are.
            b: n values of B.
            out: n elements.
            stream: See the class.
            workspace: See the class.
            timer: Phases ``ntt`` (the six transforms, coset shift and scaling included) and ``pointwise``.

        Returns:
            n scalars.
        """

    def close(self) -> None:
        """Give back what the backend holds; later calls raise ``KernelError``."""

"""Proving keys for test circuits, straight from the constraints, with a trapdoor that this process made itself.

Whoever knows the trapdoor can prove anything, and nobody can tell that it was thrown away: keys of use come from a
ceremony (``snarkjs groth16 setup`` and contributions). The formulas are those of Groth, EUROCRYPT 2016, section 3.2,
with gamma = 1 as in snarkjs. With L_j the Lagrange basis of the domain and [A], [B], [C] the columns of a wire:

    A: [A](tau)   B1, B2: [B](tau)   IC, C: beta [A](tau) + alpha [B](tau) + [C](tau), for C over delta
    H: L_(2i+1)(tau) / delta of the double domain, i = 0 .. n-1

Values of a Lagrange basis at tau are the inverse transform of the powers of tau: sum f(w^j) L_j(tau) = sum f_k tau^k.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kernels.host.elements import powers, scaled, to_montgomery_twice, to_plain
from kernels.interface import CsrRows, FrMont, FrMontTwice, FrPlain, G1Affine, G2Affine
from prover.curve import generators
from prover.errors import InputError
from prover.formats.field import R
from prover.formats.zkey import COEFFICIENT, G1_BYTES, G2_BYTES, Zkey, ZkeyHeader
from prover.formats.zkey_writer import write_zkey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from numpy.typing import NDArray

    from kernels.fixed_base import FixedBase
    from kernels.interface import Backend, Matrix
    from prover.formats.r1cs import R1cs, R1csHeader

MAX_DOMAIN_SIZE = 2**28
_DEVICE_MAX_DOMAIN_SIZE = 2**27  # of the cuda backend: the points of H take a transform of twice the size
AT_ONCE = {"host": 2**14, "cuda": 2**20}  # multiples between two looks at Ctrl-C: a second or less
FR_RADIX = 2**256
Stage: TypeAlias = "Callable[[str, float | None], None]"


@dataclass(frozen=True, repr=False)
class Trapdoor:
    """The secret of a setup; no repr, so that no message can show it."""

    tau: int
    alpha: int
    beta: int
    delta: int


@dataclass(frozen=True, eq=False)
class Scalars:
    """What the generators are multiplied with, section by section of the key."""

    ic: FrPlain
    a: FrPlain
    b: FrPlain
    c: FrPlain
    h: FrPlain


@dataclass(frozen=True, eq=False)
class _Entries:
    """A sparse matrix, entry by entry; the values are those of ``FrMontTwice``."""

    rows: NDArray[np.integer[Any]]
    wires: NDArray[np.integer[Any]]
    values: NDArray[np.uint64]


def fresh_trapdoor(domain_size: int) -> Trapdoor:
    """Draw a trapdoor from the system's generator; tau is no root of unity of the double domain, and nothing is 0."""
    while True:
        tau, alpha, beta, delta = (1 + secrets.randbelow(R - 1) for _ in range(4))
        if pow(tau, 2 * domain_size, R) != 1:
            return Trapdoor(tau, alpha, beta, delta)


def write_key(file: BinaryIO, circuit: R1cs, trapdoor: Trapdoor, backend: Backend, stage: Stage) -> None:
    """Make a proving key and write it.

    Args:
        file: Open for writing, empty.
        circuit: The constraints.
        trapdoor: Of this key.
        backend: What computes the transforms, the sparse products and the points.
        stage: Is told what is done, and which share of it.

    Raises:
        InputError: The circuit has more rows than the backend has domains for.
        KernelError: There is not enough memory or threads.
        OSError: The file cannot be written.
    """
    _check_domain(circuit, backend)
    stage("evaluating the circuit", None)
    scalars = key_scalars(circuit, trapdoor, backend)
    coefficients = key_coefficients(circuit, backend.threads)
    stage("making tables", None)
    g1, g2 = _fixed_bases(scalars, backend)
    at_once = AT_ONCE[backend.name]
    header = _header(circuit, trapdoor, len(coefficients), g1, g2)
    write_zkey(
        file,
        header,
        coefficients,
        {
            3: _multiples(g1, scalars.ic, "IC", at_once, stage),
            5: _multiples(g1, scalars.a, "A", at_once, stage),
            6: _multiples(g1, scalars.b, "B1", at_once, stage),
            7: _multiples(g2, scalars.b, "B2", at_once, stage),
            8: _multiples(g1, scalars.c, "C", at_once, stage),
            9: _multiples(g1, scalars.h, "H", at_once, stage),
        },
    )


def key_bytes(header: R1csHeader) -> int:
    """The least size of the key of a circuit: its points, without the coefficients."""
    n_private = header.n_wires - header.n_public - 1
    n_g1 = 2 * header.n_wires + header.n_public + 1 + n_private + header.domain_size
    return n_g1 * G1_BYTES + header.n_wires * G2_BYTES


def make_zkey(circuit: R1cs, trapdoor: Trapdoor, backend: Backend, stage: Stage) -> Zkey:
    """Make a proving key in memory: its points of sections 5 to 9 are where the backend computes.

    Arguments and errors as for ``write_key``, which writes the same key.
    """
    _check_domain(circuit, backend)
    stage("evaluating the circuit", None)
    scalars = key_scalars(circuit, trapdoor, backend)
    stage("making tables", None)
    g1, g2 = _fixed_bases(scalars, backend)
    matrices = [
        _compressed(part.rows, part.wires, part.values, circuit.header.domain_size, circuit.header.n_wires)
        for part in _entries(circuit, backend.threads)[:2]
    ]
    n_coefficients = sum(len(matrix.columns) for matrix in matrices)
    points: dict[str, G1Affine] = {}
    for name in ("a", "b", "c", "h"):
        stage(f"making the points of {name.upper()}", None)
        points[name] = g1.multiples(backend.put(getattr(scalars, name)))
    stage("making the points of B2", None)
    return Zkey(
        name=circuit.name,
        sha256="",
        header=_header(circuit, trapdoor, n_coefficients, g1, g2),
        ic=g1.multiples(scalars.ic),
        a=points["a"],
        b1=points["b"],
        b2=g2.multiples(backend.put(scalars.b)),
        c=points["c"],
        h=points["h"],
        matrix_a=matrices[0],
        matrix_b=matrices[1],
    )


def key_scalars(circuit: R1cs, trapdoor: Trapdoor, backend: Backend) -> Scalars:
    """Compute the logarithms of every point of a key.

    Raises:
        KernelError: There is not enough memory or threads.
    """
    header = circuit.header
    n, first_private = header.domain_size, header.n_public + 1
    over_delta, threads = pow(trapdoor.delta, -1, R), backend.threads
    of_a, of_b, of_c = (
        backend.load_matrix(_compressed(part.wires, part.rows, part.values, header.n_wires, n))
        for part in _entries(circuit, threads)
    )
    at_tau = _lagrange(trapdoor.tau, n, backend)

    def column_sums(matrix: Matrix, factor: int) -> FrMont:
        """Values at tau of the columns of all wires, times a factor."""
        return backend.multiply(matrix, backend.put(scaled(at_tau, FrPlain(_limbs([factor])), threads)))

    a, b = (to_plain(backend.get(column_sums(matrix, 1)), threads) for matrix in (of_a, of_b))
    mixed = column_sums(of_a, trapdoor.beta * over_delta % R)
    for matrix, factor in ((of_b, trapdoor.alpha * over_delta % R), (of_c, over_delta)):
        mixed = backend.combine("add", mixed, column_sums(matrix, factor), out=mixed)
    over = backend.get(mixed).limbs  # beta A + alpha B + C, over delta
    ic = scaled(FrMont(over[:first_private]), FrPlain(_limbs([trapdoor.delta])))
    odd = FrMont(np.ascontiguousarray(_lagrange(trapdoor.tau, 2 * n, backend).limbs[1::2]))
    h = scaled(odd, FrPlain(_limbs([over_delta])), threads)
    return Scalars(ic=ic, a=a, b=b, c=to_plain(FrMont(over[first_private:]), threads), h=h)


def key_coefficients(circuit: R1cs, threads: int) -> NDArray[np.void]:
    """Section 4: the entries of A and B row by row, A before B, then a row for ONE and each public value."""
    parts = []
    for matrix, part in enumerate(_entries(circuit, threads)[:2]):
        entries = np.zeros(len(part.wires), dtype=COEFFICIENT)
        entries["matrix"], entries["row"], entries["wire"], entries["value"] = (
            matrix,
            part.rows,
            part.wires,
            part.values,
        )
        parts.append(entries)
    together = np.concatenate(parts)
    return together[np.argsort(together["row"], kind="stable")]


def _entries(circuit: R1cs, threads: int) -> list[_Entries]:
    """A, with the rows of ONE and the public values behind its own, B, and C."""
    public = np.arange(circuit.header.n_public + 1)
    given = (circuit.a, circuit.b, circuit.c)
    parts = [_Entries(p.rows, p.wires, to_montgomery_twice(p.values, threads).limbs) for p in given]
    parts[0] = _Entries(
        np.concatenate([parts[0].rows, circuit.header.n_constraints + public]),
        np.concatenate([parts[0].wires, public]),
        np.concatenate([parts[0].values, np.repeat(_limbs([FR_RADIX**2 % R]), len(public), axis=0)]),
    )
    return parts


def _lagrange(tau: int, n: int, backend: Backend) -> FrMont:
    """The n values of the Lagrange basis of the domain of size n at tau."""
    values = powers(tau, n, backend.threads)
    return backend.ntt(values, inverse=True, out=values)


def _compressed(
    rows: NDArray[np.integer[Any]],
    columns: NDArray[np.integer[Any]],
    values: NDArray[np.uint64],
    n_rows: int,
    n_columns: int,
) -> CsrRows:
    """Sort entries by what shall be their rows."""
    if np.any(rows[1:] < rows[:-1]):
        order = np.argsort(rows, kind="stable")
        columns, values = columns[order], values[order]
    starts = np.zeros(n_rows + 1, dtype=np.uint64)
    starts[1:] = np.cumsum(np.bincount(rows, minlength=n_rows))
    return CsrRows(starts, columns.astype(np.uint32), FrMontTwice(values), n_columns)


def _check_domain(circuit: R1cs, backend: Backend) -> None:
    most = _DEVICE_MAX_DOMAIN_SIZE if backend.name == "cuda" else MAX_DOMAIN_SIZE
    if circuit.header.domain_size > most:
        hint = "the host backend takes twice as many" if backend.name == "cuda" else ""
        message = f"{circuit.name}: more than {most} rows, and the {backend.name} backend has no such domain"
        raise InputError("r1cs-too-large", message, hint)


def _fixed_bases(scalars: Scalars, backend: Backend) -> tuple[FixedBase[G1Affine], FixedBase[G2Affine]]:
    n_g1 = sum(len(part) for part in (scalars.ic, scalars.a, scalars.b, scalars.c, scalars.h))
    g1_point, g2_point = generators()
    return backend.fixed_base(g1_point, n_g1), backend.fixed_base(g2_point, len(scalars.b))


def _header(
    circuit: R1cs, trapdoor: Trapdoor, n_coefficients: int, g1: FixedBase[G1Affine], g2: FixedBase[G2Affine]
) -> ZkeyHeader:
    secrets_ = FrPlain(_limbs([trapdoor.alpha, trapdoor.beta, trapdoor.delta, 1]))
    in_g1, in_g2 = g1.multiples(secrets_).limbs, g2.multiples(secrets_).limbs
    return ZkeyHeader(
        n_vars=circuit.header.n_wires,
        n_public=circuit.header.n_public,
        domain_size=circuit.header.domain_size,
        n_coefficients=n_coefficients,
        file_bytes=0,
        offsets={},
        alpha1=G1Affine(in_g1[0:1]),
        beta1=G1Affine(in_g1[1:2]),
        beta2=G2Affine(in_g2[1:2]),
        gamma2=G2Affine(in_g2[3:4]),
        delta1=G1Affine(in_g1[2:3]),
        delta2=G2Affine(in_g2[2:3]),
    )


def _multiples(
    base: FixedBase[G1Affine] | FixedBase[G2Affine], scalars: FrPlain, name: str, at_once: int, stage: Stage
) -> Iterator[G1Affine | G2Affine]:
    for begin in range(0, len(scalars), at_once):
        stage(f"making the points of {name}", begin / len(scalars))
        yield base.multiples(FrPlain(scalars.limbs[begin : begin + at_once]))


def _limbs(values: list[int]) -> NDArray[np.uint64]:
    return np.frombuffer(b"".join(value.to_bytes(32, "little") for value in values), dtype="<u8").reshape(-1, 4).copy()

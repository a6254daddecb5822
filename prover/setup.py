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
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kernels.host.elements import scaled, to_montgomery_twice, to_plain
from kernels.host.fixed_base import FixedBase
from kernels.interface import CsrRows, FrMont, FrMontTwice, FrPlain, G1Affine, G2Affine
from prover.curve import generators
from prover.errors import InputError
from prover.formats.field import R
from prover.formats.zkey import G1_BYTES, G2_BYTES, ZkeyHeader
from prover.formats.zkey_writer import COEFFICIENT, write_zkey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from numpy.typing import NDArray

    from kernels.interface import Backend
    from prover.formats.r1cs import Combinations, R1cs, R1csHeader

MAX_DOMAIN_SIZE = 2**28  # three domains beside each other still have columns of 32 bits
SLICE = 2**14  # multiples between two looks at Ctrl-C
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
        backend: What computes the transforms and sparse products; the multiples are made with as many threads.
        stage: Is told what is done, and which share of it.

    Raises:
        InputError: The circuit has more than ``MAX_DOMAIN_SIZE`` rows.
        KernelError: There is not enough memory or threads.
        OSError: The file cannot be written.
    """
    if circuit.header.domain_size > MAX_DOMAIN_SIZE:
        raise InputError(
            "r1cs-too-large", f"{circuit.name}: more than {MAX_DOMAIN_SIZE} rows, and Fr has no such domain"
        )
    stage("evaluating the circuit", None)
    scalars = key_scalars(circuit, trapdoor, backend)
    coefficients = key_coefficients(circuit)
    stage("making tables", None)
    n_g1 = sum(len(part) for part in (scalars.ic, scalars.a, scalars.b, scalars.c, scalars.h))
    g1_point, g2_point = generators()
    g1 = FixedBase(g1_point, n_g1, backend.threads)
    g2 = FixedBase(g2_point, len(scalars.b), backend.threads)
    header = _header(circuit, trapdoor, len(coefficients), g1, g2)
    write_zkey(
        file,
        header,
        coefficients,
        {
            3: _multiples(g1, scalars.ic, "IC", stage),
            5: _multiples(g1, scalars.a, "A", stage),
            6: _multiples(g1, scalars.b, "B1", stage),
            7: _multiples(g2, scalars.b, "B2", stage),
            8: _multiples(g1, scalars.c, "C", stage),
            9: _multiples(g1, scalars.h, "H", stage),
        },
    )


def key_bytes(header: R1csHeader) -> int:
    """The least size of the key of a circuit: its points, without the coefficients."""
    n_private = header.n_wires - header.n_public - 1
    n_g1 = 2 * header.n_wires + header.n_public + 1 + n_private + header.domain_size
    return n_g1 * G1_BYTES + header.n_wires * G2_BYTES


def key_scalars(circuit: R1cs, trapdoor: Trapdoor, backend: Backend) -> Scalars:
    """Compute the logarithms of every point of a key.

    Raises:
        KernelError: There is not enough memory or threads.
    """
    n, first_private = circuit.header.domain_size, circuit.header.n_public + 1
    over_delta = pow(trapdoor.delta, -1, R)
    parts = _by_wire(circuit)
    at_tau = _lagrange(trapdoor.tau, n, backend)
    a, b = (to_plain(backend.multiply(backend.load_matrix(rows), to_plain(at_tau))) for rows in parts[:2])
    mixed = []
    for scale, wires in ((1, slice(None, first_private)), (over_delta, slice(first_private, None))):
        # beta A + alpha B + C in one product: the three matrices side by side, against three vectors below each other.
        factors = (trapdoor.beta * scale % R, trapdoor.alpha * scale % R, scale)
        vector = np.concatenate([scaled(at_tau, FrPlain(_limbs([factor]))).limbs for factor in factors])
        rows = _side_by_side(parts, wires, n)
        mixed.append(to_plain(backend.multiply(backend.load_matrix(rows), FrPlain(vector))))
    odd = FrMont(np.ascontiguousarray(_lagrange(trapdoor.tau, 2 * n, backend).limbs[1::2]))
    return Scalars(ic=mixed[0], a=a, b=b, c=mixed[1], h=scaled(odd, FrPlain(_limbs([over_delta]))))


def key_coefficients(circuit: R1cs) -> NDArray[np.void]:
    """Section 4: the entries of A and B row by row, A before B, then a row for ONE and each public value."""
    n_rows, n_public = circuit.header.n_constraints, circuit.header.n_public
    parts = [_entries(matrix, part) for matrix, part in enumerate((circuit.a, circuit.b))]
    entries = np.concatenate(parts)
    entries = entries[np.argsort(entries["row"], kind="stable")]
    public = np.zeros(n_public + 1, dtype=COEFFICIENT)
    public["wire"] = np.arange(n_public + 1)
    public["row"] = n_rows + public["wire"]
    public["value"] = _limbs([FR_RADIX**2 % R])
    return np.concatenate([entries, public])


def _entries(matrix: int, part: Combinations) -> NDArray[np.void]:
    entries = np.zeros(len(part.wires), dtype=COEFFICIENT)
    entries["matrix"], entries["row"], entries["wire"] = matrix, part.rows, part.wires
    entries["value"] = to_montgomery_twice(part.values).limbs
    return entries


def _lagrange(tau: int, n: int, backend: Backend) -> FrMont:
    """The n values of the Lagrange basis of the domain of size n at tau."""
    powers = bytearray(32 * n)
    power = FR_RADIX % R
    for at in range(0, 32 * n, 32):
        powers[at : at + 32] = power.to_bytes(32, "little")
        power = power * tau % R
    values = FrMont(np.frombuffer(powers, dtype="<u8").reshape(n, 4))
    return backend.ntt(values, inverse=True, out=values)


def _by_wire(circuit: R1cs) -> list[CsrRows]:
    """A (with the rows of ONE and the public values), B and C transposed: a row a wire, a column a row."""
    header = circuit.header
    public = np.arange(header.n_public + 1)
    ones = np.repeat(_limbs([FR_RADIX**2 % R]), len(public), axis=0)
    matrices = []
    for index, part in enumerate((circuit.a, circuit.b, circuit.c)):
        wires, rows, values = part.wires.astype(np.int64), part.rows, to_montgomery_twice(part.values).limbs
        if index == 0:
            wires, rows = np.concatenate([wires, public]), np.concatenate([rows, header.n_constraints + public])
            values = np.concatenate([values, ones])
        order = np.argsort(wires, kind="stable")
        starts = np.zeros(header.n_wires + 1, dtype=np.uint64)
        starts[1:] = np.cumsum(np.bincount(wires, minlength=header.n_wires))
        columns = rows[order].astype(np.uint32)
        matrices.append(CsrRows(starts, columns, FrMontTwice(values[order]), header.domain_size))
    return matrices


def _side_by_side(parts: list[CsrRows], wires: slice, n: int) -> CsrRows:
    """The chosen rows of three matrices of n columns each, beside each other in a matrix of 3 n columns."""
    counts = [np.diff(part.row_starts)[wires].astype(np.int64) for part in parts]
    row = np.concatenate([np.repeat(np.arange(len(count)), count) for count in counts])
    chosen = []
    for part in parts:
        bounds = part.row_starts[:-1][wires], part.row_starts[1:][wires]
        chosen.append(slice(int(bounds[0][0]), int(bounds[1][-1])) if len(bounds[0]) else slice(0, 0))
    columns = np.concatenate(
        [part.columns[c] + np.uint32(n * k) for k, (part, c) in enumerate(zip(parts, chosen, strict=True))]
    )
    values = np.concatenate([part.values.limbs[c] for part, c in zip(parts, chosen, strict=True)])
    order = np.argsort(row, kind="stable")
    starts = np.zeros(len(counts[0]) + 1, dtype=np.uint64)
    starts[1:] = np.cumsum(sum(counts))
    return CsrRows(starts, columns[order], FrMontTwice(values[order]), 3 * n)


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
    base: FixedBase[G1Affine] | FixedBase[G2Affine], scalars: FrPlain, name: str, stage: Stage
) -> Iterator[G1Affine | G2Affine]:
    for begin in range(0, len(scalars), SLICE):
        stage(f"making the points of {name}", begin / len(scalars))
        yield base.multiples(FrPlain(scalars.limbs[begin : begin + SLICE]))


def _limbs(values: list[int]) -> NDArray[np.uint64]:
    return np.frombuffer(b"".join(value.to_bytes(32, "little") for value in values), dtype="<u8").reshape(-1, 4).copy()

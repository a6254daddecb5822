"""Reader of .zkey version 1 for Groth16 over BLS12-381, as snarkjs writes it.

Points are affine, Montgomery (R = 2^384), little-endian, infinity all zeros. Coefficients of section 4 are v * R^2
mod r with R = 2^256. Section 9 holds the bases for the values of A*B - C on the odd points of the double domain.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kernels.interface import CsrRows, FrMontTwice, G1Affine, G2Affine
from prover.errors import InputError
from prover.formats.container import Container
from prover.formats.field import P, R, prime_name, reduce_mod_r

if TYPE_CHECKING:
    from pathlib import Path

    from kernels.interface import Backend

G1_BYTES = 96
G2_BYTES = 192
COEFFICIENT_BYTES = 44
MAX_DOMAIN_SIZE = 2**31  # the double domain needs roots of unity of order 2^32, and Fr has no more
PROTOCOLS = {1: "Groth16", 2: "PLONK", 10: "FFLONK"}

_HEADER_BYTES = 4 + 48 + 4 + 32 + 12 + 3 * G1_BYTES + 3 * G2_BYTES
_COEFFICIENT = np.dtype([("matrix", "<u4"), ("row", "<u4"), ("wire", "<u4"), ("value", "<u8", (4,))])

PointsT = TypeVar("PointsT", G1Affine, G2Affine)


@dataclass(frozen=True, eq=False)
class ZkeyHeader:
    """Section 2, and the counts that the sections' lengths were held against.

    Args:
        n_vars: Wires, ONE included.
        n_public: Public outputs and inputs, without ONE.
        domain_size: A power of two.
        n_coefficients: Entries of the matrices A and B together.
        file_bytes: Size of the file.
        alpha1: One point, like the following five.
        beta1: See alpha1.
        beta2: See alpha1.
        gamma2: See alpha1.
        delta1: See alpha1.
        delta2: See alpha1.
    """

    n_vars: int
    n_public: int
    domain_size: int
    n_coefficients: int
    file_bytes: int
    alpha1: G1Affine
    beta1: G1Affine
    beta2: G2Affine
    gamma2: G2Affine
    delta1: G1Affine
    delta2: G2Affine


@dataclass(frozen=True, eq=False)
class Zkey:
    """A proving key in memory. Points were not looked at yet: see ``check_points``.

    Args:
        name: The file, for messages.
        sha256: Of the file, lower-case hex.
        header: Counts and single points.
        ic: Section 3, n_public + 1 points.
        a: Section 5, n_vars points.
        b1: Section 6, n_vars points.
        b2: Section 7, n_vars points.
        c: Section 8, n_vars - n_public - 1 points.
        h: Section 9, domain_size points.
        matrix_a: Section 4, matrix 0: domain_size rows over n_vars columns.
        matrix_b: Section 4, matrix 1.
    """

    name: str
    sha256: str
    header: ZkeyHeader
    ic: G1Affine
    a: G1Affine
    b1: G1Affine
    b2: G2Affine
    c: G1Affine
    h: G1Affine
    matrix_a: CsrRows
    matrix_b: CsrRows


def read_header(path: Path) -> ZkeyHeader:
    """Read the counts of a zkey file, with all section lengths checked and no array read.

    Raises:
        InputError: See ``read_zkey``.
    """
    with Container(path, "zkey", 1) as file:
        return _read_header(file)


def read_zkey(path: Path) -> Zkey:
    """Read a proving key.

    Raises:
        InputError: The file cannot be read, is not a Groth16 key over BLS12-381, a length, count or index does not
            agree with another, or a point that must not be infinity is.
    """
    with Container(path, "zkey", 1) as file:
        header = _read_header(file)
        matrix_a, matrix_b = _read_matrices(file, header)
        return Zkey(
            name=file.name,
            sha256=file.sha256(),
            header=header,
            ic=G1Affine(file.read_limbs(file.section(3, "IC"), G1Affine.width)),
            a=G1Affine(file.read_limbs(file.section(5, "A"), G1Affine.width)),
            b1=G1Affine(file.read_limbs(file.section(6, "B1"), G1Affine.width)),
            b2=G2Affine(file.read_limbs(file.section(7, "B2"), G2Affine.width)),
            c=G1Affine(file.read_limbs(file.section(8, "C"), G1Affine.width)),
            h=G1Affine(file.read_limbs(file.section(9, "H"), G1Affine.width)),
            matrix_a=matrix_a,
            matrix_b=matrix_b,
        )


def check_points(zkey: Zkey, backend: Backend) -> None:
    """Check that every point of a key has coordinates below p and lies on its curve.

    Membership in the subgroup of order r is not checked (it costs 50 us a point): a key of wrong points makes proofs
    that do not verify, and no proof leaves without having been verified.

    Raises:
        InputError: Names the first section and index that is wrong.
    """
    header = zkey.header
    parts: list[tuple[str, G1Affine | G2Affine]] = [
        ("section 2 (alpha1)", header.alpha1),
        ("section 2 (beta1)", header.beta1),
        ("section 2 (beta2)", header.beta2),
        ("section 2 (gamma2)", header.gamma2),
        ("section 2 (delta1)", header.delta1),
        ("section 2 (delta2)", header.delta2),
        ("section 3 (IC)", zkey.ic),
        ("section 5 (A)", zkey.a),
        ("section 6 (B1)", zkey.b1),
        ("section 7 (B2)", zkey.b2),
        ("section 8 (C)", zkey.c),
        ("section 9 (H)", zkey.h),
    ]
    for title, points in parts:
        index = backend.first_invalid(points)
        if index is not None:
            raise InputError(
                "zkey-point",
                f"{zkey.name}: {title}: point {index} has a coordinate that is not below p, or is not on the curve",
                "the file was damaged: fetch it again and compare its digest",
            )


def _read_header(file: Container) -> ZkeyHeader:
    (protocol,) = struct.unpack("<I", file.read_bytes(file.section(1, "protocol", 4), 0, 4))
    if protocol != 1:
        name = PROTOCOLS.get(protocol, f"protocol number {protocol}")
        file.fail(f"it is a key for {name}, and this prover makes Groth16 proofs", "protocol")
    _check_primes(file)
    raw = file.read_bytes(file.section(2, "header", _HEADER_BYTES), 0, _HEADER_BYTES)
    n_vars, n_public, domain_size = struct.unpack_from("<III", raw, 88)
    if n_public >= n_vars:
        file.fail(f"section 2 (header): {n_public} public values and ONE do not fit into {n_vars} wires")
    if domain_size & (domain_size - 1) or not n_public < domain_size <= MAX_DOMAIN_SIZE:
        file.fail(
            f"section 2 (header): the domain size must be a power of two above {n_public} and at most "
            f"{MAX_DOMAIN_SIZE}, and is {domain_size}"
        )
    for kind, title, n_bytes in (
        (3, "IC", (n_public + 1) * G1_BYTES),
        (5, "A", n_vars * G1_BYTES),
        (6, "B1", n_vars * G1_BYTES),
        (7, "B2", n_vars * G2_BYTES),
        (8, "C", (n_vars - n_public - 1) * G1_BYTES),
        (9, "H", domain_size * G1_BYTES),
    ):
        file.section(kind, title, n_bytes)
    points = np.frombuffer(raw, dtype="<u8", offset=100)
    return ZkeyHeader(
        n_vars=n_vars,
        n_public=n_public,
        domain_size=domain_size,
        n_coefficients=_n_coefficients(file),
        file_bytes=file.n_bytes,
        alpha1=_single(file, "alpha1", G1Affine, points[0:12]),
        beta1=_single(file, "beta1", G1Affine, points[12:24]),
        beta2=_single(file, "beta2", G2Affine, points[24:48]),
        gamma2=_single(file, "gamma2", G2Affine, points[48:72]),
        delta1=_single(file, "delta1", G1Affine, points[72:84]),
        delta2=_single(file, "delta2", G2Affine, points[84:108]),
    )


def _check_primes(file: Container) -> None:
    """Check the two primes first: the header's length depends on them, and a wrong curve should be called that."""
    section = file.section(2, "header")
    at = 0
    for expected, n_bytes in ((P, 48), (R, 32)):
        if at + 4 > section.n_bytes:
            file.fail(f"section 2 (header) must have {_HEADER_BYTES} bytes and has {section.n_bytes}")
        (found_bytes,) = struct.unpack("<I", file.read_bytes(section, at, 4))
        if found_bytes > min(128, section.n_bytes - at - 4):
            file.fail(f"section 2 (header) claims a prime of {found_bytes} bytes; {n_bytes} are expected")
        prime = int.from_bytes(file.read_bytes(section, at + 4, found_bytes), "little")
        if prime != expected or found_bytes != n_bytes:
            file.fail(
                f"section 2 (header): the key is over {prime_name(prime)}, and this prover takes BLS12-381",
                "curve",
                "make the key with the curve bls12-381",
            )
        at += 4 + n_bytes


def _single(
    file: Container, name: str, kind: type[PointsT], limbs: np.ndarray[tuple[int], np.dtype[np.uint64]]
) -> PointsT:
    if not limbs.any():
        file.fail(f"section 2 (header): {name} is infinity, and such a key proves everything or nothing", "point")
    return kind(limbs.reshape(1, -1).copy())


def _n_coefficients(file: Container) -> int:
    section = file.section(4, "coefficients")
    if section.n_bytes < 4:
        file.fail(f"section 4 (coefficients) must start with its count and has {section.n_bytes} bytes")
    (n,) = struct.unpack("<I", file.read_bytes(section, 0, 4))
    file.section(4, f"coefficients, {n} of them", 4 + n * COEFFICIENT_BYTES)
    return int(n)


def _read_matrices(file: Container, header: ZkeyHeader) -> tuple[CsrRows, CsrRows]:
    entries = file.read_records(file.section(4, "coefficients"), 4, _COEFFICIENT)
    for field, limit in (("matrix", 2), ("row", header.domain_size), ("wire", header.n_vars)):
        bad = np.flatnonzero(entries[field] >= limit)
        if len(bad):
            found = entries[field][bad[0]]
            file.fail(f"section 4 (coefficients): entry {bad[0]} has {field} {found}, which must be below {limit}")
    in_b = entries["matrix"] == 1
    return _rows(entries[~in_b], header), _rows(entries[in_b], header)


def _rows(entries: np.ndarray[tuple[int], np.dtype[np.void]], header: ZkeyHeader) -> CsrRows:
    """Sort entries by rows; writers may put them in any order and may leave values above r."""
    rows = entries["row"]
    if np.any(rows[1:] < rows[:-1]):
        entries = entries[np.argsort(rows, kind="stable")]
    row_starts = np.zeros(header.domain_size + 1, dtype=np.uint64)
    row_starts[1:] = np.cumsum(np.bincount(entries["row"], minlength=header.domain_size))
    values = np.ascontiguousarray(entries["value"])
    reduce_mod_r(values)
    return CsrRows(row_starts, np.ascontiguousarray(entries["wire"]), FrMontTwice(values), header.n_vars)

"""Reader of .zkey version 1 for Groth16 over BLS12-381, as snarkjs writes it.

Points are affine, Montgomery (R = 2^384), little-endian, infinity all zeros. Coefficients of section 4 are v * R^2
mod r with R = 2^256. Section 9 holds the bases for the values of A*B - C on the odd points of the double domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeVar

import numpy as np

from kernels.host.subgroup import first_outside_subgroup
from kernels.interface import CsrRows, FrMontTwice, G1Affine, G2Affine
from prover.errors import InputError
from prover.formats.container import Container
from prover.formats.field import P, R, reduce_mod_r
from prover.formats.prime import Prime, read_prime, require_prime

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from kernels.interface import Backend

VERSION = 1
G1_BYTES = 96
G2_BYTES = 192
MAX_DOMAIN_SIZE = 2**31  # the double domain needs roots of unity of order 2^32, and Fr has no more
PROTOCOLS = {1: "Groth16", 2: "PLONK", 10: "FFLONK"}

POINTS_OFFSET = 4 + 48 + 4 + 32 + 12  # in section 2
COEFFICIENT = np.dtype([("matrix", "<u4"), ("row", "<u4"), ("wire", "<u4"), ("value", "<u8", (4,))])
COEFFICIENT_BYTES = COEFFICIENT.itemsize

PointsT = TypeVar("PointsT", G1Affine, G2Affine)


@dataclass(frozen=True)
class ZkeyCounts:
    """The numbers of section 2 and of section 4, over any curve; the sections' lengths agree with them.

    Args:
        base: The prime of the coordinates.
        scalar: The prime of the scalars.
        n_vars: Wires, ONE included.
        n_public: Public outputs and inputs, without ONE.
        domain_size: A power of two.
        n_coefficients: Entries of the matrices A and B together.
    """

    base: Prime
    scalar: Prime
    n_vars: int
    n_public: int
    domain_size: int
    n_coefficients: int


@dataclass(frozen=True, eq=False)
class ZkeyHeader:
    """Section 2, and the counts that the sections' lengths were held against.

    Args:
        n_vars: Wires, ONE included.
        n_public: Public outputs and inputs, without ONE.
        domain_size: A power of two.
        n_coefficients: Entries of the matrices A and B together.
        file_bytes: Size of the file.
        offsets: Where the payload of each section starts, by its number.
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
    offsets: dict[int, int]
    alpha1: G1Affine
    beta1: G1Affine
    beta2: G2Affine
    gamma2: G2Affine
    delta1: G1Affine
    delta2: G2Affine


@dataclass(frozen=True, eq=False)
class Zkey:
    """A proving key in memory. Points were not looked at yet: see ``check_on_curve``.

    Args:
        name: The file, for messages.
        sha256: Of the file, lower-case hex; empty where it was not asked for.
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


@dataclass(frozen=True, eq=False)
class PointGroup:
    """Points that stand together in a file.

    Args:
        title: The section, and what they are.
        offset: Of the first of all of them in the file, in bytes.
        points: All of them, or a piece of them.
        first: Index of the first point of the piece among all of them.
    """

    title: str
    offset: int
    points: G1Affine | G2Affine
    first: int = 0


def read_header(path: Path) -> ZkeyHeader:
    """Read the counts of a zkey file, with all section lengths checked and no array read.

    Raises:
        InputError: See ``read_zkey``.
    """
    with Container(path, "zkey", VERSION) as file:
        return read_open_header(file)


def read_zkey(path: Path, *, with_digest: bool = True) -> Zkey:
    """Read a proving key.

    Args:
        path: The file.
        with_digest: Whether its SHA-256 is wanted: 0.1 s for 50 MB, and half a minute for a key of many GiB.

    Raises:
        InputError: The file cannot be read, is not a Groth16 key over BLS12-381, a length, count or index does not
            agree with another, or a point that must not be infinity is.
    """
    with Container(path, "zkey", VERSION) as file:
        header = read_open_header(file)
        matrix_a, matrix_b = _read_matrices(file, header)
        return Zkey(
            name=file.name,
            sha256=file.sha256() if with_digest else "",
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


def read_public_part(path: Path) -> tuple[ZkeyHeader, G1Affine]:
    """Read the header of a proving key and its section 3: all that a verification key needs.

    Raises:
        InputError: See ``read_zkey``.
    """
    with Container(path, "zkey", VERSION) as file:
        header = read_open_header(file)
        return header, G1Affine(file.read_limbs(file.section(3, "IC"), G1Affine.width))


def public_points(header: ZkeyHeader, ic: G1Affine) -> list[PointGroup]:
    """The points of a verification key, and beta1 and delta1."""
    return [*header_points(header), PointGroup("section 3 (IC)", header.offsets[3], ic)]


def header_points(header: ZkeyHeader) -> list[PointGroup]:
    """The six points of section 2."""
    groups = []
    at = header.offsets[2] + POINTS_OFFSET
    for name in ("alpha1", "beta1", "beta2", "gamma2", "delta1", "delta2"):
        points: G1Affine | G2Affine = getattr(header, name)
        groups.append(PointGroup(f"section 2 (header), {name}", at, points))
        at += points.n_bytes
    return groups


def all_points(zkey: Zkey) -> list[PointGroup]:
    """Every point of a key."""
    sections = ((5, "A", zkey.a), (6, "B1", zkey.b1), (7, "B2", zkey.b2), (8, "C", zkey.c), (9, "H", zkey.h))
    offsets = zkey.header.offsets
    groups = [PointGroup(f"section {kind} ({title})", offsets[kind], points) for kind, title, points in sections]
    return [*public_points(zkey.header, zkey.ic), *groups]


def check_on_curve(name: str, groups: list[PointGroup], backend: Backend) -> None:
    """Check that every point has coordinates below p and lies on its curve.

    Membership in the subgroup of order r is not checked here: see ``check_subgroups``. Without it a key of wrong points
    makes proofs that do not verify, and no proof leaves without having been verified.

    Args:
        name: The file, for messages.
        groups: From ``all_points`` or ``public_points``.
        backend: What computes.

    Raises:
        InputError: Names the first section and index that is wrong.
    """
    for group in groups:
        index = backend.first_invalid(group.points)
        if index is not None:
            expected, found = "a point of the curve", "coordinates that are not below p, or not those of such a point"
            _refuse_point(name, group, index, expected, found)


def check_subgroups(name: str, groups: list[PointGroup], threads: int) -> None:
    """Check that every point lies in the subgroup of order r: see ``kernels.host.subgroup`` for cost and soundness.

    Args:
        name: The file, for messages.
        groups: On their curves: see ``check_on_curve``.
        threads: CPU threads.

    Raises:
        InputError: Names a section and index that is wrong.
    """
    for group in groups:
        index = first_outside_subgroup(group.points, threads)
        if index is not None:
            _refuse_point(name, group, index, "a point of the subgroup of order r", "one outside of it")


def _refuse_point(name: str, group: PointGroup, index: int, expected: str, found: str) -> NoReturn:
    index += group.first
    offset = group.offset + 8 * group.points.width * index
    where = f"{group.title}, point {index}" if len(group.points) > 1 or group.first else group.title
    raise InputError(
        "zkey-point",
        f"{name}: {where} at byte {offset}: expected {expected}, found {found}",
        "the file was damaged: fetch it again and compare its digest",
        {"file": name, "where": where, "offset": offset, "expected": expected, "found": found},
    )


def read_counts(file: Container) -> ZkeyCounts:
    """Read the counts of an open Groth16 zkey file over any curve, with all section lengths checked.

    Raises:
        InputError: It is a key for another protocol, or a length does not agree with a count.
    """
    protocol = read_protocol(file)
    if protocol != 1:
        name = PROTOCOLS.get(protocol, "an unknown protocol")
        at = file.section(1, "protocol").offset
        hint = "this prover makes Groth16 proofs: make the key with snarkjs groth16 setup"
        file.mismatch("section 1 (protocol)", at, "1 (Groth16)", f"{protocol} ({name})", code="protocol", hint=hint)
    section = file.section(2, "header")
    base = read_prime(file, section, 0, "header")
    scalar = read_prime(file, section, base.end, "header")
    g1_bytes, g2_bytes = 2 * base.n_bytes, 4 * base.n_bytes
    file.section(2, "header", scalar.end + 12 + 3 * g1_bytes + 3 * g2_bytes)
    n_vars, n_public, domain_size = file.read_u32(section, scalar.end, 3)
    at = section.offset + scalar.end
    if n_public >= n_vars:
        file.mismatch("section 2 (header), number of public values", at + 4, f"fewer than the {n_vars} wires", n_public)
    if domain_size & (domain_size - 1) or not n_public < domain_size <= MAX_DOMAIN_SIZE:
        expected = f"a power of two above {n_public} and at most {MAX_DOMAIN_SIZE}"
        file.mismatch("section 2 (header), domain size", at + 8, expected, domain_size)
    for kind, title, n_bytes in (
        (3, "IC", (n_public + 1) * g1_bytes),
        (5, "A", n_vars * g1_bytes),
        (6, "B1", n_vars * g1_bytes),
        (7, "B2", n_vars * g2_bytes),
        (8, "C", (n_vars - n_public - 1) * g1_bytes),
        (9, "H", domain_size * g1_bytes),
    ):
        file.section(kind, title, n_bytes)
    return ZkeyCounts(base, scalar, n_vars, n_public, domain_size, _n_coefficients(file, scalar.n_bytes))


def read_protocol(file: Container) -> int:
    """Read the number of the protocol that an open zkey file is for: see ``PROTOCOLS``."""
    section = file.section(1, "protocol", 4)
    return file.read_u32(section, 0, 1)[0]


def read_open_header(file: Container) -> ZkeyHeader:
    """Read the header of an open zkey file: see ``read_header``."""
    section = file.section(2, "header")
    if read_protocol(file) == 1:
        # The primes first: every length depends on them, and a wrong curve should be called that.
        base = read_prime(file, section, 0, "header")
        require_prime(file, section, base, P, 48)
        require_prime(file, section, read_prime(file, section, base.end, "header"), R, 32)
    counts = read_counts(file)
    points = np.frombuffer(file.read_bytes(section, POINTS_OFFSET, 3 * (G1_BYTES + G2_BYTES)), dtype="<u8")
    return ZkeyHeader(
        n_vars=counts.n_vars,
        n_public=counts.n_public,
        domain_size=counts.domain_size,
        n_coefficients=counts.n_coefficients,
        file_bytes=file.n_bytes,
        offsets={kind: found.offset for kind, found in file.sections.items()},
        alpha1=_single(file, "alpha1", G1Affine, points, 0),
        beta1=_single(file, "beta1", G1Affine, points, 12),
        beta2=_single(file, "beta2", G2Affine, points, 24),
        gamma2=_single(file, "gamma2", G2Affine, points, 48),
        delta1=_single(file, "delta1", G1Affine, points, 72),
        delta2=_single(file, "delta2", G2Affine, points, 84),
    )


def _single(file: Container, name: str, kind: type[PointsT], points: NDArray[np.uint64], first: int) -> PointsT:
    limbs = points[first : first + kind.width]
    if not limbs.any():
        at = file.section(2, "header").offset + POINTS_OFFSET + 8 * first
        file.mismatch(f"section 2 (header), {name}", at, "a point of the group", "infinity", code="point")
    return kind(limbs.reshape(1, -1).astype(np.uint64))


def _n_coefficients(file: Container, value_bytes: int) -> int:
    section = file.section(4, "coefficients")
    if section.n_bytes < 4:
        file.mismatch("section 4 (coefficients), their count", section.offset, "4 bytes", f"{section.n_bytes} bytes")
    (n,) = file.read_u32(section, 0, 1)
    file.section(4, f"coefficients, {n} of them", 4 + n * (12 + value_bytes))
    return n


def _read_matrices(file: Container, header: ZkeyHeader) -> tuple[CsrRows, CsrRows]:
    entries = file.read_records(file.section(4, "coefficients"), 4, COEFFICIENT)
    check_entries(file, entries, header)
    in_b = entries["matrix"] == 1
    return _rows(entries[~in_b], header), _rows(entries[in_b], header)


def check_entries(
    file: Container, entries: np.ndarray[tuple[int], np.dtype[np.void]], header: ZkeyHeader, first: int = 0
) -> None:
    """Check the numbers of section 4, or of a piece of it that begins with entry ``first``.

    Raises:
        InputError: One of them is too large.
    """
    limits = (("matrix", 2), ("row", header.domain_size), ("wire", header.n_vars))
    for word, (field, limit) in enumerate(limits):
        bad = np.flatnonzero(entries[field] >= limit)
        if len(bad):
            index = first + int(bad[0])
            at = file.section(4, "coefficients").offset + 4 + COEFFICIENT_BYTES * index + 4 * word
            place = f"section 4 (coefficients), entry {index}, {field}"
            file.mismatch(place, at, f"a number below {limit}", entries[field][bad[0]])


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

"""The .zkey reader: sound files, odd but legal writers, and a sentence for each way to be wrong."""

from __future__ import annotations

import hashlib
import os
import struct
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from groth16_files import CIRCUITS, host, join, path_of, put_u32, split

from prover.errors import InputError
from prover.formats.field import P, R
from prover.formats.zkey import all_points, check_on_curve, check_subgroups, read_header, read_public_part, read_zkey

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from groth16_files import Sections

BN254_P = 21888242871839275222246405745257275088696311157297823662689037894645226208583
BN254_R = 21888242871839275222246405745257275088548364400416034343698204186575808495617
N_VARS, N_PUBLIC, DOMAIN = 120, 1, 64  # mul60


@pytest.fixture
def raw() -> bytes:
    return path_of("mul60", "circuit.zkey").read_bytes()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "circuit.zkey"


def read(path: Path, sections: Sections) -> None:
    path.write_bytes(join("zkey", 1, sections))
    zkey = read_zkey(path)
    check_on_curve(zkey.name, all_points(zkey), host())


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_fixtures_are_read(circuit: str) -> None:
    path = path_of(circuit, "circuit.zkey")
    zkey = read_zkey(path)
    check_on_curve(zkey.name, all_points(zkey), host())
    check_subgroups(zkey.name, all_points(zkey), 2)
    header = zkey.header
    assert zkey.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert header.file_bytes == path.stat().st_size
    assert len(zkey.matrix_a.columns) + len(zkey.matrix_b.columns) == header.n_coefficients
    assert (zkey.matrix_a.n_rows, zkey.matrix_a.n_columns) == (header.domain_size, header.n_vars)
    assert read_header(path).n_vars == header.n_vars


def test_order_of_sections_and_of_coefficients_does_not_matter(raw: bytes, file: Path) -> None:
    reference = read_zkey(path_of("mul60", "circuit.zkey"))
    sections = split(raw)
    body = sections[4][4:]
    entries = [body[i : i + 44] for i in range(0, len(body), 44)]
    sections[4][4:] = b"".join(reversed(entries))
    file.write_bytes(join("zkey", 1, dict(reversed(sections.items()))))
    zkey = read_zkey(file)
    for ours, theirs in ((zkey.matrix_a, reference.matrix_a), (zkey.matrix_b, reference.matrix_b)):
        assert np.array_equal(ours.row_starts, theirs.row_starts)
        for row in range(ours.n_rows):
            place = slice(int(ours.row_starts[row]), int(ours.row_starts[row + 1]))
            assert sorted(ours.columns[place]) == sorted(theirs.columns[place])
    assert np.array_equal(zkey.h.limbs, reference.h.limbs)


def test_sections_beyond_4_gib_are_read(raw: bytes, file: Path) -> None:
    hole_bytes = (4 << 30) + 12345  # of a section that no reader knows; nothing of it is written to the disk
    sections = split(raw)
    with file.open("wb") as out:
        out.write(b"zkey" + struct.pack("<IIIQ", 1, len(sections) + 1, 4711, hole_bytes))
        out.seek(hole_bytes, os.SEEK_CUR)
        out.write(join("zkey", 1, sections)[12:])
    (header, ic), (same, reference) = read_public_part(file), read_public_part(path_of("mul60", "circuit.zkey"))
    assert header.file_bytes > hole_bytes
    assert header.offsets[2] > hole_bytes
    assert np.array_equal(header.delta2.limbs, same.delta2.limbs)
    assert np.array_equal(ic.limbs, reference.limbs)


def test_coefficients_of_r_and_above_are_reduced(raw: bytes, file: Path) -> None:
    reference = read_zkey(path_of("mul60", "circuit.zkey"))
    sections = split(raw)
    n_raised = 0
    for i in range(4, len(sections[4]), 44):
        value = int.from_bytes(sections[4][i + 12 : i + 44], "little")
        raised = value + (2 if value + 2 * R < 2**256 else 1) * R
        if raised < 2**256:
            sections[4][i + 12 : i + 44] = raised.to_bytes(32, "little")
            n_raised += 1
    assert n_raised > 100
    file.write_bytes(join("zkey", 1, sections))
    zkey = read_zkey(file)
    assert np.array_equal(zkey.matrix_a.values.limbs, reference.matrix_a.values.limbs)
    assert np.array_equal(zkey.matrix_b.values.limbs, reference.matrix_b.values.limbs)


def header_u32(offset: int, value: int) -> Callable[[Sections], None]:
    return lambda sections: put_u32(sections[2], offset, value)


def entry(index: int, word: int, value: int) -> Callable[[Sections], None]:
    return lambda sections: put_u32(sections[4], 4 + 44 * index + 4 * word, value)


def bn254(sections: Sections) -> None:
    sections[2] = bytearray(struct.pack("<I", 32) + BN254_P.to_bytes(32, "little"))
    sections[2] += struct.pack("<I", 32) + BN254_R.to_bytes(32, "little") + bytes(12 + 3 * 64 + 3 * 128)


def point(kind: int, offset: int, value: int) -> Callable[[Sections], None]:
    def change(sections: Sections) -> None:
        sections[kind][offset : offset + 48] = value.to_bytes(48, "little")

    return change


def shift_coordinate(sections: Sections) -> None:
    x = int.from_bytes(sections[5][:48], "little")
    sections[5][:48] = (x + P).to_bytes(48, "little")


def drop(kind: int) -> Callable[[Sections], object]:
    return lambda sections: sections.pop(kind)


def cut(kind: int, n_bytes: int) -> Callable[[Sections], None]:
    def change(sections: Sections) -> None:
        del sections[kind][-n_bytes:]

    return change


CHANGES: dict[str, tuple[Callable[[Sections], object], str]] = {
    "plonk": (
        lambda s: put_u32(s[1], 0, 2),
        r"section 1 \(protocol\) at byte 24: expected 1 \(Groth16\), found 2 \(PLONK\)",
    ),
    "fflonk": (lambda s: put_u32(s[1], 0, 10), r"found 10 \(FFLONK\)"),
    "protocol 7": (lambda s: put_u32(s[1], 0, 7), r"found 7 \(an unknown protocol\)"),
    "bn254": (
        bn254,
        r"section 2, prime at byte 44: expected the base field of BLS12-381, found the base field of BN254 \(bn128\)",
    ),
    "scalar prime": (
        lambda s: s[2].__setitem__(56, 9),
        "expected the scalar field of BLS12-381, found an unknown prime of 255 bits",
    ),
    "prime bytes": (
        lambda s: put_u32(s[2], 0, 2**31),
        "length of a field element at byte 40: expected a multiple of 8 up to 128, found 2147483648",
    ),
    "short header": (cut(2, 1), r"section 2 \(header\) at byte 40: expected 964 bytes, found 963 bytes"),
    "header of 2 bytes": (
        cut(2, 962),
        r"section 2 \(header\), length of a field element at byte 40: expected 4 bytes, found 2 bytes",
    ),
    "n_vars": (header_u32(88, 121), r"section 5 \(A\) at byte \d+: expected 11616 bytes, found 11520 bytes"),
    "n_vars 0": (header_u32(88, 0), r"number of public values at byte \d+: expected fewer than the 0 wires, found 1"),
    "n_vars huge": (header_u32(88, 2**32 - 1), r"section 5 \(A\) at byte \d+: expected 412316860320 bytes"),
    "n_public": (header_u32(92, 2), r"section 3 \(IC\) at byte \d+: expected 288 bytes, found 192 bytes"),
    "n_public all": (header_u32(92, 120), "expected fewer than the 120 wires, found 120"),
    "domain 65": (
        header_u32(96, 65),
        "domain size at byte 136: expected a power of two above 1 and at most 2147483648, found 65",
    ),
    "domain 0": (header_u32(96, 0), "found 0"),
    "domain 1": (header_u32(96, 1), "found 1"),
    "domain 2^31": (
        header_u32(96, 2**31),
        r"section 9 \(H\) at byte \d+: expected 206158430208 bytes, found 6144 bytes",
    ),
    "coefficient count": (
        lambda s: put_u32(s[4], 0, 2**32 - 1),
        r"section 4 \(coefficients, 4294967295 of them\) at byte \d+: expected 188978560984 bytes",
    ),
    "no count": (
        lambda s: s.__setitem__(4, bytearray(3)),
        r"section 4 \(coefficients\), their count at byte \d+: expected 4 bytes, found 3 bytes",
    ),
    "matrix": (
        entry(5, 0, 2),
        r"section 4 \(coefficients\), entry 5, matrix at byte \d+: expected a number below 2, found 2",
    ),
    "row": (entry(6, 1, DOMAIN), r"entry 6, row at byte \d+: expected a number below 64, found 64"),
    "wire": (entry(7, 2, N_VARS), r"entry 7, wire at byte \d+: expected a number below 120, found 120"),
    "delta1 infinity": (
        lambda s: s[2].__setitem__(slice(676, 772), bytes(96)),
        r"section 2 \(header\), delta1 at byte 716: expected a point of the group, found infinity",
    ),
    "alpha1 off": (
        point(2, 100, 5),
        r"section 2 \(header\), alpha1 at byte 140: expected a point of the curve, found coordinates",
    ),
    "IC off": (point(3, 96, 5), r"section 3 \(IC\), point 1 at byte"),
    "B1 off": (point(6, 48, 5), r"section 6 \(B1\), point 0 at"),
    "B2 off": (point(7, 192 * 100 + 48, 5), r"section 7 \(B2\), point 100 at"),
    "C off": (point(8, 96 * 117, 5), r"section 8 \(C\), point 117 at"),
    "H off": (point(9, 96 * 63 + 48, 5), r"section 9 \(H\), point 63 at"),
    "H above p": (point(9, 96 * 63, 2**384 - 1), r"section 9 \(H\), point 63 at"),
    "A not canonical": (shift_coordinate, r"section 5 \(A\), point 0 at"),
    **{f"no section {kind}": (drop(kind), rf"section {kind} \(.*\) is missing") for kind in range(1, 10)},
    **{
        f"short section {kind}": (
            cut(kind, 1),
            rf"section {kind} \(.*\) at byte \d+: expected \d+ bytes, found \d+ bytes",
        )
        for kind in range(3, 10)
    },
}


@pytest.mark.parametrize("name", CHANGES)
def test_wrong_contents_are_refused_at_once(raw: bytes, file: Path, name: str) -> None:
    host()  # compiled beforehand, where it must be
    change, match = CHANGES[name]
    sections = split(raw)
    change(sections)
    start_s = time.monotonic()
    with pytest.raises(InputError, match=match) as caught:
        read(file, sections)
    assert time.monotonic() - start_s < 1
    assert caught.value.message.startswith(f"{file}: ")
    assert {"file", "where", "offset", "expected", "found"} <= set(caught.value.details)


def test_section_10_is_not_needed(raw: bytes, file: Path) -> None:
    sections = split(raw)
    sections.pop(10, None)
    read(file, sections)


def test_every_truncation_is_refused(raw: bytes, file: Path) -> None:
    for length in [*range(0, 200, 7), *range(200, len(raw), 4999), len(raw) - 1]:
        file.write_bytes(raw[:length])
        with pytest.raises(InputError):
            read_zkey(file)


def test_section_length_of_2_63_is_refused(raw: bytes, file: Path) -> None:
    damaged = bytearray(raw)
    struct.pack_into("<Q", damaged, 16, 2**63)
    file.write_bytes(damaged)
    with pytest.raises(
        InputError,
        match="section 1, number 1 of 10 at byte 12: expected its 9223372036854775808 bytes, found 70728 bytes before",
    ):
        read_header(file)


def test_a_witness_is_no_key() -> None:
    with pytest.raises(InputError, match=r"it is a witness \(\.wtns\), not a proving key \(\.zkey\)$") as refused:
        read_zkey(path_of("mul60", "witness.wtns"))
    assert refused.value.hint == "name a proving key (.zkey) in its place"

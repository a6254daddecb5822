"""The .wtns reader: sound files, and a sentence for each way to be wrong."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from groth16_files import CIRCUITS, document, join, path_of, put_u32, split

from prover.errors import InputError
from prover.formats.field import R, fr_value
from prover.formats.wtns import read_witness

if TYPE_CHECKING:
    from collections.abc import Callable

    from groth16_files import Sections

BN254_R = 21888242871839275222246405745257275088548364400416034343698204186575808495617


@pytest.fixture
def raw() -> bytes:
    return path_of("mul60", "witness.wtns").read_bytes()


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_fixtures_are_read(circuit: str) -> None:
    path = path_of(circuit, "witness.wtns")
    witness = read_witness(path)
    public = [int(value) for value in document(circuit, "public.json")]
    assert [fr_value(row) for row in witness.values.limbs[: len(public) + 1]] == [1, *public]
    assert (read_witness(path.read_bytes()).values.limbs == witness.values.limbs).all()


def test_sections_in_another_order_and_unknown_ones_are_read(raw: bytes) -> None:
    sections = split(raw)
    other = join("wtns", 2, {2: sections[2], 77: bytearray(b"?"), 1: sections[1]})
    assert (read_witness(other).values.limbs == read_witness(raw).values.limbs).all()


def test_largest_element_is_read(raw: bytes) -> None:
    sections = split(raw)
    sections[2][-32:] = (R - 1).to_bytes(32, "little")
    assert fr_value(read_witness(join("wtns", 2, sections)).values.limbs[-1]) == R - 1


def test_of_two_sections_of_a_kind_the_first_counts(raw: bytes) -> None:
    first, second = split(raw), split(raw)
    second[2][32:64] = bytes(32)
    both = join("wtns", 2, first) + join("wtns", 2, second)[12:]
    both = both[:8] + struct.pack("<I", 4) + both[12:]
    assert (read_witness(both).values.limbs == read_witness(raw).values.limbs).all()


def element(index: int, value: int) -> Callable[[Sections], None]:
    def change(sections: Sections) -> None:
        sections[2][32 * index : 32 * index + 32] = value.to_bytes(32, "little")

    return change


def prime(value: int) -> Callable[[Sections], None]:
    def change(sections: Sections) -> None:
        sections[1][4:36] = value.to_bytes(32, "little")

    return change


CHANGES: dict[str, tuple[Callable[[Sections], object], str]] = {
    "element r": (
        element(7, R),
        r"section 2 \(values\), element 7 at byte 300: expected a number below the prime, found the prime itself",
    ),
    "element 1 + r": (
        element(0, R + 1),
        r"element 0 at byte 76: expected a number below the prime, found a larger number",
    ),
    "element ff": (element(119, 2**256 - 1), r"element 119 at byte 3884: expected a number below the prime"),
    "bn254": (
        prime(BN254_R),
        r"section 1, prime at byte 28: expected the scalar field of BLS12-381, found the scalar field of BN254",
    ),
    "other prime": (prime(R - 2), r"found an unknown prime of 255 bits"),
    "n8": (
        lambda s: put_u32(s[1], 0, 31),
        r"length of a field element at byte 24: expected a multiple of 8 up to 128, found 31",
    ),
    "count up": (
        lambda s: put_u32(s[1], 36, 121),
        r"section 2 \(values, 121 of them\) at byte 76: expected 3872 bytes, found 3840 bytes",
    ),
    "count huge": (lambda s: put_u32(s[1], 36, 2**32 - 1), r"expected 137438953440 bytes, found 3840 bytes"),
    "no header": (lambda s: s.pop(1), r"section 1 \(header\) is missing"),
    "no values": (lambda s: s.pop(2), r"section 2 \(values, 120 of them\) is missing"),
    "short header": (lambda s: s[1].pop(), r"section 1 \(header\) at byte 24: expected 40 bytes, found 39 bytes"),
}


@pytest.mark.timeout(1)
@pytest.mark.parametrize("name", CHANGES)
def test_wrong_contents_are_refused(raw: bytes, name: str) -> None:
    change, match = CHANGES[name]
    sections = split(raw)
    change(sections)
    with pytest.raises(InputError, match=match):
        read_witness(join("wtns", 2, sections))


@pytest.mark.timeout(5)
def test_every_truncation_is_refused(raw: bytes) -> None:
    for length in [*range(140), *range(140, len(raw), 97), len(raw) - 1]:
        with pytest.raises(InputError):
            read_witness(raw[:length])


@pytest.mark.timeout(1)
@pytest.mark.parametrize(
    ("offset", "data", "match"),
    [
        (0, b"zkey", r"it is a proving key \(\.zkey\), not a witness \(\.wtns\)$"),
        (0, b"zkex", r"it is not a \.wtns file at byte 0: expected b'wtns', found b'zkex'"),
        (4, struct.pack("<I", 1), "the format version at byte 4: expected 2, found 1"),
        (
            8,
            struct.pack("<I", 3),
            "the head of section 3 of 3 at byte 3916: expected 12 bytes, found 0 bytes before the end",
        ),
        (
            8,
            struct.pack("<I", 1),
            "the end of the last of 1 sections at byte 64: expected the end of the file, found 3852 bytes before",
        ),
        (8, struct.pack("<I", 2**32 - 1), "the number of sections at byte 8: expected at most 64, found 4294967295"),
        (
            16,
            struct.pack("<Q", 2**63),
            "section 1, number 1 of 2 at byte 12: expected its 9223372036854775808 bytes, found 3892 bytes before",
        ),
        (16, struct.pack("<Q", 2**64 - 1), "expected its 18446744073709551615 bytes"),
        (64, struct.pack("<I", 1), r"section 2 \(values, 120 of them\) is missing at byte 3916"),
    ],
)
def test_damaged_containers_are_refused(raw: bytes, offset: int, data: bytes, match: str) -> None:
    damaged = bytearray(raw)
    damaged[offset : offset + len(data)] = data
    with pytest.raises(InputError, match=match):
        read_witness(bytes(damaged))


@pytest.mark.timeout(2)
def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, match in (
        (tmp_path / "missing.wtns", "cannot be read: No such file"),
        (tmp_path, "not a regular file"),
        (tmp_path / "pipe", "not a regular file"),
        (Path("/proc/self/mem"), "cannot be read: "),
        (tmp_path / "a\0b", "no file can have this name"),
    ):
        with pytest.raises(InputError, match=match) as caught:
            read_witness(path)
        assert str(path) in caught.value.message

"""The readers of .r1cs and .ptau: sound files, and a sentence for each way to be wrong."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

import pytest
from groth16_files import CIRCUITS, join, path_of, put_u32, split
from r1cs_files import ptau, r1cs_sections
from shapes import SHAPES

from prover.errors import InputError
from prover.formats.container import Container
from prover.formats.field import R, fr_value
from prover.formats.ptau import read_header as read_ptau_header
from prover.formats.r1cs import read_r1cs
from prover.formats.wtns import read_witness

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from groth16_files import Sections

    from prover.formats.r1cs import Combinations

BN254_R = 21888242871839275222246405745257275088548364400416034343698204186575808495617


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "circuit.r1cs"


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_witnesses_of_circom_satisfy_the_constraints(circuit: str) -> None:
    r1cs = read_r1cs(path_of(circuit, "circuit.r1cs"))
    values = [fr_value(row) for row in read_witness(path_of(circuit, "witness.wtns")).values.limbs]

    def times(part: Combinations) -> list[int]:
        sums = [0] * r1cs.header.n_constraints
        for row, wire, value in zip(part.rows, part.wires, part.values.limbs, strict=True):
            sums[row] += fr_value(value) * values[wire]
        return sums

    products = zip(times(r1cs.a), times(r1cs.b), times(r1cs.c), strict=True)
    assert all((a * b - c) % R == 0 for a, b, c in products)


@pytest.mark.parametrize("name", SHAPES)
def test_terms_are_read_as_they_were_written(file: Path, name: str) -> None:
    circuit = SHAPES[name]
    file.write_bytes(join("r1cs", 1, r1cs_sections(circuit)))
    r1cs = read_r1cs(file)
    for matrix, part in enumerate((r1cs.a, r1cs.b, r1cs.c)):
        expected = [(row, *term) for row, sides in enumerate(circuit.constraints) for term in sides[matrix]]
        found = zip(part.rows, part.wires, part.values.limbs, strict=True)
        assert [(row, wire, fr_value(value)) for row, wire, value in found] == expected


@pytest.mark.parametrize("n_empty", [0, 1, 63, 64, 65, 500])
def test_long_runs_of_empty_combinations(file: Path, n_empty: int) -> None:
    sections = r1cs_sections(SHAPES["linear"])
    sections[2] = bytearray(12 * n_empty) + sections[2] + bytearray(12 * n_empty)
    put_u32(sections[1], 60, 2 * n_empty + 1)
    file.write_bytes(join("r1cs", 1, sections))
    r1cs = read_r1cs(file)
    assert set(r1cs.a.rows) == set(r1cs.c.rows) == {n_empty}


def header_u32(offset: int, value: int) -> Callable[[Sections], None]:
    return lambda sections: put_u32(sections[1], offset, value)


def term(offset: int, value: int) -> Callable[[Sections], None]:
    return lambda sections: put_u32(sections[2], offset, value)


def coefficient(value: int) -> Callable[[Sections], None]:
    return lambda sections: sections[2].__setitem__(slice(8, 40), value.to_bytes(32, "little"))


def other_prime(sections: Sections) -> None:
    sections[1][4:36] = BN254_R.to_bytes(32, "little")


# The circuit "linear": 4 wires, 1 public; one constraint with 2 terms, 1 term, 1 term.
CHANGES: dict[str, tuple[Callable[[Sections], object], str]] = {
    "bn254": (other_prime, r"section 1, prime at byte \d+: expected .* BLS12-381, found .* BN254 \(bn128\)"),
    "n8": (header_u32(0, 31), "length of a field element at byte .*: expected a multiple of 8 up to 128, found 31"),
    "n8 of 8": (header_u32(0, 8), r"section 1 \(header\) at byte \d+: expected 40 bytes, found 64 bytes"),
    "short header": (lambda s: s[1].pop(), r"section 1 \(header\) at byte \d+: expected 64 bytes, found 63 bytes"),
    "public": (header_u32(40, 4), r"outputs and inputs at byte \d+: expected fewer than the 4 wires, found 4"),
    "no wires": (header_u32(36, 0), "expected fewer than the 0 wires, found 1"),
    "constraints up": (header_u32(60, 2), "after 3 of 6 combinations at byte .*: expected a place before byte"),
    "constraints down": (header_u32(60, 0), r"after 0 of 0 combinations at byte \d+: expected the end of the section"),
    "constraints huge": (header_u32(60, 2**32 - 1), "expected at least 51539607540 bytes, found 156 bytes"),
    "terms huge": (term(0, 2**32 - 1), r"after 1 of 3 combinations at byte \d+: expected a place before byte \d+"),
    "wire": (term(4, 4), r"constraint 0, A, wire at byte \d+: expected a number below 4, found 4"),
    "coefficient r": (coefficient(R), r"constraint 0, A, coefficient at byte \d+: expected a number below the prime"),
    "odd length": (lambda s: s[2].append(0), "expected whole words of 4 bytes, found 157 bytes"),
    "labels": (lambda s: s[3].pop(), r"section 3 \(labels of 4 wires\) at byte \d+: expected 32 bytes, found 31"),
    "custom gates": (lambda s: s.__setitem__(4, bytearray(b"\1\0\0\0")), r"section 4 \(custom gates\) at byte"),
    "no header": (lambda s: s.pop(1), r"section 1 \(header\) is missing"),
    "no constraints": (lambda s: s.pop(2), r"section 2 \(constraints\) is missing"),
}


@pytest.mark.timeout(2)
@pytest.mark.parametrize("name", CHANGES)
def test_wrong_contents_are_refused(file: Path, name: str) -> None:
    change, match = CHANGES[name]
    sections = r1cs_sections(SHAPES["linear"])
    change(sections)
    file.write_bytes(join("r1cs", 1, sections))
    with pytest.raises(InputError, match=match) as caught:
        read_r1cs(file)
    assert caught.value.message.startswith(f"{file}: ")
    assert {"file", "where", "offset", "expected", "found"} <= set(caught.value.details)


def test_labels_and_empty_lists_of_gates_are_not_needed(file: Path) -> None:
    sections = r1cs_sections(SHAPES["linear"])
    del sections[3]
    sections[4] = sections[5] = bytearray(4)
    file.write_bytes(join("r1cs", 1, sections))
    assert read_r1cs(file).header.n_wires == 4


def test_a_fault_at_the_end_of_64_mib_is_found_quickly(file: Path) -> None:
    n = 64 * 2**20 // 12
    sections = r1cs_sections(SHAPES["linear"])
    sections[2] = bytearray(12 * n)
    put_u32(sections[2], 12 * n - 4, 7)
    put_u32(sections[1], 60, n)
    file.write_bytes(join("r1cs", 1, sections))
    start_s = time.process_time()
    with pytest.raises(InputError, match=f"after {3 * n} of {3 * n} combinations"):
        read_r1cs(file)
    assert time.process_time() - start_s < 1


class TestPtau:
    @pytest.mark.parametrize("prepared", [True, False])
    def test_header_is_read(self, prepared: bool) -> None:
        with Container(ptau(3, prepared=prepared), "ptau", 1) as file:
            header = read_ptau_header(file)
        assert (header.power, header.ceremony_power, header.n_contributions) == (3, 3, 0)
        assert header.prepared is prepared

    @pytest.mark.parametrize(
        ("kind", "change", "match"),
        [
            (1, lambda p: put_u32(p, 52, 4), r"section 2 \(tau in G1\) at byte \d+: expected 2976 bytes, found 1440"),
            (1, lambda p: put_u32(p, 52, 2**31), r"power at byte \d+: expected at most 28, found 2147483648"),
            (13, lambda p: p.pop(), r"section 13 \(Lagrange tau in G2\) at byte"),
            (7, lambda p: p.pop(), r"section 7 \(contributions\) at byte \d+: expected 4 bytes, found 3 bytes"),
        ],
    )
    def test_lengths_are_held_against_the_power(self, kind: int, change: Callable[..., object], match: str) -> None:
        sections = split(ptau(3, prepared=True))
        change(sections[kind])
        with Container(join("ptau", 1, sections), "ptau", 1) as file, pytest.raises(InputError, match=match):
            read_ptau_header(file)


def test_sections_beyond_4_gib_are_found(tmp_path: Path) -> None:
    """A sparse file: a huge section that nobody asks for, then those of a circuit."""
    sections = r1cs_sections(SHAPES["linear"])
    huge = 5 * 2**30
    path = tmp_path / "huge.r1cs"
    with path.open("wb") as file:
        file.write(b"r1cs" + struct.pack("<II", 1, 1 + len(sections)) + struct.pack("<IQ", 99, huge))
        file.seek(huge, 1)
        file.write(join("r1cs", 1, sections)[12:])
    start_s = time.process_time()
    assert read_r1cs(path).header.n_constraints == 1
    assert time.process_time() - start_s < 1

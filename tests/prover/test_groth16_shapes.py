"""Circuits of every shape that the format allows: each is proved, and a wrong witness of it gets no proof."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from groth16_files import host, join
from trapdoor_setup import Circuit, Terms, wtns_sections, zkey_sections

from prover.errors import ProofInvalidError
from prover.formats.field import R
from prover.formats.wtns import read_witness
from prover.groth16 import load_key, prove

if TYPE_CHECKING:
    from pathlib import Path

SQUARE: tuple[Terms, Terms, Terms] = ([(2, 1)], [(2, 1)], [(1, 1)])  # w2 * w2 = w1


def powers(n_constraints: int) -> Circuit:
    """w1 public, w_(i+1) = w_i ^ 2."""
    witness = [1, 3]
    for _ in range(n_constraints):
        witness.append(witness[-1] ** 2 % R)
    constraints = [([(i, 1)], [(i, 1)], [(i + 1, 1)]) for i in range(1, n_constraints + 1)]
    return Circuit(n_constraints + 2, 1, constraints, witness)


def mixed(seed: int) -> Circuit:
    """Random sparse rows, each with a product wire of its own; many wires occur in one matrix or none."""
    rng = random.Random(seed)
    n_free, n_constraints = rng.randrange(1, 12), rng.randrange(1, 30)
    witness = [1, *(rng.choice([0, 1, R - 1, rng.randrange(R)]) for _ in range(n_free))]
    constraints = []
    for _ in range(n_constraints):
        sides: list[Terms] = []
        for _ in range(2):
            n_terms = rng.randrange(4)
            sides.append(
                [(rng.randrange(len(witness)), rng.choice([1, R - 1, rng.randrange(R)])) for _ in range(n_terms)]
            )
        left, right = (sum(witness[wire] * value for wire, value in side) for side in sides)
        constraints.append((sides[0], sides[1], [(len(witness), 1)]))
        witness.append(left * right % R)
    return Circuit(len(witness), rng.randrange(len(witness)), constraints, witness)


SHAPES: dict[str, Circuit] = {
    "nothing but one": Circuit(1, 0, [], [1]),
    "no constraints": Circuit(3, 2, [], [1, 5, 6]),
    "no public values": Circuit(3, 0, [SQUARE], [1, 49, 7]),
    "all public": Circuit(3, 2, [SQUARE], [1, 49, 7]),
    "unused wires": Circuit(9, 1, [SQUARE], [1, 49, 7, 1, 2, 3, 4, 5, 6]),
    "linear": Circuit(4, 1, [([(2, 1), (3, 5)], [(0, 1)], [(1, 1)])], [1, 37, 2, 7]),
    "empty rows": Circuit(3, 1, [([], [], []), SQUARE, ([(1, 4)], [], []), ([], [(2, 1)], [])], [1, 49, 7]),
    "same place twice": Circuit(3, 1, [([(2, 3), (2, R - 2)], [(2, 1)], [(1, 1)])], [1, 49, 7]),
    "zeros": Circuit(3, 1, [SQUARE], [1, 0, 0]),
    "domain just full": powers(14),
    "domain just over": powers(15),
    **{f"mixed {seed}": mixed(seed) for seed in range(8)},
}


def paths(folder: Path, circuit: Circuit) -> tuple[Path, bytes]:
    path = folder / "circuit.zkey"
    path.write_bytes(join("zkey", 1, zkey_sections(circuit)))
    return path, join("wtns", 2, wtns_sections(circuit))


@pytest.mark.parametrize("name", SHAPES)
def test_shape_is_proved(tmp_path: Path, name: str) -> None:
    circuit = SHAPES[name]
    path, wtns = paths(tmp_path, circuit)
    record = prove(load_key(path, host()), read_witness(wtns))
    assert record.public == [str(value) for value in circuit.witness[1 : circuit.n_public + 1]]


@pytest.mark.parametrize("name", ["no public values", "all public", "linear", "domain just full", "domain just over"])
def test_wrong_witness_of_a_shape_gets_no_proof(tmp_path: Path, name: str) -> None:
    circuit = SHAPES[name]
    path, _ = paths(tmp_path, circuit)
    wrong = Circuit(circuit.n_vars, circuit.n_public, [], [*circuit.witness[:-1], circuit.witness[-1] + 1])
    with pytest.raises(ProofInvalidError):
        prove(load_key(path, host()), read_witness(join("wtns", 2, wtns_sections(wrong))))

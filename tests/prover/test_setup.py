"""Circuits of every shape that the formats allow, with keys that setup makes: what two other provers make of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from flint import fmpz_mod_ctx, fmpz_mod_poly, fmpz_mod_poly_ctx
from groth16_files import host, join, split
from r1cs_files import write_circuit
from shapes import SHAPES
from trapdoor_setup import Circuit, zkey_sections

from kernels.cuda import device
from prover import setup
from prover.commands import setup_files
from prover.errors import InputError, ProofInvalidError, ProverError
from prover.formats.field import R
from prover.formats.r1cs import read_r1cs
from prover.formats.wtns import read_witness
from prover.formats.zkey import all_points, check_on_curve, check_subgroups, read_zkey
from prover.groth16 import load_key, prove, synthesise
from prover.setup import Trapdoor, fresh_trapdoor, make_zkey, write_key

if TYPE_CHECKING:
    from pathlib import Path

# Those of tests/prover/trapdoor_setup.py, which makes keys in its own, slow way.
KNOWN = Trapdoor(*(pow(7, k, R) for k in (1001, 1002, 1003, 1004)))


def make(folder: Path, circuit: Circuit) -> tuple[Path, Path, Path]:
    host()
    r1cs, wtns = write_circuit(folder, circuit)
    setup_files(r1cs, folder / "circuit.zkey", 2)
    return r1cs, wtns, folder / "circuit.zkey"


@pytest.mark.parametrize("name", SHAPES)
def test_shape_is_proved_with_a_key_of_setup(tmp_path: Path, name: str) -> None:
    circuit = SHAPES[name]
    _, wtns, path = make(tmp_path, circuit)
    zkey = read_zkey(path)
    check_on_curve(zkey.name, all_points(zkey), host())
    check_subgroups(zkey.name, all_points(zkey), 2)
    key = load_key(path, host())
    record = prove(key, read_witness(wtns))
    assert record.public == [str(value) for value in circuit.witness[1 : circuit.n_public + 1]]


@pytest.mark.parametrize("name", ["no public values", "all public", "linear", "domain just full", "bits"])
def test_wrong_witness_of_a_shape_gets_no_proof(tmp_path: Path, name: str) -> None:
    circuit = SHAPES[name]
    wrong = Circuit(circuit.n_vars, circuit.n_public, circuit.constraints, [*circuit.witness[:-1], 12345])
    _, wtns, path = make(tmp_path, wrong)
    with pytest.raises(ProofInvalidError):
        prove(load_key(path, host()), read_witness(wtns))


@pytest.mark.parametrize("name", ["unused wires", "empty rows", "same place twice", "300 public values"])
def test_key_is_the_one_of_the_formulas(tmp_path: Path, name: str) -> None:
    circuit = SHAPES[name]
    r1cs, _ = write_circuit(tmp_path, circuit)
    with (tmp_path / "circuit.zkey").open("wb") as file:
        write_key(file, read_r1cs(r1cs), KNOWN, host(), lambda *_: None)
    ours, theirs = split((tmp_path / "circuit.zkey").read_bytes()), zkey_sections(circuit)
    for kind, payload in theirs.items():
        assert ours[kind] == payload, kind


def test_keys_of_one_circuit_differ_and_trapdoors_are_not_shown(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        folder.mkdir()
        make(folder, SHAPES["linear"])
    one, other = (split((folder / "circuit.zkey").read_bytes()) for folder in (first, second))
    assert one[1] == other[1]
    assert all(one[kind] != other[kind] for kind in (2, 3, 5, 8, 9))
    assert "tau" not in repr(fresh_trapdoor(8)).replace("Trapdoor", "")


def test_slices_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r1cs, _ = write_circuit(tmp_path, SHAPES["domain just over"])
    files = []
    for size in (1, 5, 2**14):
        monkeypatch.setitem(setup.AT_ONCE, "host", size)
        path = tmp_path / f"{size}.zkey"
        with path.open("wb") as file:
            write_key(file, read_r1cs(r1cs), KNOWN, host(), lambda *_: None)
        files.append(path.read_bytes())
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize("name", ["unused wires", "empty rows", "same place twice", "no public values"])
def test_key_in_memory_is_the_one_of_the_file(tmp_path: Path, name: str) -> None:
    circuit = read_r1cs(write_circuit(tmp_path, SHAPES[name])[0])
    with (tmp_path / "circuit.zkey").open("wb") as file:
        write_key(file, circuit, KNOWN, host(), lambda *_: None)
    read, made = read_zkey(tmp_path / "circuit.zkey"), make_zkey(circuit, KNOWN, host(), lambda *_: None)
    for points in ("ic", "a", "b1", "b2", "c", "h"):
        assert np.array_equal(getattr(made, points).limbs, getattr(read, points).limbs), points
    for matrix in ("matrix_a", "matrix_b"):
        one, other = getattr(made, matrix), getattr(read, matrix)
        assert np.array_equal(one.row_starts, other.row_starts)
        assert np.array_equal(one.columns, other.columns)
        assert np.array_equal(one.values.limbs, other.values.limbs)
    assert (made.header.n_coefficients, made.header.n_vars) == (read.header.n_coefficients, read.header.n_vars)
    assert np.array_equal(made.header.delta2.limbs, read.header.delta2.limbs)


def test_a_device_that_is_missing_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r1cs, _ = write_circuit(tmp_path, SHAPES["linear"])
    monkeypatch.setitem(sys.modules, "cupy", None)  # an import of it fails
    device.cupy.cache_clear()
    with pytest.raises(ProverError, match="the cuda backend needs CuPy"):
        setup_files(r1cs, tmp_path / "circuit.zkey", 2, "cuda")
    assert not (tmp_path / "circuit.zkey").exists()


def test_circuit_over_another_field_is_refused_by_name(tmp_path: Path) -> None:
    from r1cs_files import r1cs_sections

    from prover.formats.field import KNOWN_PRIMES

    bn254 = next(iter(KNOWN_PRIMES))
    (tmp_path / "c.r1cs").write_bytes(join("r1cs", 1, r1cs_sections(SHAPES["linear"], bn254)))
    with pytest.raises(InputError, match=r"found the scalar field of BN254 \(bn128\)"):
        setup_files(tmp_path / "c.r1cs", tmp_path / "c.zkey", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["c.r1cs"]


@pytest.mark.parametrize("name", ["domain just full", "bits", "300 public values"])
def test_h_is_the_quotient_that_polynomials_have(tmp_path: Path, name: str) -> None:
    """(A B - C) / Z by python-flint; on the odd points, where Z is -2, h is -2 times the quotient."""
    circuit = SHAPES[name]
    _, wtns, path = make(tmp_path, circuit)
    key, witness = load_key(path, host()), read_witness(wtns)
    made = synthesise(key, witness)
    n = key.domain_size
    ring = fmpz_mod_poly_ctx(fmpz_mod_ctx(R))
    root = pow(5, (R - 1) // n, R)
    inverse_roots = [pow(root, -i, R) for i in range(n)]

    def interpolated(values: list[int]) -> fmpz_mod_poly:
        return ring([int(c) * pow(n, -1, R) % R for c in ring(values).multipoint_evaluate(inverse_roots)])

    a, b = (_plain(part.limbs) for part in (made.a, made.b))
    c = [x * y % R for x, y in zip(a, b, strict=True)]
    quotient, rest = divmod(interpolated(a) * interpolated(b) - interpolated(c), ring([-1] + [0] * (n - 1) + [1]))
    assert rest == 0
    shift = pow(5, (R - 1) // (2 * n), R)
    odd = [shift * pow(root, i, R) % R for i in range(n)]
    expected = [-2 * int(value) % R for value in quotient.multipoint_evaluate(odd)]
    found = [int.from_bytes(row.tobytes(), "little") for row in host().h(made.a, made.b).limbs]
    assert found == expected


def _plain(limbs: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> list[int]:
    return [int.from_bytes(row.tobytes(), "little") * pow(2**256, -1, R) % R for row in limbs]

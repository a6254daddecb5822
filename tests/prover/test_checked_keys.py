"""A key that the daemon has not seen is looked at point by point, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from groth16_files import host, join, path_of, split

from prover import groth16
from prover.checked_keys import CheckedKeys
from prover.errors import InputError
from prover.formats.field import P
from prover.formats.wtns import read_witness
from prover.groth16 import load_key, prove

if TYPE_CHECKING:
    from pathlib import Path


def outsider() -> bytes:
    """A point of the curve that is not in G1, as zkey files have it: (0, 2)."""
    return bytes(48) + (2 * 2**384 % P).to_bytes(48, "little")


def test_a_key_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(groth16, "check_subgroups", lambda *_: calls.append(1))
    checked = CheckedKeys(tmp_path / "state" / "keys")
    path = path_of("mul60", "circuit.zkey")
    for _ in range(3):
        key = load_key(path, host(), checked)
    assert len(calls) == 1
    assert key.sha256 in checked
    assert key.sha256 in CheckedKeys(tmp_path / "state" / "keys")
    load_key(path_of("cube500", "circuit.zkey"), host(), checked)
    assert len(calls) == 2


def test_a_point_outside_the_subgroup_is_named_and_not_remembered(tmp_path: Path) -> None:
    sections = split(path_of("mul60", "circuit.zkey").read_bytes())
    sections[9][96 * 5 : 96 * 6] = outsider()
    path = tmp_path / "circuit.zkey"
    path.write_bytes(join("zkey", 1, sections))
    checked = CheckedKeys(tmp_path / "keys")
    for _ in range(2):
        with pytest.raises(InputError, match=r"section 9 \(H\), point 5 at byte \d+: expected a point of the subgroup"):
            load_key(path, host(), checked)
    assert not (tmp_path / "keys").exists()


def test_prove_looks_at_no_subgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groth16, "check_subgroups", lambda *_: pytest.fail("a check in prove"))
    prove(load_key(path_of("mul60", "circuit.zkey"), host()), read_witness(path_of("mul60", "witness.wtns")))


def test_a_folder_that_cannot_be_written_costs_a_check(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "keys").write_text("in the way")
    checked = CheckedKeys(tmp_path / "keys")
    key = load_key(path_of("mul60", "circuit.zkey"), host(), checked)
    assert key.sha256 not in checked
    assert "cannot be written" in caplog.text

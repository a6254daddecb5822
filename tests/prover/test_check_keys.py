"""What a start would refuse in a key is found by the check already, piece by piece, within a time."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kernels
from prover import check_keys
from prover.check import examine
from prover.check_keys import read_keys
from prover.checked_keys import CheckedKeys
from prover.cli import main
from prover.config import load_config
from prover.errors import InputError
from prover.formats import zkey_pieces
from prover.formats.zkey import all_points, check_on_curve, read_header, read_zkey
from prover.formats.zkey_pieces import check_pieces
from prover.instance import Home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kernels.interface import Backend
    from prover.check_keys import KeysRead

KEY = Path(__file__).parents[1] / "data" / "groth16" / "merkle_mimc5" / "circuit.zkey"


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with contextlib.closing(kernels.backend("host", threads=1)) as backend:
        yield backend


def always(_: int) -> bool:
    return True


@pytest.fixture
def damaged(tmp_path: Path) -> Callable[[int, int], Path]:
    """A copy of a key with one byte changed: of a section, so far behind its start."""

    def make(kind: int, offset: int) -> Path:
        data = bytearray(KEY.read_bytes())
        data[read_header(KEY).offsets[kind] + offset] ^= 0x80
        path = tmp_path / "damaged.zkey"
        path.write_bytes(data)
        return path

    return make


def refusal_of_a_load(path: Path, backend: Backend) -> str:
    try:
        zkey = read_zkey(path)
        check_on_curve(zkey.name, all_points(zkey), backend)
    except InputError as error:
        return error.message
    raise AssertionError("a load takes it")


@pytest.mark.parametrize("piece", [7, 2**17])
def test_a_sound_key_is_read_to_its_last_byte(backend: Backend, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(zkey_pieces, "PIECE", piece)
    seen: list[int] = []
    assert check_pieces(KEY, backend, lambda n: not seen.append(n)) == KEY.stat().st_size
    assert seen == sorted(seen)
    assert seen[-1] < KEY.stat().st_size
    assert len(seen) == (7 if piece > 7 else len(set(seen)))


@pytest.mark.parametrize(
    ("kind", "offset"),
    [
        (2, 120),  # alpha1
        (3, 40),
        (4, 4 + 44 * 25 + 3),  # the matrix of an entry
        (4, 4 + 44 * 25 + 11),  # its wire
        (5, 96 * 30 + 7),
        (6, 96 * 8 + 7),
        (7, 192 * 9 + 100),
        (8, 96 * 14 + 50),
        (9, 96 * 200 + 90),
    ],
)
def test_what_is_damaged_is_named_as_a_load_would_name_it(
    backend: Backend, damaged: Callable[[int, int], Path], monkeypatch: pytest.MonkeyPatch, kind: int, offset: int
) -> None:
    monkeypatch.setattr(zkey_pieces, "PIECE", 7)
    path = damaged(kind, offset)
    with pytest.raises(InputError) as refused:
        check_pieces(path, backend, always)
    assert refused.value.message == refusal_of_a_load(path, backend)


def test_the_check_of_a_configuration_refuses_a_damaged_key(
    damaged: Callable[[int, int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        f"[[circuits]]\nname='good'\npath='{KEY}'\n[[circuits]]\nname='bad'\npath='{damaged(9, 96 * 200 + 90)}'\n"
    )
    words = ["serve", "--config", str(config), "--remote-dir", str(tmp_path), "--check-config"]
    assert main([*words, "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    (problem,) = answer["problems"]
    assert problem["where"] == "circuits.1 (bad)"
    assert "section 9 (H), point 200 at byte " in problem["message"]
    assert answer["keys_bytes"] == 2 * KEY.stat().st_size
    assert answer["keys_read_bytes"] == KEY.stat().st_size


def keys_of(tmp_path: Path, text: str, limit_s: float) -> KeysRead:
    (tmp_path / "config.toml").write_text(text)
    config = load_config(tmp_path / "config.toml", tmp_path)
    return read_keys(config, examine(config).plan.circuits, limit_s)


def test_the_time_is_kept_and_what_was_not_read_is_said(
    damaged: Callable[[int, int], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = keys_of(tmp_path, f"[[circuits]]\nname='bad'\npath='{damaged(9, 96 * 200 + 90)}'\n", -1)
    assert (found.n_bytes, found.read_bytes, found.problems) == (KEY.stat().st_size, 0, {})
    monkeypatch.setattr(check_keys, "LIMIT_S", -1)
    monkeypatch.setattr(read_keys, "__defaults__", (-1,))
    words = ["serve", "--config", str(tmp_path / "config.toml"), "--remote-dir", str(tmp_path), "--check-config"]
    assert main(words) == 0
    assert f"of the keys 0 of {KEY.stat().st_size} bytes were read" in capsys.readouterr().out


def test_a_key_that_was_loaded_before_is_known_by_its_digest(
    damaged: Callable[[int, int], Path], tmp_path: Path
) -> None:
    sha256 = "ab" * 32
    (tmp_path / "circuits").mkdir()
    damaged(9, 96 * 200 + 90).rename(tmp_path / "circuits" / sha256)
    text = f"[[circuits]]\nname='a'\nsha256='{sha256}'\n[[circuits]]\nname='b'\nsha256='{sha256}'\n"
    assert list(keys_of(tmp_path, text, 60).problems) == [tmp_path / "circuits" / sha256]
    CheckedKeys(Home(tmp_path / "prover").checked_keys).add(sha256)
    found = keys_of(tmp_path, text, 60)
    assert (found.read_bytes, found.problems) == (KEY.stat().st_size, {})

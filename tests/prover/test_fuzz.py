"""Spoilt files of every format through every command that reads it: see fuzz.py, which runs as many as one wants."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from fuzz import BASES, CORPUS, FORMATS, case, try_file
from groth16_files import host

if TYPE_CHECKING:
    from pathlib import Path

SEED = 1
CASES = 288  # of each of seven formats: 2016 together
SEEDS = sorted(path for path in CORPUS.glob("*/*") if path.is_file())


@pytest.fixture(autouse=True)
def _library() -> None:
    host()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("kind", FORMATS)
def test_spoilt_files_are_refused_or_understood(tmp_path: Path, kind: str, part: int) -> None:
    for number in range(part, CASES, 4):
        try_file(kind, case(SEED, kind, number), tmp_path)


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_corpus_ends_as_it_did(tmp_path: Path, path: Path) -> None:
    kind = path.parent.name
    expected = json.loads((CORPUS / "statuses.json").read_text())[f"{kind}/{path.name}"]
    assert list(try_file(kind, path.read_bytes(), tmp_path).statuses) == expected


def test_corpus_is_there_for_every_format() -> None:
    assert {path.parent.name for path in SEEDS} == set(FORMATS)
    assert {f"{path.parent.name}/{path.name}" for path in SEEDS} == set(
        json.loads((CORPUS / "statuses.json").read_text())
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_bases_are_sound_and_cases_can_be_repeated(tmp_path: Path, kind: str) -> None:
    base = (CORPUS / BASES[kind]).read_bytes()
    assert set(try_file(kind, base, tmp_path).statuses) == {0}
    cases = [case(SEED, kind, number) for number in range(50)]
    assert cases == [case(SEED, kind, number) for number in range(50)]
    assert len({hashlib.sha256(data).digest() for data in cases}) > 30
    assert cases.count(base) < 10

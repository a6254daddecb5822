"""The build: generated constants, same bytes again, nothing done twice, and sentences for what is missing."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from kernels import build as builder
from kernels.gen import constants
from kernels.host import library

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = builder.SOURCE_DIR


@pytest.fixture
def small_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cheapest of the sources, so that a build takes a second or two."""
    return use_small_sources(tmp_path / "one", monkeypatch)


def use_small_sources(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(SOURCES / "include", folder / "include")
    (folder / "host").mkdir()
    for name in ("abi.hpp", "pool.hpp", "pool.cpp", "sparse.cpp"):
        shutil.copy(SOURCES / "host" / name, folder / "host" / name)
    monkeypatch.setattr(builder, "SOURCE_DIR", folder)
    return folder


def test_constants_are_what_the_generator_writes() -> None:
    assert constants.HEADER.read_text(encoding="ascii") == constants.header()
    assert constants.main(["--check"]) == 0


def test_check_notices_a_changed_constant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = tmp_path / "constants.hpp"
    changed.write_text(constants.header().replace("0x73eda753299d7d48ull", "0x73eda753299d7d49ull"))
    monkeypatch.setattr(constants, "HEADER", changed)
    assert constants.main(["--check"]) == 1
    assert "differs" in capsys.readouterr().err
    assert constants.main([]) == 0
    assert constants.main(["--check"]) == 0


def test_abi_numbers_agree() -> None:
    found = re.search(r"int ABI = (\d+);", (SOURCES / "host" / "abi.hpp").read_text())
    assert found is not None
    assert int(found[1]) == library.ABI


def test_same_bytes_from_another_folder(tmp_path: Path, small_sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = builder.build(tmp_path / "out1").read_bytes()
    assert use_small_sources(tmp_path / "elsewhere" / "two", monkeypatch) != small_sources
    assert builder.build(tmp_path / "out2").read_bytes() == first


@pytest.mark.usefixtures("small_sources")
def test_nothing_is_done_twice_until_a_source_changes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = builder.build(out).stat()
    assert builder.build(out).stat().st_mtime_ns == first.st_mtime_ns
    source = builder.SOURCE_DIR / "host" / "sparse.cpp"
    source.write_text(source.read_text() + "// changed\n")
    assert builder.build(out).stat().st_mtime_ns != first.st_mtime_ns
    assert sorted(path.name for path in out.iterdir()) == [builder.LIBRARY_NAME, "libcuzkops_host.stamp"]


def test_missing_compiler_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert builder.main(["--out", str(tmp_path / "out"), "--cxx", "no-such-g++"]) == 1
    assert capsys.readouterr().err.strip() == (
        "kernels.build: no C++ compiler 'no-such-g++' on this machine: install g++ (10 or newer), or "
        "name one with --cxx"
    )
    assert not (tmp_path / "out").exists()


def test_compiler_errors_are_shown_and_leave_nothing(tmp_path: Path, small_sources: Path) -> None:
    (small_sources / "host" / "sparse.cpp").write_text("int main( {}\n")
    with pytest.raises(builder.BuildError, match=r"(?s)status 1 of: .*sparse\.cpp.*error"):
        builder.build(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []

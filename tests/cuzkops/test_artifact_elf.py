"""The glibc floor, against what binutils reads from the same files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from cuzkops.artifact.elf import glibc_floor, glibc_of

HEAD = b"\x7fELF\x02\x01\x01" + bytes(57)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_versions_compare_as_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "x.so", HEAD + b"GLIBC_2.9\0GLIBC_2.31\0GLIBC_2.2.5\0")
    assert glibc_of(path) == (2, 31)


def test_private_and_cxx_versions_do_not_count(tmp_path: Path) -> None:
    path = write(tmp_path / "x.so", HEAD + b"GLIBC_PRIVATE\0GLIBCXX_3.4.30\0GLIBC_2.14\0see GLIBC_2.99 in the manual\0")
    assert glibc_of(path) == (2, 14)


def test_relative_relocations_came_with_2_36(tmp_path: Path) -> None:
    assert glibc_of(write(tmp_path / "x.so", HEAD + b"GLIBC_2.4\0GLIBC_ABI_DT_RELR\0")) == (2, 36)


def test_floor_is_the_highest_of_a_tree_and_other_files_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    assert glibc_floor(tmp_path) is None
    write(tmp_path / "deep" / "er" / "a.so.1", HEAD + b"GLIBC_2.17\0")
    write(tmp_path / "b", HEAD + b"GLIBC_2.28\0")
    write(tmp_path / "notes.txt", b"GLIBC_2.40\0")
    write(tmp_path / "empty", b"")
    assert glibc_floor(tmp_path) == (2, 28)


def needed_by_readelf(path: Path) -> tuple[int, int] | None:
    """What the section of needed versions says, as binutils prints it."""
    printed = subprocess.run(["readelf", "-VW", path], capture_output=True, text=True, check=True).stdout
    needs = printed.partition("Version needs section")[2]
    found = {(int(major), int(minor)) for major, minor in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", needs)}
    return max(found, default=None)


def real_libraries() -> list[Path]:
    dynload = Path(sysconfig.get_path("platstdlib")) / "lib-dynload"
    packages = Path(np.__file__).parents[1]
    return [
        *sorted(dynload.glob("*.so"))[:20],
        *sorted((packages / "numpy").rglob("*.so")),
        *packages.glob("numpy.libs/*"),
    ]


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is not installed (binutils)")
def test_agrees_with_readelf_on_real_libraries() -> None:
    libraries = real_libraries()
    assert len(libraries) > 20
    assert {path: glibc_of(path) for path in libraries} == {path: needed_by_readelf(path) for path in libraries}

"""Available memory: the machine's, and what control groups of both versions leave."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from prover.memory.available import _V2, _groups, _left_in, _per_cpu_free_bytes, available_bytes, rss_and_peak_bytes

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30


def machine(root: Path, groups: str, available_kib: int = 8 << 20) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable:  {available_kib} kB\n")
    (root / "proc/self/cgroup").write_text(groups)


def v2(folder: Path, limit: str, usage: int, inactive: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\nactive_file 7\n")


def v1(folder: Path, limit: int, usage: int, inactive: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(f"inactive_file 1\ntotal_inactive_file {inactive}\n")


def measured(root: Path) -> int:
    return available_bytes(root / "proc", root / "cgroup")


def test_without_groups(tmp_path: Path) -> None:
    machine(tmp_path, "0::/\n")
    assert measured(tmp_path) == 8 * GIB


def test_v2_own_group(tmp_path: Path) -> None:
    machine(tmp_path, "0::/a/b\n")
    v2(tmp_path / "cgroup/a/b", str(4 * GIB), 3 * GIB, GIB)
    assert measured(tmp_path) == 2 * GIB


def test_v2_a_group_above_binds(tmp_path: Path) -> None:
    machine(tmp_path, "0::/a/b\n")
    v2(tmp_path / "cgroup/a/b", "max", 3 * GIB, GIB)
    v2(tmp_path / "cgroup/a", str(2 * GIB), GIB, 0)
    assert measured(tmp_path) == GIB


def test_v2_in_a_container_the_mount_is_our_group(tmp_path: Path) -> None:
    machine(tmp_path, "0::/\n")
    v2(tmp_path / "cgroup", str(3 * GIB), 2 * GIB, 0)
    assert measured(tmp_path) == GIB


def test_v1(tmp_path: Path) -> None:
    machine(tmp_path, "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n")
    v1(tmp_path / "cgroup/memory", 5 * GIB, 3 * GIB, GIB)  # the host's path is not visible inside
    assert measured(tmp_path) == 3 * GIB


def test_v1_without_limit(tmp_path: Path) -> None:
    machine(tmp_path, "4:memory:/\n")
    v1(tmp_path / "cgroup/memory", 9223372036854771712, 3 * GIB, 0)
    assert measured(tmp_path) == 8 * GIB


def test_never_negative(tmp_path: Path) -> None:
    machine(tmp_path, "0::/\n")
    v2(tmp_path / "cgroup", str(GIB), 2 * GIB, 0)
    assert measured(tmp_path) == 0


def test_a_kernel_that_does_not_say(tmp_path: Path) -> None:
    machine(tmp_path, "")
    (tmp_path / "proc/meminfo").write_text("MemTotal: 5 kB\n")
    with pytest.raises(ValueError, match="has no MemAvailable"):
        measured(tmp_path)


def test_of_this_machine() -> None:
    assert available_bytes() > 0
    rss, peak = rss_and_peak_bytes()
    assert 0 < rss <= peak


def test_free_pages_on_lists_of_the_cpus_count(tmp_path: Path) -> None:
    machine(tmp_path, "0::/\n")
    zones = "".join(f"  pagesets\n    cpu: 0\n              count:    {n}\n              high:     9\n" for n in (5, 7))
    (tmp_path / "proc/zoneinfo").write_text(f"Node 0, zone DMA\n{zones}")
    assert measured(tmp_path) == 8 * GIB + 12 * os.sysconf("SC_PAGE_SIZE")


def test_a_limit_that_cannot_be_read_just_now_is_not_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_arguments: object, **_options: object) -> str:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("prover.memory.available.Path.read_text", busy)
    for read in (_per_cpu_free_bytes, lambda path: _groups(path, path), lambda path: _left_in(path, _V2)):
        with pytest.raises(OSError, match="Too many open files"):
            read(tmp_path)

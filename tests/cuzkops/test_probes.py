"""Probes: recorded outputs of real hosts, folders in the kernel's place, and this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import MIB, holding, recorded_kernel, running

from cuzkops.errors import OpsError
from cuzkops.remote.probes import HostFacts, ProcessInfo, parse_host, parse_processes, probe_host, probe_processes
from cuzkops.remote.procfs import parse_leftovers, parse_memory, parse_stats

if TYPE_CHECKING:
    from cuzkops.remote.local import LocalHost

RECORDED = Path(__file__).parents[1] / "data" / "probes"
HOSTS = sorted((RECORDED / "HostFacts").glob("*.json"))
PROCESSES = sorted((RECORDED / "ProcessInfo").glob("*.json"))


@pytest.mark.parametrize("path", HOSTS, ids=lambda path: path.stem)
def test_recorded_hosts(path: Path) -> None:
    case = json.loads(path.read_text())
    assert parse_host(case["output"], case["folder"]) == HostFacts.model_validate(case["record"])


@pytest.mark.parametrize("path", PROCESSES, ids=lambda path: path.stem)
def test_recorded_processes(path: Path) -> None:
    case = json.loads(path.read_text())
    assert parse_processes(case["output"]) == [ProcessInfo.model_validate(record) for record in case["record"]]


def test_every_kind_of_host_is_recorded() -> None:
    assert {path.stem for path in HOSTS} >= {
        "bookworm",
        "bullseye-cgroup-v1-limit",
        "busybox-musl",
        "cgroup-v2-slice",
        "nvidia-h200",
    }


def test_this_machine(host: LocalHost, tmp_path: Path) -> None:
    facts = probe_host(host, str(tmp_path / "not" / "there yet"))
    assert facts.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts.machine == os.uname().machine
    assert facts.n_cpus == os.cpu_count()
    assert facts.folder_parent == str(tmp_path)
    assert facts.folder_writable
    assert facts.folder_executable
    assert facts.uid == os.getuid()
    assert facts.libc == "glibc"
    assert facts.tools >= {"tar", "gzip", "sha256sum", "cat"}
    memory = facts.memory
    assert 0 < facts.available_bytes <= memory.mem_available_bytes + memory.per_cpu_free_bytes <= memory.total_bytes
    assert any(version.count(".") == 2 for version in facts.pythons.values())
    assert not list(tmp_path.glob(".cuzkops*")), "the trial file is gone"


def test_a_folder_that_cannot_be_written(host: LocalHost) -> None:
    facts = probe_host(host, "/proc/no-such-folder")
    assert not facts.folder_writable
    assert not facts.folder_executable


def test_a_host_without_proc_is_an_error_in_one_sentence(host: LocalHost, tmp_path: Path) -> None:
    with pytest.raises(OpsError, match="cannot be read"):
        probe_host(host, str(tmp_path), kernel={"PROC": str(tmp_path), "DEV": "/dev", "SYS": "/sys"})


def cgroup_v1(limit: int, usage: int, inactive: int) -> dict[str, str]:
    return {
        "memory.limit_in_bytes": f"{limit}\n",
        "memory.usage_in_bytes": f"{usage}\n",
        "memory.stat": f"cache 5\ninactive_file 1\ntotal_inactive_file {inactive}\n",
    }


def cgroup_v2(limit: int | str, usage: int, inactive: int) -> dict[str, str]:
    return {
        "memory.max": f"{limit}\n",
        "memory.current": f"{usage}\n",
        "memory.stat": f"anon 7\nfile 9\ninactive_anon 3\ninactive_file {inactive}\n",
    }


def below(folder: str, files: dict[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in files.items()}


def test_cgroup_v1_in_a_container_whose_path_is_the_hosts(host: LocalHost, tmp_path: Path) -> None:
    files = below("sys/fs/cgroup/memory", cgroup_v1(4000 * MIB, 3000 * MIB, 500 * MIB))
    files["proc/self/cgroup"] = "5:cpuset:/docker/77\n4:memory:/docker/77\n0::/docker/77\n"
    facts = probe_host(host, str(tmp_path), kernel=recorded_kernel(tmp_path / "k", files=files))
    assert facts.memory.cgroup_limit_bytes == 4000 * MIB
    assert facts.available_bytes == 1500 * MIB


def test_cgroup_v2_takes_the_tightest_of_all_parents(host: LocalHost, tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/user.slice/user-7.slice/session-1.scope\n"}
    files |= below("sys/fs/cgroup/user.slice", cgroup_v2(9000 * MIB, 8500 * MIB, 100 * MIB))
    files |= below("sys/fs/cgroup/user.slice/user-7.slice", cgroup_v2(8000 * MIB, 1000 * MIB, 0))
    files |= below("sys/fs/cgroup/user.slice/user-7.slice/session-1.scope", cgroup_v2("max", 10 * MIB, 0))
    facts = probe_host(host, str(tmp_path), kernel=recorded_kernel(tmp_path / "k", files=files))
    assert facts.available_bytes == 600 * MIB
    assert facts.memory.cgroup.endswith("/user.slice")


@pytest.mark.parametrize("limit", ["9223372036854771712", "9223372036854710272"])
def test_a_group_without_a_limit_limits_nothing(host: LocalHost, tmp_path: Path, limit: str) -> None:
    files = below("sys/fs/cgroup/memory", cgroup_v1(int(limit), 1, 1)) | {"proc/self/cgroup": "4:memory:/\n"}
    facts = probe_host(host, str(tmp_path), kernel=recorded_kernel(tmp_path / "k", files=files))
    assert facts.memory.cgroup_limit_bytes is None
    assert facts.available_bytes == facts.memory.mem_available_bytes


def test_a_cgroup_outside_of_the_namespace_does_not_leave_the_mount(host: LocalHost, tmp_path: Path) -> None:
    files = below("sys/fs/secret", cgroup_v2(1, 1, 0)) | {"proc/self/cgroup": "0::/../secret\n"}
    facts = probe_host(host, str(tmp_path), kernel=recorded_kernel(tmp_path / "k", files=files))
    assert facts.memory.cgroup_limit_bytes is None


def test_pins_are_acquired_minus_released(host: LocalHost, tmp_path: Path) -> None:
    facts = probe_host(host, str(tmp_path), kernel=recorded_kernel(tmp_path / "k", files={}))
    assert facts.memory.pins_pages == 500
    assert facts.memory.uptime_s == 1000.25


SMI = {
    "ok": ("echo 'NVIDIA H200, 143771, 512'", "ok", [("NVIDIA H200", 143771 * MIB, 512 * MIB)]),
    "not-available": ("echo 'NVIDIA H200, [N/A], [N/A]'", "ok", [("NVIDIA H200", None, None)]),
    "empty": ("exit 0", "ok", []),
    "no-devices": ("echo 'No devices were found'", "ok", []),
    "fails": ("echo 'NVIDIA-SMI has failed'; exit 9", "failed", []),
    "hangs": ("exec sleep 600", "hung", []),
}


@pytest.mark.parametrize("name", SMI)
def test_nvidia_smi_never_blocks(host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    body, verdict, gpus = SMI[name]
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    started = time.monotonic()
    facts = probe_host(host, str(tmp_path), smi_timeout_s=0.5)
    assert time.monotonic() - started < 5
    assert facts.nvidia_smi == verdict
    assert [(gpu.name, gpu.total_bytes, gpu.used_bytes) for gpu in facts.gpus] == gpus


def test_without_nvidia_smi_nothing_is_claimed(host: LocalHost, tmp_path: Path) -> None:
    facts = probe_host(host, str(tmp_path), kernel=recorded_kernel(tmp_path / "k", files={}))
    assert (facts.nvidia_devices, facts.nvidia_driver, facts.gpus) == ([], "", [])


def test_the_driver_is_read_from_proc(host: LocalHost, tmp_path: Path) -> None:
    line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder)\n"
    files = {"proc/driver/nvidia/version": line, "dev/nvidia0": "", "dev/nvidiactl": ""}
    facts = probe_host(host, str(tmp_path), kernel=recorded_kernel(tmp_path / "k", files=files))
    assert facts.nvidia_driver == "580.95.05"
    assert [Path(path).name for path in facts.nvidia_devices] == ["nvidia0", "nvidiactl"]


def test_a_process_that_holds_memory_is_found_with_its_size(host: LocalHost) -> None:
    with holding(120) as process:
        found = probe_processes(host, min_bytes=100 * MIB)
        held = next(info for info in found if info.pid == process.pid)
        assert held.footprint_bytes >= 120 * MIB
        assert Path(held.exe).name.startswith("python3")
        assert "import mmap" in held.cmdline
        assert abs(held.started_unix_s - time.time()) < 60
        assert held.n_live_threads == 1
        assert [info.footprint_bytes for info in found] == sorted((i.footprint_bytes for i in found), reverse=True)


def test_a_zombie_has_no_live_thread(host: LocalHost) -> None:
    with subprocess.Popen(["/bin/true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        (zombie,) = probe_processes(host, pids=[process.pid])
        assert (zombie.state, zombie.n_live_threads, zombie.exe) == ("Z", 0, "")


def test_processes_that_do_not_exist_are_left_out(host: LocalHost) -> None:
    assert probe_processes(host, pids=[2**22 + 5]) == []
    assert probe_processes(host, pids=[]) == []


def test_an_open_gpu_file_is_found_whatever_the_size(host: LocalHost, tmp_path: Path) -> None:
    kernel = recorded_kernel(tmp_path / "k", files={"dev/nvidia0": "", "dev/nvidia-uvm": ""}) | {"PROC": "/proc"}
    device = Path(kernel["DEV"]) / "nvidia-uvm"
    code = f"import sys, time; f = open({str(device)!r}); print('ready', flush=True); time.sleep(600)"
    with running(sys.executable, "-c", code) as process:
        found = {info.pid: info for info in probe_processes(host, kernel=kernel)}
        assert found[process.pid].gpu_files == [str(device)]


def test_a_replaced_executable_is_named_without_deleted(host: LocalHost, tmp_path: Path) -> None:
    program = tmp_path / "my sleep"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    with subprocess.Popen([program, "600"]) as process:
        program.unlink()
        (info,) = probe_processes(host, pids=[process.pid])
        process.kill()
    assert info.exe == str(program)


def test_odd_command_names_do_not_shift_the_fields() -> None:
    rest = " ".join(["1", "2", "3"] + ["0"] * 15 + ["4711"] + ["9"] * 20)
    text = f"10 (a) R 1 (b) S {rest}\n11 (new\nline) D {rest}\nnoise\n12 (plain) Z {rest}\n"
    assert [(s.pid, s.comm, s.state, s.ppid, s.session_id, s.start_ticks) for s in parse_stats(text)] == [
        (10, "a) R 1 (b", "S", 1, 3, 4711),
        (11, "new\nline", "D", 1, 3, 4711),
        (12, "plain", "Z", 1, 3, 4711),
    ]


def test_leftovers_are_read_by_name_with_spaces_and_allocated_size() -> None:
    text = """listing
/dev/shm:
total 8
 4 -rw-r--r-- 1 0 0 999999999 Nov  3 10:11 sparse
 2048 -rw------- 2 1000 1000 2097152 Nov  3  2025 two words
 0 drwxr-xr-x 2 0 0 60 Nov  3 10:11 deep

/dev/shm/deep:
total 4
 4 -rw-r--r-- 1 0 0 4096 Nov  3 10:11 x
tmpfs
Filesystem     1024-blocks  Used Available Capacity Mounted on
tmpfs                 1000   512       488      52% /my tmp
sysv
       key      shmid perms      size  cpid  lpid nattch   uid   gid  cuid  cgid      atime   rss  swap
         0          3   600   1048576    99    99      0     0     0     0     0          0  8192     0
hugepages 2048kB 7
hugepages 1048576kB 1
end-of-leftovers
"""
    left = parse_leftovers(text)
    shm = "/dev/shm"  # noqa: S108 - a name in a recorded listing
    assert left.held_bytes == {
        f"{shm}/sparse": 4096,
        f"{shm}/two words": 2 * MIB,
        f"{shm}/deep/x": 4096,
        "/my tmp": 512 * 1024,
        "sysv:3": 8192,
    }
    assert left.hugetlb_free_bytes == 7 * 2 * MIB + 1024 * MIB


ZONEINFO = """Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 26316
  pages free     3840
        high     26
  pagesets
    cpu: 0
              count:    44
              high:     1444
              high_max: 240
    cpu: 1
              count:    156
Node 0, zone   Normal
  pagesets
    cpu: 0
              count:    1000
"""


@pytest.mark.parametrize("has_grep", [True, False])
def test_free_pages_on_lists_of_the_cpus_are_available(
    host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_grep: bool
) -> None:
    if not has_grep:
        tools = tmp_path / "tools"
        tools.mkdir()
        for name in ("cat", "df", "ls", "id", "uname", "readlink", "mkdir", "rm"):
            (tools / name).symlink_to(shutil.which(name) or name)
        monkeypatch.setenv("PATH", str(tools))
    facts = probe_host(host, str(tmp_path), kernel=recorded_kernel(tmp_path / "k", files={"proc/zoneinfo": ZONEINFO}))
    assert facts.memory.per_cpu_free_bytes == 1200 * 4096
    assert facts.available_bytes == 12000000 * 1024 + 1200 * 4096
    assert not facts.memory.is_limited


def test_memory_without_a_total_is_refused() -> None:
    with pytest.raises(ValueError, match="no MemTotal"):
        parse_memory("uptime 1.0\nMemFree: 5 kB\n")

"""What a daemon on a GPU needs of its host: with a stand-in for nvidia-smi, and recorded folders for the kernel's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import recorded_kernel

from cuzkops import cli
from cuzkops.configuration import load_configuration
from cuzkops.errors import UsageError
from cuzkops.remote.layout import Layout
from cuzkops.remote.probes import probe_host
from cuzkops.steps.findings import Finding, raise_findings
from cuzkops.steps.preflight import preflight_host
from cuzkops.steps.preflight_gpu import gpu_findings
from cuzkops.steps.ship import ShipRequest, preflight_space, ship

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuzkops.configuration import DeployConfig
    from cuzkops.remote.local import LocalHost
    from cuzkops.steps.build import Artifact

GIB = 1 << 30
DRIVER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n"
DEVICES = {"dev/nvidia0": "", "dev/nvidiactl": "", "proc/driver/nvidia/version": DRIVER}
MADVISE = {"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n"}
ONE_GPU = "echo 'NVIDIA H200, 143771, 1024'"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a program in the place of nvidia-smi."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(body: str) -> None:
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{body}\n")
        (folder / "nvidia-smi").chmod(0o755)

    return make


def found(host: LocalHost, layout: Layout, kernel: dict[str, str], need_bytes: int = 8 * GIB) -> list[Finding]:
    return preflight_host(host, layout, need_gpu_bytes=need_bytes, kernel=kernel).findings


@pytest.mark.parametrize(
    ("files", "body", "code", "said"),
    [
        ({}, ONE_GPU, "gpu-missing", "the host shows no NVIDIA device"),
        ({"dev/nvidia0": ""}, ONE_GPU, "gpu-driver", "no driver is loaded"),
        (
            DEVICES | {"proc/driver/nvidia/version": DRIVER.replace("580.95.05", "535.104.05")},
            ONE_GPU,
            "gpu-driver",
            "the NVIDIA driver is 535.104.05, and the daemon needs 580 or newer",
        ),
        (DEVICES, "exit 9", "gpu-unknown", "nvidia-smi is failed"),
        (DEVICES, "echo 'NVIDIA T4, 7000, 3'", "gpu-memory", "the largest has 6.84 GiB: it can never fit"),
        (DEVICES, "echo 'NVIDIA H200, 143771, 140000'", "gpu-memory", "no more than 3.68 GiB are free on any"),
        (DEVICES, "echo 'NVIDIA H200, [N/A], [N/A]'", "", ""),
        (DEVICES, f"{ONE_GPU}; echo 'NVIDIA H200, 143771, 143771'", "", ""),
    ],
)
def test_what_a_gpu_host_lacks_is_named(
    host: LocalHost,
    layout: Layout,
    tmp_path: Path,
    smi: Callable[[str], None],
    *,
    files: dict[str, str],
    body: str,
    code: str,
    said: str,
) -> None:
    smi(body)
    findings = found(host, layout, recorded_kernel(tmp_path / "k", files=MADVISE | files))
    assert [finding.code for finding in findings] == ([code] if code else [])
    assert all(said in finding.message and finding.hint for finding in findings)


def test_a_wedged_driver_is_said_and_not_waited_for(
    host: LocalHost, layout: Layout, tmp_path: Path, smi: Callable[[str], None]
) -> None:
    smi("exec sleep 600")
    kernel = recorded_kernel(tmp_path / "k", files=MADVISE | DEVICES)
    facts = probe_host(host, layout.home, kernel=kernel, smi_timeout_s=0.3)
    (finding,) = gpu_findings(facts, GIB, giving_back=False)
    assert (finding.code, finding.severity) == ("gpu-hung", "error")


def test_everything_that_is_wrong_comes_at_once(host: LocalHost, tmp_path: Path) -> None:
    layout = Layout("/proc/nowhere", "prover")
    group = {"memory.max": f"{GIB}\n", "memory.current": "0\n", "memory.stat": "inactive_file 0\n"}
    files = {f"sys/fs/cgroup/box/{name}": text for name, text in group.items()} | {"proc/self/cgroup": "0::/box\n"}
    kernel = recorded_kernel(tmp_path / "k", files=files)
    report = preflight_host(host, layout, 2 * GIB, need_gpu_bytes=GIB, kernel=kernel)
    codes = {finding.code: finding.severity for finding in report.findings}
    assert codes == {
        "folder-not-writable": "error",
        "memory": "error",
        "gpu-missing": "error",
        "huge-pages": "warning",
    }
    with pytest.raises(UsageError, match=r"(?s)3 problems:\n\(1\) .*\n\(2\) .*\n\(3\) ") as refused:
        raise_findings(report.findings)
    assert len(refused.value.details["findings"]) == 4  # type: ignore[arg-type] # a list, by this very test


def test_a_daemon_json_that_cannot_be_read_is_one_finding_among_others(host: LocalHost, layout: Layout) -> None:
    Path(layout.run).mkdir(parents=True)
    Path(layout.daemon_json).write_text("{}")
    codes = [finding.code for finding in preflight_host(host, layout, 1 << 60, needs_gpu=False).findings]
    assert codes == ["daemon-json", "memory"]


def test_the_disk_is_held_against_what_the_host_lacks(
    host: LocalHost,
    layout: Layout,
    make_artifact: Callable[..., Artifact],
    make_config: Callable[..., DeployConfig],
    tmp_path: Path,
) -> None:
    key = tmp_path / "large.zkey"
    with key.open("wb") as file:
        file.write(b"a key of its own")
        file.truncate(1 << 30)  # a hole: it takes no space here
    artifact, small = make_artifact(), make_config()
    large = load_configuration(None, circuits={"large": key})
    assert preflight_space(host, layout, ShipRequest(artifact, large)) == []
    ship(host, layout, ShipRequest(artifact, small))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cuzkops.steps.inventory._SPARE_BYTES", 1 << 60)
        (finding,) = preflight_space(host, layout, ShipRequest(artifact, large))
        assert (finding.code, finding.where) == ("disk-full", "disk")
        assert "the disk is too small: need " in finding.message
        assert "needed: 1.00 GiB for keys, " in finding.message
        assert "for the release's folders, the journal and the first logs" in finding.message
        assert finding.hint.startswith(f"{layout.remote_dir} holds layers ")
        assert "nothing of which a clean would remove" in finding.hint
        assert preflight_space(host, layout, ShipRequest(artifact, small)) == []  # nothing has to travel


def test_a_total_that_moves_is_taken_as_it_is_now(host: LocalHost, layout: Layout, tmp_path: Path) -> None:
    """A virtual machine may get memory and lose it again while it runs."""
    kernel = recorded_kernel(tmp_path / "k", files={})
    for total_gib, code in ((16, "memory"), (64, ""), (16, "memory")):
        kib = total_gib << 20
        (tmp_path / "k/proc/meminfo").write_text(f"MemTotal: {kib} kB\nMemFree: {kib} kB\nMemAvailable: {kib} kB\n")
        found = preflight_host(host, layout, 32 * GIB, needs_gpu=False, kernel=kernel).findings
        assert [finding.code for finding in found] == ([code] if code else [])
        assert all("it can never fit" in finding.message for finding in found)


def test_a_folder_where_nothing_can_be_executed_is_refused(host: LocalHost, layout: Layout) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "noexec,size=1m", "tmpfs", layout.remote_dir]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no mount without privileges: {mounted.stderr.strip()}")
    try:
        (finding,) = preflight_host(host, layout, needs_gpu=False).findings
        assert finding.code == "folder-noexec"
        assert finding.message == f"nothing can be executed in {layout.remote_dir}: it is mounted noexec"
    finally:
        subprocess.run(["umount", layout.remote_dir], check=True)


def test_a_configuration_for_a_gpu_is_refused_before_a_build_where_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a GPU")
    (tmp_path / "c.toml").write_text('[gpus]\nbackend = "cuda"\n')
    place = ["local", "--remote-dir", str(tmp_path / "remote"), "--config", str(tmp_path / "c.toml")]
    assert cli.run(["deploy", *place, "--builder", "docker"]) == 2
    said = capsys.readouterr().err
    assert "the daemon needs a GPU, and the host shows no NVIDIA device" in said
    assert "build: " not in said
    assert not (tmp_path / "remote").exists()

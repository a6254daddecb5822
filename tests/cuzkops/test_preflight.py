"""Preflight: who and what stands in the way, all of it at once, and nothing touched."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest
from stand_ins import MIB, holding, recorded_kernel, running
from test_kill import write_daemon

from cuzkops.errors import UnreadableError, UsageError
from cuzkops.records import HostPython, Layer, Manifest
from cuzkops.remote.baseline import take_baseline
from cuzkops.remote.daemon import find_daemon
from cuzkops.remote.layout import Layout
from cuzkops.remote.probes import HostFacts, probe_host, probe_processes
from cuzkops.remote.run_files import write_record
from cuzkops.remote.script import TOOLS
from cuzkops.steps.findings import Finding, raise_findings
from cuzkops.steps.preflight import PreflightReport, preflight_host, preflight_manifest, with_python

if TYPE_CHECKING:
    from cuzkops.remote.host import Completed, Script
    from cuzkops.remote.local import LocalHost


@pytest.fixture
def facts(host: LocalHost, tmp_path: Path) -> HostFacts:
    return probe_host(host, str(tmp_path)).model_copy(
        update={"machine": "x86_64", "libc": "glibc", "libc_version": "2.36", "pythons": {"/usr/bin/python3": "3.11.2"}}
    )


def manifest(**changes: object) -> Manifest:
    fields: dict[str, object] = {
        "build_id": "0" * 16,
        "git": "",
        "dirty": False,
        "version": "0.1.0",
        "target": "x86_64-linux-gnu",
        "glibc_floor": "2.31",
        "cpu_flags": [],
        "runtime": "bundled",
        "layers": [Layer(name="app", sha256="0" * 64, n_bytes=10)],
        "builder": "local",
        "built_unix_ns": 0,
    }
    return Manifest.model_validate(fields | changes)


def codes(findings: list[Finding] | PreflightReport) -> list[str]:
    found = findings.findings if isinstance(findings, PreflightReport) else findings
    return [finding.code for finding in found]


def test_no_daemon_was_ever_recorded(host: LocalHost, layout: Layout) -> None:
    assert find_daemon(host, layout) is None


def test_a_live_daemon_of_ours_and_an_adopted_one(host: LocalHost, layout: Layout) -> None:
    with holding(5) as process:
        write_daemon(layout, process.pid, api="/run/api.sock")
        ours = find_daemon(host, layout)
        assert ours is not None
        assert (ours.status, ours.is_live) == ("running", True)
        write_daemon(layout, process.pid)
        adopted = find_daemon(host, layout)
        assert adopted is not None
        assert (adopted.status, adopted.is_live) == ("foreign", True)


def test_a_daemon_that_ended_is_gone_even_as_a_zombie(host: LocalHost, layout: Layout) -> None:
    with holding(5) as process:
        write_daemon(layout, process.pid)
        process.kill()
        Path(f"/proc/{process.pid}").stat()  # the zombie is not reaped yet
        for _ in range(100):
            view = find_daemon(host, layout)
            assert view is not None
            if not view.is_live:
                break
        assert view is not None
        assert view.status == "gone"
    view = find_daemon(host, layout)
    assert view is not None
    assert view.status == "gone"


def test_a_reused_pid_or_another_boot_is_stale(host: LocalHost, layout: Layout) -> None:
    with holding(5) as process:
        record = write_daemon(layout, process.pid)
        for change in ({"start_ticks": record.start_ticks - 1}, {"boot_id": "before"}):
            write_daemon(layout, process.pid, **change)
            view = find_daemon(host, layout)
            assert view is not None
            assert (view.status, view.process) == ("stale", None)


@pytest.mark.parametrize("text", ["compact", "spread"])
def test_record_and_process_are_read_with_one_script(host: LocalHost, layout: Layout, text: str) -> None:
    class Counting:
        target = host.target
        titles: ClassVar[list[str]] = []

        def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
            self.titles.append(script.title)
            return host.run(script, timeout_s=timeout_s)

    with holding(5) as process:
        record = write_daemon(layout, process.pid, logs=['/a"pid":1,', "/record\nend-of-record\n"])
        if text == "spread":
            Path(layout.daemon_json).write_text(
                record.model_dump_json(by_alias=True, indent=2).replace('\n  "pid":', '\n  "pid" :\t')
            )
        Counting.titles.clear()
        view = find_daemon(Counting(), layout)  # type: ignore[arg-type] # one method does
        assert view is not None
        assert (view.record, view.status) == (record, "foreign")
        assert view.process is not None
        assert view.process.pid == process.pid
        assert Counting.titles == ["look at the daemon"]


def test_a_daemon_json_that_is_no_record_is_unreadable(host: LocalHost, layout: Layout) -> None:
    Path(layout.run).mkdir(parents=True)
    Path(layout.daemon_json).write_text("{}")
    with pytest.raises(UnreadableError, match="DaemonRecord"):
        find_daemon(host, layout)


def test_a_host_with_room_has_no_error_and_nothing_is_created(host: LocalHost, layout: Layout) -> None:
    before = set(Path(layout.remote_dir).iterdir())
    report = preflight_host(host, layout, MIB, needs_gpu=False)
    assert [finding for finding in report.findings if finding.severity == "error"] == []
    raise_findings(report.findings)
    assert set(Path(layout.remote_dir).iterdir()) == before


def test_without_a_need_memory_is_no_finding(host: LocalHost, layout: Layout) -> None:
    assert "memory" not in codes(preflight_host(host, layout, None))


def test_too_little_memory_names_its_holders_and_how_to_stop_or_adopt_them(host: LocalHost, layout: Layout) -> None:
    with holding(300) as process:
        memory = probe_host(host, layout.home).memory
        most = min(memory.total_bytes, memory.cgroup_limit_bytes or memory.total_bytes)
        report = preflight_host(host, layout, most)
        with pytest.raises(UsageError) as refused:
            raise_findings(report.findings)
    message, hint = refused.value.message, refused.value.hint
    assert refused.value.exit_status == 2
    assert f"pid {process.pid} (" in message
    assert "python" in message
    assert "started 20" in message
    assert "MiB" in message
    assert f"`cuzkops kill --pid {process.pid}`" in hint
    assert "`cuzkops adopt " in hint
    assert refused.value.details["findings"]


def test_what_our_own_daemon_holds_will_come_back(host: LocalHost, layout: Layout) -> None:
    with holding(400) as process:
        available = probe_host(host, layout.home).available_bytes
        need = available + 200 * MIB
        assert "memory" in codes(preflight_host(host, layout, need, needs_gpu=False))
        write_daemon(layout, process.pid)
        report = preflight_host(host, layout, need, needs_gpu=False)
        assert "memory" not in codes(report)
        assert report.daemon is not None
        assert report.daemon.is_live


def test_what_an_interrupted_kill_still_holds_will_come_back(host: LocalHost, layout: Layout) -> None:
    with holding(400) as process:
        need = probe_host(host, layout.home).available_bytes + 200 * MIB
        write_record(host, layout.kill_json, take_baseline(host, layout.name, [process.pid]))
        assert "memory" not in codes(preflight_host(host, layout, need, needs_gpu=False))


def test_a_limit_of_the_control_group_is_said(host: LocalHost, layout: Layout, tmp_path: Path) -> None:
    group = {"memory.max": f"{900 * MIB}\n", "memory.current": f"{800 * MIB}\n", "memory.stat": "inactive_file 0\n"}
    files = {f"sys/fs/cgroup/box/{name}": text for name, text in group.items()} | {"proc/self/cgroup": "0::/box\n"}
    report = preflight_host(host, layout, 200 * MIB, kernel=recorded_kernel(tmp_path / "k", files=files))
    (finding,) = (finding for finding in report.findings if finding.code == "memory")
    assert "100.00 MiB are available" in finding.message
    assert "is limited to 900.00 MiB" in finding.message


def test_what_can_never_fit_is_not_waited_for(host: LocalHost, layout: Layout, tmp_path: Path) -> None:
    group = {"memory.max": f"{900 * MIB}\n", "memory.current": f"{100 * MIB}\n", "memory.stat": "inactive_file 0\n"}
    files = {f"sys/fs/cgroup/box/{name}": text for name, text in group.items()} | {"proc/self/cgroup": "0::/box\n"}
    kernel = recorded_kernel(tmp_path / "k", files=files)
    free = recorded_kernel(tmp_path / "free", files={})
    total = probe_host(host, layout.home, kernel=free).memory.total_bytes
    cases = [(901 * MIB, kernel, "900.00 MiB"), (total + MIB, free, "in all")]
    for need, where, said in cases:
        (finding,) = (f for f in preflight_host(host, layout, need, kernel=where).findings if f.code == "memory")
        assert "it can never fit" in finding.message
        assert said in finding.message
        assert "wait-memory" not in finding.hint
        assert "smaller budget" in finding.hint
    (finding,) = (f for f in preflight_host(host, layout, 850 * MIB, kernel=kernel).findings if f.code == "memory")
    assert "it can never fit" not in finding.message


@pytest.mark.parametrize(("builder", "way"), [("local", "--builder docker"), ("docker", "--base-image")])
def test_a_build_for_newer_hosts_names_the_builder_that_serves_older_ones(
    facts: HostFacts, builder: str, way: str
) -> None:
    (finding,) = preflight_manifest(facts, manifest(glibc_floor="2.39", builder=builder))
    assert finding.code == "glibc"
    assert way in finding.hint


def gpu_kernel(folder: Path) -> dict[str, str]:
    files = {"dev/nvidia0": "", "dev/nvidiactl": "", "dev/nvidia-uvm": ""}
    return recorded_kernel(folder, files=files) | {"PROC": "/proc"}


def test_a_foreign_process_on_the_gpu_is_refused_by_name(host: LocalHost, layout: Layout, tmp_path: Path) -> None:
    kernel = gpu_kernel(tmp_path / "k")
    code = f"import time; f = open({kernel['DEV'] + '/nvidia0'!r}); print('ready', flush=True); time.sleep(600)"
    with running(sys.executable, "-c", code) as process:
        report = preflight_host(host, layout, kernel=kernel)
        assert codes(report) == ["gpu"]
        with pytest.raises(UsageError, match=f"the GPU is in use .*nvidia0.* by pid {process.pid}"):
            raise_findings(report.findings)
        assert codes(preflight_host(host, layout, needs_gpu=False, kernel=kernel)) == []
        write_daemon(layout, process.pid)
        assert codes(preflight_host(host, layout, kernel=kernel)) == [], "our own daemon is no stranger"


def test_a_monitor_on_the_gpu_is_let_be_unless_it_computes(host: LocalHost, layout: Layout, tmp_path: Path) -> None:
    kernel = gpu_kernel(tmp_path / "k")
    monitor = tmp_path / "nvidia-persistenced"
    monitor.write_bytes(Path("/bin/bash").read_bytes())
    monitor.chmod(0o755)
    for device, expected in (("nvidiactl", []), ("nvidia-uvm", ["gpu"])):
        code = (
            f"exec 5<{kernel['DEV']}/{device}; echo ready; read -r _ <&5; while :; do read -r -t 60 _ </dev/zero; done"
        )
        with running(str(monitor), "-c", code):
            assert codes(preflight_host(host, layout, kernel=kernel)) == expected


def test_a_folder_that_cannot_be_used_is_refused(host: LocalHost) -> None:
    report = preflight_host(host, Layout("/proc/nowhere", "prover"), needs_gpu=False)
    assert codes(report) == ["folder-not-writable"]


def test_something_in_the_place_of_current_is_refused_before_a_kill(host: LocalHost, layout: Layout) -> None:
    current = Path(layout.current)
    current.parent.mkdir(parents=True)
    current.symlink_to("releases/gone")
    assert codes(preflight_host(host, layout, needs_gpu=False)) == []
    current.unlink()
    current.mkdir()
    (finding,) = preflight_host(host, layout, needs_gpu=False).findings
    assert (finding.code, finding.severity, finding.hint) == ("current", "error", "move it away")
    assert finding.message == f"{current} is not the link that it should be: no release could be launched"


def test_a_long_socket_path_is_a_warning(host: LocalHost, tmp_path: Path) -> None:
    report = preflight_host(host, Layout(str(tmp_path / ("x" * 100)), "prover"), needs_gpu=False)
    assert codes(report) == ["socket-path"]
    raise_findings(report.findings)


def test_a_fitting_artifact_has_no_finding(facts: HostFacts) -> None:
    assert preflight_manifest(facts, manifest()) == []


def test_a_daemon_for_a_gpu_needs_an_artifact_with_kernels_for_gpus(facts: HostFacts) -> None:
    (finding,) = preflight_manifest(facts, manifest(), uses_gpu=True)
    assert (finding.code, finding.severity) == ("no-gpu-kernels", "error")
    assert "--gpu-archs all" in finding.hint
    layers = [Layer(name=name, sha256="0" * 64, n_bytes=10) for name in ("app", "gpu")]
    assert preflight_manifest(facts, manifest(layers=layers), uses_gpu=True) == []


@pytest.mark.parametrize(
    ("host_is", "artifact_is", "code", "said"),
    [
        ({"machine": "aarch64"}, {}, "architecture", "for x86_64, the host is aarch64"),
        ({"libc_version": "2.28"}, {}, "glibc", "glibc 2.28, and the artifact needs 2.31"),
        ({"libc": "musl", "libc_version": ""}, {}, "glibc", "musl"),
        ({"libc": "unknown", "libc_version": ""}, {}, "glibc-unknown", "could not be found"),
        ({"cpu_flags": frozenset({"adx"})}, {"cpu_flags": ["adx", "avx512ifma"]}, "cpu-flags", "lacks avx512ifma"),
        (
            {},
            {"runtime": "host-python", "host_python": HostPython(version="3.12", path="/usr/bin/python3.12")},
            "host-python",
            "/usr/bin/python3 3.11.2",
        ),
        ({"tools": frozenset({"cat", "timeout"})}, {}, "tools", "tar, gzip"),
        ({"tools": frozenset({*TOOLS, "timeout"} - {"df"})}, {}, "tools", "the host lacks df"),
    ],
)
def test_what_does_not_fit_is_named(
    facts: HostFacts, host_is: dict[str, object], artifact_is: dict[str, object], code: str, said: str
) -> None:
    findings = preflight_manifest(facts.model_copy(update=host_is), manifest(**artifact_is))
    assert codes(findings) == [code]
    assert said in findings[0].message


def test_glibc_versions_are_numbers_and_not_texts(facts: HostFacts) -> None:
    assert preflight_manifest(facts.model_copy(update={"libc_version": "2.100"}), manifest()) == []


def test_the_right_python_on_the_host_is_enough(facts: HostFacts) -> None:
    wanted = HostPython(version="3.11", path="/opt/python3.11")
    assert preflight_manifest(facts, manifest(runtime="host-python", host_python=wanted)) == []


def test_the_interpreter_that_the_build_recorded_is_asked_for(
    host: LocalHost, facts: HostFacts, tmp_path: Path
) -> None:
    python = tmp_path / "my python"
    python.symlink_to(sys.executable)
    version = ".".join(map(str, sys.version_info[:2]))
    fitting = manifest(runtime="host-python", host_python=HostPython(version=version, path=str(python)))
    bare = facts.model_copy(update={"pythons": {}})
    assert codes(preflight_manifest(bare, fitting)) == ["host-python"]
    found = with_python(host, bare, fitting)
    assert found.pythons[str(python)].startswith(f"{version}.")
    assert preflight_manifest(found, fitting) == []
    missing = HostPython(version="3.99", path="/no/python3.99")
    missing_too = manifest(runtime="host-python", host_python=missing)
    assert codes(preflight_manifest(with_python(host, bare, missing_too), missing_too)) == ["host-python"]
    assert with_python(host, bare, manifest()) == bare


def test_all_errors_come_in_one_message(facts: HostFacts) -> None:
    bad = facts.model_copy(
        update={"machine": "aarch64", "libc_version": "2.28", "tools": frozenset({*TOOLS, "timeout"} - {"df"})}
    )
    with pytest.raises(UsageError) as refused:
        raise_findings(preflight_manifest(bad, manifest()))
    assert refused.value.code == "preflight"
    for part in ("3 problems", "aarch64", "2.28", "lacks df"):
        assert part in refused.value.message


def test_setsid_and_grep_are_not_needed(facts: HostFacts) -> None:
    """launch and the looks have a way without them."""
    assert preflight_manifest(facts.model_copy(update={"tools": frozenset({*TOOLS, "timeout"})}), manifest()) == []
    assert not {"setsid", "grep"} & set(TOOLS)


def test_warnings_alone_refuse_nothing(facts: HostFacts) -> None:
    raise_findings(preflight_manifest(facts.model_copy(update={"tools": facts.tools - {"timeout"}}), manifest()))


def test_the_biggest_process_comes_first(host: LocalHost) -> None:
    with holding(150) as large, holding(80) as small:
        pids = [info.pid for info in probe_processes(host, min_bytes=70 * MIB)]
        assert pids.index(large.pid) < pids.index(small.pid)

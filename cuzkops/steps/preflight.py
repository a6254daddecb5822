"""Before anything is changed: what is true on the host, what stands in the way, and all of it at once."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cuzkops.artifact.elf import glibc_version
from cuzkops.errors import UnreadableError, UsageError
from cuzkops.records import KillRecord
from cuzkops.remote.daemon import DaemonView, describe_process, find_daemon
from cuzkops.remote.host import FULL
from cuzkops.remote.launching import release_config_script
from cuzkops.remote.orphans import find_orphans
from cuzkops.remote.probes import MIN_BYTES, HostFacts, ProcessInfo, probe_host, probe_processes, probe_pythons
from cuzkops.remote.run_files import read_record
from cuzkops.remote.script import TOOLS
from cuzkops.steps.budgets import SMALLER_BUDGET, budget_findings
from cuzkops.steps.findings import Finding
from cuzkops.steps.preflight_gpu import gpu_findings
from cuzkops.steps.room import advise
from cuzkops.units import format_bytes
from prover.protocol import SOCKET_PATH_LIMIT_BYTES

if TYPE_CHECKING:
    from cuzkops.configuration import DeployConfig
    from cuzkops.records import Manifest
    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout

MONITORS = frozenset(
    ("nvidia-persistenced", "nv-hostengine", "dcgm-exporter", "nvidia-smi", "nvtop", "nv-fabricmanager", "Xorg")
)
"""Programs that watch a GPU and hold none of its memory worth naming."""
_MAX_HOLDERS = 10
_LEAST_BYTES = 1 << 20
_LEAST_INODES = 64
"""What a start takes at least: the journal, the logs and the records of a daemon."""


@dataclass(frozen=True)
class PreflightReport:
    """What ``preflight_host`` found."""

    facts: HostFacts
    findings: list[Finding]
    daemon: DaemonView | None


def preflight_host(
    host: Host,
    layout: Layout,
    need_bytes: int | None = None,
    *,
    budget_bytes: int | None = None,
    needs_gpu: bool = True,
    need_gpu_bytes: int = 0,
    kernel: dict[str, str] | None = None,
) -> PreflightReport:
    """Look at a host before a deploy; leaves everything as it was and raises nothing for what it finds.

    Args:
        host: Where.
        layout: Where the daemon is or will be.
        need_bytes: Host memory that the new daemon needs; None where nobody knows it yet. ``auto`` is never a need.
        budget_bytes: Its memory budget, where there is an explicit one: it must be held some day, whatever the need.
        needs_gpu: Whether others on the GPU stand in the way; a daemon on the host backend does not care.
        need_gpu_bytes: Memory that it needs on one GPU; with it devices, driver and huge pages are looked at, too.
        kernel: ``roots(...)`` of a recording; the real folders by default.
    """
    facts = probe_host(host, layout.home, kernel=kernel)
    daemon, unreadable = _daemon(host, layout, kernel)
    seen = probe_processes(host, kernel=kernel)
    own = _own_processes(host, layout, daemon, facts, seen=seen, kernel=kernel)
    own_pids = {process.pid for process in own}
    others = [process for process in seen if process.pid not in own_pids]
    findings = [
        *_folder_findings(host, layout, facts),
        *_socket_findings(layout),
        *_visibility_findings(facts),
        *unreadable,
    ]
    if need_bytes is not None:
        giving_back = sum(process.footprint_bytes for process in own)
        in_the_way = [process for process in others if process.footprint_bytes >= MIN_BYTES][:_MAX_HOLDERS]
        findings += _memory_findings(facts, need_bytes, giving_back, in_the_way)
    if budget_bytes is not None:
        findings += budget_findings(host, layout, budget_bytes, facts, need_bytes)
    if needs_gpu:
        findings += [_gpu_finding(process) for process in others if _uses_gpu(process)]
    if need_gpu_bytes:
        own_on_gpu = any(_uses_gpu(process) for process in own)
        findings += gpu_findings(facts, need_gpu_bytes, giving_back=own_on_gpu)
    return PreflightReport(facts, findings, daemon)


def _daemon(host: Host, layout: Layout, kernel: dict[str, str] | None) -> tuple[DaemonView | None, list[Finding]]:
    try:
        return find_daemon(host, layout, kernel=kernel), []
    except UnreadableError as error:  # one finding among others
        return None, [Finding("daemon-json", "error", "daemon", error.message, error.hint)]


def with_python(host: Host, facts: HostFacts, manifest: Manifest) -> HostFacts:
    """Add the interpreters that the artifact's launcher will try to what is known of the host."""
    wanted = manifest.host_python
    if wanted is None:
        return facts
    found = probe_pythons(host, [wanted.path, f"python{wanted.version}", "python3"])
    return facts.model_copy(update={"pythons": facts.pythons | found})


def preflight_manifest(facts: HostFacts, manifest: Manifest, *, uses_gpu: bool = False) -> list[Finding]:
    """Compare what was built with what the host is.

    Args:
        facts: The host.
        manifest: The artifact.
        uses_gpu: Whether the daemon is configured to compute on a GPU.
    """
    findings = []
    if uses_gpu and not any(layer.name == "gpu" for layer in manifest.layers):
        message = 'the configuration says gpus.backend = "cuda", and the artifact was built without kernels for GPUs'
        hint = "build it with --builder docker and --gpu-archs all, or for the host's GPU alone, such as 90"
        findings.append(Finding("no-gpu-kernels", "error", "artifact", message, hint))
    architecture = manifest.target.partition("-")[0]
    if architecture != facts.machine:
        message = f"the artifact is for {architecture}, the host is {facts.machine}"
        findings.append(Finding("architecture", "error", "host", message, "build on or for that architecture"))
    findings += _libc_findings(facts, manifest)
    missing_flags = sorted(set(manifest.cpu_flags) - facts.cpu_flags)
    if missing_flags and architecture == facts.machine:
        message = f"the CPU lacks {', '.join(missing_flags)}, which the native code uses"
        findings.append(Finding("cpu-flags", "error", "host", message, "build for this CPU, or use another host"))
    findings += _python_findings(facts, manifest)
    findings += _tool_findings(facts)
    return findings


def refuse_losing_circuits(host: Host, layout: Layout, config: DeployConfig) -> None:
    """Refuse to put a daemon without circuits in the place of one that serves some, where nobody asked for that.

    Args:
        host: Where.
        layout: Which daemon there.
        config: What would be shipped.

    Raises:
        UsageError: It names no configuration and no circuit, and the daemon that runs serves circuits.
    """
    daemon = find_daemon(host, layout) if config.is_bare else None
    if daemon is None or daemon.status != "running":
        return
    release_id = daemon.record.release_id
    text = host.run(release_config_script(layout, release_id)).check().out
    try:
        circuits = [str(circuit["name"]) for circuit in tomllib.loads(text).get("circuits", [])]
    except (tomllib.TOMLDecodeError, LookupError, TypeError):
        return  # not for us to judge: the daemon that runs reads its own configuration
    if not circuits:
        return
    raise UsageError(
        "loses-circuits",
        f"neither a configuration nor a circuit was named, and the daemon {layout.name} that runs (release "
        f"{release_id}) serves {', '.join(circuits)}: the new one would serve none",
        "name its configuration with --config, or --circuit NAME=ZKEY; to serve none, give a --config without circuits",
        {"release_id": release_id, "circuits": circuits},
    )


def _own_processes(
    host: Host,
    layout: Layout,
    daemon: DaemonView | None,
    facts: HostFacts,
    *,
    seen: list[ProcessInfo],
    kernel: dict[str, str] | None,
) -> list[ProcessInfo]:
    """What the coming kill will end: our daemon, or what one left, and what an earlier kill has not ended yet."""
    own: dict[int, ProcessInfo] = {}
    if daemon is not None and daemon.process is not None:
        leader = daemon.process
        own = {process.pid: process for process in seen if process.session_id == leader.session_id == leader.pid}
        own[leader.pid] = leader
    elif daemon is not None:
        own = {process.pid: process for process in find_orphans(host, daemon.record, kernel=kernel)}
    kill = read_record(host, layout.kill_json, KillRecord)
    if kill is not None and kill.boot_id == facts.boot_id:
        starts = {process.pid: process.start_ticks for process in kill.processes}
        own |= {
            p.pid: p for p in probe_processes(host, pids=list(starts), kernel=kernel) if starts[p.pid] == p.start_ticks
        }
    return [process for process in own.values() if process.n_live_threads]


def _memory_findings(facts: HostFacts, need_bytes: int, giving_back: int, holders: list[ProcessInfo]) -> list[Finding]:
    will_be = facts.available_bytes + giving_back
    if need_bytes <= will_be:
        return []
    message = (
        f"the new daemon needs {format_bytes(need_bytes)}, and {format_bytes(facts.available_bytes)} are available"
        + (f" with {format_bytes(giving_back)} more when the old daemon is stopped" if giving_back else "")
        + f": {format_bytes(need_bytes - will_be)} short"
    )
    limit = facts.memory.cgroup_limit_bytes
    if limit is not None and facts.memory.is_limited:
        message += f" (the control group {facts.memory.cgroup} is limited to {format_bytes(limit)})"
    held = "; ".join(map(describe_process, holders))
    message += f"; memory is held by {held}" if holders else "; no process that is visible here holds much of it"
    if need_bytes > facts.memory.most_bytes:
        message += f"; it can never fit: this session may have {format_bytes(facts.memory.most_bytes)} in all"
        hint = SMALLER_BUDGET
    else:
        hint = _stop_or_adopt(holders) if holders else "run `cuzkops wait-memory` if something was stopped just now"
        hint += ", or use a smaller budget"
    details: dict[str, object] = {
        "need_bytes": need_bytes,
        "available_bytes": facts.available_bytes,
        "giving_back_bytes": giving_back,
        "holders": [holder.model_dump() for holder in holders],
    }
    return [Finding("memory", "error", "memory", message, hint, details)]


def _uses_gpu(process: ProcessInfo) -> bool:
    if any("nvidia-uvm" in path for path in process.gpu_files):  # every CUDA context has it open, no monitor does
        return True
    return bool(process.gpu_files) and PurePosixPath(process.exe).name not in MONITORS


def _gpu_finding(process: ProcessInfo) -> Finding:
    message = f"the GPU is in use ({', '.join(process.gpu_files)}) by {describe_process(process)}"
    return Finding("gpu", "error", "gpu", message, _stop_or_adopt([process]), {"holders": [process.model_dump()]})


def _stop_or_adopt(holders: list[ProcessInfo]) -> str:
    texts = (f"`cuzkops kill --pid {holder.pid}` stops it" for holder in holders)
    adopt = next((f"`cuzkops adopt {holder.pid}` takes it over as the daemon" for holder in holders), "")
    return "; ".join([*texts, adopt])


def _folder_findings(host: Host, layout: Layout, facts: HostFacts) -> list[Finding]:
    where, parent = f"folder {facts.folder}", facts.folder_parent
    if full := _fullness(facts):  # before anything else: a full disk looks like one that may not be written
        return [Finding("disk-full", "error", where, full, advise(host, layout, _LEAST_BYTES, facts.disk_free_bytes))]
    if not facts.folder_writable:
        why = facts.folder_refusal or "no reason was given"
        message = f"{facts.user} cannot write in {parent}: {why}"
        return [Finding("folder-not-writable", "error", where, message, "use another --remote-dir or user")]
    if not facts.folder_executable:
        message = f"nothing can be executed in {parent}: it is mounted noexec"
        return [Finding("folder-noexec", "error", where, message, "use a --remote-dir on another file system")]
    if facts.current_in_the_way:
        message = f"{facts.folder}/current is not the link that it should be: no release could be launched"
        return [Finding("current", "error", where, message, "move it away")]
    return []


def _fullness(facts: HostFacts) -> str:
    """In which way the disk is full; empty where it is not."""
    parent, free, inodes = facts.folder_parent, format_bytes(facts.disk_free_bytes), facts.disk_free_inodes
    if facts.disk_total_bytes and facts.disk_free_bytes < _LEAST_BYTES:  # /proc and the like have no size
        return (
            f"the disk is full: {free} are free in {parent}, and a daemon writes {format_bytes(_LEAST_BYTES)} at once"
        )
    if inodes is not None and inodes < _LEAST_INODES:
        return f"the disk is full: {inodes} more files can be made in {parent} ({free} are free: it lacks inodes)"
    if facts.folder_refusal.endswith(FULL):
        return f"the disk is full: {facts.user} cannot write in {parent}: {facts.folder_refusal}"
    return ""


def _socket_findings(layout: Layout) -> list[Finding]:
    path = layout.socket
    if len(path.encode()) <= SOCKET_PATH_LIMIT_BYTES:
        return []
    message = f"{path} is longer than a socket takes ({SOCKET_PATH_LIMIT_BYTES} bytes): a short path elsewhere is used"
    return [Finding("socket-path", "warning", "folder", message)]


def _visibility_findings(facts: HostFacts) -> list[Finding]:
    if not facts.hides_processes or facts.uid == 0:
        return []
    message = f"/proc hides the processes of other users from {facts.user}: who holds memory may not be named"
    return [Finding("hidepid", "warning", "host", message, "connect as root to see them")]


def _libc_findings(facts: HostFacts, manifest: Manifest) -> list[Finding]:
    floor = manifest.glibc_floor
    if not floor:
        return []
    if facts.libc == "musl":
        message = f"the host has musl, and the artifact needs glibc {floor}"
        return [Finding("glibc", "error", "host", message, "use a host with glibc (Debian, Ubuntu, RHEL, ...)")]
    if not facts.libc_version:
        message = f"the host's glibc version could not be found; the artifact needs {floor}"
        return [Finding("glibc-unknown", "warning", "host", message)]
    if glibc_version(facts.libc_version) >= glibc_version(floor):
        return []
    message = f"the host has glibc {facts.libc_version}, and the artifact needs {floor} or newer"
    hint = "build on an older base image (--base-image), or use a newer host"
    if manifest.builder == "local":
        hint = "build with --builder docker, which is for older hosts too, or use a newer host"
    return [Finding("glibc", "error", "host", message, hint)]


def _python_findings(facts: HostFacts, manifest: Manifest) -> list[Finding]:
    wanted = manifest.host_python
    if manifest.runtime != "host-python" or wanted is None:
        return []
    if any(version.startswith(f"{wanted.version}.") for version in facts.pythons.values()):
        return []
    found = ", ".join(f"{path} {version}" for path, version in facts.pythons.items()) or "none"
    message = f"the artifact runs on the host's Python {wanted.version}, and the host has: {found}"
    hint = f"install python{wanted.version} on the host, or build with --builder docker, which brings its own"
    return [Finding("host-python", "error", "host", message, hint)]


def _tool_findings(facts: HostFacts) -> list[Finding]:
    missing = [tool for tool in TOOLS if tool not in facts.tools]
    findings = []
    if missing:
        message = f"the host lacks {', '.join(missing)}"
        findings.append(Finding("tools", "error", "host", message, "install coreutils, util-linux, tar and gzip"))
    if "timeout" not in facts.tools:
        message = "the host lacks timeout: it cannot end a command by itself when the connection is lost"
        findings.append(Finding("timeout-tool", "warning", "host", message, "install coreutils"))
    return findings

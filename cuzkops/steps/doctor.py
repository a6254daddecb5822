"""Look at everything that the other commands need, here and on the host, and say of each whether it is in order."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cuzkops import __version__
from cuzkops.artifact.runtime_bundled import why_not
from cuzkops.errors import OpsError
from cuzkops.remote import lock
from cuzkops.remote.daemon import describe_process
from cuzkops.remote.login_facts import look_at_login
from cuzkops.steps.budgets import budget_findings, running_budget_bytes
from cuzkops.steps.build_docker import docker_client
from cuzkops.steps.clean import look
from cuzkops.steps.preflight import preflight_host
from cuzkops.steps.room import advise
from cuzkops.steps.verify import read_release, verify
from cuzkops.units import counted, format_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from cuzkops.remote.daemon import DaemonView
    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.remote.probes import HostFacts
    from cuzkops.remote.procfs import Memory
    from cuzkops.target import Target

State = Literal["ok", "warning", "error"]
_TIMEOUT_S = 20.0
_LOW_BYTES = 2 << 30
"""An artifact, its cache and a build take about this much."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Args:
        name: What: ``"docker"``.
        state: An error stands in the way of a deploy, a warning may.
        message: What was found.
        hint: What to do about it.
    """

    name: str
    state: State
    message: str
    hint: str = ""


def examine_here(out: Path, state_folder: Path) -> list[Check]:
    """Look at this machine; changes nothing.

    Args:
        out: Where artifacts are built.
        state_folder: Where the tool keeps its state.
    """
    found = f"cuzkops {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return [
        Check("tool", "ok", found),
        _docker(docker_client()),
        _local_builder(),
        _command("git", "without it an artifact does not say which revision it is"),
        _disk("disk for builds", out.absolute()),
        _disk("state folder", state_folder),
    ]


def examine_login(target: Target, identity: Path | None) -> list[Check]:
    """Look at what a login would use; opens no connection."""
    if target.is_local:
        return [Check("ssh", "ok", "the target local needs none")]
    try:
        facts = look_at_login(target, identity)
    except OpsError as error:
        return [Check("ssh", "error", error.message, error.hint)]
    checks = [Check("ssh config", "ok", f"{target} means {facts.user} at {facts.place}; read: {facts.config}")]
    if facts.agent == "dead":
        hint = "start ssh-agent anew, or unset SSH_AUTH_SOCK"
        checks.append(Check("ssh agent", "warning", "SSH_AUTH_SOCK names an agent that does not answer", hint))
    if facts.agent in ("none", "dead", "0 keys") and not facts.keys:
        hint = "make one with ssh-keygen, name one with -i FILE, or start ssh-agent"
        checks.append(Check("ssh keys", "error", "there is no private key to offer, and no agent that has one", hint))
    else:
        keys = ", ".join(facts.keys) or "no file"
        checks.append(Check("ssh keys", "ok", f"offered: {keys}; agent: {facts.agent}"))
    if facts.open_keys:
        hint = f"chmod 600 {' '.join(facts.open_keys)}"
        checks.append(Check("ssh key files", "warning", f"others may read {', '.join(facts.open_keys)}", hint))
    if not facts.is_known:
        message = f"no key of {facts.place} is known yet: the first connection decides what is trusted"
        checks.append(Check("known hosts", "warning", message, "compare the fingerprint that it prints"))
    return checks


def examine_host(host: Host, layout: Layout) -> list[Check]:
    """Look at a host as a deploy would before it begins; what it writes there to try is gone at once."""
    report = preflight_host(host, layout, needs_gpu=False)
    facts = report.facts
    is_full = any(finding.code == "disk-full" for finding in report.findings)  # it says itself what to do
    libc = f"{facts.libc} {facts.libc_version}".strip()
    checks = [
        Check("host", "ok", f"{facts.hostname}: {facts.machine}, {libc}, kernel {facts.kernel}, {facts.n_cpus} CPUs"),
        Check("memory", "ok", _memory(facts.memory)),
        Check("disk", *_free(facts.disk_free_bytes, facts.folder_parent))
        if is_full
        else _host_disk(host, layout, facts),
        _gpus(report.facts.nvidia_smi, [gpu.name for gpu in facts.gpus], facts.nvidia_driver, facts.nvidia_devices),
    ]
    budget_bytes = running_budget_bytes(host, layout)
    budgets = [] if budget_bytes is None else budget_findings(host, layout, budget_bytes, facts)
    checks += [Check(found.code, found.severity, found.message, found.hint) for found in (*report.findings, *budgets)]
    return [*checks, _lock(host, layout), _daemon(layout, report.daemon), *_current(host, layout)]


def _docker(client: str) -> Check:
    if shutil.which(client) is None:
        hint = "install Docker, name its client in CUZKOPS_DOCKER, or build with --builder local"
        return Check("docker", "warning", f"there is no Docker client {client!r} on this machine", hint)
    done = _run([client, "version", "--format", "{{.Client.Version}} {{.Server.Version}}"])
    if done is None or done.returncode != 0:
        said = "it does not answer" if done is None else _last(done.stderr)
        hint = "start the engine, or build with --builder local"
        return Check("docker", "warning", f"no Docker engine answers the client {client}: {said}", hint)
    versions = dict(zip(("client", "engine"), done.stdout.split(), strict=False))
    if _major(versions.get("client", "")) >= 23:  # since then BuildKit is a component of its own
        buildx = _run([client, "buildx", "version"])
        if buildx is None or buildx.returncode != 0:
            hint = "install docker-buildx, or name another client in CUZKOPS_DOCKER"
            return Check("docker", "warning", f"the client {client} lacks the component buildx", hint)
    return Check("docker", "ok", ", ".join(f"{name} {version}" for name, version in versions.items()))


def _local_builder() -> Check:
    if importlib.util.find_spec("prover.cli") is None or shutil.which("g++") is None:
        hint = "install the extras prover and build, and g++; or build with --builder docker"
        return Check("local builder", "warning", "--builder local lacks the daemon's libraries or g++", hint)
    reason = why_not()
    if reason:
        message = f"--builder local makes an artifact that needs the host's Python, because {reason}"
        return Check("local builder", "warning", message, "build with --builder docker to bring an interpreter")
    return Check("local builder", "ok", f"it bundles {sys.executable}")


def _command(name: str, without: str) -> Check:
    found = shutil.which(name)
    return Check(name, "ok", found) if found else Check(name, "warning", f"not found: {without}", f"install {name}")


def _disk(name: str, path: Path) -> Check:
    while not path.exists():
        path = path.parent
    if not os.access(path, os.W_OK):
        return Check(name, "error", f"{path} cannot be written", "fix its permissions, or work in another folder")
    return Check(name, *_free(shutil.disk_usage(path).free, str(path)))


def _free(n_bytes: int, path: str) -> tuple[State, str, str]:
    sentence = f"{format_bytes(n_bytes)} are free in {path}"
    if n_bytes >= _LOW_BYTES:
        return "ok", sentence, ""
    return "warning", f"only {sentence}", "make room there"


def _host_disk(host: Host, layout: Layout, facts: HostFacts) -> Check:
    state, sentence, hint = _free(facts.disk_free_bytes, facts.folder_parent)
    if state != "ok":
        hint = advise(host, layout, _LOW_BYTES, facts.disk_free_bytes)
    return Check("disk", state, sentence, hint)


def _memory(memory: Memory) -> str:
    sentence = f"{format_bytes(memory.available_bytes)} are available of {format_bytes(memory.most_bytes)}"
    if memory.most_bytes == memory.total_bytes:
        return sentence
    group = f"to which the control group {memory.cgroup} limits this session"
    return f"{sentence}, {group} (the machine has {format_bytes(memory.total_bytes)})"


def _gpus(smi: str, names: list[str], driver: str, devices: list[str]) -> Check:
    if names:
        return Check("gpu", "ok", f"{', '.join(names)}; driver {driver or 'unknown'}")
    if not devices and smi == "missing":
        return Check("gpu", "ok", "no NVIDIA device: a daemon on the host backend needs none")
    hint = "see what nvidia-smi says there by hand; a wedged driver needs a reboot"
    return Check("gpu", "warning", f"{len(devices)} NVIDIA device files, and nvidia-smi is {smi}", hint)


def _lock(host: Host, layout: Layout) -> Check:
    holder = lock.read(host, layout)
    if holder is None:
        return Check("lock", "ok", "free")
    hint = "wait for it; if it is gone for good: `cuzkops unlock`"
    return Check("lock", "warning", f"held by {holder}", hint)


def _daemon(layout: Layout, daemon: DaemonView | None) -> Check:
    if daemon is None or daemon.process is None:
        return Check("daemon", "ok", f"no daemon {layout.name} runs")
    what = f"{describe_process(daemon.process)}, {daemon.record.state}, release {daemon.record.release_id}"
    return Check("daemon", "ok", what)


def _current(host: Host, layout: Layout) -> list[Check]:
    """Whether what a launch would start is whole."""
    holdings = look(host, layout).daemons.get(layout.name)
    if holdings is None or not holdings.current:
        return []
    try:
        verify(host, layout, read_release(host, layout, holdings.current))
    except OpsError as error:
        return [Check("release", "warning", error.message, error.hint)]
    return [Check("release", "ok", f"{holdings.current} is whole; there: {counted(len(holdings.releases), 'release')}")]


def _run(argv: list[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def _major(version: str) -> int:
    first = version.partition(".")[0]
    return int(first) if first.isdigit() else 0

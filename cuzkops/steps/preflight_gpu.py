"""What a daemon that computes on a GPU needs of a host: devices, a driver that answers, memory, huge pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuzkops.steps.findings import Finding
from cuzkops.units import format_bytes

if TYPE_CHECKING:
    from cuzkops.remote.probes import HostFacts

LEAST_DRIVER = 580
"""CUDA 13, which the kernels are built for, needs a driver of this branch or a newer one (CUDA compatibility guide)."""


def gpu_findings(facts: HostFacts, need_bytes: int, *, giving_back: bool) -> list[Finding]:
    """Hold a host's GPUs against a need.

    Args:
        facts: The host.
        need_bytes: Memory that the daemon needs on one GPU.
        giving_back: Whether our own daemon is on a GPU now and will give back what it holds.
    """
    found = [*_driver_findings(facts), *_memory_findings(facts, need_bytes, giving_back=giving_back)]
    return [*found, *_page_findings(facts)]


def _driver_findings(facts: HostFacts) -> list[Finding]:
    if not facts.nvidia_devices:
        message = "the daemon needs a GPU, and the host shows no NVIDIA device"
        hint = "use a host with one, start the container with it, or configure the host backend"
        return [Finding("gpu-missing", "error", "gpu", message, hint)]
    if not facts.nvidia_driver:
        message = "there are NVIDIA devices, and no driver is loaded (/proc/driver/nvidia/version is missing)"
        return [Finding("gpu-driver", "error", "gpu", message, "load or install the driver")]
    findings = []
    branch = facts.nvidia_driver.partition(".")[0]
    if branch.isdigit() and int(branch) < LEAST_DRIVER:
        message = f"the NVIDIA driver is {facts.nvidia_driver}, and the daemon needs {LEAST_DRIVER} or newer"
        findings.append(Finding("gpu-driver", "error", "gpu", message, "update the driver, or use another host"))
    if facts.nvidia_smi == "hung":
        message = "nvidia-smi did not answer in time: the driver may be wedged"
        hint = "see whether `nvidia-smi` answers by hand; a wedged driver needs a reboot"
        findings.append(Finding("gpu-hung", "error", "gpu", message, hint))
    elif facts.nvidia_smi != "ok":
        message = f"nvidia-smi is {facts.nvidia_smi}: what the GPUs are and hold is not known"
        findings.append(Finding("gpu-unknown", "warning", "gpu", message, "see what it says by hand"))
    return findings


def _memory_findings(facts: HostFacts, need_bytes: int, *, giving_back: bool) -> list[Finding]:
    sizes = [(gpu.total_bytes, gpu.used_bytes or 0) for gpu in facts.gpus if gpu.total_bytes is not None]
    if not sizes:
        return []
    most = max(total for total, _ in sizes)
    free = max(total - used for total, used in sizes)
    if need_bytes > most:
        message = (
            f"the daemon needs {format_bytes(need_bytes)} on one GPU, and the largest has {format_bytes(most)}: "
            "it can never fit"
        )
        return [Finding("gpu-memory", "error", "gpu", message, "use larger GPUs, or a smaller budget for them")]
    if need_bytes > free and not giving_back:
        message = (
            f"the daemon needs {format_bytes(need_bytes)} on one GPU, and no more than {format_bytes(free)} are free "
            "on any; none of it is held by the daemon that is replaced"
        )
        hint = "see who holds it with `nvidia-smi`, and stop that with `cuzkops kill --pid`"
        return [Finding("gpu-memory", "error", "gpu", message, hint)]
    return []


def _page_findings(facts: HostFacts) -> list[Finding]:
    if facts.thp != "never":
        return []
    message = "transparent huge pages are switched off (never): memory for the GPU is pinned page by page"
    hint = "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled"
    return [Finding("huge-pages", "warning", "memory", message, hint)]

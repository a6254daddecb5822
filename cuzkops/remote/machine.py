"""What a measurement depends on that the daemon does not say: the machine, and how busy it was before."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cuzkops.records import Machine
from cuzkops.remote.host import Script
from cuzkops.remote.probes import driver_version, parse_gpus
from cuzkops.remote.procfs import parse_memory
from cuzkops.remote.script import MEMORY, NVIDIA, PRELUDE, SMI_TIMEOUT_S, roots

if TYPE_CHECKING:
    from cuzkops.remote.host import Host

_MACHINE = r"""
exec 2>/dev/null
echo "uname $(uname -n) $(uname -r) $(uname -m)"
filter '^(model name|Model name|Hardware)' <"$PROC/cpuinfo" | head -n 1
echo "cpus $(filter '^processor' <"$PROC/cpuinfo" | filter '^processor' | wc -l)"
read -r load _ <"$PROC/loadavg"
echo "load $load"
echo "thp $(cat "$SYS/kernel/mm/transparent_hugepage/enabled")"
nvidia
echo memory
memory "$(limited_cgroups)"
"""


def read_machine(host: Host, *, kernel: dict[str, str] | None = None) -> Machine:
    """Look at a machine, with one script; changes nothing. What it does not say stays empty.

    Args:
        host: Which.
        kernel: ``roots(...)`` of a recording; the real folders by default.
    """
    parameters = {**(kernel or roots()), "SMI_TENTHS": str(SMI_TIMEOUT_S * 10)}
    script = Script("look at the machine", PRELUDE + MEMORY + NVIDIA + _MACHINE, parameters)
    return parse_machine(host.run(script, timeout_s=SMI_TIMEOUT_S + 60).check().out)


def parse_machine(output: str) -> Machine:
    """Read what the script prints."""

    def found(pattern: str) -> str:
        match = re.search(pattern, output, re.MULTILINE)
        return match[1].strip() if match else ""

    try:
        memory = parse_memory(output.partition("\nmemory\n")[2])
        memory_bytes, most_bytes = memory.total_bytes, memory.most_bytes
    except ValueError:  # it does not say
        memory_bytes = most_bytes = 0
    hostname, kernel, machine = [*found(r"^uname (.*)$").split(), "", "", ""][:3]
    return Machine(
        hostname=hostname,
        kernel=kernel,
        architecture=machine,
        cpu=found(r"^(?:model name|Model name|Hardware)\s*:(.*)$"),
        n_cpus=int(found(r"^cpus (\d+)$") or 0),
        memory_bytes=memory_bytes,
        memory_limit_bytes=most_bytes if most_bytes < memory_bytes else None,
        thp=found(r"\[(\w+)\]"),
        load_1min=float(found(r"^load ([\d.]+)$") or 0),
        gpus=[gpu.name for gpu in parse_gpus(output.splitlines())],
        driver=driver_version(found(r"^driver (.*)$")),
    )

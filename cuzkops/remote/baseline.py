"""The state of a host right before a daemon is stopped: what ``wait-memory`` compares with afterwards."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cuzkops.records import KillRecord, ProcessId
from cuzkops.remote.host import Script
from cuzkops.remote.probes import MIN_BYTES, parse_gpus, parse_processes
from cuzkops.remote.procfs import parse_kib, parse_leftovers, parse_memory, parse_others
from cuzkops.remote.script import LEFTOVERS, MEMORY, NVIDIA, PRELUDE, PROCESSES, SMI_TIMEOUT_S, roots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuzkops.remote.host import Host

# Processes of one session may share memory: RssAnon and RssShmem count it for each of them, Pss divides it. Pss walks
# the page tables, which takes seconds for hundreds of GiB, so a single process is spared that.
_BASELINE = r"""
exec 2>/dev/null
echo "boot $(cat "$PROC/sys/kernel/random/boot_id")"
filter '^btime ' <"$PROC/stat"
nvidia
echo "own"
for pid in $PIDS; do describe "$pid"; done
set -- $PIDS
for pid in "$@"; do
    echo "shared $pid"
    view_of "$pid"
    [ "$#" -gt 1 ] && filter '^(Pss_Anon|Pss_Shmem|Private_Hugetlb|Shared_Hugetlb):' <"$view/smaps_rollup"
    filter " ($DEV/shm/|/SYSV)" <"$view/maps"
done
echo "memory"
memory "$(limited_cgroups)"
echo "leftovers"
leftovers
others "$MIN_KIB" "$PIDS"
:
"""


def baseline_script(pids: Sequence[int]) -> Script:
    """Build the script that reads everything of the baseline; ``pids`` are the processes to be stopped."""
    parameters = {
        **roots(),
        "PIDS": " ".join(map(str, pids)),
        "MIN_KIB": str(MIN_BYTES // 1024),
        "SMI_TENTHS": str(SMI_TIMEOUT_S * 10),
    }
    pieces = PRELUDE + MEMORY + LEFTOVERS + PROCESSES + NVIDIA
    return Script("take the baseline", pieces + _BASELINE, parameters)


def take_baseline(host: Host, name: str, pids: Sequence[int]) -> KillRecord:
    """Read the baseline, with one script.

    Args:
        host: Where.
        name: The daemon's name.
        pids: The processes to be stopped, leader first; at least one.
    """
    done = host.run(baseline_script(pids), timeout_s=SMI_TIMEOUT_S + 60).check()
    return parse_baseline(done.out, name, pids)


def parse_baseline(output: str, name: str, pids: Sequence[int]) -> KillRecord:
    """Read what ``baseline_script`` prints.

    Raises:
        ValueError: The output does not say how much memory there is.
    """
    head, _, tail = output.partition("\nown\n")
    own, _, tail = tail.partition("\nmemory\n")
    memory_text, _, tail = tail.partition("\nleftovers\n")
    processes, *shared = re.split(r"^shared (?=\d+$)", own, flags=re.MULTILINE)
    infos = {info.pid: info for info in parse_processes(f"{head}\n{processes}")}
    memory, left = parse_memory(memory_text), parse_leftovers(tail)
    others, _ = parse_others(tail)
    gpus = [gpu.used_bytes for gpu in parse_gpus(head.splitlines()) if gpu.used_bytes is not None]
    boot = re.match(r"boot (\S*)", head)
    ordered = [infos[pid] for pid in pids if pid in infos]
    divided = {int(block.split(maxsplit=1)[0]): _divided_bytes(block) for block in shared}
    return KillRecord(
        name=name,
        boot_id=boot[1] if boot else "",
        processes=[ProcessId(pid=info.pid, start_ticks=info.start_ticks) for info in ordered],
        exe=ordered[0].exe if ordered else "",
        footprint_bytes=sum(min(i.footprint_bytes, divided.get(i.pid) or i.footprint_bytes) for i in ordered),
        available_bytes=memory.available_bytes,
        shmem_bytes=memory.shmem_bytes,
        pins_pages=memory.pins_pages,
        gpu_used_bytes=sum(gpus) if gpus else None,
        dev_shm=left.held_bytes,
        own_shm=sorted({name for block in shared for name in _mapped(block)} & set(left.held_bytes)),
        hugetlb_free_bytes=left.hugetlb_free_bytes,
        others=others,
        uptime_s=memory.uptime_s,
    )


def _divided_bytes(block: str) -> int:
    sizes = parse_kib(block.splitlines())
    return sum(sizes.get(key, 0) for key in ("Pss_Anon", "Pss_Shmem", "Private_Hugetlb", "Shared_Hugetlb"))


def _mapped(block: str) -> set[str]:
    """Files below /dev/shm by path, SysV segments by their inode, which is their id."""
    names = set()
    for line in block.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and "-" in fields[0]:
            names.add(f"sysv:{fields[4]}" if fields[5].startswith("/SYSV") else fields[5])
    return names

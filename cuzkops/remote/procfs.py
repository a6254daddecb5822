"""Pure parsers of what the shell pieces of ``script.py`` print: memory, left-overs, processes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cuzkops.records import ProcessId

# Field 22 of /proc/PID/stat and btime use USER_HZ, which is 100 for every program on every supported architecture.
TICKS_PER_S = 100

KIB = 1024
PAGE_BYTES = 4096  # of the pin counters; x86 and the usual ARM server kernels

# A command name may hold parentheses, spaces and newlines, but never the forty numbers that follow the last of it.
_STAT = re.compile(r"^(\d+) \((.{0,64}?)\) ([A-Za-z]) (-?\d+(?: -?\d+){20,})\s*$", re.DOTALL | re.MULTILINE)

DEAD_STATES = frozenset("ZXx")


class Facts(BaseModel):
    """Base of what is read from a host: frozen, comparable, and ready to be printed as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Memory(Facts):
    """The host's memory at one instant.

    ``available_bytes`` is what a new process may count on: the least of MemAvailable + ``per_cpu_free_bytes`` and, for
    each limited control group above this session, limit - usage + inactive_file. The three cgroup fields are those of
    the tightest group. ``per_cpu_free_bytes`` are free pages on lists of the CPUs (``pagesets`` of /proc/zoneinfo),
    which MemAvailable leaves out: since Linux 6.7 these lists may grow to an eighth of a zone when a large process ends
    and shrink slowly (mm/page_alloc.c: ``nr_pcp_high``, ``decay_pcp_high``). On Linux 6.18 with 2 CPUs and 24 GiB they
    hid 400 to 450 MiB of 700 after a process had died.
    """

    uptime_s: float
    total_bytes: int
    mem_available_bytes: int
    available_bytes: int
    shmem_bytes: int
    swap_total_bytes: int = 0
    swap_free_bytes: int = 0
    hugetlb_bytes: int = 0
    per_cpu_free_bytes: int = 0
    pins_pages: int | None = None
    cgroup: str = ""
    cgroup_limit_bytes: int | None = None
    cgroup_usage_bytes: int | None = None
    cgroup_inactive_file_bytes: int | None = None

    @property
    def most_bytes(self) -> int:
        """What this session can ever have: the machine's memory, or what the control group allows of it."""
        return min(self.total_bytes, self.total_bytes if self.cgroup_limit_bytes is None else self.cgroup_limit_bytes)

    @property
    def is_limited(self) -> bool:
        """Whether a control group leaves less than the host has."""
        return self.available_bytes < self.mem_available_bytes + self.per_cpu_free_bytes


@dataclass(frozen=True)
class Stat:
    """The fields of one /proc/PID/stat line that are used here; of a thread where it comes from task/."""

    pid: int
    comm: str
    state: str
    ppid: int
    pgrp: int
    session_id: int
    start_ticks: int


@dataclass(frozen=True)
class Leftovers:
    """Memory that no process needs to own: by file, tmpfs mount or SysV segment, and the free huge pages."""

    held_bytes: dict[str, int] = field(default_factory=dict)
    hugetlb_free_bytes: int = 0


def parse_stats(text: str) -> list[Stat]:
    """Read every whole stat line of a text, in order; anything between them is skipped."""
    stats = []
    for match in _STAT.finditer(text):
        numbers = match[4].split()
        ppid, pgrp, session_id, start_ticks = (int(numbers[at]) for at in (0, 1, 2, 18))
        stats.append(Stat(int(match[1]), match[2], match[3], ppid, pgrp, session_id, start_ticks))
    return stats


@dataclass(frozen=True)
class Threads:
    """One process with the states of its threads that are alive; none means that the process is gone."""

    leader: Stat
    live_states: tuple[str, ...]

    @property
    def states(self) -> str:
        """The states of the live threads, sorted, each once: ``"DS"``."""
        return "".join(sorted(set(self.live_states)))


def threads_of(stats: Sequence[Stat]) -> Threads:
    """Sort out one process.

    Args:
        stats: The leader's own line, then one a thread. The leader's may be gone from the threads while others live
            on, never the other way round.
    """
    threads = stats[1:] or stats[:1]
    return Threads(stats[0], tuple(thread.state for thread in threads if thread.state not in DEAD_STATES))


def parse_threads(text: str) -> dict[int, Threads]:
    """Read what the shell function ``threads`` prints: by PID, only the processes that exist."""
    found = {}
    for block in re.split(r"^process (?=\d+$)", text, flags=re.MULTILINE)[1:]:
        stats = parse_stats(block.partition("\n")[2])
        if stats:
            found[stats[0].pid] = threads_of(stats)
    return found


def live(found: Mapping[int, Threads], processes: Iterable[ProcessId]) -> dict[int, str]:
    """Which of the recorded processes live: their PIDs with the states of their live threads.

    Args:
        found: What ``parse_threads`` read.
        processes: The recorded ones; one whose PID is somebody else's by now has ended.
    """
    threads = {process.pid: found[process.pid] for process in processes if is_same(found.get(process.pid), process)}
    return {pid: seen.states for pid, seen in threads.items() if seen.live_states}


def is_same(seen: Threads | None, process: ProcessId) -> bool:
    """Whether a process that was seen, perhaps as a zombie, is the recorded one."""
    return seen is not None and seen.leader.start_ticks == process.start_ticks


def parse_others(text: str) -> tuple[dict[str, int], dict[str, str]]:
    """Read what the shell function ``others`` prints: bytes and command names, both by "pid:start_ticks"."""
    sizes, names = {}, {}
    for block in re.split(r"^big (?=\d+$)", text, flags=re.MULTILINE)[1:]:
        kib, _, rest = block.partition("\n")
        for stat in parse_stats(rest)[:1]:
            key = f"{stat.pid}:{stat.start_ticks}"
            sizes[key], names[key] = int(kib) * KIB, stat.comm
    return sizes, names


def parse_kib(lines: Iterable[str]) -> dict[str, int]:
    """Read ``Key: N kB`` lines into bytes; lines of another form are skipped."""
    sizes = {}
    for line in lines:
        match = re.match(r"(\w+):\s+(\d+) kB\s*\Z", line)
        if match:
            sizes[match[1]] = int(match[2]) * KIB
    return sizes


def parse_memory(text: str) -> Memory:
    """Read what the shell function ``memory`` prints.

    Raises:
        ValueError: No MemTotal or no uptime: this is not the output of a host with /proc.
    """
    main, *groups = re.split(r"^cgroup ", text, flags=re.MULTILINE)
    sizes = parse_kib(main.splitlines())
    numbers = _numbers(main.splitlines())
    uptime = re.search(r"^uptime ([\d.]+)$", main, re.MULTILINE)
    if uptime is None or "MemTotal" not in sizes:
        raise ValueError("no uptime or no MemTotal")
    # Kernels before 3.14 have no MemAvailable: what is free is a lower bound.
    mem_available = sizes.get("MemAvailable", sizes.get("MemFree", 0))
    per_cpu_free = numbers.get("per_cpu_free_pages", 0) * PAGE_BYTES
    free = mem_available + per_cpu_free
    tightest = min(filter(None, map(_parse_cgroup, groups)), key=lambda group: group[0], default=None)
    acquired, released = numbers.get("nr_foll_pin_acquired"), numbers.get("nr_foll_pin_released")
    return Memory(
        uptime_s=float(uptime[1]),
        total_bytes=sizes["MemTotal"],
        mem_available_bytes=mem_available,
        available_bytes=max(0, min(free, tightest[0])) if tightest else free,
        shmem_bytes=sizes.get("Shmem", 0),
        swap_total_bytes=sizes.get("SwapTotal", 0),
        swap_free_bytes=sizes.get("SwapFree", 0),
        hugetlb_bytes=sizes.get("Hugetlb", 0),
        per_cpu_free_bytes=per_cpu_free,
        pins_pages=None if acquired is None or released is None else acquired - released,
        cgroup=tightest[1] if tightest else "",
        cgroup_limit_bytes=tightest[2] if tightest else None,
        cgroup_usage_bytes=tightest[3] if tightest else None,
        cgroup_inactive_file_bytes=tightest[4] if tightest else None,
    )


def _parse_cgroup(text: str) -> tuple[int, str, int, int, int] | None:
    """Available, folder, limit, usage and inactive_file of one group; None where its limit was lifted meanwhile."""
    folder, *lines = text.splitlines()
    counts = [int(line) for line in lines if line.isdigit()]
    if len(counts) != 2:
        return None
    numbers = _numbers(lines)
    # v1 counts the children only in total_*; v2 always counts them.
    inactive = numbers.get("total_inactive_file", numbers.get("inactive_file", 0))
    return counts[0] - counts[1] + inactive, folder, counts[0], counts[1], inactive


def _numbers(lines: Iterable[str]) -> Mapping[str, int]:
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def parse_leftovers(text: str) -> Leftovers:
    """Read what the shell function ``leftovers`` prints; sizes are the allocated ones, not those of sparse files."""
    body = text.partition("\nend-of-leftovers")[0]
    listing, _, rest = body.partition("\ntmpfs\n")
    mounts, _, tail = rest.partition("\nsysv\n")
    mounts = mounts if rest else ""
    held = _parse_listing(listing) | _parse_mounts(mounts) | _parse_sysv(tail)
    pools = re.findall(r"^hugepages (\d+)kB (\d+)$", tail, re.MULTILINE)
    return Leftovers(
        {name: n_bytes for name, n_bytes in held.items() if n_bytes > 0},
        sum(int(size) * KIB * int(count) for size, count in pools),
    )


def _parse_listing(text: str) -> dict[str, int]:
    files, folder = {}, ""
    for line in text.splitlines():
        if line.startswith("/") and line.endswith(":"):
            folder = line[:-1]
        match = re.match(r"\s*(\d+) -\S+ +\d+ +\S+ +\S+ +\d+ \w{3} +\d+ +[\d:]+ (.+)\Z", line)
        if match:
            files[f"{folder}/{match[2]}"] = int(match[1]) * KIB
    return files


def _parse_mounts(text: str) -> dict[str, int]:
    rows = (re.match(r".+? +(\d+) +(\d+) +(\d+) +\d+% (/.*)\Z", line) for line in text.splitlines())
    return {row[4]: int(row[2]) * KIB for row in rows if row}


def _parse_sysv(text: str) -> dict[str, int]:
    lines = text.splitlines()
    header = next((line.split() for line in lines if "shmid" in line.split()), [])
    if "rss" not in header:
        return {}
    rows = (dict(zip(header, line.split(), strict=False)) for line in lines if re.match(r" *-?\d+ +\d+ ", line))
    return {f"sysv:{row['shmid']}": int(row["rss"]) for row in rows}

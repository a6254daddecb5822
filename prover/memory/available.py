"""How much memory this process may still take: the machine's, and that of the control groups it lives in."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

_NO_LIMIT_BYTES = 1 << 60  # cgroup v1 writes "no limit" as a number just below 2^63


@dataclass(frozen=True)
class _Controller:
    """File names of one version of the memory controller."""

    mount: str
    limit: str
    usage: str
    inactive_file: str


_V1 = _Controller("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Controller("", "memory.max", "memory.current", "inactive_file")


def available_bytes(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return min(MemAvailable + per-CPU free pages, limit - usage + inactive_file over every control group above us).

    The CPUs keep lists of free pages that MemAvailable leaves out. Since Linux 6.7 they may hold an eighth of a zone
    after a large process has ended (mm/page_alloc.c, ``nr_pcp_high``), such as the daemon that ran here before.

    Args:
        proc: Where procfs is mounted.
        cgroup: Where the control groups are mounted.

    Raises:
        OSError: /proc/meminfo cannot be read.
        ValueError: It has no MemAvailable.
    """
    found = [_kib_field(proc / "meminfo", "MemAvailable") + _per_cpu_free_bytes(proc / "zoneinfo")]
    for folder, controller in _groups(proc / "self/cgroup", cgroup):
        free = _left_in(folder, controller)
        if free is not None:
            found.append(free)
    return max(0, min(found))


def rss_and_peak_bytes() -> tuple[int, int]:
    """Resident memory of this process now and at its highest (VmRSS and VmHWM of /proc/self/status)."""
    status = Path("/proc/self/status")
    return _kib_field(status, "VmRSS"), _kib_field(status, "VmHWM")


def _kib_field(path: Path, name: str) -> int:
    for line in path.read_text(encoding="ascii", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise ValueError(f"{path} has no {name}")


def _per_cpu_free_bytes(zoneinfo: Path) -> int:
    try:
        lines = zoneinfo.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError as error:
        _raise_if_busy(error)
        return 0
    pages = sum(int(line.split()[1]) for line in lines if line.lstrip().startswith("count: "))
    return pages * os.sysconf("SC_PAGE_SIZE")


def _groups(listing: Path, root: Path) -> list[tuple[Path, _Controller]]:
    """Every folder from our own group up to the mount: a limit anywhere above binds too."""
    try:
        lines = listing.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        _raise_if_busy(error)
        return []
    groups: list[tuple[Path, _Controller]] = []
    for line in lines:
        _, controllers, own = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        controller = _V1 if controllers else _V2
        mount = root / controller.mount
        folder = mount / own.lstrip("/")
        # In a container the path may be the host's, while the mount shows our own group as its root.
        while folder != mount and mount in folder.parents:
            groups.append((folder, controller))
            folder = folder.parent
        groups.append((mount, controller))
    return groups


def _left_in(folder: Path, controller: _Controller) -> int | None:
    try:
        limit = (folder / controller.limit).read_text(encoding="ascii").strip()
        if limit == "max" or int(limit) >= _NO_LIMIT_BYTES:
            return None
        usage = int((folder / controller.usage).read_text(encoding="ascii"))
        stat = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
    except OSError as error:  # the root group has no such files, and a container may not show those above its own
        _raise_if_busy(error)
        return None
    except ValueError:  # no number: no limit that could be obeyed
        return None
    reclaimable = next((int(line.split()[1]) for line in stat if line.split()[0] == controller.inactive_file), 0)
    return int(limit) - usage + reclaimable


def _raise_if_busy(error: OSError) -> None:
    """A file that is not there limits nothing; that none can be opened just now must not look like that."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise error

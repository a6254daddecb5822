"""What a host has of a release, and whether there is room for the rest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError
from cuzkops.remote.verification import Verdicts, parse_verdicts
from cuzkops.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cuzkops.remote.host import Completed
    from cuzkops.remote.layout import Layout

_SPARE_BYTES = 16 * 2**20  # folders, links, manifest, configuration and the first logs


@dataclass(frozen=True)
class Item:
    """One file that may have to travel.

    Args:
        label: What it is, for people: ``"layer app"`` or ``"circuit mul60"``.
        sha256: Its digest.
        source: Where it lies here.
        n_bytes: Its size.
        unpacked_bytes: What it takes on the host in the end.
        is_layer: An archive that is unpacked there; else a key that stays as it is.
    """

    label: str
    sha256: str
    source: Path
    n_bytes: int
    unpacked_bytes: int
    is_layer: bool

    def part(self, layout: Layout) -> str:
        """Where it arrives: a name that says what it is and that it is not whole yet."""
        folder, suffix = (layout.layers, ".tar.gz") if self.is_layer else (layout.circuits, "")
        return f"{folder}/{self.sha256}{suffix}.part-of-{self.n_bytes}"


@dataclass(frozen=True)
class Inventory:
    """What the host has, and how much space is free.

    Args:
        verdicts: Which of the layers, keys and the release are there and whole.
        arrived_bytes: Name of a part file -> its size, of uploads that were cut.
        free_bytes: Folder -> (its disk, for people; free bytes of it).
    """

    verdicts: Verdicts
    arrived_bytes: dict[str, int]
    free_bytes: dict[str, tuple[str, int]]


def unpacked_bytes(archive: Path) -> int:
    """Size of a gzip's content: its last four bytes hold it modulo 2^32 (RFC 1952, ISIZE)."""
    with archive.open("rb") as file:
        n_bytes = file.seek(-4, 2) + 4
        size = int.from_bytes(file.read(4), "little")
    while size < n_bytes - 64:  # tar does not grow by gzip: the field wrapped round
        size += 2**32
    return size


def parse_inventory(completed: Completed) -> Inventory:
    """Read what ``inventory_script`` prints.

    Raises:
        OpsError: The host lacks a tool.
    """
    missing_tools: list[str] = []
    arrived: dict[str, int] = {}
    free: dict[str, tuple[str, int]] = {}
    folder = ""
    lines = completed.out.splitlines()
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "missing":
            missing_tools.append(rest)
        elif word == "part":
            size, _, name = rest.partition(" ")
            arrived[name] = int(size)
        elif word == "space":
            folder = rest
        elif match := re.fullmatch(r"(.+?)\s+\d+\s+-?\d+\s+(-?\d+)\s+\d+%\s+(/.*)", line):
            free[folder] = (f"{match[1]} on {match[3]}", int(match[2]) * 1024)
    if missing_tools:
        raise OpsError(
            "missing-tools", f"the host has no {', '.join(missing_tools)}", "install coreutils, tar and gzip"
        )
    return Inventory(parse_verdicts(lines), arrived, free)


def check_space(layout: Layout, missing: Sequence[Item], inventory: Inventory) -> None:
    """Refuse where the disk cannot take what is missing, layers unpacked and the largest archive beside them.

    Raises:
        OpsError: It cannot; the sentence names need, free space and disk.
    """

    def still_bytes(item: Item) -> int:
        return item.n_bytes - inventory.arrived_bytes.get(item.part(layout).rpartition("/")[2], 0)

    needs: dict[str, int] = {}
    layers = [item for item in missing if item.is_layer]
    circuits = [item for item in missing if not item.is_layer]
    archive_bytes = max(map(still_bytes, layers), default=0)  # each is removed before the next one comes
    unpacked = sum(item.unpacked_bytes for item in layers)
    needed = {"layers": unpacked + archive_bytes, "circuits": sum(map(still_bytes, circuits))}
    for folder, n_bytes in needed.items():
        path = next((path for path in inventory.free_bytes if path.endswith(f"/{folder}")), None)
        if path and n_bytes:
            disk = inventory.free_bytes[path][0]
            needs[disk] = needs.get(disk, _SPARE_BYTES) + n_bytes
    for disk, free_bytes in inventory.free_bytes.values():
        need_bytes = needs.get(disk, 0)
        if need_bytes > free_bytes:
            raise OpsError(
                "disk-full",
                f"the disk is too small: need {format_bytes(need_bytes)}, have {format_bytes(free_bytes)} ({disk})",
                "remove old releases with `cuzkops clean`, or choose another folder",
                {"need_bytes": need_bytes, "free_bytes": free_bytes, "disk": disk},
            )

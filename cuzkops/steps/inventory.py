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

_SPARE_BYTES = 8 << 20
"""Folders and links of a release (1 MiB of the bundled one), and what a daemon writes at once: journal and logs."""
_BLOCKS_SHARE = 1 / 32
"""What the files of a layer take beyond its archive, in whole blocks: 3.2 % of the bundled runtime on ext4."""


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


@dataclass(frozen=True)
class Shortage:
    """A disk that cannot take what a release lacks.

    Args:
        disk: Which, for people.
        free_bytes: What is free there.
        parts: What is needed for what: words -> bytes.
    """

    disk: str
    free_bytes: int
    parts: dict[str, int]

    @property
    def need_bytes(self) -> int:
        """All of it."""
        return sum(self.parts.values())

    @property
    def message(self) -> str:
        """Need, free space and disk, and what the need is made of."""
        parts = ", ".join(f"{format_bytes(n_bytes)} for {words}" for words, n_bytes in self.parts.items() if n_bytes)
        need, free = format_bytes(self.need_bytes), format_bytes(self.free_bytes)
        return f"the disk is too small: need {need}, have {free} ({self.disk}); needed: {parts}"


def find_shortages(layout: Layout, missing: Sequence[Item], inventory: Inventory) -> list[Shortage]:
    """The disks that cannot take what is missing: layers unpacked, an archive beside them while it is, and keys."""

    def still_bytes(item: Item) -> int:
        return item.n_bytes - inventory.arrived_bytes.get(item.part(layout).rpartition("/")[2], 0)

    circuits = [item for item in missing if not item.is_layer]
    highest = held = 0
    for item in missing:
        if item.is_layer:  # each archive is removed before the next one comes
            held += round(item.unpacked_bytes * (1 + _BLOCKS_SHARE))
            highest = max(highest, held + still_bytes(item))
    layers = ", ".join(item.label.removeprefix("layer ") for item in missing if item.is_layer)
    needed = {
        "layers": {f"layers ({layers})": held, "an archive beside them while it is unpacked": highest - held},
        "circuits": {"keys": sum(map(still_bytes, circuits))},
    }
    disks: dict[str, dict[str, int]] = {}
    for folder, (disk, _) in inventory.free_bytes.items():
        parts = needed[folder.rpartition("/")[2]]
        if sum(parts.values()):
            disks.setdefault(disk, {}).update(parts)
    spare = {"the release's folders, the journal and the first logs": _SPARE_BYTES}
    found = (
        Shortage(disk, free_bytes, disks[disk] | spare)
        for disk, free_bytes in dict(inventory.free_bytes.values()).items()
        if disk in disks
    )
    return [shortage for shortage in found if shortage.need_bytes > shortage.free_bytes]

"""Bring a release to a host: the layers and proving keys that it lacks, joined with the configuration.

Everything is named by its digest and appears by a rename, so what is there under its name is whole, whatever was
interrupted before. Files of a release are hard links to its layers, and no file is ever written twice: a daemon that
runs from an older release is not touched.
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError, UsageError
from cuzkops.remote import audit
from cuzkops.remote.host import Script
from cuzkops.remote.layout import release_id
from cuzkops.remote.releases import (
    DAMAGED,
    circuit_script,
    inventory_script,
    layer_script,
    layers_script,
    release_script,
)
from cuzkops.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuzkops.configuration import DeployConfig
    from cuzkops.records import Layer
    from cuzkops.remote.host import Completed, Host
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.build import Artifact

_SPARE_BYTES = 16 * 2**20  # folders, links, manifest, configuration and the first logs


@dataclass(frozen=True)
class ShipRequest:
    """What to bring to the host.

    Args:
        artifact: The built artifact.
        config: The configuration with the circuits that it carries.
    """

    artifact: Artifact
    config: DeployConfig

    @property
    def release_id(self) -> str:
        """The release's name: what it is made of."""
        return release_id(self.artifact.manifest.build_id, self.config.sha256)


@dataclass(frozen=True)
class Transfer:
    """How far one upload has come.

    Args:
        item: What travels: ``"layer app"`` or ``"circuit mul60"``.
        done_bytes: Bytes that arrived.
        total_bytes: Bytes in all.
    """

    item: str
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class ShipResult:
    """What it took to bring a release to a host.

    Args:
        release_id: The release, which is now complete there.
        sent: Items that travelled.
        skipped: Items that the host had.
        bytes_sent: Bytes that travelled.
        seconds: Time that it took.
    """

    release_id: str
    sent: tuple[str, ...]
    skipped: tuple[str, ...]
    bytes_sent: int
    seconds: float


@dataclass(frozen=True)
class _Item:
    """One file that may have to travel."""

    label: str
    sha256: str
    source: Path
    n_bytes: int
    unpacked_bytes: int
    is_layer: bool

    def part(self, layout: Layout, token: str) -> str:
        """Where it arrives: a name that says what it is and that it is not whole yet."""
        folder, suffix = (layout.layers, ".tar.gz") if self.is_layer else (layout.circuits, "")
        return f"{folder}/{self.sha256}{suffix}.part-{token}"


@dataclass(frozen=True)
class _Inventory:
    """What the host has, and how much space is free, by file system."""

    present: frozenset[str]
    has_release: bool
    free_bytes: dict[str, tuple[str, int]]


def ship(
    host: Host, layout: Layout, request: ShipRequest, progress: Callable[[Transfer], None] = lambda _: None
) -> ShipResult:
    """Bring a release to a host; may be repeated, and then does nothing.

    Args:
        host: The host, whose lock this client holds.
        layout: Where things lie there.
        request: The release.
        progress: Called while bytes travel.

    Raises:
        UsageError: The configuration names a digest that neither this machine nor the host has.
        OpsError: The disk is too small, a tool is missing there, or a file was damaged on its way.
    """
    begin = time.monotonic()
    items = _items(request)
    inventory = _parse_inventory(host.run(_inventory_script(layout, request), timeout_s=120).check())
    _check_host_circuits(request, inventory)
    missing = [item for item in items if item.sha256 not in inventory.present]
    _check_space(missing, inventory)
    for item in missing:
        _send(host, layout, item, progress)
    if not inventory.has_release:
        host.run(_release_script(layout, request, secrets.token_hex(4)), timeout_s=300).check()
        sent = [item.label for item in missing]
        audit.append(host, layout, "ship", {"release_id": request.release_id, "sent": sent})
    return ShipResult(
        release_id=request.release_id,
        sent=tuple(item.label for item in missing),
        skipped=tuple(item.label for item in items if item not in missing),
        bytes_sent=sum(item.n_bytes for item in missing),
        seconds=time.monotonic() - begin,
    )


def missing_layers(host: Host, layout: Layout, artifact: Artifact) -> list[Layer]:
    """Layers of an artifact that the host lacks; changes nothing."""
    layers = artifact.manifest.layers
    present = host.run(layers_script(layout, [layer.sha256 for layer in layers])).check().out.split()
    return [layer for layer in layers if layer.sha256 not in present]


def plan_ship(layout: Layout, request: ShipRequest) -> list[Script]:
    """What ``ship`` runs on a host that has nothing yet; a transfer stands as a script that is only a comment."""
    scripts = [_inventory_script(layout, request)]
    for item in _items(request):
        part = item.part(layout, "RANDOM")
        size = format_bytes(item.n_bytes)
        scripts.append(
            Script(f"send {item.label} ({size}), if the host lacks it", f"# {item.source} -> {part}", changes=True)
        )
        scripts.append(_receive_script(layout, item, part, "RANDOM"))
    scripts.append(_release_script(layout, request, "RANDOM"))
    return [*scripts, audit.append_script(layout, audit.entry(layout.name, "ship", {"release_id": request.release_id}))]


def _layer_digests(request: ShipRequest) -> list[str]:
    return [layer.sha256 for layer in request.artifact.manifest.layers]


def _inventory_script(layout: Layout, request: ShipRequest) -> Script:
    circuits = [circuit.sha256 for circuit in request.config.circuits.values()]
    circuits += [where for where in request.config.host_circuits.values() if not where.startswith("/")]
    return inventory_script(layout, request.release_id, _layer_digests(request), circuits)


def _release_script(layout: Layout, request: ShipRequest, token: str) -> Script:
    manifest = request.artifact.manifest.model_dump_json(by_alias=True, indent=1) + "\n"
    layers = _layer_digests(request)
    return release_script(
        layout, request.release_id, layers, manifest=manifest, config=request.config.text, token=token
    )


def _items(request: ShipRequest) -> list[_Item]:
    items = []
    for layer in request.artifact.manifest.layers:
        path = request.artifact.layer_path(layer)
        items.append(_Item(f"layer {layer.name}", layer.sha256, path, layer.n_bytes, _unpacked_bytes(path), True))
    seen: set[str] = set()
    for name, circuit in request.config.circuits.items():
        if circuit.sha256 not in seen:  # two names may share one key
            seen.add(circuit.sha256)
            n_bytes = circuit.path.stat().st_size
            items.append(_Item(f"circuit {name}", circuit.sha256, circuit.path, n_bytes, n_bytes, False))
    return items


def _unpacked_bytes(archive: Path) -> int:
    """Size of a gzip's content: its last four bytes hold it modulo 2^32 (RFC 1952, ISIZE)."""
    with archive.open("rb") as file:
        n_bytes = file.seek(-4, 2) + 4
        size = int.from_bytes(file.read(4), "little")
    while size < n_bytes - 64:  # tar does not grow by gzip: the field wrapped round
        size += 2**32
    return size


def _parse_inventory(completed: Completed) -> _Inventory:
    present: set[str] = set()
    missing_tools: list[str] = []
    free: dict[str, tuple[str, int]] = {}
    folder = ""
    has_release = False
    for line in completed.out.splitlines():
        word, _, rest = line.partition(" ")
        if word == "have":
            present.add(rest)
        elif word == "missing":
            missing_tools.append(rest)
        elif word == "release":
            has_release = True
        elif word == "space":
            folder = rest
        elif match := re.fullmatch(r"(.+?)\s+\d+\s+-?\d+\s+(-?\d+)\s+\d+%\s+(/.*)", line):
            free[folder] = (f"{match[1]} on {match[3]}", int(match[2]) * 1024)
    if missing_tools:
        raise OpsError(
            "missing-tools", f"the host has no {', '.join(missing_tools)}", "install coreutils, tar and gzip"
        )
    return _Inventory(frozenset(present), has_release, free)


def _check_host_circuits(request: ShipRequest, inventory: _Inventory) -> None:
    for name, where in request.config.host_circuits.items():
        if not where.startswith("/") and where not in inventory.present:
            raise UsageError(
                "circuit-missing",
                f"circuit {name} is named by its digest, and the host has no key {where[:12]}...",
                "give the local path of its zkey once, so that it is shipped",
            )


def _check_space(missing: list[_Item], inventory: _Inventory) -> None:
    needs: dict[str, int] = {}
    layers = [item for item in missing if item.is_layer]
    circuits = [item for item in missing if not item.is_layer]
    archive_bytes = max((item.n_bytes for item in layers), default=0)  # each is removed before the next one comes
    for folder, items, more in (("layers", layers, archive_bytes), ("circuits", circuits, 0)):
        path = next((path for path in inventory.free_bytes if path.endswith(f"/{folder}")), None)
        if path and items:
            disk = inventory.free_bytes[path][0]
            needs[disk] = needs.get(disk, _SPARE_BYTES) + sum(item.unpacked_bytes for item in items) + more
    for disk, free_bytes in inventory.free_bytes.values():
        need_bytes = needs.get(disk, 0)
        if need_bytes > free_bytes:
            raise OpsError(
                "disk-full",
                f"the disk is too small: need {format_bytes(need_bytes)}, have {format_bytes(free_bytes)} ({disk})",
                "remove old releases or layers, or choose another folder",
                {"need_bytes": need_bytes, "free_bytes": free_bytes, "disk": disk},
            )


def _send(host: Host, layout: Layout, item: _Item, progress: Callable[[Transfer], None]) -> None:
    token = secrets.token_hex(4)
    part = item.part(layout, token)
    progress(Transfer(item.label, 0, item.n_bytes))
    host.put(item.source, part, mode=0o600, progress=lambda done, total: progress(Transfer(item.label, done, total)))
    script = _receive_script(layout, item, part, token)
    # 10 MB/s is slow for a disk; a host that is slower still than that needs to be known about.
    completed = host.run(script, timeout_s=60 + (item.n_bytes + item.unpacked_bytes) / 10e6)
    if completed.status == DAMAGED:
        raise OpsError(
            "transfer-damaged",
            f"{item.label} was damaged on its way: {completed.stderr.decode(errors='replace').strip()}",
            "run the command again; if it stays, check the disk and memory of both machines",
            {"sha256": item.sha256},
        )
    completed.check()


def _receive_script(layout: Layout, item: _Item, part: str, token: str) -> Script:
    if item.is_layer:
        return layer_script(layout, item.label, item.sha256, part, token)
    return circuit_script(layout, item.label, item.sha256, part)

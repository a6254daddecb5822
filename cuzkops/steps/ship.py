"""Bring a release to a host: the layers and proving keys that it lacks, joined with the configuration.

Everything is named by its digest and appears by a rename, so it was whole when it appeared, whatever was interrupted
before; whether it still is, is looked at each time, and what was damaged is replaced. Files of a release are hard links
to its layers, and no file is ever written twice: a daemon that runs keeps the files that it has.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.artifact.listing import list_archive
from cuzkops.errors import OpsError, UsageError
from cuzkops.remote import audit
from cuzkops.remote.cleaning import holdings_script
from cuzkops.remote.host import Script
from cuzkops.remote.layout import release_id
from cuzkops.remote.releases import (
    DAMAGED,
    circuit_script,
    inventory_script,
    layer_script,
    present_script,
)
from cuzkops.steps.clean import CleanResult, clean
from cuzkops.steps.findings import Finding
from cuzkops.steps.inventory import Inventory, Item, find_shortages, parse_inventory, unpacked_bytes
from cuzkops.steps.room import advise
from cuzkops.steps.verify import LONGEST_S, join_script, read_release
from cuzkops.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuzkops.configuration import DeployConfig
    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.build import Artifact

_SLOW_DISK_BYTES_S = 10e6
"""A host that is slower still needs to be known about."""
_MUCH_BYTES = 4 << 30


@dataclass(frozen=True)
class ShipRequest:
    """What to bring to the host.

    Args:
        artifact: The built artifact.
        config: The configuration with the circuits that it carries.
        thorough: Hash every key on the host, also one that was hashed before and has not changed since.
        keep: How many releases of this daemon stay, besides those in use; None: all of them.
    """

    artifact: Artifact
    config: DeployConfig
    thorough: bool = False
    keep: int | None = None

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
        repaired: What was damaged on the host and was replaced: a sentence each.
        cleaned: What was removed because nobody uses it.
    """

    release_id: str
    sent: tuple[str, ...]
    skipped: tuple[str, ...]
    bytes_sent: int
    seconds: float
    repaired: tuple[str, ...] = ()
    cleaned: CleanResult | None = None


def ship(
    host: Host,
    layout: Layout,
    request: ShipRequest,
    progress: Callable[[Transfer], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> ShipResult:
    """Bring a release to a host; may be repeated, and then only verifies and replaces what was damaged.

    Args:
        host: The host, whose lock this client holds.
        layout: Where things lie there.
        request: The release.
        progress: Called while bytes travel.
        say: Gets a sentence for each thing that was found damaged there.

    Raises:
        UsageError: The configuration names a digest that neither this machine nor the host has, or a layer holds what
            may not be unpacked.
        OpsError: The disk is too small, a tool is missing there, or a file was damaged on its way.
    """
    begin = time.monotonic()
    items = _items(request)
    if (n_bytes := sum(item.unpacked_bytes for item in items)) >= _MUCH_BYTES:
        say(f"looks at what {host.target} has, which may mean to hash {format_bytes(n_bytes)} there")
    inventory = parse_inventory(host.run(_inventory_script(layout, request), timeout_s=_patience_s(request)).check())
    _check_host_circuits(host, request, inventory)
    missing = [item for item in items if item.sha256 not in inventory.verdicts.whole]
    lists = {item.sha256: _files_sha256(item) for item in missing if item.is_layer}
    if short := _space_findings(host, layout, request, missing, inventory):
        raise OpsError(short[0].code, short[0].message, short[0].hint, short[0].details)
    damage = _damaged_release(host, layout, request, inventory)
    repaired = _repairs(host, request.release_id, missing, inventory, damage)
    for sentence in repaired:
        say(sentence)
    bytes_sent = sum(_send(host, layout, item, lists.get(item.sha256, ""), progress) for item in missing)
    if damage is not None:
        host.run(_release_script(layout, request, secrets.token_hex(4)), timeout_s=300).check()
    if missing or damage is not None:
        details = {"release_id": request.release_id, "sent": [item.label for item in missing]}
        audit.append(host, layout, "ship", {**details, **({"repaired": repaired} if repaired else {})})
    cleaned = None if request.keep is None else clean(host, layout, request.keep, protect=(request.release_id,))
    if cleaned is not None and not cleaned.removed.is_empty:
        say(cleaned.sentence)
    return ShipResult(
        release_id=request.release_id,
        sent=tuple(item.label for item in missing),
        skipped=tuple(item.label for item in items if item not in missing),
        bytes_sent=bytes_sent,
        seconds=time.monotonic() - begin,
        repaired=tuple(repaired),
        cleaned=cleaned,
    )


def preflight_space(host: Host, layout: Layout, request: ShipRequest) -> list[Finding]:
    """Whether the disks of a host take what it lacks of a release; changes nothing."""
    done = host.run(present_items_script(layout, request)).check()
    inventory = parse_inventory(done)
    missing = [item for item in _items(request) if item.sha256 not in inventory.verdicts.whole]
    return _space_findings(host, layout, request, missing, inventory)


def _space_findings(
    host: Host, layout: Layout, request: ShipRequest, missing: list[Item], inventory: Inventory
) -> list[Finding]:
    found = []
    for short in find_shortages(layout, missing, inventory):
        details: dict[str, object] = {
            "need_bytes": short.need_bytes,
            "free_bytes": short.free_bytes,
            "disk": short.disk,
            "parts": short.parts,
        }
        hint = advise(host, layout, short.need_bytes, short.free_bytes, protect=(request.release_id,))
        found.append(Finding("disk-full", "error", "disk", short.message, hint, details))
    return found


def present_items_script(layout: Layout, request: ShipRequest) -> Script:
    """What ``preflight_space`` runs."""
    circuits = list(dict.fromkeys(circuit.sha256 for circuit in request.config.circuits.values()))
    return present_script(layout, request.artifact.manifest.layer_digests, circuits)


def plan_ship(layout: Layout, request: ShipRequest) -> list[Script]:
    """What ``ship`` runs on a host that has nothing yet; a transfer stands as a script that is only a comment."""
    scripts = [_inventory_script(layout, request)]
    for item in _items(request):
        size = format_bytes(item.n_bytes)
        what = f"# {item.source} -> {item.part(layout)}"
        scripts.append(Script(f"send {item.label} ({size}), if the host lacks it", what, changes=True))
        scripts.append(_receive_script(layout, item, _files_sha256(item) if item.is_layer else "", "RANDOM"))
    scripts.append(_release_script(layout, request, "RANDOM"))
    scripts.append(audit.append_script(layout, audit.entry(layout.name, "ship", {"release_id": request.release_id})))
    return scripts if request.keep is None else [*scripts, holdings_script(layout)]


def _patience_s(request: ShipRequest) -> float:
    """How long the host may take to hash what it has."""
    if request.config.host_digests:  # of keys that this machine does not have the size is not known here
        return LONGEST_S
    return 120 + sum(item.n_bytes + item.unpacked_bytes for item in _items(request)) / _SLOW_DISK_BYTES_S


def _inventory_script(layout: Layout, request: ShipRequest) -> Script:
    circuits = [circuit.sha256 for circuit in request.config.circuits.values()]
    circuits = list(dict.fromkeys([*circuits, *request.config.host_digests.values()]))
    layers = request.artifact.manifest.layer_digests
    return inventory_script(layout, request.release_id, layers, circuits, thorough=request.thorough)


def _release_script(layout: Layout, request: ShipRequest, token: str) -> Script:
    return join_script(layout, request.release_id, request.artifact.manifest, request.config.text, token)


def _items(request: ShipRequest) -> list[Item]:
    items = []
    for layer in request.artifact.manifest.layers:
        path = request.artifact.layer_path(layer)
        items.append(Item(f"layer {layer.name}", layer.sha256, path, layer.n_bytes, unpacked_bytes(path), True))
    seen: set[str] = set()
    for name, circuit in request.config.circuits.items():
        if circuit.sha256 not in seen:  # two names may share one key
            seen.add(circuit.sha256)
            n_bytes = circuit.path.stat().st_size
            items.append(Item(f"circuit {name}", circuit.sha256, circuit.path, n_bytes, n_bytes, False))
    return items


def _files_sha256(item: Item) -> str:
    return hashlib.sha256(list_archive(item.source)).hexdigest()


def _check_host_circuits(host: Host, request: ShipRequest, inventory: Inventory) -> None:
    for name, sha256 in request.config.host_digests.items():
        if sha256 in inventory.verdicts.whole:
            continue
        damage = inventory.verdicts.damaged.get(sha256)
        problem = f"the host has no key {sha256[:12]}..."
        if damage:
            problem = f"the key {sha256[:12]}... on {host.target} is damaged: {damage}"
        raise UsageError(
            "circuit-damaged" if damage else "circuit-missing",
            f"circuit {name} is named by its digest, and {problem}",
            "give the local path of its zkey once, so that it is shipped",
        )


def _damaged_release(host: Host, layout: Layout, request: ShipRequest, inventory: Inventory) -> str | None:
    """What is wrong with the release there, empty where it does not exist yet; None where it is whole."""
    verdicts = inventory.verdicts
    if damage := verdicts.damaged.get("release"):
        return damage
    if "release" not in verdicts.whole:
        return ""
    try:
        read_release(host, layout, request.release_id)
    except OpsError as error:
        return str(error.details.get("problems", [error.message])[0])  # type: ignore[index] # a list, where it stands
    return None


def _repairs(
    host: Host, release_id: str, missing: list[Item], inventory: Inventory, release_damage: str | None
) -> list[str]:
    damaged = inventory.verdicts.damaged
    said = [
        f"{item.label} on {host.target} was damaged: {damaged[item.sha256]}; it is sent again"
        for item in missing
        if item.sha256 in damaged
    ]
    if release_damage and not any(item.sha256 in damaged for item in missing if item.is_layer):
        said.append(f"release {release_id} on {host.target} was damaged: {release_damage}; it is made again")
    return said


def _send(
    host: Host,
    layout: Layout,
    item: Item,
    files_sha256: str,
    progress: Callable[[Transfer], None],
    *,
    again: bool = True,
) -> int:
    """Send one file and have it checked; returns how many bytes travelled."""
    part = item.part(layout)
    progress(Transfer(item.label, 0, item.n_bytes))
    n_bytes = host.resume(item.source, part, progress=lambda done, total: progress(Transfer(item.label, done, total)))
    script = _receive_script(layout, item, files_sha256, secrets.token_hex(4))
    completed = host.run(script, timeout_s=60 + (item.n_bytes + item.unpacked_bytes) / _SLOW_DISK_BYTES_S)
    if completed.status == DAMAGED and n_bytes < item.n_bytes and again:
        # what an earlier run had left was not the beginning of this file: the host has removed it
        return n_bytes + _send(host, layout, item, files_sha256, progress, again=False)
    if completed.status == DAMAGED:
        raise OpsError(
            "transfer-damaged",
            f"{item.label} was damaged on its way: {completed.stderr.decode(errors='replace').strip()}",
            "run the command again; if it stays, check the disk and memory of both machines",
            {"sha256": item.sha256},
        )
    completed.check()
    return n_bytes


def _receive_script(layout: Layout, item: Item, files_sha256: str, token: str) -> Script:
    part = item.part(layout)
    if item.is_layer:
        return layer_script(layout, item.label, item.sha256, part, files_sha256=files_sha256, token=token)
    return circuit_script(layout, item.label, item.sha256, part)

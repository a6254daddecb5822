"""Remove releases that nobody will go back to, and the layers and keys that no release names any more."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.remote import audit
from cuzkops.remote.cleaning import holdings_script, parse_holdings, remove_script
from cuzkops.remote.layout import RELEASE_ID_PATTERN
from cuzkops.units import counted, format_bytes
from prover.protocol import SHA256_PATTERN

if TYPE_CHECKING:
    from cuzkops.remote.cleaning import Holdings
    from cuzkops.remote.host import Host, Script
    from cuzkops.remote.layout import Layout

_DIGEST_FILE = re.compile(rf"({SHA256_PATTERN})\.(files|seen)")


@dataclass(frozen=True)
class CleanPlan:
    """What would be removed.

    Args:
        releases: Releases of this daemon.
        layers: Digests of layers that no release of any daemon names.
        circuits: The same of keys.
        digests: Files in ``digests`` of things that are gone.
        unknown: Releases that do not say what they are made of: while there are some, what they may use stays.
    """

    releases: tuple[str, ...]
    layers: tuple[str, ...]
    circuits: tuple[str, ...]
    digests: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def counts(self) -> str:
        """What would be removed, in a few words."""
        kinds = (("release", self.releases), ("layer", self.layers), ("key", self.circuits))
        words = [counted(len(found), kind) for kind, found in kinds if found]
        return ", ".join(words) or "nothing but old notes of digests"

    @property
    def names(self) -> str:
        """What would be removed: releases by name, the rest by the beginnings of its digests."""
        kinds = (("layer", self.layers), ("key", self.circuits))
        words = [f"release {name}" for name in self.releases]
        words += [f"{kind} {sha256[:12]}" for kind, digests in kinds for sha256 in digests]
        return ", ".join(words) or "nothing but old notes of digests"

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remove."""
        return not (self.releases or self.layers or self.circuits or self.digests)


@dataclass(frozen=True)
class CleanResult:
    """What was removed.

    Args:
        removed: The plan that was carried out.
        freed_bytes: What the layers and keys took on the disk; releases are links to layers.
    """

    removed: CleanPlan
    freed_bytes: int

    @property
    def sentence(self) -> str:
        """What was removed, for people."""
        return f"removed {self.removed.names}: {format_bytes(self.freed_bytes)} are free again"


def clean(host: Host, layout: Layout, keep: int, *, protect: tuple[str, ...] = ()) -> CleanResult:
    """Remove what nobody uses.

    What stays: the release that runs, the current one, the one that a rollback goes to, and ``keep`` others: the newest
    of all, which may wait for its launch, then the newest of those that were once ready, then the rest.

    Args:
        host: The host, whose lock this client holds.
        layout: Which daemon there.
        keep: How many of its releases stay.
        protect: Further releases that stay.

    Raises:
        OpsError: Something could not be removed.
    """
    plan = plan_clean(host, layout, keep, protect=protect)
    if plan.is_empty:
        return CleanResult(plan, 0)
    lines = host.run(clean_script(layout, plan), timeout_s=600).check().out.splitlines()
    sizes = [int(size) for size, _, _ in (line.partition(" ") for line in lines) if size.isdigit()]
    removed = {"releases": plan.releases, "layers": plan.layers, "circuits": plan.circuits}
    audit.append(host, layout, "clean", removed)
    return CleanResult(plan, 1024 * sum(sizes))


def plan_clean(host: Host, layout: Layout, keep: int, *, protect: tuple[str, ...] = ()) -> CleanPlan:
    """Find what nobody uses; changes nothing. Arguments as for ``clean``."""
    return choose(look(host, layout), layout.name, keep, protect)


def look(host: Host, layout: Layout) -> Holdings:
    """Everything that lies in the shared folder of a host."""
    return parse_holdings(host.run(holdings_script(layout), timeout_s=120).check().out)


def choose(holdings: Holdings, name: str, keep: int, protect: tuple[str, ...] = ()) -> CleanPlan:
    """Choose what to remove.

    Args:
        holdings: What there is.
        name: The daemon whose releases may go.
        keep: How many of its newest releases stay.
        protect: Further ones that stay.
    """
    leaving: list[str] = []
    if daemon := holdings.daemons.get(name):
        names = [release for release in daemon.releases if re.fullmatch(RELEASE_ID_PATTERN, release)]
        ranked = names[:1] + sorted(names[1:], key=lambda release: release not in daemon.launched)
        stays = {daemon.current, daemon.previous, *daemon.in_use, *protect, *ranked[: max(0, keep)]}
        leaving = [release for release in names if release not in stays]
    staying = [
        (release, *texts)
        for other in holdings.daemons.values()
        for release, texts in other.releases.items()
        if other.name != name or release not in leaving
    ]
    no_manifest = [release for release, manifest, _ in staying if not _is_json(manifest)]
    no_config = [release for release, _, config in staying if not config.strip()]
    manifests, configs = ("\n".join(row[i] for row in staying) for i in (1, 2))
    layers = [] if no_manifest else [sha256 for sha256 in holdings.layers if sha256 not in manifests]
    circuits = [] if no_config else [sha256 for sha256 in holdings.circuits if sha256 not in configs]
    there = ({*holdings.layers} - {*layers}) | ({*holdings.circuits} - {*circuits})
    digests = [name for name in holdings.digests if (found := _DIGEST_FILE.fullmatch(name)) and found[1] not in there]
    unknown = tuple(dict.fromkeys([*no_manifest, *no_config]))
    return CleanPlan(tuple(leaving), tuple(layers), tuple(circuits), tuple(digests), unknown)


def clean_script(layout: Layout, plan: CleanPlan) -> Script:
    """What ``clean`` runs for a plan."""
    return remove_script(layout, list(plan.releases), paths_of(plan))


def paths_of(plan: CleanPlan) -> list[str]:
    """What a plan removes besides releases, below the shared folder: ``layers/SHA256``."""
    kinds = (("layers", plan.layers), ("circuits", plan.circuits), ("digests", plan.digests))
    return [f"{kind}/{name}" for kind, names in kinds for name in names]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True

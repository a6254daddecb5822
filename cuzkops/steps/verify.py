"""Whether a release on the host is what was shipped, before it is trusted: its files, its manifest, its keys."""

from __future__ import annotations

import hashlib
import secrets
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cuzkops.artifact.layers import build_id
from cuzkops.errors import OpsError
from cuzkops.remote.launching import release_config_script, release_manifest_script
from cuzkops.remote.layout import release_id as name_release
from cuzkops.remote.releases import release_script
from cuzkops.remote.verification import parse_verdicts, verify_layers_script, verify_release_script
from cuzkops.units import parse_size_bytes

if TYPE_CHECKING:
    from cuzkops.records import Manifest
    from cuzkops.remote.host import Host, Script
    from cuzkops.remote.layout import Layout

LONGEST_S = 4 * 3600
"""Keys of hundreds of GiB are hashed once; a connection that dies meanwhile is noticed much earlier."""


@dataclass(frozen=True)
class Release:
    """A release as it lies on the host.

    Args:
        release_id: Its name.
        manifest: Its manifest.
        config_sha256: Digest of its configuration.
        circuits: Circuit name -> digest of its key, as far as the configuration names one.
        budget_bytes: Its explicit memory budget, or None where there is none or it is ``auto``.
        config: The configuration as it stands there; empty where it was not read.
        sources: Circuit name -> the file of this machine that its key was shipped from, where that is known.
    """

    release_id: str
    manifest: Manifest
    config_sha256: str
    circuits: dict[str, str]
    budget_bytes: int | None = None
    config: bytes = field(default=b"", compare=False)
    sources: dict[str, str] = field(default_factory=dict, compare=False)


def read_release(host: Host, layout: Layout, release_id: str) -> Release:
    """Read what a release says of itself, and hold it against its name.

    Raises:
        OpsError: It is not there, or its manifest or configuration is not what its name says.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - costs a tenth of a second of every start

    from cuzkops.records import Manifest, first_problem  # noqa: PLC0415 - the same

    text = host.run(release_manifest_script(layout, release_id)).check().stdout
    config = host.run(release_config_script(layout, release_id)).check().stdout
    config_sha256 = hashlib.sha256(config).hexdigest()
    try:
        manifest = Manifest.model_validate_json(text)
        document = tomllib.loads(config.decode())
    except ValidationError as error:
        raise damaged(release_id, host, f"its manifest cannot be read: {first_problem(error)}") from None
    except ValueError as error:
        raise damaged(release_id, host, f"its configuration cannot be read: {error}") from None
    if manifest.build_id != build_id(manifest.layers):
        raise damaged(release_id, host, "the layers of its manifest are not those of its build")
    if release_id != name_release(manifest.build_id, config_sha256):
        raise damaged(release_id, host, "its manifest or its configuration is not the one that its name says")
    return Release(release_id, manifest, config_sha256, *_carried(document), config)


def _carried(document: dict[str, Any]) -> tuple[dict[str, str], int | None]:
    """What the tool reads of a configuration that it wrote itself: keys by digest, and the budget."""
    found = [entry for entry in document.get("circuits", []) if "sha256" in entry]
    budget = document.get("memory", {}).get("budget", "auto")
    budget_bytes = None if budget == "auto" else parse_size_bytes(budget)
    return {str(entry["name"]): str(entry["sha256"]) for entry in found}, budget_bytes


def verify(host: Host, layout: Layout, release: Release, *, thorough: bool = False) -> None:
    """Compare every file of a release, and every key that it loads by digest, with what was shipped.

    Args:
        host: Where.
        layout: Which daemon there.
        release: What to verify.
        thorough: Hash every key, also one that was hashed before and has not changed since.

    Raises:
        OpsError: Something is missing or damaged; all of it is named.
    """
    script = plan_verify(layout, release.release_id, release.manifest, release.circuits, thorough=thorough)
    verdicts = parse_verdicts(host.run(script, timeout_s=LONGEST_S).check().out.splitlines())
    problems = []
    if "release" not in verdicts.whole:
        problems.append(verdicts.damaged.get("release", "it is not there"))
    for name, sha256 in release.circuits.items():
        if sha256 not in verdicts.whole:
            problems.append(f"the key of circuit {name}: {verdicts.damaged.get(sha256, 'it is not there')}")
    if problems:
        raise damaged(release.release_id, host, "; ".join(problems), problems)


def remake(host: Host, layout: Layout, release: Release) -> bool:
    """Make a damaged release again from its layers, where those are whole: with new files.

    A file of a layer is the same file in each release that has it. Where a layer was damaged and replaced since, the
    other releases still have the damaged one.

    Returns:
        Whether its layers were whole. Its keys are not looked at.
    """
    layers = release.manifest.layer_digests
    done = host.run(verify_layers_script(layout, layers), timeout_s=LONGEST_S).check()
    if not parse_verdicts(done.out.splitlines()).whole >= set(layers):
        return False
    token = secrets.token_hex(4)
    host.run(join_script(layout, release.release_id, release.manifest, release.config, token), timeout_s=300).check()
    return True


def join_script(layout: Layout, release_id: str, manifest: Manifest, config: bytes, token: str) -> Script:
    """What makes a release of its layers, which are on the host; ``token`` is the end of its temporary name."""
    text = manifest.model_dump_json(by_alias=True, indent=1) + "\n"
    return release_script(layout, release_id, manifest.layer_digests, manifest=text, config=config, token=token)


def plan_verify(
    layout: Layout, release_id: str, manifest: Manifest, circuits: dict[str, str], *, thorough: bool = False
) -> Script:
    """What ``verify`` runs on the host."""
    digests = list(circuits.values())
    return verify_release_script(layout, release_id, manifest.layer_digests, digests, thorough=thorough)


def damaged(release_id: str, host: Host, what: str, problems: list[str] | None = None) -> OpsError:
    """The error for a release that is not what was shipped."""
    return OpsError(
        "damaged-release",
        f"release {release_id} on {host.target} is damaged: {what}",
        "ship the same artifact and configuration again: what is damaged is replaced",
        {"release_id": release_id, "problems": problems or [what]},
    )

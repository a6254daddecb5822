"""Scripts that build up a release on a host. Pure: they say what to do, ``cuzkops.steps.ship`` has it done.

Everything appears under its digest by a rename, so what is there under its name is whole.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from cuzkops.remote.host import Script
from cuzkops.remote.script import TOOLS

if TYPE_CHECKING:
    from cuzkops.remote.layout import Layout

DAMAGED = 65
"""Status of a script that found another digest than it was told (EX_DATAERR)."""


def inventory_script(layout: Layout, release_id: str, layers: list[str], circuits: list[str]) -> Script:
    """Make the folders, remove what interrupted runs left, and list what is there.

    Prints ``missing TOOL``, ``have SHA256``, ``release`` where it is complete, and ``space FOLDER`` before each ``df``.

    Args:
        layout: Where things lie on the host.
        release_id: The release that will be made.
        layers: Digests of its layers.
        circuits: Digests of the keys that its configuration names.
    """
    return Script(
        "make folders and list what is there",
        r"""
umask 077
for tool in $TOOLS; do
    command -v "$tool" >/dev/null 2>&1 || echo "missing $tool"
done
for folder in "$LAYERS" "$CIRCUITS" "$RELEASES" "$RUN" "$LOGS"; do
    [ -d "$folder" ] || mkdir -p "$folder" || exit 1
    chmod 700 "$folder" || exit 1
done
chmod 700 "$DAEMON_HOME" || exit 1
# Only names of this step's own kind, and only older than the lock that this run holds.
for left in "$LAYERS"/*.part-* "$LAYERS"/*.tmp-* "$CIRCUITS"/*.part-* "$RELEASES"/*.tmp-*; do
    [ -e "$left" ] && [ "$LOCK" -nt "$left" ] && rm -rf "$left" && echo "removed $left"
done
for layer in $WANTED_LAYERS; do
    [ -d "$LAYERS/$layer" ] && echo "have $layer"
done
for circuit in $WANTED_CIRCUITS; do
    [ -f "$CIRCUITS/$circuit" ] && echo "have $circuit"
done
[ -f "$RELEASE/config.toml" ] && echo "release"
for folder in "$LAYERS" "$CIRCUITS"; do
    echo "space $folder"
    df -Pk "$folder" || exit 1
done
""",
        {
            "LAYERS": layout.layers,
            "CIRCUITS": layout.circuits,
            "RELEASES": layout.releases,
            "RELEASE": layout.release(release_id),
            "DAEMON_HOME": layout.home,
            "RUN": layout.run,
            "LOGS": layout.logs,
            "LOCK": layout.lock,
            "TOOLS": " ".join(TOOLS),
            "WANTED_LAYERS": " ".join(layers),
            "WANTED_CIRCUITS": " ".join(circuits),
        },
        changes=True,
    )


def layers_script(layout: Layout, layers: list[str]) -> Script:
    """List which of these layers the host has, one digest a line; changes nothing."""
    body = 'for layer in $WANTED_LAYERS; do [ -d "$LAYERS/$layer" ] && echo "$layer"; done; exit 0'
    return Script("list the layers", body, {"LAYERS": layout.layers, "WANTED_LAYERS": " ".join(layers)})


def layer_script(layout: Layout, label: str, sha256: str, part: str, token: str) -> Script:
    """Check a layer that arrived as ``part`` and unpack it under its digest."""
    return Script(
        f"check and unpack {label}",
        r"""
umask 077
trap 'rm -rf "$LAYER.tmp-$TOKEN" "$PART"' EXIT
found=$(sha256sum <"$PART") || exit 1
found=${found%% *}
[ "$found" = "$SHA256" ] || { echo "arrived as $found" >&2; exit 65; }
if [ ! -d "$LAYER" ]; then
    # -o: the files belong to this user, also where the script runs as root.
    mkdir "$LAYER.tmp-$TOKEN" && gzip -dc <"$PART" | tar -x -o -f - -C "$LAYER.tmp-$TOKEN" || exit 1
    mv "$LAYER.tmp-$TOKEN" "$LAYER" || exit 1
fi
""",
        {"LAYER": f"{layout.layers}/{sha256}", "PART": part, "SHA256": sha256, "TOKEN": token},
        changes=True,
    )


def circuit_script(layout: Layout, label: str, sha256: str, part: str) -> Script:
    """Check a proving key that arrived as ``part`` and give it its name."""
    return Script(
        f"check {label}",
        r"""
found=$(sha256sum <"$PART") || exit 1
found=${found%% *}
[ "$found" = "$SHA256" ] || { rm -f "$PART"; echo "arrived as $found" >&2; exit 65; }
chmod 600 "$PART" && mv -f "$PART" "$CIRCUIT"
""",
        {"CIRCUIT": f"{layout.circuits}/{sha256}", "PART": part, "SHA256": sha256},
        changes=True,
    )


def release_script(
    layout: Layout, release_id: str, layers: list[str], *, manifest: str, config: bytes, token: str
) -> Script:
    """Join layers, manifest and configuration to a release.

    Args:
        layout: Where things lie on the host.
        release_id: The release's name.
        layers: Digests of its layers, all of them on the host.
        manifest: Text of ``manifest.json``.
        config: Bytes of ``config.toml``, UTF-8.
        token: Random end of the temporary name.
    """
    return Script(
        f"make release {release_id}",
        r"""
umask 077
trap 'cd / && rm -rf "$RELEASE.tmp-$TOKEN"' EXIT
join() {  # $1: how cp works
    rm -rf "$RELEASE.tmp-$TOKEN"
    mkdir "$RELEASE.tmp-$TOKEN" || return 1
    for layer in $WANTED_LAYERS; do
        cp "$1" "$LAYERS/$layer/." "$RELEASE.tmp-$TOKEN/" || return 1
    done
}
# Hard links, or copies where the file system has none.
join -al 2>/dev/null || join -a || exit 1
cd "$RELEASE.tmp-$TOKEN" || exit 1
[ -f prover ] || { echo "the layers hold no file named prover" >&2; exit 1; }
rm -f manifest.json config.toml  # never write through a link into a layer
printf '%s' "$MANIFEST" >manifest.json && printf '%s' "$CONFIG" >config.toml || exit 1
found=$(sha256sum <config.toml) || exit 1
found=${found%% *}
[ "$found" = "$CONFIG_SHA256" ] || { echo "config.toml arrived as $found" >&2; exit 65; }
chmod 700 . || exit 1
# A release is whole when it appears; one that lost a part since then would be refused by the check for ever.
[ -f "$RELEASE/config.toml" ] || { rm -rf "$RELEASE" && mv "$RELEASE.tmp-$TOKEN" "$RELEASE"; }
""",
        {
            "LAYERS": layout.layers,
            "RELEASE": layout.release(release_id),
            "WANTED_LAYERS": " ".join(layers),
            "TOKEN": token,
            "CONFIG_SHA256": hashlib.sha256(config).hexdigest(),
            "MANIFEST": manifest,
            "CONFIG": config.decode(),
        },
        changes=True,
    )

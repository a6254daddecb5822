"""Scripts that build up a release on a host. Pure: they say what to do, ``cuzkops.steps.ship`` has it done.

Everything appears under its digest by a rename, so it was whole when it appeared; whether it still is, it says itself
(``verification.py``). What was damaged is replaced by new files: a daemon that runs keeps those that it has open.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from cuzkops.remote.host import Script
from cuzkops.remote.script import TOOLS
from cuzkops.remote.verification import LIST, VERIFY, identity_roots

if TYPE_CHECKING:
    from cuzkops.remote.layout import Layout

DAMAGED = 65
"""Status of a script that found another digest than it was told (EX_DATAERR)."""


_INVENTORY = r"""
umask 077
for tool in $TOOLS; do
    command -v "$tool" >/dev/null 2>&1 || echo "missing $tool"
done
for folder in "$LAYERS" "$CIRCUITS" "$DIGESTS" "$RELEASES" "$RUN" "$LOGS"; do
    [ -d "$folder" ] || mkdir -p "$folder" || exit 1
    chmod 700 "$folder" || exit 1
done
chmod 700 "$DAEMON_HOME" || exit 1
verdicts=$(
    for layer in $WANTED_LAYERS; do verify_layer "$layer"; done
    for circuit in $WANTED_CIRCUITS; do verify_circuit "$circuit"; done
    verify_release
)
printf '%s\n' "$verdicts"
part() {  # says how much has arrived of a file that is wanted and not there
    sha256=${1##*/} sha256=${sha256%%.*}
    case " $WANTED_LAYERS $WANTED_CIRCUITS " in *" $sha256 "*) ;; *) return 1 ;; esac
    case "$verdicts" in *"have $sha256"*) return 1 ;; esac
    size=$(wc -c <"$1") && echo "part $((size)) ${1##*/}"
}
# Only names of this step's own kind, and only older than the lock that this run holds.
for left in "$LAYERS"/*.part-* "$LAYERS"/*.tmp-* "$CIRCUITS"/*.part-* "$CIRCUITS"/*.tmp-* "$DIGESTS"/*.tmp-* \
    "$RELEASES"/*.tmp-* "$DAEMON_HOME"/*.tmp-*; do
    [ -e "$left" ] || [ -L "$left" ] || continue
    case "$left" in *.part-of-*) [ -f "$left" ] && part "$left" && continue ;; esac
    [ "$LOCK" -nt "$left" ] && rm -rf "$left" && echo "removed $left"
done
for folder in "$LAYERS" "$CIRCUITS"; do
    echo "space $folder"
    df -Pk "$folder" || exit 1
done
"""


def inventory_script(
    layout: Layout, release_id: str, layers: list[str], circuits: list[str], *, thorough: bool = False
) -> Script:
    """Make the folders, remove what interrupted runs left, and look by digest at what is there.

    Prints ``missing TOOL``, ``part BYTES NAME`` of an upload that was cut, the verdicts of ``verification.VERIFY`` on
    layers, circuits and the release, and ``space FOLDER`` before each ``df``.

    Args:
        layout: Where things lie on the host.
        release_id: The release that will be made.
        layers: Digests of its layers.
        circuits: Digests of the keys that its configuration names.
        thorough: Hash every key, also one that was hashed before and has not changed since.
    """
    return Script(
        "make folders and verify what is there",
        VERIFY + _INVENTORY,
        {
            **identity_roots(layout, thorough=thorough),
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


def present_script(layout: Layout, layers: list[str], circuits: list[str]) -> Script:
    """List which of these layers and keys the host has, whole or not, and its free space; changes nothing.

    Prints ``have SHA256``, and ``space FOLDER`` before the ``df`` of the folder or of the nearest one above it.
    """
    body = """
for layer in $WANTED_LAYERS; do [ -d "$LAYERS/$layer" ] && echo "have $layer"; done
for circuit in $WANTED_CIRCUITS; do [ -f "$CIRCUITS/$circuit" ] && echo "have $circuit"; done
for folder in "$LAYERS" "$CIRCUITS"; do
    echo "space $folder"
    while [ ! -d "$folder" ] && [ "$folder" != "${folder%/*}" ]; do folder=${folder%/*}; done
    df -Pk "${folder:-/}"
done
exit 0
"""
    parameters = {
        "LAYERS": layout.layers,
        "CIRCUITS": layout.circuits,
        "WANTED_LAYERS": " ".join(layers),
        "WANTED_CIRCUITS": " ".join(circuits),
    }
    return Script("list what is there", body, parameters)


def _cleaning(left: str, done: str = "") -> str:
    """Remove what a script leaves, whatever ends it.

    dash runs no EXIT trap on a signal that is not trapped, and the signal for the process group must not end rm itself.

    Args:
        left: Quoted words: what is removed at the end and on a signal.
        done: The same, but only at an end by itself: what the next run can go on with is kept.
    """
    return f"""
umask 077
remove_left() {{
    trap '' HUP INT PIPE TERM
    cd / && rm -rf "$@"
}}
trap 'remove_left {left} {done}' EXIT
trap 'trap - EXIT; remove_left {left}; exit 1' HUP INT PIPE TERM
"""


_LAYER = r"""
found=$(digest <"$PART") || exit 1
[ "$found" = "$SHA256" ] || { echo "arrived as $found" >&2; exit 65; }
mkdir "$NEW" || exit 1
# -o: the files belong to this user, also where the script runs as root.
gzip -dc <"$PART" | tar -x -o -f - -C "$NEW" || exit 1
files=$(list "$NEW") || exit 1
found=$(printf '%s\n' "$files" | digest)
[ "$found" = "$FILES_SHA256" ] || { echo "its files were unpacked as $found" >&2; exit 65; }
printf '%s\n%s\n' "$found" "$files" >"$NEW.files" && mv -f "$NEW.files" "$FILES" || exit 1
trap '' HUP INT PIPE TERM  # nothing comes between the two renames
if [ -e "$LAYER" ] || [ -L "$LAYER" ]; then mv "$LAYER" "$OLD" || exit 1; fi  # it was damaged
mv "$NEW" "$LAYER"
"""


def layer_script(layout: Layout, label: str, sha256: str, part: str, *, files_sha256: str, token: str) -> Script:
    """Check a layer that arrived as ``part`` and unpack it under its digest, in the place of one that was damaged.

    Args:
        layout: Where things lie on the host.
        label: The layer, for people.
        sha256: Digest of its archive.
        part: Path of the archive on the host; gone afterwards, unless this is interrupted.
        files_sha256: Digest of the list of its files, as ``artifact/listing.py`` makes it.
        token: Random end of the temporary names.
    """
    layer = f"{layout.layers}/{sha256}"
    return Script(
        f"check and unpack {label}",
        LIST + _cleaning('"$NEW" "$NEW.files" "$OLD"', '"$PART"') + _LAYER,
        {
            "LAYER": layer,
            "NEW": f"{layer}.tmp-{token}",
            "OLD": f"{layer}.tmp-old-{token}",
            "FILES": f"{layout.digests}/{sha256}.files",
            "PART": part,
            "SHA256": sha256,
            "FILES_SHA256": files_sha256,
        },
        changes=True,
    )


def circuit_script(layout: Layout, label: str, sha256: str, part: str) -> Script:
    """Check a proving key that arrived as ``part`` and give it its name, in the place of one that was damaged."""
    return Script(
        f"check {label}",
        r"""
found=$(sha256sum <"$PART") || exit 1
found=${found%% *}
[ "$found" = "$SHA256" ] || { rm -f "$PART"; echo "arrived as $found" >&2; exit 65; }
[ ! -L "$CIRCUIT" ] && { [ -f "$CIRCUIT" ] || [ ! -e "$CIRCUIT" ]; } || rm -rf "$CIRCUIT" || exit 1
chmod 600 "$PART" && mv -f "$PART" "$CIRCUIT" || exit 1
stat -c '%d %i %s %y %z' -- "$CIRCUIT" >"$SEEN" 2>/dev/null || rm -f "$SEEN"
""",
        {
            "CIRCUIT": f"{layout.circuits}/{sha256}",
            "SEEN": f"{layout.digests}/{sha256}.seen",
            "PART": part,
            "SHA256": sha256,
        },
        changes=True,
    )


_RELEASE = r"""
join() {  # $1: how cp works
    rm -rf "$NEW"
    mkdir "$NEW" || return 1
    for layer in $WANTED_LAYERS; do
        cp "$1" "$LAYERS/$layer/." "$NEW/" || return 1
    done
}
# Hard links, or copies where the file system has none.
join -al 2>/dev/null || join -a || exit 1
cd "$NEW" || exit 1
[ -f prover ] || { echo "the layers hold no file named prover" >&2; exit 1; }
rm -f manifest.json config.toml  # never write through a link into a layer
printf '%s' "$MANIFEST" >manifest.json && printf '%s' "$CONFIG" >config.toml || exit 1
found=$(sha256sum <config.toml) || exit 1
found=${found%% *}
[ "$found" = "$CONFIG_SHA256" ] || { echo "config.toml arrived as $found" >&2; exit 65; }
chmod 700 . || exit 1
trap '' HUP INT PIPE TERM  # nothing comes between the two renames
if [ -e "$RELEASE" ] || [ -L "$RELEASE" ]; then mv "$RELEASE" "$OLD" || exit 1; fi  # it was damaged
mv "$NEW" "$RELEASE"
"""


def release_script(
    layout: Layout, release_id: str, layers: list[str], *, manifest: str, config: bytes, token: str
) -> Script:
    """Join layers, manifest and configuration to a release, in the place of one that was damaged.

    Args:
        layout: Where things lie on the host.
        release_id: The release's name.
        layers: Digests of its layers, all of them on the host.
        manifest: Text of ``manifest.json``.
        config: Bytes of ``config.toml``, UTF-8.
        token: Random end of the temporary name.
    """
    release = layout.release(release_id)
    return Script(
        f"make release {release_id}",
        _cleaning('"$NEW" "$OLD"') + _RELEASE,
        {
            "LAYERS": layout.layers,
            "RELEASE": release,
            "NEW": f"{release}.tmp-{token}",
            "OLD": f"{release}.tmp-old-{token}",
            "WANTED_LAYERS": " ".join(layers),
            "CONFIG_SHA256": hashlib.sha256(config).hexdigest(),
            "MANIFEST": manifest,
            "CONFIG": config.decode(),
        },
        changes=True,
    )

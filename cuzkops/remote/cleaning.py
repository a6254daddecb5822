"""Scripts that say what lies on a host and who uses it, and that remove what nobody does; see ``steps/clean.py``."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cuzkops.remote.host import Script
from prover.protocol import SHA256_PATTERN

if TYPE_CHECKING:
    from cuzkops.remote.layout import Layout

_KEPT_LINES = 2000
"""Lines of the audit log that are looked at: the last launches are among them."""

# A line end inside of a JSON document or a configuration is of no meaning here, and a line is an answer.
_HOLDINGS = r"""
one_line() { tr '\n\r' '  ' <"$1" 2>/dev/null; }
for home in "$REMOTE_DIR"/*/; do
    [ -d "${home}releases" ] || continue
    name=${home%/} name=${name##*/}
    echo "daemon $name $(readlink "${home}current" 2>/dev/null)"
    [ -r "${home}run/daemon.json" ] && printf 'record %s\n' "$(one_line "${home}run/daemon.json")"
    [ -r "${home}run/started" ] && printf 'started %s\n' "$(head -n 1 "${home}run/started")"
    ls -1t "${home}releases" | while IFS= read -r release; do
        case "$release" in *.tmp-*) continue ;; esac
        printf 'release %s\n' "$release"
        printf 'manifest %s\n' "$(one_line "${home}releases/$release/manifest.json")"
        printf 'config %s\n' "$(one_line "${home}releases/$release/config.toml")"
    done
done
for kind in layers circuits digests; do
    ls -1 "$REMOTE_DIR/$kind" 2>/dev/null | while IFS= read -r name; do printf '%s %s\n' "$kind" "$name"; done
done
[ -r "$AUDIT" ] && tail -n "$KEPT_LINES" "$AUDIT" | while IFS= read -r line; do printf 'audit %s\n' "$line"; done
exit 0
"""

_REMOVE = r"""
status=0
for path in $RELEASES_LEFT; do
    rm -rf "$RELEASES/$path" && echo "release $path" || status=1
done
for path in $OTHERS; do
    set -- $(du -sk "$REMOTE_DIR/$path" 2>/dev/null)
    rm -rf "$REMOTE_DIR/$path" && echo "${1:-0} $path" || status=1
done
exit "$status"
"""

_ROOM = r"""
for path in $OTHERS; do
    set -- $(du -sk "$REMOTE_DIR/$path" 2>/dev/null)
    echo "path ${1:-0} $path"
done
for folder in layers circuits; do
    set -- $(du -sk "$REMOTE_DIR/$folder" 2>/dev/null)
    echo "folder ${1:-0} $folder"
done
for folder in "$REMOTE_DIR"/*/logs "$REMOTE_DIR"/*/state; do
    [ -d "$folder" ] || continue
    set -- "$folder" $(du -sk "$folder" 2>/dev/null)
    echo "folder ${2:-0} ${1#"$REMOTE_DIR"/}"
done
parent=$REMOTE_DIR
while [ ! -d "$parent" ] && [ "$parent" != "${parent%/*}" ]; do parent=${parent%/*}; done
own=$(df -Pk "${parent:-/}" | tail -n 1)
df -Pkl 2>/dev/null | while read -r device total used free share point; do
    case "$device $point" in
        overlay\ /) ;;  # the disk of a container
        tmpfs\ * | devtmpfs\ * | udev\ * | overlay\ * | */boot | */boot/*) continue ;;
    esac
    [ "$device $total $used $free $share $point" = "$(echo $own)" ] && continue
    [ -d "$point" ] && [ -w "$point" ] && echo "free $free $point"
done
exit 0
"""


@dataclass(frozen=True)
class Room:
    """How much lies where on a host.

    Args:
        bytes_of: What each path takes that was asked for.
        folders: What the larger folders of the remote folder take.
        free_bytes: Other disks on which this user may write: where they are mounted -> free bytes.
    """

    bytes_of: dict[str, int]
    folders: dict[str, int]
    free_bytes: dict[str, int]


@dataclass
class DaemonHoldings:
    """What one daemon has on a host.

    Args:
        name: The daemon's name.
        current: Release that was launched last, or an empty string.
        in_use: Releases that daemon.json and the last launch name.
        releases: Its releases, the newest first: name -> (manifest, configuration), a text each.
        launched: Releases in the order of their launches, the last one last.
    """

    name: str
    current: str
    in_use: set[str] = field(default_factory=set)
    releases: dict[str, tuple[str, str]] = field(default_factory=dict)
    launched: list[str] = field(default_factory=list)

    @property
    def previous(self) -> str | None:
        """The release that was launched last before the current one and is still there."""
        return next((name for name in reversed(self.launched) if name != self.current and name in self.releases), None)


@dataclass(frozen=True)
class Holdings:
    """What lies in the folder that all daemons of a host share.

    Args:
        daemons: By name.
        layers: Digests.
        circuits: Digests.
        digests: Names of the files in ``digests``.
    """

    daemons: dict[str, DaemonHoldings]
    layers: list[str]
    circuits: list[str]
    digests: list[str]


def holdings_script(layout: Layout) -> Script:
    """Say what lies on the host; changes nothing."""
    parameters = {"REMOTE_DIR": layout.remote_dir, "AUDIT": layout.audit, "KEPT_LINES": str(_KEPT_LINES)}
    return Script("look at releases, layers and keys", _HOLDINGS, parameters)


def parse_holdings(output: str) -> Holdings:
    """Read what ``holdings_script`` prints."""
    daemons: dict[str, DaemonHoldings] = {}
    names: dict[str, list[str]] = {"layers": [], "circuits": [], "digests": [], "audit": []}
    daemon = DaemonHoldings("", "")
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        if word == "daemon":
            name, _, current = rest.partition(" ")
            daemon = daemons[name] = DaemonHoldings(name, current.rpartition("/")[2])
        elif word in names:
            names[word].append(rest)
        else:
            _add(daemon, word, rest)
    for entry in map(_json, names["audit"]):
        if entry.get("action") == "launch" and str(entry.get("name")) in daemons:
            daemons[str(entry["name"])].launched.append(str(entry.get("release_id")))
    layers, circuits = (
        [name for name in names[kind] if re.fullmatch(SHA256_PATTERN, name)] for kind in ("layers", "circuits")
    )
    return Holdings(daemons, layers, circuits, names["digests"])


def _add(daemon: DaemonHoldings, word: str, rest: str) -> None:
    release = next(reversed(daemon.releases), "")
    match word:
        case "record":
            daemon.in_use.add(str(_json(rest).get("release_id", "")))
        case "started":
            daemon.in_use.add(rest.rpartition(" ")[2])
        case "release":
            daemon.releases[rest] = ("", "")
        case "manifest":
            daemon.releases[release] = (rest, "")
        case "config":
            daemon.releases[release] = (daemon.releases[release][0], rest)


def remove_script(layout: Layout, releases: list[str], others: list[str]) -> Script:
    """Remove releases of this daemon, and layers, keys and their digests.

    Prints ``release NAME``, and ``KIB PATH`` of everything else that it removed.

    Args:
        layout: Where things lie on the host.
        releases: Names of releases.
        others: Paths below the shared folder, without a blank: ``layers/SHA256``.
    """
    return Script(
        "remove what nobody uses",
        _REMOVE,
        {
            "REMOTE_DIR": layout.remote_dir,
            "RELEASES": layout.releases,
            "RELEASES_LEFT": " ".join(releases),
            "OTHERS": " ".join(others),
        },
        changes=True,
    )


def room_script(layout: Layout, others: list[str]) -> Script:
    """Say what paths below the shared folder take, and what is free on other disks; changes nothing."""
    return Script("look for room", _ROOM, {"REMOTE_DIR": layout.remote_dir, "OTHERS": " ".join(others)})


def parse_room(output: str) -> Room:
    """Read what ``room_script`` prints."""
    found: dict[str, dict[str, int]] = {"path": {}, "folder": {}, "free": {}}
    for line in output.splitlines():
        kind, _, rest = line.partition(" ")
        kib, _, name = rest.partition(" ")
        if kind in found and kib.isdigit():
            found[kind][name] = int(kib) * 1024
    return Room(found["path"], found["folder"], found["free"])


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

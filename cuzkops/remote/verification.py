"""Whether layers, circuits and releases are still what they were, by digest: the shell that says it, and its parser.

What is named by its digest was whole when it appeared. That it still is has to be looked at: disks fail, people edit,
and a file of a layer is the same file in every release that has it. A layer is compared with a list of its files that
was written when it was unpacked (``digests/SHA256.files``, which begins with the digest of the list itself, so that a
cut list is none); a key is hashed, unless it is the very file that was hashed before (``digests/SHA256.seen``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.remote.host import Script

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cuzkops.remote.layout import Layout

_N_NAMED = 3
_N_SENT = 20
"""Lines a side of a difference that a script prints."""

# One `ls` for the whole tree, one `sha256sum` for a hundred files. Names with a backslash, a line end or one of these
# marks at their end are in no layer: `artifact/listing.py` refuses them and makes the same list of the archive.
LIST = r"""
export LC_ALL=C
unset QUOTING_STYLE LS_COLORS
digest() { sum=$(sha256sum) && echo "${sum%% *}"; }
list() {  # everything below folder $1: "SHA256  PATH" a file, "x PATH" besides if it is executable, "d PATH" a folder
    (
        cd "$1" || exit 1
        ls -1ARF . | {
            set --
            while IFS= read -r name; do
                case "$name" in
                    '') continue ;;
                    .: | ./*:) folder=${name%:}/ folder=${folder#./}; continue ;;
                    */) printf 'd %s\n' "$folder${name%/}"; continue ;;
                    *[@=\|%\>]) echo "l $folder$name"; continue ;;
                    *\*) name=${name%?}; echo "x $folder$name" ;;
                esac
                set -- "$@" "$folder$name"
                [ "$#" -lt 100 ] || { sha256sum -- "$@"; set --; }
            done
            [ "$#" -eq 0 ] || sha256sum -- "$@"
        } | sort
    )
}
"""

# Each prints `have WHAT`, or `bad WHAT` with a reason a line: `list`, `digest SHA256`, `is LINE` and `was LINE` of a
# list, `kind` where there is something else in its place. What is not there at all prints nothing.
VERIFY = (
    LIST
    + r"""
sealed_list() {  # the list of layer $1, if it is as it was written
    {
        read -r seal <"$DIGESTS/$1.files" || return 1
        text=$(tail -n +2 "$DIGESTS/$1.files")
    } 2>/dev/null
    [ "$(printf '%s\n' "$text" | digest)" = "$seal" ] && printf '%s\n' "$text"
}
only_once() {  # of an empty list printf makes an empty line
    sort | uniq -u | head -n 20 | while IFS= read -r line; do [ -z "$line" ] || printf 'bad %s %s\n' "$1" "$line"; done
}
compare() {  # $1: what, $2: the list that it had, $3: the list that it has
    [ "$2" = "$3" ] && { echo "have $1"; return; }
    echo "bad $1"
    printf '%s\n' "$2" "$2" "$3" | only_once "$1 is"
    printf '%s\n' "$3" "$3" "$2" | only_once "$1 was"
}
verify_layer() {
    folder=$LAYERS/$1
    if [ -L "$folder" ] || { [ -e "$folder" ] && [ ! -d "$folder" ]; }; then echo "bad $1 kind"; return; fi
    [ -d "$folder" ] || return 0
    was=$(sealed_list "$1") || { echo "bad $1 list"; return; }
    compare "$1" "$was" "$(list "$folder" 2>/dev/null)"
}
identity() { stat -c '%d %i %s %y %z' -- "$1" 2>/dev/null; }
verify_circuit() {
    file=$CIRCUITS/$1 seen=$DIGESTS/$1.seen
    if [ -L "$file" ] || { [ -e "$file" ] && [ ! -f "$file" ]; }; then echo "bad $1 kind"; return; fi
    [ -f "$file" ] || return 0
    now=$(identity "$file")
    # A file of the same clock tick as what is remembered of it may have changed after that.
    if [ -z "$THOROUGH" ] && [ -n "$now" ] && [ "$seen" -nt "$file" ] && [ "$(cat "$seen" 2>/dev/null)" = "$now" ]; then
        echo "have $1"
        return
    fi
    rm -f "$seen"
    found=$(digest <"$file") || found=unreadable
    [ "$found" = "$1" ] || { echo "bad $1 digest $found"; return; }
    [ -n "$now" ] && [ "$(identity "$file")" = "$now" ] && echo "$now" >"$seen" 2>/dev/null
    echo "have $1"
}
verify_release() {  # its files are those of its layers, besides the two that were written for it
    [ -d "$RELEASE" ] || return 0
    was=$(
        for layer in $WANTED_LAYERS; do sealed_list "$layer" || exit 1; done
        cd "$RELEASE" && sha256sum config.toml manifest.json 2>/dev/null
        :
    ) || { echo "bad release list"; return; }
    compare release "$(printf '%s\n' "$was" | sort)" "$(list "$RELEASE" 2>/dev/null)"
}
"""
)


def identity_roots(layout: Layout, *, thorough: bool = False) -> dict[str, str]:
    """Return the parameters that ``VERIFY`` needs; ``thorough`` forgets which keys were hashed before."""
    return {
        "LAYERS": layout.layers,
        "CIRCUITS": layout.circuits,
        "DIGESTS": layout.digests,
        "THOROUGH": "yes" if thorough else "",
    }


def verify_layers_script(layout: Layout, layers: list[str]) -> Script:
    """Say of layers whether they are what they were."""
    body = 'for layer in $WANTED_LAYERS; do verify_layer "$layer"; done\nexit 0\n'
    parameters = {**identity_roots(layout), "WANTED_LAYERS": " ".join(layers)}
    return Script("verify the layers", VERIFY + body, parameters)


def verify_release_script(
    layout: Layout, release_id: str, layers: list[str], circuits: list[str], *, thorough: bool = False
) -> Script:
    """Say of a release and of the keys that it loads whether they are what they were.

    Args:
        layout: Where things lie on the host.
        release_id: The release.
        layers: Digests of its layers.
        circuits: Digests of the keys that its configuration names.
        thorough: Hash every key, also one that was hashed before and has not changed since.
    """
    body = 'verify_release\nfor circuit in $WANTED_CIRCUITS; do verify_circuit "$circuit"; done\nexit 0\n'
    parameters = {
        **identity_roots(layout, thorough=thorough),
        "RELEASE": layout.release(release_id),
        "WANTED_LAYERS": " ".join(layers),
        "WANTED_CIRCUITS": " ".join(circuits),
    }
    return Script(f"verify release {release_id}", VERIFY + body, parameters)


@dataclass(frozen=True)
class Verdicts:
    """What ``VERIFY`` found.

    Args:
        whole: Digests, and ``"release"``, of what is there and as it was.
        damaged: The same of what is there and is not: what is wrong, in a clause.
    """

    whole: frozenset[str]
    damaged: dict[str, str]


def parse_verdicts(lines: Iterable[str]) -> Verdicts:
    """Read the verdicts among the lines that a script printed."""
    whole: set[str] = set()
    reasons: dict[str, list[str]] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        what, _, reason = rest.partition(" ")
        if word == "have":
            whole.add(what)
        elif word == "bad":
            reasons.setdefault(what, []).extend([reason] if reason else [])
    return Verdicts(frozenset(whole), {what: _clause(found) for what, found in reasons.items()})


def _clause(reasons: list[str]) -> str:
    words = [reason.partition(" ")[::2] for reason in reasons]
    if ("list", "") in words:
        return "the list of its files is missing or damaged"
    if ("kind", "") in words:
        return "something else lies in its place"
    for word, rest in words:
        if word == "digest":
            return "it cannot be read" if rest == "unreadable" else f"its content has the digest {rest[:12]}..."
    now = {line for word, line in words if word == "is"}
    was = {line for word, line in words if word == "was"}
    changes = sorted(_changes(now, was).items())
    said = ", ".join(f"{path} {change}" for path, change in changes[:_N_NAMED])
    if len(changes) > _N_NAMED:
        said += f" and {len(changes) - _N_NAMED}{'' if len(reasons) < _N_SENT else ' or more'} more"
    return said or "its files are not those of its list"


def _changes(now: set[str], was: set[str]) -> dict[str, str]:
    """Path -> what became of it, from the lines of a list that are new and those that are not there any more."""
    found: dict[str, str] = {}
    paths_now, paths_was = ({line.partition(" ")[2].strip() for line in lines} for lines in (now, was))
    for line in sorted(now | was):
        kind, _, path = line.partition(" ")
        path = path.strip()
        if kind == "x" and path not in found:
            found[path] = "may be executed" if line in now else "may not be executed any more"
        if kind == "x":
            continue
        if path in paths_now and path in paths_was:
            found[path] = "was changed"
        else:
            found[path] = "does not belong there" if path in paths_now else "is missing"
    return found

"""A daemon's log files as a host lists them: scripts and their pure parsers."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.remote.host import Script

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cuzkops.remote.layout import Layout

END_BYTES = 4096
"""How much of each end of what was copied is compared with the file on the host."""

_ENTRY = r"""
entry() {  # $1: a file, $2: its name here
    [ -f "$1" ] || return 0
    set -- "$1" "$2" $(ls -lniL -- "$1")
    echo "file $3 $8 $(head -n 1 -- "$1" | head -c 4096 | sha256sum | head -c 64) $2"
}
"""

_LIST = r"""
cd "$LOGS" 2>/dev/null || exit 0
if [ -z "$LAUNCH_ID" ]; then
    newest=$(ls -t -- *.log *.err 2>/dev/null | head -n 1)
    LAUNCH_ID=${newest%.*}
fi
[ -n "$LAUNCH_ID" ] || exit 0
echo "launch $LAUNCH_ID"
for file in "$LAUNCH_ID".*; do entry "$file" "$file"; done
"""

_ENDS = r"""
ends() {  # $1: a file, $2: how many bytes of it are known; the digest of both ends of those
    n=$2
    [ "$n" -le "$END_BYTES" ] || n=$END_BYTES
    { head -c "$n" <"$1"; tail -c "+$(($2 - n + 1))" <"$1" | head -c "$n"; } 2>/dev/null | sha256sum | head -c 64
    echo
}
"""


@dataclass(frozen=True)
class RemoteLog:
    """A file as the host lists it.

    Args:
        inode: Its number, which a new name does not change.
        n_bytes: Its size.
        first_line: Digest of its first line, cut to 4096 bytes.
        name: Its name here.
        path: Where it lies on the host.
    """

    inode: int
    n_bytes: int
    first_line: str
    name: str
    path: str


def list_script(layout: Layout, launch_id: str | None) -> Script:
    """List the files of a launch, or of the newest one: inode, size, digest of the first line, name."""
    return Script("list the logs", _ENTRY + _LIST, {"LOGS": layout.logs, "LAUNCH_ID": launch_id or ""})


def list_paths_script(paths: Mapping[str, str]) -> Script:
    """List files by path, as ``list_script`` does.

    Args:
        paths: Name here -> absolute path on the host.
    """
    names, files = {}, {}
    for i, (name, path) in enumerate(paths.items()):
        names[f"NAME_{i}"], files[f"FILE_{i}"] = name, path
    calls = "\n".join(f'entry "$FILE_{i}" "$NAME_{i}"' for i in range(len(paths)))
    return Script("list the logs", f"{_ENTRY}{calls}\nexit 0\n", names | files)


def parse_list(output: str, paths: Mapping[str, str] | None = None, folder: str = "") -> tuple[str, list[RemoteLog]]:
    """Read what either script prints: the launch, and its files with the timing log first.

    Args:
        output: What was printed.
        paths: As for ``list_paths_script``.
        folder: Where files lie that ``paths`` does not name.
    """
    launch, files = "", []
    for line in output.splitlines():
        if line.startswith("launch "):
            launch = line.removeprefix("launch ")
        elif match := re.fullmatch(r"file (\d{1,20}) (\d{1,20}) ([0-9a-f]{64}) (.+)", line):
            path = (paths or {}).get(match[4], f"{folder}/{match[4]}")
            files.append(RemoteLog(int(match[1]), int(match[2]), match[3], match[4], path))
    return launch, sorted(files, key=lambda file: (not file.name.startswith(f"{launch}.log"), file.name))


def clock_script() -> Script:
    """Print the host's clock, in seconds since 1970."""
    return Script("read the clock", "date +%s\n")


def ends_script(known: Sequence[tuple[str, int]]) -> Script:
    """Digest both ends of the first bytes of files: one line a file, in the order of ``known``.

    Args:
        known: Path on the host and how many of its bytes were copied.
    """
    files = {f"FILE_{i}": path for i, (path, _) in enumerate(known)}
    calls = "\n".join(f'ends "$FILE_{i}" {n_bytes}' for i, (_, n_bytes) in enumerate(known))
    return Script("compare the logs", f"{_ENDS}{calls}\n", {**files, "END_BYTES": str(END_BYTES)})


def ends_of(copy: Path) -> str:
    """The same digest of a copy as it is here."""
    n_bytes = copy.stat().st_size
    n_end = min(n_bytes, END_BYTES)
    with copy.open("rb") as file:
        head = file.read(n_end)
        file.seek(n_bytes - n_end)
        return hashlib.sha256(head + file.read(n_end)).hexdigest()

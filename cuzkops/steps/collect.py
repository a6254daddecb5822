"""Pull a daemon's logs: what is new since the last time, or line by line as it is written.

A file is known by its inode and first line, not by its name, so that a log that was rotated is finished under its new
name, and one that was truncated or replaced is noticed; nothing that was pulled is ever thrown away.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError
from cuzkops.remote.host import Script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout

_STATE = ".collected.json"
_HEARTBEAT_S = 10
_IDLE_S = 60  # six heartbeats missed: the connection is gone

_LIST = r"""
cd "$LOGS" 2>/dev/null || exit 0
if [ -z "$LAUNCH_ID" ]; then
    newest=$(ls -t -- *.log *.err 2>/dev/null | head -n 1)
    LAUNCH_ID=${newest%.*}
fi
[ -n "$LAUNCH_ID" ] || exit 0
echo "launch $LAUNCH_ID"
for file in "$LAUNCH_ID".*; do
    [ -f "$file" ] || continue
    set -- $(ls -lni -- "$file")
    echo "file $1 $6 $(head -n 1 -- "$file" | head -c 4096 | sha256sum | head -c 64) $file"
done
"""

# The open descriptor keeps its place in the old file, whatever happens to its name: `cat <&4` prints what is new.
# Lines that begin with \001 are ours.
_FOLLOW = r"""
[ -r "$LOG" ] || { echo "there is no log $LOG" >&2; exit 1; }
exec 4<"$LOG"
tail -n "$LINES_BACK" <&4
beats=0
alive() {
    [ -z "$PID" ] && return 0
    read -r stat <"/proc/$PID/stat" || return 1
    set -- ${stat##*) }
    [ "$1" != Z ] && [ "$1" != X ] && [ "${20}" = "$START_TICKS" ]
}
while :; do
    alive 2>/dev/null && lives=1 || lives=0
    cat <&4
    if [ "$lives" = 0 ]; then
        printf '\001ended\n'
        exit 0
    fi
    if [ -e "$LOG" ] && ! [ "$LOG" -ef /dev/fd/4 ]; then
        cat <&4
        printf '\001rotated\n'
        exec 4<"$LOG"
    else
        while read -r key value; do
            [ "$key" = pos: ] && break
        done </proc/self/fdinfo/4
        set -- $(ls -lnL /dev/fd/4)
        if [ "$5" -lt "$value" ]; then
            printf '\001truncated\n'
            exec 4<"$LOG"
        fi
    fi
    beats=$((beats + 1))
    [ $((beats % BEATS)) -ne 0 ] || printf '\001\n'
    sleep "$INTERVAL" 2>/dev/null || sleep 1
done
"""


@dataclass(frozen=True)
class CollectedFile:
    """One file of a daemon's logs.

    Args:
        name: Its name on the host now.
        path: Where its copy lies.
        new_bytes: What came this time.
        total_bytes: Size of the copy.
    """

    name: str
    path: Path
    new_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class CollectResult:
    """What was pulled.

    Args:
        launch_id: The launch whose logs these are.
        files: Its files, the timing log first.
        notices: Sentences about rotation, truncation and files that went away.
    """

    launch_id: str
    files: tuple[CollectedFile, ...]
    notices: tuple[str, ...]


@dataclass(frozen=True)
class _Remote:
    """A file as the host lists it; ``first_line`` is a digest."""

    inode: int
    n_bytes: int
    first_line: str
    name: str


def collect(host: Host, layout: Layout, folder: Path, *, launch_id: str | None = None) -> CollectResult:
    """Bring a local folder up to date with a launch's logs.

    Args:
        host: The host.
        layout: Which daemon there.
        folder: Local folder; made if missing. It also keeps what is needed to go on next time.
        launch_id: The launch; None for the newest one.

    Raises:
        OpsError: There are no logs, or one cannot be read.
    """
    launch, remote = _parse_list(host.run(list_script(layout, launch_id)).check().out)
    if not remote:
        what = f"launch {launch_id}" if launch_id else f"daemon {layout.name}"
        raise OpsError("no-logs", f"{what} has no logs in {layout.logs} on {host.target}", "launch it first")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    known, notices = _follow_names(folder, _read_state(folder), remote)
    files = []
    for file in remote:
        copy = folder / file.name
        copy.touch(mode=0o600)
        offset = copy.stat().st_size
        new_bytes = host.get(f"{layout.logs}/{file.name}", copy, offset=offset) if file.n_bytes > offset else 0
        files.append(CollectedFile(file.name, copy, new_bytes, offset + new_bytes))
        known[file.name] = file.inode
        _write_state(folder, known)
    return CollectResult(launch, tuple(files), tuple(notices))


def follow(
    host: Host,
    layout: Layout,
    *,
    log: str,
    process: tuple[int, int] | None = None,
    lines_back: int | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> Iterator[bytes]:
    """Yield the lines of a log as they are written, until the daemon ends or the iterator is closed.

    Args:
        host: The host.
        layout: Which daemon there.
        log: Absolute path of the log on the host.
        process: (pid, start_ticks) of its writer: the stream ends with it; None follows for ever.
        lines_back: How many of the lines that are there come first; None for all.
        on_notice: Called with a sentence when the log was rotated or truncated, or the daemon ended.

    Raises:
        OpsError: There is no such log.
        TimeoutExpired: The host fell silent.
    """
    sentences = {
        b"rotated": f"{log} was rotated: going on with the new file",
        b"truncated": f"{log} was truncated: lines may have been lost",
        b"ended": "the daemon ended",
    }
    kept = b""
    for raw in host.stream(follow_script(layout, log, process, lines_back), idle_timeout_s=_IDLE_S):
        begin, ours, word = raw.rpartition(b"\x01")
        line = kept + (begin if ours else raw)
        if not ours:
            kept = b""
            yield line
            continue
        kept = line  # a line without an end as yet, before a word of ours
        if word in sentences:
            if kept:
                yield kept
                kept = b""
            on_notice(sentences[word])


def list_script(layout: Layout, launch_id: str | None) -> Script:
    """List the files of a launch: inode, size, digest of the first line, name."""
    return Script("list the logs", _LIST, {"LOGS": layout.logs, "LAUNCH_ID": launch_id or ""})


def follow_script(layout: Layout, log: str, process: tuple[int, int] | None, lines_back: int | None) -> Script:
    """Build the script behind ``follow``; arguments as there."""
    interval_s = 0.5
    pid, start_ticks = process or ("", "")
    return Script(
        f"follow {log.removeprefix(layout.logs + '/')}",
        _FOLLOW,
        {
            "LOG": log,
            "PID": str(pid),
            "START_TICKS": str(start_ticks),
            "LINES_BACK": "+1" if lines_back is None else str(lines_back),
            "INTERVAL": str(interval_s),
            "BEATS": str(int(_HEARTBEAT_S / interval_s)),
        },
    )


def _parse_list(output: str) -> tuple[str, list[_Remote]]:
    launch, files = "", []
    for line in output.splitlines():
        if line.startswith("launch "):
            launch = line.removeprefix("launch ")
        elif match := re.fullmatch(r"file (\d+) (\d+) ([0-9a-f]{64}) (.+)", line):
            files.append(_Remote(int(match[1]), int(match[2]), match[3], match[4]))
    return launch, sorted(files, key=lambda file: (not file.name.startswith(f"{launch}.log"), file.name))


def _follow_names(folder: Path, known: dict[str, int], remote: list[_Remote]) -> tuple[dict[str, int], list[str]]:
    """Rename copies so that each has the name that its file has now; what does not go on is put aside.

    Returns:
        What is known after that, and a sentence for each change.
    """
    by_inode = {file.inode: file for file in remote}
    by_name = {file.name: file for file in remote}
    after: dict[str, int] = {}
    notices: list[str] = []
    moving: list[tuple[Path, Path]] = []
    for name, inode in known.items():
        copy, file = folder / name, by_inode.get(inode)
        if file is not None and _goes_on(copy, file):
            after[file.name] = inode
            if file.name != name:
                notices.append(f"{name} was rotated to {file.name}")
                # In two steps, because names are handed on: .log to .log.1 while .log.1 goes to .log.2.
                moving.append((copy.rename(folder / f".moving-{file.name}"), folder / file.name))
        elif name in by_name:
            what = "truncated" if by_name[name].inode == inode else "replaced"
            aside = _aside(copy)
            notices.append(f"{name} was {what} on the host: the {copy.stat().st_size} bytes before are in {aside.name}")
            copy.rename(aside)
    for old, new in moving:
        old.rename(new)
    return after, notices


def _goes_on(copy: Path, file: _Remote) -> bool:
    """Whether the file on the host begins with what was copied: as large at least, with the same first line."""
    if not copy.exists():
        return True
    if file.n_bytes < copy.stat().st_size:
        return False
    with copy.open("rb") as opened:
        first = opened.readline(4096)
    return not first.endswith(b"\n") or hashlib.sha256(first).hexdigest() == file.first_line


def _aside(copy: Path) -> Path:
    number = 1
    while (aside := copy.with_name(f"{copy.name}.before-{number}")).exists():
        number += 1
    return aside


def _read_state(folder: Path) -> dict[str, int]:
    try:
        stored = json.loads((folder / _STATE).read_bytes())
    except (OSError, ValueError):
        return {}
    return {str(name): int(inode) for name, inode in stored.items() if (folder / str(name)).exists()}


def _write_state(folder: Path, known: dict[str, int]) -> None:
    temporary = folder / f"{_STATE}.tmp"
    temporary.write_text(json.dumps(known))
    temporary.replace(folder / _STATE)

"""Pull a daemon's logs: what is new since the last time.

A file is known by its inode and first line, not by its name, so that a log that was rotated is finished under its new
name, and one that was truncated or replaced is noticed; nothing that was pulled is ever thrown away.

Everything that a host prints is foreign: a name that is none here never becomes a path.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError, TimeoutExpired, UnreadableError, UsageError
from cuzkops.remote.daemon import find_daemon
from cuzkops.remote.host import Script
from cuzkops.state import unwritable, write_atomically
from prover.protocol import LAUNCH_ID_PATTERN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.state import State
    from cuzkops.timing.table import TimingTable

_STATE = ".collected.json"
_LOCK = ".collecting"
_LOCK_DEADLINE_S = 120.0
_POLL_S = 0.1
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

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
class Pulled:
    """The timing logs of one launch, as copied.

    Args:
        folder: Where the copies are.
        timing_logs: Those with timing lines, the oldest first.
        notices: Sentences about rotation, truncation and files that went away.
    """

    folder: Path
    timing_logs: tuple[Path, ...]
    notices: tuple[str, ...]


@dataclass(frozen=True)
class _Remote:
    """A file as the host lists it; ``first_line`` is a digest."""

    inode: int
    n_bytes: int
    first_line: str
    name: str


def pull(host: Host, layout: Layout, state: State) -> Pulled:
    """Bring the copies of the newest launch's timing logs up to date.

    Args:
        host: The host.
        layout: Which daemon there.
        state: Where the copies are kept, in the folder of the run.

    Raises:
        UsageError: Nothing was ever launched.
        UnreadableError: The host names a launch that is no name.
        OpsError: There are no logs, or they cannot be read or kept.
    """
    daemon = find_daemon(host, layout)
    if daemon is not None and daemon.record.release_id == "adopted":
        folder = state.run(daemon.record.launch_id).logs
        return Pulled(folder, tuple(_pull_adopted(host, folder, daemon.record.logs)), ())
    live = daemon is not None and daemon.is_live
    launch_id = daemon.record.launch_id if daemon is not None and live else newest_launch(host, layout)
    folder = state.run(launch_id).logs
    result = collect(host, layout, folder, launch_id=launch_id)
    timing = [file.path for file in result.files if re.fullmatch(r".*\.log(\.\d+)?", file.name)]
    return Pulled(folder, tuple(sorted(timing, key=_rotation, reverse=True)), result.notices)


def newest_launch(host: Host, layout: Layout) -> str:
    """The launch whose log was written last.

    Raises:
        UsageError: Nothing was ever launched.
        UnreadableError: The host names a launch that is no name.
    """
    launch_id, _ = _parse_list(host.run(list_script(layout, None)).check().out)
    if not launch_id:
        raise UsageError("no-logs", f"no daemon {layout.name} was ever launched on {host.target}", "deploy one first")
    if not re.fullmatch(LAUNCH_ID_PATTERN, launch_id):
        raise UnreadableError("launch-id", f"{host.target} names a launch {launch_id!r}, which is no name")
    return launch_id


def keep_peaks(state: State, table: TimingTable) -> None:
    """Complete the records of the runs by what their logs say of memory: the next deploy counts on that much.

    Runs that this client did not start have no record here, and what a log calls a run may be no name at all.
    """
    for run in table.runs:
        if run.peak_rss_bytes is None or not re.fullmatch(LAUNCH_ID_PATTERN, run.run):
            continue
        folder = state.run(run.run)
        if not (folder.path / "run.json").is_file():
            continue
        record = folder.read()
        if record.peak_bytes is None or run.peak_rss_bytes > record.peak_bytes:
            folder.write(record.model_copy(update={"peak_bytes": run.peak_rss_bytes}))


def collect(host: Host, layout: Layout, folder: Path, *, launch_id: str | None = None) -> CollectResult:
    """Bring a local folder up to date with a launch's logs.

    Args:
        host: The host.
        layout: Which daemon there.
        folder: Local folder; made if missing. It also keeps what is needed to go on next time.
        launch_id: The launch; None for the newest one.

    Raises:
        OpsError: There are no logs, or one cannot be read or kept.
        TimeoutExpired: Another command works on the same folder and does not end.
    """
    launch, listed = _parse_list(host.run(list_script(layout, launch_id)).check().out)
    remote = [file for file in listed if _FILE_NAME.fullmatch(file.name)]
    notices = [f"left on the host: {file.name!r} is no name for a log" for file in listed if file not in remote]
    if not remote:
        what = f"launch {launch_id}" if launch_id else f"daemon {layout.name}"
        raise OpsError("no-logs", f"{what} has no logs in {layout.logs} on {host.target}", "launch it first")
    files = []
    with _alone_in(folder):
        known, changes = _follow_names(folder, _read_state(folder), remote)
        for file in remote:
            copy = folder / file.name
            copy.touch(mode=0o600)
            offset = copy.stat().st_size
            new_bytes = host.get(f"{layout.logs}/{file.name}", copy, offset=offset) if file.n_bytes > offset else 0
            files.append(CollectedFile(file.name, copy, new_bytes, offset + new_bytes))
            known[file.name] = file.inode
            write_atomically(folder / _STATE, json.dumps(known).encode())
    return CollectResult(launch, tuple(files), (*notices, *changes))


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Make a folder and keep other commands out of it: two that append to the same copy would both write its end."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / _LOCK).open("w") as lock:
            _flock(lock.fileno(), folder)
            yield
    except OSError as error:
        raise unwritable(folder, error) from error


def _flock(descriptor: int, folder: Path) -> None:
    deadline = time.monotonic() + _LOCK_DEADLINE_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                message = f"another cuzkops has been pulling the same logs into {folder} for {_LOCK_DEADLINE_S:g} s"
                raise TimeoutExpired("logs-busy", message, "wait for it, or end it") from None
        time.sleep(_POLL_S)


def _pull_adopted(host: Host, folder: Path, logs: list[str]) -> list[Path]:
    """Copy the files that an adopted daemon writes to: nothing is known of them, so they come whole."""
    copies = []
    with _alone_in(folder):
        for number, log in enumerate(logs):
            name = re.sub(r"[^A-Za-z0-9._-]", "_", log.rpartition("/")[2])
            copy = folder / f"{number}-{name[-100:]}"
            copy.unlink(missing_ok=True)
            host.get(log, copy)
            copies.append(copy)
    return copies


def list_script(layout: Layout, launch_id: str | None) -> Script:
    """List the files of a launch: inode, size, digest of the first line, name."""
    return Script("list the logs", _LIST, {"LOGS": layout.logs, "LAUNCH_ID": launch_id or ""})


def _parse_list(output: str) -> tuple[str, list[_Remote]]:
    launch, files = "", []
    for line in output.splitlines():
        if line.startswith("launch "):
            launch = line.removeprefix("launch ")
        elif match := re.fullmatch(r"file (\d{1,20}) (\d{1,20}) ([0-9a-f]{64}) (.+)", line):
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
        return {
            name: int(inode)
            for name, inode in stored.items()
            if _FILE_NAME.fullmatch(name) and (folder / name).exists()
        }
    except (OSError, ValueError, TypeError, AttributeError):  # damaged is as good as absent: copies are put aside
        return {}


def _rotation(path: Path) -> int:
    """How often a file was rotated: ``x.log.2`` is older than ``x.log.1``, and ``x.log`` is the newest."""
    number = path.name.rpartition(".")[2]
    return int(number) if number.isdigit() else 0

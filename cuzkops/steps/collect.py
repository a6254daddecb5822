"""Pull a daemon's logs: what is new since the last time.

A file is known by its inode, its first line and both ends of what was copied, not by its name, so that a log that was
rotated is finished under its new name, and one that was truncated or replaced is noticed, also where it has grown
again; nothing that was pulled is ever thrown away.

Everything that a host prints is foreign: a name that is none here never becomes a path.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import re
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError, TimeoutExpired, UnreadableError, UsageError
from cuzkops.remote.daemon import find_daemon
from cuzkops.remote.log_files import (
    RemoteLog,
    clock_script,
    ends_of,
    ends_script,
    list_paths_script,
    list_script,
    parse_list,
)
from cuzkops.state import unwritable, write_atomically
from prover.protocol import LAUNCH_ID_PATTERN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.state import State
    from cuzkops.timing.table import TimingTable
    from prover.protocol import DaemonRecord

    Progress = Callable[[str, int, int], None]

_STATE = ".collected.json"
_LOCK = ".collecting"
_LOCK_DEADLINE_S = 120.0
_POLL_S = 0.1
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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
    """The logs of one launch, as copied.

    Args:
        folder: Where the copies are.
        timing_logs: Those with timing lines, the oldest first.
        notices: Sentences about rotation, truncation and files that went away.
        prose: What the daemon wrote besides: its standard output, then its standard error.
    """

    folder: Path
    timing_logs: tuple[Path, ...]
    notices: tuple[str, ...]
    prose: tuple[Path, ...] = ()


@dataclass(frozen=True)
class _Known:
    """What is known of a copy: which file it is of, how much of it is here, and the digest of both ends of that."""

    inode: int
    offset: int = 0
    ends: str = ""


def pull(host: Host, layout: Layout, state: State, progress: Progress = lambda *_: None) -> Pulled:
    """Bring the copies of the newest launch's timing logs up to date.

    Args:
        host: The host.
        layout: Which daemon there.
        state: Where the copies are kept, in the folder of the run.
        progress: Called with a file's name, how much of it is here, and its size.

    Raises:
        UsageError: Nothing was ever launched, or what was adopted writes no log to a file.
        UnreadableError: The host names a launch that is no name.
        OpsError: There are no logs, or they cannot be read or kept.
    """
    daemon = find_daemon(host, layout)
    if daemon is not None and not daemon.record.is_ours:
        return _pull_adopted(host, state.run(daemon.record.launch_id).logs, daemon.record, progress)
    live = daemon is not None and daemon.is_live
    launch_id = daemon.record.launch_id if daemon is not None and live else newest_launch(host, layout)
    folder = state.run(launch_id).logs
    result = collect(host, layout, folder, launch_id=launch_id, progress=progress)
    timing = [file.path for file in result.files if re.fullmatch(r".*\.log(\.\d+)?", file.name)]
    prose = [file.path for kind in (".out", ".err") for file in result.files if file.name.endswith(kind)]
    return Pulled(folder, tuple(sorted(timing, key=_rotation, reverse=True)), result.notices, tuple(prose))


def now_unix_ns(host: Host) -> int:
    """The host's clock: what its daemon's log is placed by, whatever the clock here says.

    Raises:
        OpsError: It does not say.
    """
    text = host.run(clock_script()).check().out.strip()
    if not text.isdigit():
        raise OpsError("clock", f"{host.target} does not say what time it is: {text[:80]!r}", "name a time instead")
    return int(text) * 10**9


def newest_launch(host: Host, layout: Layout) -> str:
    """The launch whose log was written last.

    Raises:
        UsageError: Nothing was ever launched.
        UnreadableError: The host names a launch that is no name.
    """
    launch_id, _ = parse_list(host.run(list_script(layout, None)).check().out)
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


def collect(
    host: Host,
    layout: Layout,
    folder: Path,
    *,
    launch_id: str | None = None,
    progress: Progress = lambda *_: None,
) -> CollectResult:
    """Bring a local folder up to date with a launch's logs.

    Args:
        host: The host.
        layout: Which daemon there.
        folder: Local folder; made if missing. It also keeps what is needed to go on next time.
        launch_id: The launch; None for the newest one.
        progress: See ``pull``.

    Raises:
        OpsError: There are no logs, or one cannot be read or kept.
        TimeoutExpired: Another command works on the same folder and does not end.
    """
    listed = host.run(list_script(layout, launch_id)).check().out
    launch, files = parse_list(listed, folder=layout.logs)
    remote = [file for file in files if _FILE_NAME.fullmatch(file.name)]
    notices = [f"left on the host: {file.name!r} is no name for a log" for file in files if file not in remote]
    if not remote:
        what = f"launch {launch_id}" if launch_id else f"daemon {layout.name}"
        raise OpsError("no-logs", f"{what} has no logs in {layout.logs} on {host.target}", "launch it first")
    collected, changes = _bring(host, folder, remote, progress)
    return CollectResult(launch, collected, (*notices, *changes))


def _bring(
    host: Host, folder: Path, remote: list[RemoteLog], progress: Progress
) -> tuple[tuple[CollectedFile, ...], list[str]]:
    """Copy what is new of each file; returns the copies, and a sentence for each change of a name or a file."""
    files = []
    with _alone_in(folder):
        known, changes = _follow_names(host, folder, _read_state(folder, remote), remote)
        for file in remote:
            copy = folder / file.name
            copy.touch(mode=0o600)
            offset = copy.stat().st_size
            new_bytes = _get(host, file, copy, offset, progress)
            files.append(CollectedFile(file.name, copy, new_bytes, offset + new_bytes))
            known[file.name] = _Known(file.inode, offset + new_bytes, ends_of(copy))
            _write_state(folder, known)
    return tuple(files), changes


def _get(host: Host, file: RemoteLog, copy: Path, offset: int, progress: Progress) -> int:
    """Append what is new; a log that grows meanwhile is as large as what came of it."""
    if file.n_bytes <= offset:
        return 0

    def show(new_bytes: int) -> None:
        progress(file.name, offset + new_bytes, max(file.n_bytes, offset + new_bytes))

    return host.get(file.path, copy, offset=offset, progress=show)


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


def _pull_adopted(host: Host, folder: Path, daemon: DaemonRecord, progress: Progress) -> Pulled:
    """Copy the files that an adopted process writes to; their names may be the same, so each gets its number."""
    if not daemon.logs:
        message = f"pid {daemon.pid}, which was adopted as {daemon.name} on {host.target}, writes no log to a file"
        raise UsageError("no-logs", message, "start it with its output in a file: `PROGRAM >LOG 2>&1`")
    paths = {
        f"{number}-{re.sub(r'[^A-Za-z0-9._-]', '_', log.rpartition('/')[2])[-100:]}": log
        for number, log in enumerate(daemon.logs)
    }
    _, remote = parse_list(host.run(list_paths_script(paths)).check().out, paths)
    if not remote:
        message = f"the logs of pid {daemon.pid} are no longer on {host.target}: {', '.join(daemon.logs)}"
        raise OpsError("no-logs", message, "they were removed while it runs; what was pulled before is kept")
    files, notices = _bring(host, folder, [file for file in remote if file.name in paths], progress)
    return Pulled(folder, tuple(file.path for file in files), tuple(notices))


def _follow_names(
    host: Host, folder: Path, known: dict[str, _Known], remote: list[RemoteLog]
) -> tuple[dict[str, _Known], list[str]]:
    """Rename copies so that each has the name that its file has now; what does not go on is put aside.

    Returns:
        What is known after that, and a sentence for each change.
    """
    by_inode = {file.inode: file for file in remote}
    by_name = {file.name: file for file in remote}
    same = _unchanged(host, folder, {n: by_inode[k.inode] for n, k in known.items() if k.inode in by_inode})
    after: dict[str, _Known] = {}
    notices: list[str] = []
    moving: list[tuple[Path, Path]] = []
    for name, seen in known.items():
        copy, file = folder / name, by_inode.get(seen.inode)
        if file is not None and name in same:
            after[file.name] = seen
            if file.name != name:
                notices.append(f"{name} was rotated to {file.name}")
                # In two steps, because names are handed on: .log to .log.1 while .log.1 goes to .log.2.
                moving.append((copy.rename(folder / f".moving-{file.name}"), folder / file.name))
        elif name in by_name:
            what = "truncated" if by_name[name].inode == seen.inode else "replaced"
            aside = _aside(copy)
            notices.append(f"{name} was {what} on the host: the {copy.stat().st_size} bytes before are in {aside.name}")
            copy.rename(aside)
    for old, new in moving:
        old.rename(new)
    return after, notices


def _unchanged(host: Host, folder: Path, files: dict[str, RemoteLog]) -> set[str]:
    """The copies whose files begin with what was copied: large enough, the same first line, and both ends the same."""
    candidates = [(name, file) for name, file in files.items() if _goes_on(folder / name, file)]
    to_compare = [(name, file) for name, file in candidates if (folder / name).stat().st_size]
    same = {name for name, _ in candidates} - {name for name, _ in to_compare}
    if to_compare:
        sizes = [(file.path, (folder / name).stat().st_size) for name, file in to_compare]
        digests = host.run(ends_script(sizes)).check().out.split()
        pairs = zip(to_compare, digests, strict=False)
        same |= {name for (name, _), digest in pairs if digest == ends_of(folder / name)}
    return same


def _goes_on(copy: Path, file: RemoteLog) -> bool:
    """Whether the file on the host begins with what was copied: as large at least, with the same first line."""
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


def _read_state(folder: Path, remote: list[RemoteLog]) -> dict[str, _Known]:
    """What is known of the copies; one of which nothing is known is taken for the file of its name, and compared."""
    known = {file.name: _Known(file.inode) for file in remote if (folder / file.name).exists()}
    try:
        stored = json.loads((folder / _STATE).read_bytes())
        for name, seen in stored["files"].items():
            if _FILE_NAME.fullmatch(name) and (folder / name).exists():
                known[name] = _Known(int(seen["inode"]), int(seen["offset"]), str(seen["ends"]))
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return known  # damaged is as good as absent
    return known


def _write_state(folder: Path, known: dict[str, _Known]) -> None:
    document = {"schema": 1, "files": {name: asdict(seen) for name, seen in known.items()}}
    write_atomically(folder / _STATE, json.dumps(document).encode())


def _rotation(path: Path) -> int:
    """How often a file was rotated: ``x.log.2`` is older than ``x.log.1``, and ``x.log`` is the newest."""
    number = path.name.rpartition(".")[2]
    return int(number) if number.isdigit() else 0

"""What the tool remembers between commands: the last place, who this client is, and a folder a run.

::

    $XDG_STATE_HOME/cuzkops (default ~/.local/state/cuzkops)
        client-id            random, made once: who holds a lock
        last-target.json     where the last command worked
        runs/<run_id>/       run.json, logs/, memory.jsonl
        faults/              tracebacks of our own faults
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError, UnreadableError, UsageError
from cuzkops.paths import expanded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cuzkops.records import RunRecord

RUN_WORDS = {"last": 0, "previous": 1}
"""Words for a run -> how many there are after it."""


def new_run_id(now_unix_ns: int | None = None) -> str:
    """Make a run id: sorts by time (UTC, to the microsecond), unique by its random end."""
    seconds, rest_ns = divmod(time.time_ns() if now_unix_ns is None else now_unix_ns, 10**9)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(seconds))
    return f"{stamp}-{rest_ns // 1000:06d}-{os.urandom(2).hex()}"


def write_atomically(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file so that a reader sees all of the old or all of the new one; makes its folder.

    Raises:
        OpsError: The file cannot be written; nothing is left beside it.
    """
    import tempfile  # noqa: PLC0415 - `--help` writes nothing, and this loads the random numbers too

    temporary = ""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise unwritable(path, error) from error
        raise


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, ``runs/<run_id>``."""

    path: Path

    @property
    def run_id(self) -> str:
        """The run's id, which is the folder's name."""
        return self.path.name

    @property
    def logs(self) -> Path:
        """Folder for the logs that were pulled."""
        return self.path / "logs"

    @property
    def memory(self) -> Path:
        """``memory.jsonl``: one sample of the host's memory a line."""
        return self.path / "memory.jsonl"

    def add_memory_sample(self, sample: Mapping[str, object]) -> None:
        """Add a line to ``memory.jsonl``; makes the folder if it is missing.

        Raises:
            OpsError: It cannot be written.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.memory.open("a") as file:
                file.write(json.dumps(sample) + "\n")
        except OSError as error:
            raise unwritable(self.memory, error) from error

    def remove_empty(self) -> None:
        """Remove the folder of a run that did nothing; one that holds something stays."""
        with contextlib.suppress(OSError):
            self.logs.rmdir()
            self.path.rmdir()

    def write(self, record: RunRecord) -> None:
        """Write ``run.json`` whole.

        Raises:
            OpsError: It cannot be written.
        """
        write_atomically(self.path / "run.json", record.model_dump_json(by_alias=True, indent=2).encode() + b"\n")

    def read(self) -> RunRecord:
        """Read ``run.json``.

        Raises:
            UnreadableError: It is missing, damaged, or of another version of the tool.
        """
        from pydantic import ValidationError  # noqa: PLC0415 - half of the start-up time of `--help`

        from cuzkops.records import RunRecord, first_problem  # noqa: PLC0415 - the same

        file = self.path / "run.json"
        try:
            return RunRecord.model_validate_json(file.read_bytes())
        except OSError as error:
            raise UnreadableError("run", f"{file} cannot be read: {error.strerror}") from error
        except ValidationError as error:
            raise UnreadableError(
                "run",
                f"{file} is not a run of this version: {first_problem(error)}",
                "was it written by a newer cuzkops?",
            ) from error


@dataclass(frozen=True)
class LastPlace:
    """Where the last command worked.

    Args:
        target: The host.
        name: The daemon's name, or None for the default one.
        remote_dir: Folder on the host, or None for the default one.
    """

    target: str
    name: str | None = None
    remote_dir: str | None = None


@dataclass(frozen=True)
class State:
    """The tool's state directory.

    Args:
        root: The directory; made when something is first written.
    """

    root: Path

    def last_place(self) -> LastPlace | None:
        """Where the last command that reached its host worked, or None."""
        try:
            stored = json.loads((self.root / "last-target.json").read_bytes())
            place = LastPlace(stored["target"], stored.get("name"), stored.get("remote_dir"))
            words = [place.target, *(word for word in (place.name, place.remote_dir) if word is not None)]
            if stored["schema"] == 1 and all(isinstance(word, str) and word for word in words):
                return place
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # a convenience: damaged is as good as absent, and the place in use is always printed
        return None

    def remember_place(self, place: LastPlace) -> None:
        """Make this the last place.

        Raises:
            OpsError: It cannot be written.
        """
        data = json.dumps({"schema": 1, **vars(place)})
        write_atomically(self.root / "last-target.json", data.encode() + b"\n")

    def client_id(self) -> str:
        """The random name of this client, made at its first use.

        Raises:
            OpsError: It cannot be written.
        """
        stored = self.known_client_id()
        if stored is not None:
            return stored
        made = os.urandom(16).hex()
        write_atomically(self.root / "client-id", made.encode() + b"\n")
        return made

    def known_client_id(self) -> str | None:
        """The name of this client, or None before its first use: for those who only look."""
        try:
            stored = (self.root / "client-id").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):  # not made yet, or damaged: the next use makes a new one
            return None
        return stored if len(stored) == 32 and stored.isalnum() else None

    def new_run(self) -> RunFolder:
        """Make the folder of a new run.

        Raises:
            OpsError: It cannot be made.
        """
        while True:
            path = self.root / "runs" / new_run_id()
            try:
                (path.parent).mkdir(mode=0o700, parents=True, exist_ok=True)
                path.mkdir(mode=0o700)
                (path / "logs").mkdir(mode=0o700)
            except FileExistsError:
                continue
            except OSError as error:
                raise unwritable(path, error) from error
            return RunFolder(path)

    def run(self, run_id: str) -> RunFolder:
        """The folder of a run, whether it exists or not.

        Raises:
            UnreadableError: The id, which may come from a host, is none that could name a folder here.
        """
        from prover.protocol import LAUNCH_ID_PATTERN  # noqa: PLC0415 - half of the start-up time of `--help`

        if not re.fullmatch(LAUNCH_ID_PATTERN, run_id):
            raise UnreadableError("run-id", f"{run_id!r} is not the id of a run")
        return RunFolder(self.root / "runs" / run_id)

    def runs(self) -> Iterator[RunFolder]:
        """Every run that has a ``run.json``, the newest first.

        Raises:
            UnreadableError: The folder of the runs cannot be read.
        """
        folder = self.root / "runs"
        try:
            paths = sorted(folder.iterdir(), reverse=True)
            found = [RunFolder(path) for path in paths if (path / "run.json").is_file()]
        except FileNotFoundError:  # nothing was recorded yet
            return
        except OSError as error:
            raise UnreadableError("runs", f"{folder} cannot be read: {error.strerror}") from error
        yield from found

    def find_run(self, name: str) -> RunFolder:
        """A recorded run by its id, by a beginning of it that only one has, or ``last`` or ``previous``.

        Raises:
            UsageError: There is none, or there are several.
        """
        runs = list(self.runs())
        back = RUN_WORDS.get(name, len(runs))
        if back < len(runs):
            return runs[back]
        found = [run for run in runs if run.run_id == name] or [run for run in runs if run.run_id.startswith(name)]
        if len(found) == 1 and name:
            return found[0]
        if len(found) > 1:
            some = ", ".join(run.run_id for run in found[:3])
            raise UsageError("no-such-run", f"{name!r} is the beginning of {len(found)} runs: {some}", "say more of it")
        raise UsageError("no-such-run", f"there is no run {name!r} here", "`cuzkops runs list` shows them")

    def write_fault(self, traceback: str) -> Path:
        """Keep the traceback of a fault of our own; returns its file.

        Raises:
            OpsError: It cannot be written.
        """
        file = self.root / "faults" / f"{new_run_id()}.txt"
        write_atomically(file, traceback.encode())
        return file


def open_state() -> State:
    """The state directory of this user: ``$XDG_STATE_HOME/cuzkops``, else ``~/.local/state/cuzkops``."""
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not base.is_absolute():  # the XDG specification: a relative path is to be ignored
        base = expanded("~/.local/state", "the state folder")
    return State(base / "cuzkops")


def unwritable(path: Path, error: OSError) -> OpsError:
    """Say that this machine does not let us write."""
    return OpsError(
        "state-unwritable",
        f"{path} cannot be written: {error.strerror or error}",
        "free space, fix its permissions, or set XDG_STATE_HOME to another folder",
    )

"""One daemon a home: the lock that guards it, ``run/daemon.json``, and the unix socket.

Standard library and ``prover.protocol`` only, because ``prover ctl`` reads the same files.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prover.errors import BusyError, InputError, ProverError

if TYPE_CHECKING:
    from prover.protocol import DaemonRecord

_SHORT_FOLDER = re.compile(r"prover-[a-z0-9_]{8}")
_BACKLOG = 128


@dataclass(frozen=True)
class Home:
    """The folder of one daemon on its host: ``<remote_dir>/<name>``.

    Args:
        root: Absolute path.
    """

    root: Path

    @property
    def run(self) -> Path:
        """What lives as long as the process: lock, record, socket."""
        return self.root / "run"

    @property
    def lock(self) -> Path:
        """Flocked by the daemon; holds its PID."""
        return self.run / "daemon.lock"

    @property
    def record(self) -> Path:
        """``daemon.json``."""
        return self.run / "daemon.json"

    @property
    def socket(self) -> Path:
        """Where the socket is unless this path is too long for one."""
        from prover.protocol import SOCKET_NAME  # noqa: PLC0415 - see read_record

        return self.run / SOCKET_NAME

    @property
    def logs(self) -> Path:
        """Timing logs, one a launch."""
        return self.root / "logs"

    @property
    def state(self) -> Path:
        """What outlives the process: journal, witnesses, what it knows of keys and of its last crash."""
        return self.root / "state"

    @property
    def witnesses(self) -> Path:
        """Witnesses that were put and not yet used."""
        return self.state / "witnesses"

    @property
    def journal(self) -> Path:
        """Every accepted job and its proofs, until they age out."""
        return self.state / "journal.db"

    @property
    def checked_keys(self) -> Path:
        """Digests of the keys whose points were looked at one by one."""
        return self.state / "checked_keys"


def expanded(path: Path, what: str) -> Path:
    """Replace ``~`` and ``~user`` at the start of a path.

    Raises:
        InputError: There is no such user, or this one has no home folder.
    """
    try:
        return path.expanduser()
    except RuntimeError:
        raise InputError(
            "no-home", f"{what} is {path}, and no home folder is known for {path.parts[0]}", "write the whole path"
        ) from None


def boot_id() -> str:
    """Name of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_ticks(pid: int) -> int | None:
    """Start of a process in clock ticks since boot (field 22 of /proc/PID/stat), or None where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the name in parentheses, and a name may hold spaces and parentheses: count from the last one.
    return int(stat[stat.rindex(")") + 2 :].split()[19])


def exe_sha256() -> str:
    """Digest of the executable that runs this process, even where its file was replaced since."""
    with Path("/proc/self/exe").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def release_folder() -> Path | None:
    """The release that this process was started from: PROVER_RELEASE_DIR, which the shipped launcher sets."""
    folder = os.environ.get("PROVER_RELEASE_DIR", "")
    return Path(folder) if folder else None


def read_build_id(release: Path | None) -> str:
    """What was built, from the release's manifest; ``"source"`` outside a release.

    Raises:
        InputError: The manifest is missing or holds no build_id.
    """
    if release is None:
        return "source"
    manifest = release / "manifest.json"
    try:
        return str(json.loads(manifest.read_bytes())["build_id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            "manifest",
            f"{manifest} does not say what was built ({type(error).__name__}: {error})",
            "start the daemon through the launcher of a shipped release, or unset PROVER_RELEASE_DIR",
        ) from None


class Instance:
    """This process as the daemon of a home: holds the lock from ``claim`` to ``release``.

    Args:
        home: The home, whose lock this process holds.
        lock_fd: The flocked descriptor. Not inheritable: nothing is ever started from here that should keep it.
    """

    def __init__(self, home: Home, lock_fd: int) -> None:
        self.home = home
        self._lock_fd = lock_fd
        self._socket_path: Path | None = None
        self._record: DaemonRecord | None = None

    @classmethod
    def claim(cls, home: Home) -> Instance:
        """Make the home's folders and take its lock.

        Raises:
            BusyError: Another process holds it.
            ProverError: The folders cannot be made.
        """
        try:
            for folder in (home.run, home.logs, home.witnesses):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.chmod(0o700)
            fd = os.open(home.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(home, error) from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
            os.close(fd)
            raise BusyError(
                "instance",
                f"a daemon already runs in {home.root}: process {holder or '(unknown)'}",
                "stop it with `prover ctl drain`, or give this one another name",
                {"pid": int(holder) if holder.isdigit() else None, "home": str(home.root)},
            ) from None
        except OSError as error:
            os.close(fd)
            raise _unusable(home, error) from None
        return cls(home, fd)

    def bind(self) -> socket.socket:
        """Listen on the home's socket, or on a short path where that one is too long.

        Replaces what a daemon that was killed left behind; the lock proves that it is dead.

        Raises:
            ProverError: No path can be bound.
        """
        from prover.protocol import SOCKET_PATH_LIMIT_BYTES  # noqa: PLC0415 - see read_record

        path = self.home.socket
        if len(os.fsencode(path)) > SOCKET_PATH_LIMIT_BYTES:
            path = _fresh_short_folder() / path.name
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._remove_left_behind()
            listener.bind(os.fspath(path))  # nobody else can reach it before chmod: its folder has mode 0700
            path.chmod(0o600)
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            raise ProverError("socket", f"{path} cannot be bound: {error}", "use a folder that takes sockets") from None
        self._socket_path = path
        return listener

    @property
    def api(self) -> str:
        """Absolute path of the bound socket."""
        return str(self._socket_path or "")

    def publish(self, record: DaemonRecord) -> None:
        """Write daemon.json: readers see the old one or the new one, never a part.

        Raises:
            ProverError: It cannot be written: a full disk, or somebody removed the folder.
        """
        temporary = self.home.run / f".daemon.json.{os.getpid()}"
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(record.model_dump_json(by_alias=True, indent=1) + "\n")
            temporary.replace(self.home.record)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise ProverError("record", f"{self.home.record} cannot be written: {error}", "look at its disk") from None
        self._record = record

    def release(self) -> None:
        """Remove socket and record as far as they are still ours, and give the lock back."""
        if self._socket_path is not None:
            _remove_socket(self._socket_path)
        mine = self._record
        theirs = read_record(self.home)
        if mine is not None and theirs is not None and is_same_process(mine, theirs):
            self.home.record.unlink(missing_ok=True)
        os.close(self._lock_fd)

    def _remove_left_behind(self) -> None:
        self.home.socket.unlink(missing_ok=True)
        old = read_record(self.home)
        if old is not None and old.api and Path(old.api) != self.home.socket:
            _remove_socket(Path(old.api))


def _unusable(home: Home, error: OSError) -> ProverError:
    return ProverError("home", f"{home.root} cannot hold a daemon: {error}", "give another folder with --remote-dir")


def is_same_process(one: DaemonRecord, other: DaemonRecord) -> bool:
    """Whether two records describe one process; a PID alone may have been reused."""
    return (one.boot_id, one.pid, one.start_ticks) == (other.boot_id, other.pid, other.start_ticks)


def is_alive(record: DaemonRecord) -> bool:
    """Whether the process of a record still exists on this machine."""
    return record.boot_id == boot_id() and start_ticks(record.pid) == record.start_ticks


def read_record(home: Home) -> DaemonRecord | None:
    """Read daemon.json; None where there is none or it is not one of ours (an unfinished or foreign file)."""
    from prover.protocol import DaemonRecord  # noqa: PLC0415 - pydantic costs a tenth of a second, and few need it

    try:
        return DaemonRecord.model_validate_json(home.record.read_bytes())
    except (OSError, ValueError):
        return None


def _fresh_short_folder() -> Path:
    from prover.protocol import SOCKET_NAME, SOCKET_PATH_LIMIT_BYTES  # noqa: PLC0415 - see read_record

    # /tmp first: a runtime directory is removed when its user's last session ends, and the daemon outlives that.
    for parent in ("/tmp", os.environ.get("XDG_RUNTIME_DIR", "")):  # noqa: S108 - mkdtemp makes a fresh 0700 folder
        if parent and len(os.fsencode(f"{parent}/prover-12345678/{SOCKET_NAME}")) <= SOCKET_PATH_LIMIT_BYTES:
            with contextlib.suppress(OSError):
                return Path(tempfile.mkdtemp(prefix="prover-", dir=parent))
    raise ProverError(
        "socket",
        "the home's path is too long for a socket, and neither /tmp nor $XDG_RUNTIME_DIR takes a short one",
        "give a shorter --remote-dir",
    )


def _remove_socket(path: Path) -> None:
    """Remove a socket of ours, with the folder that was made for it alone."""
    from prover.protocol import SOCKET_NAME  # noqa: PLC0415 - see read_record

    is_short = _SHORT_FOLDER.fullmatch(path.parent.name) is not None
    if path.name != SOCKET_NAME or not path.is_socket():
        return
    with contextlib.suppress(OSError):
        path.unlink()
        if is_short:
            path.parent.rmdir()

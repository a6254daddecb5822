"""Witnesses that clients put: secret files that live no longer than the jobs that need them."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import secrets
import stat
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Self

from prover.errors import CapacityError, InputError, ProverError
from prover.protocol import WitnessAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from prover.protocol import JobRequest, WitnessRef

logger = logging.getLogger(__name__)
UNCLAIMED_S = 900.0


class WitnessStore:
    """Files named by their digest in one folder of mode 0700.

    A file stays while an unfinished job needs it, and after each put until a job has claimed that put or 15 minutes
    have passed: two clients may put the same witness, and the end of one's job must not take it from the other.

    Args:
        folder: Exists. Whatever lies in it and is not needed is erased.
        limit_bytes: Size of the largest witness that any circuit takes.
        unfinished: Requests of earlier processes that are still to be served.
    """

    def __init__(self, folder: Path, limit_bytes: int, unfinished: Iterable[JobRequest] = ()) -> None:
        self._folder = folder
        self.limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._needed: Counter[str] = Counter()  # digest -> unfinished jobs
        self._unclaimed: dict[str, list[float]] = {}  # digest -> times of puts that no job has claimed
        for request in unfinished:
            self._needed.update(_digests(request))
        self.erase_unneeded()

    def erase_unneeded(self) -> None:
        """Erase every file that no unfinished job needs, as far as that is possible."""
        try:
            left = list(self._folder.iterdir())
        except OSError as error:
            logger.warning("the folder of witnesses cannot be read: %s", error)
            return
        for path in left:
            if not self._needed[path.name]:
                _erase(path)

    def receive(self, sha256: str) -> IncomingWitness:
        """Start to take a witness; use it as a context manager, write to it, then commit."""
        return IncomingWitness(self, self._folder / f".part-{secrets.token_hex(8)}", sha256)

    def keep(self, part: Path, sha256: str) -> None:
        """Make a received file a stored one."""
        with self._lock:
            try:
                part.replace(self._folder / sha256)
                _sync_folder(self._folder)
            except OSError as error:
                raise _not_stored(error) from None
            self._unclaimed.setdefault(sha256, []).append(time.monotonic())
            self._sweep()

    def claim(self, request: JobRequest) -> None:
        """Check that every witness of a request can be read, and hold those that were put.

        Raises:
            InputError: One is missing, not readable, or not a regular file.
        """
        for i, reference in enumerate(request.witnesses):
            _check_readable(i, self.path_of(reference))
        with self._lock:
            for sha256 in _digests(request):
                self._needed[sha256] += 1
                if puts := self._unclaimed.get(sha256):
                    puts.pop(0)

    def let_go(self, request: JobRequest) -> None:
        """A job ended: erase what nobody needs any more."""
        with self._lock:
            for sha256 in _digests(request):
                self._needed[sha256] -= 1
                if self._needed[sha256] == 0:
                    del self._needed[sha256]
                    self._unclaimed.setdefault(sha256, [])
            self._sweep()

    def path_of(self, reference: WitnessRef) -> Path:
        """Where a witness lies.

        Raises:
            InputError: A path that is not absolute: it would depend on where the daemon was started.
        """
        if reference.sha256 is not None:
            return self._folder / reference.sha256
        path = Path(reference.path or "")
        if not path.is_absolute():
            raise InputError(
                "witness-path", f"the witness path {reference.path!r} is not absolute", "give the whole path"
            )
        return path

    def _sweep(self) -> None:
        oldest = time.monotonic() - UNCLAIMED_S
        for sha256, puts in list(self._unclaimed.items()):
            puts[:] = [put for put in puts if put >= oldest]
            if not puts:
                del self._unclaimed[sha256]
                if sha256 not in self._needed:
                    _erase(self._folder / sha256)


class IncomingWitness:
    """A witness on its way into the store; leaving the ``with`` block without ``commit`` erases it.

    Args:
        store: Where it goes.
        part: The file that it is written to first.
        sha256: What its digest must be.
    """

    def __init__(self, store: WitnessStore, part: Path, sha256: str) -> None:
        self._store = store
        self._part = part
        self._sha256 = sha256
        self._digest = hashlib.sha256()
        self._n_bytes = 0
        try:
            self._fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _not_stored(error) from None

    def write(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            InputError: It is larger than any circuit's witness.
            CapacityError: The disk is full.
        """
        self._n_bytes += len(data)
        if self._n_bytes > self._store.limit_bytes:
            raise InputError(
                "witness-too-large",
                f"the witness is larger than {self._store.limit_bytes} bytes, what the largest circuit here takes",
                "check that it was made for a circuit of this daemon",
            )
        self._digest.update(data)
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise _not_stored(error) from None

    def commit(self) -> WitnessAnswer:
        """Keep it.

        Raises:
            InputError: Its digest is another than was announced.
        """
        found = self._digest.hexdigest()
        try:
            os.fsync(self._fd)  # a job that is accepted survives a power failure, and needs its witness then
        except OSError as error:
            raise _not_stored(error) from None
        if found != self._sha256:
            raise InputError(
                "witness-digest",
                f"the witness has the digest {found}, not {self._sha256} as announced",
                "it was changed on the way: put it again",
            )
        self._store.keep(self._part, self._sha256)
        return WitnessAnswer(sha256=self._sha256, n_bytes=self._n_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)
        _erase(self._part)


def _erase(path: Path) -> None:
    """Erase a file; that it cannot be erased is said, and stops no job and no daemon."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("a witness cannot be erased: %s", error)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _not_stored(error: OSError) -> ProverError:
    message = f"the witness cannot be stored: {error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return CapacityError("disk-full", message, "free some space")
    return ProverError("witness-store", message, "check its folder")


def _digests(request: JobRequest) -> set[str]:
    return {reference.sha256 for reference in request.witnesses if reference.sha256 is not None}


def _check_readable(index: int, path: Path) -> None:
    hint = "put it again, or give the path of a file on the daemon's host"
    try:
        mode = path.stat().st_mode
    except OSError as error:
        message = f"witness {index} cannot be read: {error.strerror}: {path}"
        raise InputError("witness-missing", message, hint) from None
    except ValueError:  # a NUL
        raise InputError("witness-path", f"witness {index}: no file can be called {str(path)!r}", hint) from None
    if not stat.S_ISREG(mode):
        raise InputError("witness-path", f"witness {index} is not a regular file: {path}", hint)
    if not os.access(path, os.R_OK):
        raise InputError("witness-path", f"witness {index} cannot be read by the daemon: {path}", hint)

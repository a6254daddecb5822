"""Folders beside an artifact that are of one process alone, and whose turn it is to build there.

A folder is held by a lock on itself, which ends with its process: what a killed one left is removed by the next.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cuzkops.artifact.layer_cache import cache_folder
from cuzkops.errors import OpsError, TimeoutExpired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_POLL_S = 0.2
_SAY_EVERY_S = 5.0


@contextlib.contextmanager
def writing(out: Path) -> Iterator[None]:
    """Say of a block that builds into a folder why it cannot write, such as a full disk.

    Raises:
        OpsError: A file cannot be written.
    """
    try:
        yield
    except OSError as error:
        message = f"{error.filename or out} cannot be written: {error.strerror or error}"
        raise OpsError("build-folder", message, "free some space, or name another folder with --out") from error


@contextlib.contextmanager
def turn(out: Path, progress: Callable[[str], None], deadline: float) -> Iterator[None]:
    """Wait until nobody else builds into a folder, and keep others away for a block.

    Args:
        out: The folder of the artifact.
        progress: Called with a sentence while somebody else builds.
        deadline: On the clock of ``time.monotonic``, in seconds.

    Raises:
        TimeoutExpired: Somebody else still builds at the deadline.
    """
    locks = cache_folder("builds")  # beside the artifact it would be in the way of those who look there
    locks.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(os.fsencode(out.resolve())).hexdigest()[:32]
    file = os.open(locks / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    said_s = -_SAY_EVERY_S
    try:
        while not _lock(file):
            holder = os.pread(file, 32, 0).decode(errors="replace").strip()
            sentence = f"another cuzkops (pid {holder}) builds into {out}"
            if time.monotonic() > deadline:
                raise TimeoutExpired("build-busy", f"{sentence}, and did not end in time", "name another --out")
            if time.monotonic() - said_s >= _SAY_EVERY_S:
                said_s = time.monotonic()
                progress(f"{sentence}: waiting for it")
            time.sleep(_POLL_S)
        os.truncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)


@contextlib.contextmanager
def workspace(out: Path) -> Iterator[Path]:
    """Make a folder of this process beside ``out`` for a block, and remove those that killed processes left.

    Raises:
        OpsError: It cannot be made.
    """
    prefix = f".{out.name}-cuzkops-"
    ours = re.compile(re.escape(prefix) + "[a-z0-9_]{8}")  # a folder of somebody else's must never be removed
    with contextlib.ExitStack() as kept:
        with writing(out):
            for left in out.parent.iterdir():
                if ours.fullmatch(left.name):
                    _remove_if_dead(left)
            raw = kept.enter_context(tempfile.TemporaryDirectory(dir=out.parent, prefix=prefix))
            handle = os.open(raw, os.O_RDONLY | os.O_CLOEXEC)
            kept.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield Path(raw)


def _remove_if_dead(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # its process removed it just now, or it is another user's
        return
    try:
        # A folder that was made just now may not be locked yet.
        if time.time() - os.fstat(handle).st_mtime > 1 and _lock(handle):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

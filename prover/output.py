"""Files that a command writes: whole, or not at all."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prover.errors import InputError, ProverError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO


def show(text: str) -> None:
    """Write a result to standard output, to its end.

    Raises:
        BrokenPipeError: Whoever read it has gone.
        ProverError: It cannot be written, such as on a full disk.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else the interpreter tries once more at exit, and complains
        message = f"the result cannot be written to standard output: {error.strerror}"
        raise ProverError("output", message, "free some space, or write it to another place") from None


def check_outputs(inputs: list[Path], outputs: list[Path]) -> list[Path]:
    """Find early what would fail after minutes of work.

    Args:
        inputs: Files that are read, and must not be written.
        outputs: Files that will be written.

    Returns:
        Where the outputs really go.

    Raises:
        InputError: Two outputs are one file, an output is an input, or it cannot be written there.
    """
    try:
        resolved, read = ([path.resolve() for path in paths] for paths in (outputs, inputs))
        for i, (path, target) in enumerate(zip(outputs, resolved, strict=True)):
            if target in resolved[:i]:
                raise InputError("output", f"two outputs cannot both go to {path}")
            if target in read:
                raise InputError("output", f"{path} is an input, and would be overwritten")
            if target.exists() and not target.is_file():
                raise InputError("output", f"{path} exists and is not a regular file")
            if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
                raise InputError("output", f"{path} cannot be written: {target.parent} is not a folder to write into")
    except (OSError, ValueError, RuntimeError) as error:  # a name that is too long, has a NUL, or is a loop of links
        raise InputError("output", f"the outputs cannot be written: {error}") from None
    return resolved


def write_documents(documents: list[tuple[Path, str]]) -> None:
    """Write every document beside its place first, then move all of them; on a failure none stays.

    Raises:
        InputError: One cannot be written.
    """
    parts = [(target, _beside(target), text) for target, text in documents]
    moved: list[Path] = []
    try:
        for _, part, text in parts:
            with part.open("x", encoding="ascii") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        with _interrupts_held():
            try:
                for target, part, _ in parts:
                    part.replace(target)
                    moved.append(target)
            except OSError:
                for target in moved:
                    target.unlink()
                raise
    except OSError as error:
        raise _unwritable(error, documents[0][0]) from None
    finally:
        for _, part, _ in parts:
            part.unlink(missing_ok=True)


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Give a file to write, which takes its place at the end of the block; on a failure nothing stays.

    Raises:
        InputError: It cannot be written.
    """
    part = _beside(target)
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as error:
        raise _unwritable(error, target) from None
    finally:
        part.unlink(missing_ok=True)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.part")


def _unwritable(error: OSError, target: Path) -> InputError:
    return InputError("output", f"{error.filename or target} cannot be written: {error.strerror}")


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait until the block is done: it is two renames long."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python raises KeyboardInterrupt in the main thread only
        return
    held: list[int] = []
    # Not a signal mask: a thread of numpy's would take the signal, and Python would still tell the main thread.
    before = {number: signal.signal(number, lambda n, _: held.append(n)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in held:
            signal.raise_signal(late)

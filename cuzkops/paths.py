"""Paths on this machine as people write them."""

from __future__ import annotations

from pathlib import Path

from cuzkops.errors import UsageError


def current_folder() -> Path:
    """The folder that this process is in.

    Raises:
        UsageError: It was removed.
    """
    try:
        return Path.cwd()
    except OSError as error:
        message = f"the current folder cannot be used: {error.strerror}; was it removed?"
        raise UsageError("no-folder", message, "cd to another one") from error


def expanded(path: str | Path, what: str) -> Path:
    """Replace ``~`` and ``~user`` at the start of a path.

    Args:
        path: As it was written.
        what: Where it stands, for the message.

    Raises:
        UsageError: There is no such user, or this one has no home folder; or no file can have that name.
    """
    if "\0" in str(path):
        raise UsageError("path", f"{what} is {str(path)!r}: no file can be called so", "write another one")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = Path(path).parts[0]
        message = f"{what} is {path}, and no home folder is known for {user}"
        raise UsageError("no-home", message, "write the whole path, or set HOME") from None

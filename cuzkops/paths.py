"""Paths on this machine as people write them."""

from __future__ import annotations

from pathlib import Path

from cuzkops.errors import UsageError


def expanded(path: str | Path, what: str) -> Path:
    """Replace ``~`` and ``~user`` at the start of a path.

    Args:
        path: As it was written.
        what: Where it stands, for the message.

    Raises:
        UsageError: There is no such user, or this one has no home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = Path(path).parts[0]
        message = f"{what} is {path}, and no home folder is known for {user}"
        raise UsageError("no-home", message, "write the whole path") from None

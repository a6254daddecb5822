"""``audit.jsonl`` on the host: one line a change, written there so that everybody who uses the host sees it."""

from __future__ import annotations

import getpass
import json
import os
import socket
import time
from typing import TYPE_CHECKING

from cuzkops.remote.host import Script
from cuzkops.remote.reserve import RESERVE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout

_APPEND = (
    RESERVE
    + """
umask 077
mkdir -p -- "$folder" || exit 1
printf '%s\\n' "$line" 2>/dev/null >>"$file" && exit
give_room
[ -z "$(tail -c 1 -- "$file")" ] || echo >>"$file"  # a part of the line had room
printf '%s\\n' "$line" | cat >>"$file"  # it says why it fails; the printf of dash does not
"""
)


def append(host: Host, layout: Layout, action: str, details: Mapping[str, object] | None = None) -> None:
    """Add one line: when, who, what. One write to a file opened for appending, so that lines never mix.

    Args:
        host: Where the change was made.
        layout: Whose log.
        action: A verb: ``"ship"``, ``"kill"``, ``"launch"``, ``"unlock"``.
        details: JSON-able facts.

    Raises:
        OpsError: It could not be written.
    """
    host.run(append_script(layout, entry(layout.name, action, details or {}))).check()


def entry(name: str, action: str, details: Mapping[str, object]) -> str:
    """Make the line, without a newline. Details cannot replace the common keys."""
    common = {"unix_ns": time.time_ns(), "user": local_user(), "host": socket.gethostname()}
    return json.dumps({**details, **common, "name": name, "action": action}, separators=(",", ":"))


def local_user() -> str:
    """Name of the user on this machine; a container may know no name for the number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


def append_script(layout: Layout, line: str) -> Script:
    """Append a line to the log."""
    parameters = {"folder": layout.remote_dir, "file": layout.audit, "reserve": layout.reserve, "line": line}
    return Script("write the audit log", _APPEND, parameters, changes=True)

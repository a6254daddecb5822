"""From a target to a host to work on, and from a folder's name to its paths there."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from cuzkops.errors import UsageError
from cuzkops.remote.host import Script
from cuzkops.remote.layout import Layout
from cuzkops.remote.login import AS_CONFIGURED, Access
from prover.protocol import DEFAULT_NAME, DEFAULT_REMOTE_DIR, NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuzkops.remote.host import Host
    from cuzkops.target import Target

_SHARED = {"layers", "circuits", "digests", "lock", "audit.jsonl"}
"""Names in the shared folder that no daemon can have."""

_HOME = 'printf "%s" "${HOME:-}"'


def open_host(
    target: Target,
    access: Access = AS_CONFIGURED,
    *,
    on_host_key: Callable[[str], None] | None = None,
    connect_timeout_s: float = 10,
) -> Host:
    """Connect to a target; ``local`` needs no connection.

    Args:
        target: Where to work.
        access: What the command line says about logging in.
        on_host_key: Gets one sentence when the key of an unknown host was stored, with its fingerprint.
        connect_timeout_s: For the connection and each step of the login.

    Raises:
        UnreachableError: The host cannot be reached, its key is not trusted, or the login failed.
        UsageError: ``local`` on a machine that is not Linux, or an ssh_config that cannot be read.
    """
    if target.is_local:
        from cuzkops.remote.local import LocalHost  # noqa: PLC0415 - only what is used is loaded

        return LocalHost()
    from cuzkops.remote.connection import SshHost  # noqa: PLC0415 - paramiko takes long to load

    return SshHost(target, access, on_host_key=on_host_key, connect_timeout_s=connect_timeout_s)


def resolve_layout(host: Host, remote_dir: str = DEFAULT_REMOTE_DIR, name: str = DEFAULT_NAME) -> Layout:
    """Find the absolute paths of a daemon; ``~`` and relative folders start at the home folder on the host.

    Raises:
        UsageError: The folder or the name is one that cannot be used.
    """
    if not re.fullmatch(NAME_PATTERN, name):
        raise UsageError(
            "name", f"{name!r} is not a name for a daemon", "use letters, digits, dot, dash and underscore"
        )
    if name in _SHARED:
        raise UsageError("name", f"a daemon cannot be called {name}: that name is taken in the folder on the host")
    path = remote_dir
    if not path or not path.isprintable() or (path.startswith("~") and path[1:2] not in ("", "/")):
        raise UsageError("remote-dir", f"{remote_dir!r} is not a folder to use", "write an absolute path or ~/folder")
    if not path.startswith("/"):
        home = host.run(Script("find the home folder", _HOME)).check().out
        if not home.startswith("/"):
            raise UsageError("remote-dir", f"{host.target} names no home folder", "give an absolute --remote-dir")
        path = posixpath.join(home, path.removeprefix("~").removeprefix("/"))
    path = posixpath.normpath(path)
    if path.strip("/") == "":
        raise UsageError("remote-dir", f"{remote_dir!r} is the root folder of the host", "choose a folder of its own")
    return Layout("/" + path.lstrip("/"), name)

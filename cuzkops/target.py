"""Targets: ``local``, ``[user@]host[:port]``, ``[user@][v6][:port]``, ``ssh://...``, or an alias of ssh_config."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from cuzkops.errors import UsageError

_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


@dataclass(frozen=True)
class Target:
    """Where to work. ``str()`` gives the form that is printed, stored and accepted again.

    Args:
        host: Host name, address without brackets, or ssh_config alias; ``"local"`` means this machine.
        user: Login name, or None for what ssh_config or the local user name says.
        port: TCP port, or None for what ssh_config or 22 says.
    """

    host: str
    user: str | None = None
    port: int | None = None

    @property
    def is_local(self) -> bool:
        """Whether this is the machine that the tool runs on, reached without SSH."""
        return self.host == "local" and self.user is None and self.port is None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{f'{self.user}@' if self.user else ''}{host}{f':{self.port}' if self.port else ''}"


def parse_target(text: str) -> Target:
    """Read a target.

    Raises:
        UsageError: The text is not a target; the sentence says which part is wrong.
    """
    rest = text.removeprefix("ssh://").rstrip("/") if text.startswith("ssh://") else text
    user, at, rest = rest.rpartition("@")
    if at and not _USER.match(user):
        raise _bad(text, f"{user!r} is not a user name")
    host, port = _split_port(text, rest)
    if ":" in host:
        _check_v6(text, host)
    elif not _HOST.match(host):
        raise _bad(text, f"{host!r} is not a host name" if host else "the host is missing")
    return Target(host, user if at else None, port)


def _split_port(text: str, rest: str) -> tuple[str, int | None]:
    if rest.startswith("["):
        host, bracket, port = rest[1:].partition("]")
        if not bracket:
            raise _bad(text, "the bracket is not closed")
        if port and not port.startswith(":"):
            raise _bad(text, f"{port!r} follows the bracket where :PORT should")
        return host, _port(text, port[1:]) if port else None
    if rest.count(":") > 1:  # a bare IPv6 address has no port
        return rest, None
    host, colon, port = rest.partition(":")
    return host, _port(text, port) if colon else None


def _check_v6(text: str, host: str) -> None:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        raise _bad(text, f"{host!r} is not an IPv6 address") from None


def _port(text: str, port: str) -> int:
    if not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536):
        raise _bad(text, f"{port!r} is not a port from 1 to 65535")
    return int(port)


def _bad(text: str, what: str) -> UsageError:
    return UsageError("target", f"{text!r} is not a target: {what}", "write local, [user@]host[:port] or [v6]:port")

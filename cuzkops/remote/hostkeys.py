"""known_hosts: which key a host showed before, and what to do with the one that it shows now.

Written here because the SSH library loads no known_hosts by itself, gives up on a garbled line, does not understand
markers and cannot say in which line of which file a key stands. Format: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import os
import shlex
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from cuzkops.errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator

SYSTEM_FILE = Path("/etc/ssh/ssh_known_hosts")
DEFAULT_PORT = 22


class Policy(StrEnum):
    """What happens to a host that was never seen. A changed key is refused always."""

    ACCEPT_NEW = "accept-new"
    STRICT = "strict"


@dataclass(frozen=True)
class KeyLine:
    """One usable line of a known_hosts file.

    Args:
        file: Where it stands.
        line_number: Counted from 1.
        marker: ``"@revoked"`` or an empty string.
        hosts: The first field: patterns, or one hash.
        key_type: Such as ``"ssh-ed25519"``.
        key: The public key's bytes.
    """

    file: Path
    line_number: int
    marker: str
    hosts: str
    key_type: str
    key: bytes

    def names(self, host: str) -> bool:
        """Whether this line is about ``host``, spelled as in ``host_name``."""
        if self.hosts.startswith("|1|"):
            return _hash_matches(self.hosts, host)
        patterns = self.hosts.split(",")
        if any(p.startswith("!") and _matches(p[1:], host) for p in patterns):
            return False
        return any(_matches(p, host) for p in patterns)


def host_name(host: str, port: int) -> str:
    """Spell a host as known_hosts does: ``[host]:port`` unless the port is 22."""
    return host.lower() if port == DEFAULT_PORT else f"[{host.lower()}]:{port}"


def fingerprint(key: bytes) -> str:
    """SHA256 fingerprint of a public key, as ``ssh-keygen -l`` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


class KnownHosts:
    """The known_hosts files of one user.

    Args:
        files: Read in this order; new keys go to the first.
        policy: For a host that none of them names.
    """

    def __init__(self, files: list[Path], policy: Policy) -> None:
        self._files = files
        self._policy = policy
        self._lines: list[KeyLine] = []
        self._unreadable: list[str] = []
        for file in files:
            try:
                self._lines += read_lines(file)
            except OSError as error:  # it matters where the key is in no other file
                self._unreadable.append(f"{file}: {error.strerror}")

    def key_types(self, host: str, port: int) -> list[str]:
        """Types of the keys known for a host: these are asked for first."""
        lines = self._about(host_name(host, port)) or self._about(host.lower())
        return [line.key_type for line in lines if not line.marker]

    def check(self, host: str, port: int, key_type: str, key: bytes) -> str:
        """Decide about the key that a host shows.

        Returns:
            An empty string for a known key, else the sentence that it was stored.

        Raises:
            UnreachableError: It changed, is revoked, or is unknown and the policy is strict, or unknown where a file
                cannot be read: a key that has changed must not pass for a new one.
        """
        name = host_name(host, port)
        about = self._about(name)
        shown = f"{key_type} {fingerprint(key)}"
        for line in about:
            if line.marker and line.key == key:
                raise _refused("host-key-revoked", f"the key {shown} of {name} is revoked by {_at(line)}", line, name)
        known = [line for line in about if not line.marker]
        if any(line.key == key for line in known):
            return ""
        if known:
            line = next((line for line in known if line.key_type == key_type), known[0])
            stored = f"{_at(line)} has {line.key_type} {fingerprint(line.key)}"
            raise _refused(
                "host-key-changed", f"the key of {name} changed: {stored}, the host shows {shown}", line, name
            )
        if port != DEFAULT_PORT and any(line.key == key and not line.marker for line in self._about(host.lower())):
            return ""
        if self._policy is Policy.STRICT:
            files = ", ".join(map(str, self._files))
            scan = f"ssh-keyscan -p {port} {shlex.quote(host)} >> {shlex.quote(str(self._files[0]))}"
            raise UnreachableError(
                "host-key-unknown",
                f"{name} is in none of {files}, and it shows {shown}",
                f"compare the fingerprint, then accept it: {scan}",
            )
        if self._unreadable:
            message = f"whether the key {shown} of {name} is new cannot be known: {'; '.join(self._unreadable)}"
            raise UnreachableError(
                "known-hosts", message, "make the file readable, or name another in CUZKOPS_KNOWN_HOSTS"
            )
        return self._store(name, key_type, key, shown)

    def _about(self, name: str) -> list[KeyLine]:
        return [line for line in self._lines if line.names(name)]

    def _store(self, name: str, key_type: str, key: bytes, shown: str) -> str:
        file = self._files[0]
        try:
            append_line(file, f"{name} {key_type} {base64.b64encode(key).decode()}")
        except OSError as error:
            return f"new host {name} with the key {shown} (not stored: {file}: {error.strerror})"
        return f"new host {name}: stored its key {shown} in {file}"


def read_lines(file: Path) -> Iterator[KeyLine]:
    """Yield the usable lines; comments, garbled lines and authorities, which sign no plain keys, are passed over.

    Raises:
        OSError: The file is there and cannot be read.
    """
    try:
        text = file.read_bytes().decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError):  # no key was stored yet
        return
    for number, raw in enumerate(text.split("\n"), 1):
        fields = raw.split()
        marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
        if len(fields) < 3 or fields[0].startswith("#") or marker not in ("", "@revoked"):
            continue
        try:
            key = base64.b64decode(fields[2], validate=True)
        except (binascii.Error, ValueError):
            continue
        yield KeyLine(file, number, marker, fields[0], fields[1], key)


def append_line(file: Path, line: str) -> None:
    """Add one line in one write; the folder and the file are made for their owner alone."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        unfinished = size and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, f"{chr(10) if unfinished else ''}{line}\n".encode())
    finally:
        os.close(descriptor)


def _hash_matches(field: str, name: str) -> bool:
    _, _, salt, digest = field.split("|", 3) if field.count("|") == 3 else ("", "", "", "")
    try:
        expected = base64.b64decode(digest, validate=True)
        got = hmac.new(base64.b64decode(salt, validate=True), name.encode(), "sha1").digest()
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(expected, got)


def _matches(pattern: str, name: str) -> bool:
    """Match with ``*`` and ``?`` only: the bracket of ``[host]:port`` is a plain character here."""
    return fnmatch.fnmatchcase(name, pattern.lower().replace("[", "[[]"))


def _at(line: KeyLine) -> str:
    return f"{line.file} line {line.line_number}"


def _refused(code: str, message: str, line: KeyLine, name: str) -> UnreachableError:
    forget = shlex.join(["ssh-keygen", "-f", str(line.file), "-R", name])
    hint = f"if you expected that (a rented machine set up anew), forget it: {forget}"
    if code == "host-key-revoked":
        hint = "do not connect; ask who revoked it"
    return UnreachableError(code, message, hint, {"file": str(line.file), "line": line.line_number, "host": name})

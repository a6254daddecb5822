"""What a host can do, whether it is reached over SSH or is this machine.

Everything that happens on a host is a POSIX sh script on the standard input of ``/bin/sh -s``: the login shell, which
may be fish or tcsh, never reads more than those words. Scripts are made by pure functions (``script.py`` and the
steps), so that ``--dry-run`` prints exactly what a run executes.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from cuzkops.errors import OpsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cuzkops.target import Target

FULL = ("No space left on device", "Disk quota exceeded")
"""What programs say where nothing more can be written."""
_FULL_HINT = "`cuzkops doctor` says how much is free; remove something there by hand, then run `cuzkops clean`"


@dataclass(frozen=True)
class Script:
    """A POSIX sh script with its parameters.

    Args:
        title: What it does, for people: ``"unpack layer runtime"``.
        body: The script. It reads its parameters as shell variables and never contains pasted values.
        parameters: Variable name -> value; quoted by ``text``.
        changes: Whether it changes anything on the host.
    """

    title: str
    body: str
    parameters: dict[str, str] = field(default_factory=dict)
    changes: bool = False

    @property
    def text(self) -> str:
        """The whole script as it is sent."""
        lines = [f"{name}={shlex.quote(value)}" for name, value in self.parameters.items()]
        return "\n".join([*lines, self.body.strip("\n"), ""])


@dataclass(frozen=True)
class Completed:
    """A script that ended: its status and what it printed, as bytes."""

    script: Script
    status: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        """Standard output as text; bytes that are not UTF-8 are shown as replacement characters."""
        return self.stdout.decode(errors="replace")

    def check(self) -> Completed:
        """Return itself, or raise OpsError with the script's title, status and last lines."""
        if self.status == 0:
            return self
        tail = (self.stderr or self.stdout).decode(errors="replace").strip().splitlines()[-10:]
        message = f"{self.script.title} ended with status {self.status}" + (f": {tail[-1]}" if tail else "")
        details: dict[str, object] = {"command": self.script.text, "status": self.status, "last_lines": tail}
        if full := next((line for line in tail if line.endswith(FULL)), ""):
            raise OpsError("disk-full", f"{self.script.title} failed, the disk is full: {full}", _FULL_HINT, details)
        raise OpsError("remote-command", message, details=details)


class Host(Protocol):
    """A host that scripts can run on and files can be moved to. Close it when done; it is a context manager."""

    target: Target

    def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
        """Run a script to its end; the host ends it too when the time is over.

        Raises:
            UnreachableError: The host cannot be reached, or its key is not trusted.
            TimeoutExpired: ``timeout_s`` passed.
        """

    def stream(self, script: Script, *, idle_timeout_s: float = 60) -> Iterator[bytes]:
        """Run a script and yield its lines as they come, without their newline.

        Closing the iterator ends the script on the host. A script that ends with a status other than 0 raises
        OpsError after its last line.

        Raises:
            TimeoutExpired: No line came for ``idle_timeout_s``.
        """

    def put(
        self, source: Path, destination: str, *, mode: int, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Copy a local file to an absolute path on the host: temporary name, size check, rename.

        Args:
            source: The local file.
            destination: Absolute path on the host; its folder exists.
            mode: Permission bits of the new file.
            progress: Called with (bytes done, bytes in all).

        Raises:
            OpsError: The disk is full or the folder not writable; the temporary file is gone again.
        """

    def resume(self, source: Path, part: str, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Copy a local file behind what an earlier, cut copy left; what arrives stays where this one is cut, too.

        Args:
            source: The local file.
            part: Absolute path on the host, of nobody else; its folder exists. Whoever made it checks its digest.
            progress: Called with (bytes there, bytes in all).

        Returns:
            How many bytes travelled.

        Raises:
            OpsError: The folder is not writable, or the disk is full: then what had arrived is gone.
        """

    def get(
        self, source: str, destination: Path, *, offset: int = 0, progress: Callable[[int], None] | None = None
    ) -> int:
        """Append bytes of a remote file from ``offset`` on to a local one; returns how many.

        ``progress`` is called with how many have come so far.
        """

    def close(self) -> None:
        """End the connection; processes that were started detached live on."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

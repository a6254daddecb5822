"""Bytes into lines, as they come."""

from __future__ import annotations

LONGEST_BYTES = 1 << 20
"""A longer line is cut here: a stream without newlines must not fill the memory."""


class LineSplitter:
    """Collects bytes and gives whole lines without their newline."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that ``data`` completed."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        while len(self._rest) > LONGEST_BYTES:
            lines.append(self._rest[:LONGEST_BYTES])
            self._rest = self._rest[LONGEST_BYTES:]
        return lines

    def rest(self) -> list[bytes]:
        """Return the last line when no newline ended it."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []

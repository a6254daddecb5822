"""Streams of text blocks: what the endless scripts print, one block a look at the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

    from cuzkops.remote.host import Host, Script

_IDLE_S = 30  # these scripts speak once a second or more often


def read_blocks(host: Host, script: Script, end: str) -> Generator[str, None, None]:
    """Run a script and yield its output in blocks; closing the generator ends the script on the host.

    Args:
        host: Where.
        script: It prints the line ``end`` after each block.
        end: Closes a block and is not part of it.

    Raises:
        TimeoutExpired: The host said nothing for half a minute.
    """
    lines = host.stream(script, idle_timeout_s=_IDLE_S)
    try:
        block: list[str] = []
        for raw in lines:
            line = raw.decode(errors="replace")
            if line == end:
                yield "\n".join(block)
                block = []
            else:
                block.append(line)
    finally:
        close = getattr(lines, "close", None)
        if close:
            close()

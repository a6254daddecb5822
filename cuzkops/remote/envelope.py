"""What surrounds a script on its way to ``/bin/sh -s``.

A marker line on both output streams says where the script's own output begins: what ``.bashrc`` or a banner printed
before is cut off, and a login shell that never started ``/bin/sh`` is noticed. A guard reads the end of the standard
input: it comes when the client wants to stop, and also when the client or the connection dies. Then the guard ends the
script's whole process group, so that nothing is left running that nobody waits for. Detached processes have a session
of their own and live on.
"""

from __future__ import annotations

_GUARDED = """{{
exec 3<&0 </dev/null
printf '%s\\n' {marker}
printf '%s\\n' {marker} >&2
(
read -r cuzkops_rest <&3
trap '' HUP INT TERM
read -r cuzkops_stat </proc/$$/stat
set -- ${{cuzkops_stat##*) }}
kill -TERM -"$3"
sleep 2
kill -KILL -"$3"
) >/dev/null 2>&1 &
cuzkops_guard=$!
exec 3<&-
(
{script}
)
cuzkops_status=$?
exec 2>/dev/null
kill "$cuzkops_guard"
exit "$cuzkops_status"
}}
"""

_FED = """{{
printf '%s\\n' {marker}
printf '%s\\n' {marker} >&2
(
{script}
)
exit "$?"
}}
"""


def guarded(script_text: str, marker: str) -> bytes:
    """Wrap a script that reads nothing: its standard input is /dev/null.

    Args:
        script_text: The script with its parameters.
        marker: A word of letters and digits that nobody else prints.
    """
    return _GUARDED.format(marker=marker, script=script_text).encode()


def fed(script_text: str, marker: str) -> bytes:
    """Wrap a script that reads data from its standard input after it has printed something.

    The data may be sent only then: a shell reads its script in blocks and would swallow what follows. Such a script
    sees the end of its input when the client dies, and has to check whether it got everything.
    """
    return _FED.format(marker=marker, script=script_text).encode()


class AfterMarker:
    """Cuts off what a stream carried before the marker line."""

    def __init__(self, marker: str) -> None:
        self._line = marker.encode() + b"\n"
        self.before: bytes | None = b""
        """What came so far, until the marker does; then None."""

    def feed(self, data: bytes) -> bytes:
        """Return what belongs to the script."""
        if self.before is None:
            return data
        self.before += data
        _, found, rest = self.before.partition(self._line)
        if not found:
            return b""
        self.before = None
        return rest

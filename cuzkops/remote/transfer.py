"""Moving files through a shell: the scripts of an upload and a download, and the sentence when one fails.

Plain ``cat`` on purpose: it needs no SFTP subsystem, the host's own words tell why a write failed, and when the client
dies the script itself removes the unfinished file, or leaves what a resumed upload goes on with.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, BinaryIO

from cuzkops.errors import OpsError
from cuzkops.remote.host import Script
from cuzkops.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cuzkops.target import Target

READY = b"ready "
"""What an upload prints when it has checked everything that it can before the data comes; then where it begins."""

_PUT = """
export LC_ALL=C
folder=${destination%/*}/
part=$destination.part-$part
remove_part() { trap '' HUP INT PIPE TERM; rm -f -- "$part"; } # the signal for the group must not end rm itself
trap remove_part EXIT
trap 'remove_part; exit 1' HUP INT PIPE TERM
if [ -d "$destination" ]; then echo 'it is a folder' >&2; exit 1; fi
if [ ! -d "$folder" ]; then echo "there is no folder $folder" >&2; exit 1; fi
have_kib() { df -Pk "$folder" 2>/dev/null | { read -r _; read -r _ _ _ kib _; echo "${kib:-}"; }; }
umask 077
if ! (: >"$part") 2>/dev/null; then
    echo "the folder $folder takes no new file: no permission or read-only" >&2
    exit 1
fi
kib=$(have_kib)
case $kib in
'' | *[!0-9]*) ;;
*) if [ "$kib" -lt "$(((n_bytes + 1023) / 1024))" ]; then echo "disk full, have KiB: $kib" >&2; exit 1; fi ;;
esac
echo 'ready 0'
cat >"$part" || { : >"$part"; echo "have KiB: $(have_kib)" >&2; exit 1; }
size=$(wc -c <"$part")
if [ "$size" -ne "$n_bytes" ]; then echo "$((size)) of $n_bytes bytes arrived" >&2; exit 1; fi
chmod "$mode" "$part" || exit 1
sync "$part" 2>/dev/null || :
mv -f -- "$part" "$destination"
"""

# What arrived stays where the connection is cut, and is gone where the disk is full. Written from a position, and not
# appended: what a client that was killed had sent may still arrive beside us, and then falls on its own place.
_RESUME = """
export LC_ALL=C
regular() { [ ! -L "$part" ] && [ -f "$part" ] && [ -r "$part" ] && [ -w "$part" ]; }
if [ -d "$part" ] && [ ! -L "$part" ]; then echo 'it is a folder' >&2; exit 1; fi
# A pipe would be waited for, a link followed. What is not there may be made by another upload at any time.
if [ -e "$part" ] || [ -L "$part" ]; then regular || rm -f -- "$part"; fi
have_kib() { df -Pk "${part%/*}/" 2>/dev/null | { read -r _; read -r _ _ _ kib _; echo "${kib:-}"; }; }
umask 077
if ! (: >>"$part") 2>/dev/null; then
    echo "the folder ${part%/*} takes no new file: no permission or read-only" >&2
    exit 1
fi
have=$(wc -c <"$part") || exit 1
skip() { [ "$have" -eq 0 ] || dd bs=1 seek="$((have))" count=0 conv=notrunc 2>/dev/null; }
if [ "$have" -gt "$n_bytes" ] || ! skip 1<>"$part"; then : >"$part"; have=0; fi # too long, or no dd here
kib=$(have_kib)
case $kib in
'' | *[!0-9]*) ;;
*) if [ "$kib" -lt "$(((n_bytes - have + 1023) / 1024))" ]; then echo "disk full, have KiB: $kib" >&2; exit 1; fi ;;
esac
echo "ready $((have))"
if ! { skip && cat; } 1<>"$part"; then rm -f -- "$part"; echo "have KiB: $(have_kib)" >&2; exit 1; fi
size=$(wc -c <"$part") || exit 1
if [ "$size" -ne "$n_bytes" ]; then echo "$((size)) of $n_bytes bytes arrived" >&2; exit 1; fi
sync "$part" 2>/dev/null || :
"""

_GET = """
export LC_ALL=C
if [ -d "$source" ]; then echo 'it is a folder' >&2; exit 1; fi
tail -c "+$((offset + 1))" -- "$source"
"""


def put_script(destination: str, *, n_bytes: int, mode: int, part: str) -> Script:
    """Receive ``n_bytes`` on standard input into ``destination``, atomically.

    Raises:
        ValueError: The destination is not an absolute path of a file.
    """
    if not destination.startswith("/") or destination.endswith("/"):
        raise ValueError(f"{destination!r} is not an absolute path of a file")
    parameters = {"destination": destination, "n_bytes": str(n_bytes), "mode": f"{mode:o}", "part": part}
    return Script(f"upload {destination}", _PUT, parameters, changes=True)


def resume_script(part: str, *, n_bytes: int) -> Script:
    """Receive the rest of ``n_bytes`` on standard input behind what ``part`` holds, which may not exist yet.

    The digest of the whole is for the caller to check: what was there may be of another file, or damaged.
    """
    return Script(f"upload {part}", _RESUME, {"part": part, "n_bytes": str(n_bytes)}, changes=True)


def begins_at(out: bytes) -> int | None:
    """The offset that an upload asked for, or None where it did not ask for data."""
    return int(out.split()[1]) if out.startswith(READY) else None


def get_script(source: str, offset: int) -> Script:
    """Print ``source`` from a byte offset on."""
    return Script(f"download {source}", _GET, {"source": source, "offset": str(offset)})


def put_failed(source: Path, destination: str, target: Target, n_bytes: int, stderr: bytes) -> OpsError:
    """Say why an upload failed, from what the script printed."""
    text = stderr.decode(errors="replace").strip()
    details: dict[str, object] = {"source": str(source), "destination": destination, "said": text}
    where = f"{destination} on {target}"
    if "No space left" in text or "disk full" in text or "quota exceeded" in text:
        kib = text.rpartition("have KiB: ")[2].split("\n")[0].strip()
        details["needed_bytes"] = n_bytes
        have = ""
        if kib.isascii() and kib.isdigit():
            details["free_bytes"] = free_bytes = int(kib) * 1024
            have = f", and {format_bytes(free_bytes)} are free"
        message = f"disk full: {where} needs {format_bytes(n_bytes)}{have}"
        return OpsError("disk-full", message, "make room there or choose another --remote-dir", details)
    reason = text.splitlines()[-1] if text else "the host gave no reason"
    return OpsError("upload-failed", f"{source.name} could not be written to {where}: {reason}", "", details)


def get_failed(source: str, target: Target, stderr: bytes) -> OpsError:
    """Say why a download failed: ``tail`` says it first, and that of busybox adds that it read no file."""
    text = stderr.decode(errors="replace").strip()
    reason = text.splitlines()[0] if text else "the host gave no reason"
    return OpsError("download-failed", f"{source} could not be read from {target}: {reason}", details={"said": text})


@contextlib.contextmanager
def reading(source: Path) -> Iterator[tuple[BinaryIO, int, Callable[[int], bytes]]]:
    """Open a local file to send it; yields it, its size in bytes and the function that reads the next ones.

    Raises:
        OpsError: It is not a file, or cannot be opened or read.
    """

    def failed(error: OSError) -> OpsError:
        return OpsError("no-such-file", f"{source} cannot be read: {error.strerror or error}")

    def read(n_bytes: int) -> bytes:
        try:
            return file.read(n_bytes)
        except OSError as error:
            raise failed(error) from error

    try:
        if not source.is_file():
            raise OpsError("no-such-file", f"{source} is not a file on this machine")
        file = source.open("rb")
    except OSError as error:
        raise failed(error) from error
    with file:
        yield file, os.fstat(file.fileno()).st_size, read


@contextlib.contextmanager
def appending(destination: Path) -> Iterator[BinaryIO]:
    """Open a local file to append to; whatever goes wrong with it becomes one sentence."""
    try:
        with destination.open("ab") as file:
            yield file
    except OSError as error:
        if isinstance(error, TimeoutError):
            raise
        raise OpsError("download-failed", f"{destination} cannot be written: {error.strerror}") from error

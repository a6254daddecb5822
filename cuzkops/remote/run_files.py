"""The records in a daemon's ``run`` folder, ``daemon.json`` and ``kill.json``, read and written from here."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from cuzkops.errors import UnreadableError
from cuzkops.records import first_problem
from cuzkops.remote.host import Script

if TYPE_CHECKING:
    from cuzkops.remote.host import Host

R = TypeVar("R", bound=BaseModel)

_READ = """
[ -e "$FILE" ] || exit 0
cat "$FILE"
"""

# The rename makes the file appear whole: a reader never sees half of it, and neither does one after a crash.
# cat says why a write fails; the printf of dash calls everything an I/O error.
_WRITE = """
umask 077
mkdir -p "${FILE%/*}" || exit 1
trial="$FILE.tmp-$$"
{
    printf '%s\\n' "$TEXT" 2>/dev/null >"$trial" || printf '%s\\n' "$TEXT" | cat >"$trial"
} && mv -f "$trial" "$FILE" || { rm -f "$trial"; exit 1; }
"""


def write_script(path: str, text: str) -> Script:
    """Build the script that replaces a small file atomically and makes its folder where it is missing."""
    return Script(f"write {path}", _WRITE, {"FILE": path, "TEXT": text}, changes=True)


def read_record(host: Host, path: str, record: type[R]) -> R | None:
    """Read a record from the host; None where the file does not exist or is empty.

    Raises:
        UnreadableError: It is not such a record.
    """
    return parse_record(host, path, host.run(Script(f"read {path}", _READ, {"FILE": path})).check().stdout, record)


def parse_record(host: Host, path: str, text: bytes, record: type[R]) -> R | None:
    """Read a record from the bytes of its file; None where there are none. Arguments and errors as ``read_record``."""
    if not text.strip():
        return None
    try:
        return record.model_validate_json(text)
    except ValidationError as error:
        raise UnreadableError(
            "run-file",
            f"{path} on {host.target} is not a {record.__name__}: {first_problem(error)}",
            "another version of the tool may have written it; move the file away if nothing of it runs any more",
        ) from error


def write_record(host: Host, path: str, record: BaseModel) -> None:
    """Replace a record on the host atomically.

    Raises:
        OpsError: The folder cannot be written.
    """
    host.run(write_script(path, record.model_dump_json(by_alias=True))).check()

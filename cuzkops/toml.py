"""Read TOML files, and write TOML, which the standard library does not.

What is written is deterministic, so that the same tables have the same digest.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

from cuzkops.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_FILE_LIMIT_BYTES = 1 << 20
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}


def read_toml(path: Path, code: str) -> dict[str, Any]:
    """Read a file of ours.

    Args:
        path: The file.
        code: Of the error, for programs: what kind of file it is.

    Raises:
        UsageError: It cannot be read or is not TOML.
    """
    import tomllib  # noqa: PLC0415 - most commands find no file

    try:
        with path.open("rb") as file:
            data = file.read(_FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise UsageError(code, f"{path} cannot be read: {error.strerror}") from error
    if len(data) > _FILE_LIMIT_BYTES:  # such as /dev/zero
        raise UsageError(code, f"{path} has more than {_FILE_LIMIT_BYTES} bytes: it is no configuration")
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets thousands deep
        raise UsageError(code, f"{path} is not TOML: {error}") from error


def dump_toml(document: Mapping[str, Any]) -> str:
    """Write what ``tomllib.loads`` gave, in the same order of keys; comments are lost.

    Args:
        document: Tables of the types that tomllib makes.

    Raises:
        TypeError: A value that TOML does not have.
    """
    return "\n".join(_table(document, ())).strip("\n") + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    nested = {key: value for key, value in table.items() if _is_table(value) or _is_array_of_tables(value)}
    for key, value in table.items():
        if key not in nested:  # first: after a [header] they would belong to that table
            yield f"{_key(key)} = {_value(value)}"
    for key, value in nested.items():
        name = ".".join(_key(part) for part in (*path, key))
        for item in value if isinstance(value, list) else [value]:
            yield ""
            yield f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
            yield from _table(item, (*path, key))


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _is_array_of_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _key(key: str) -> str:
    return key if _BARE_KEY.match(key) else _string(key)


def _value(value: object) -> str:
    match value:
        case bool():
            text = "true" if value else "false"
        case str():
            text = _string(value)
        case int():
            text = str(value)
        case float():
            text = repr(value) if math.isfinite(value) else str(value)
        case datetime() | date() | time():
            text = value.isoformat()
        case list():
            text = f"[{', '.join(_value(item) for item in value)}]"
        case dict():
            text = f"{{{', '.join(f'{_key(key)} = {_value(item)}' for key, item in value.items())}}}"
        case _:
            raise TypeError(f"TOML has no {type(value).__name__}")
    return text


def _string(text: str) -> str:
    escaped = "".join(
        _ESCAPES.get(char) or (f"\\u{ord(char):04x}" if ord(char) < 32 or ord(char) == 127 else char) for char in text
    )
    return f'"{escaped}"'

"""Which glibc a folder of binaries needs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC = b"\x7fELF"
# Version names lie in the dynamic string table, each ended by a zero byte. (Structure of the tables: the "Symbol
# Versioning" chapter of the Linux Standard Base, Core specification.)
_VERSION = re.compile(rb"GLIBC_(\d+)\.(\d+)(?:\.\d+)?\0")
# Not a number, but it came with glibc 2.36: relative relocations in DT_RELR.
_RELR = b"GLIBC_ABI_DT_RELR\0"
_RELR_SINCE = (2, 36)


def glibc_of(path: Path) -> tuple[int, int] | None:
    """The highest glibc version that one file asks for, or None if it is no ELF file or asks for none."""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return None
        content = file.read()
    found = {(int(major), int(minor)) for major, minor in _VERSION.findall(content)}
    if _RELR in content:
        found.add(_RELR_SINCE)
    return max(found, default=None)


def glibc_version(text: str) -> tuple[int, ...]:
    """A version as it is written, ``"2.36"``, in a form that can be compared."""
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def glibc_floor(folder: Path) -> tuple[int, int] | None:
    """The highest glibc version that any file below ``folder`` asks for, or None if none asks."""
    found = (glibc_of(path) for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return max((version for version in found if version), default=None)

"""The list of what a layer's archive holds, as the host makes it of the unpacked layer (``remote/verification.py``)."""

from __future__ import annotations

import hashlib
import re
import tarfile
from typing import TYPE_CHECKING

from cuzkops.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

# What `ls -F` of every host shows as it is: no mark at its end, nothing to escape.
_NAME = re.compile(r"[ -\[\]-~]*(?=[ -~])[^*/=>@|%:\\]")


def why_no_name(name: str) -> str:
    """Why a relative path is none that a layer may hold; empty where it is one.

    Args:
        name: Parts joined by ``/``.
    """
    parts = name.split("/")
    if name.startswith("/"):
        return "it is an absolute path"
    if ".." in parts:
        return "it leads out of the release"
    if "" in parts or "." in parts:
        return "it is not a plain relative path"
    if not all(_NAME.fullmatch(part) for part in parts):
        return "it holds a character that not every host lists as it is"
    return ""


def list_archive(archive: Path) -> bytes:
    """List a layer: ``SHA256  PATH`` a file, ``x PATH`` besides if it is executable, ``d PATH`` a folder; sorted.

    Raises:
        UsageError: It is no archive, or it holds something that may not be unpacked: an absolute path, one that
            leads out of the release, a link, a device, a name twice. All are named at once.
    """
    lines: set[str] = set()
    seen: set[str] = set()
    problems: list[str] = []
    try:
        with tarfile.open(archive) as opened:
            for member in opened:
                if problem := _problem(member, seen):
                    problems.append(f"{member.name!r}: {problem}")
                    continue
                seen.add(member.name)
                lines |= _lines(opened, member)
    except (OSError, tarfile.TarError, EOFError) as error:
        raise UsageError("damaged-artifact", f"{archive} cannot be read: {error}", "build it again") from error
    if problems:
        raise UsageError(
            "layer-member",
            f"{archive.name} holds what may not be unpacked: {'; '.join(problems[:5])}"
            + (f" and {len(problems) - 5} more" if len(problems) > 5 else ""),
            "build the artifact again with `cuzkops build`",
            {"problems": problems},
        )
    return "".join(f"{line}\n" for line in sorted(lines)).encode()


def _problem(member: tarfile.TarInfo, seen: set[str]) -> str:
    if reason := why_no_name(member.name):
        return reason
    if not (member.isfile() or member.isdir()):
        return "it is neither a regular file nor a folder"
    return "it stands there twice" if member.name in seen else ""


def _lines(archive: tarfile.TarFile, member: tarfile.TarInfo) -> set[str]:
    parts = member.name.split("/")
    lines = {f"d {'/'.join(parts[:n])}" for n in range(1, len(parts))}  # also those that no member names
    if member.isdir():
        return lines | {f"d {member.name}"}
    content = archive.extractfile(member)
    if content is None:
        raise tarfile.ReadError(f"{member.name} has no content")
    with content:
        lines.add(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {member.name}")  # type: ignore[arg-type] # it reads
    return lines | ({f"x {member.name}"} if member.mode & 0o100 else set())

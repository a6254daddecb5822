"""The container of circom and snarkjs files (.zkey, .wtns, .r1cs, .ptau): magic, version, then sections in any order.

``magic (4 bytes) | u32 version | u32 number of sections | per section: u32 type | u64 length | payload``, all
little-endian. No number of the file is believed: every length is held against the file's size before memory is taken.
A section may stand in a file more than once: the first one counts, as in snarkjs.

Payloads are read into memory of our own, in slices, and never mapped: a file that somebody shortens ends a process that
has it mapped (SIGBUS), and sections are not aligned to the 8 bytes of a limb.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, NoReturn, Self

import numpy as np

from prover.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import NDArray

MAX_SECTIONS = 64  # no writer makes more than fifteen
SLICE_BYTES = 64 * 2**20  # one read: between two of them Ctrl-C is heard
HEAD_BYTES = 12  # of the file, and of each section

_TITLES = {"zkey": "a proving key", "wtns": "a witness", "r1cs": "a circuit", "ptau": "powers of tau"}
_DAMAGED = "the file was cut or damaged: fetch it again and compare its digest"


@dataclass(frozen=True)
class Section:
    """One section of a file.

    Args:
        kind: Its type number.
        offset: Where its payload starts.
        n_bytes: Length of the payload, known to lie inside the file.
        n_copies: How often the file has a section of this type; this is the first of them.
    """

    kind: int
    offset: int
    n_bytes: int
    n_copies: int = 1


class Container:
    """An open file and the index of its sections; a context manager.

    Args:
        source: A file, or its bytes.
        magic: The format's four letters.
        version: The version that is understood.
        name: What to call it in messages; the path where it is None.

    Raises:
        InputError: It cannot be read, is not such a file, or its sections do not add up to its size.
    """

    def __init__(self, source: Path | bytes, magic: str, version: int, name: str | None = None) -> None:
        self.magic = magic
        self.name = name or (f"the {magic} data" if isinstance(source, bytes) else str(source))
        self._file = io.BytesIO(source) if isinstance(source, bytes) else self._open(source)
        try:
            self.n_bytes = self._file.seek(0, os.SEEK_END)
            self.sections = self._index(version)
        except OSError as error:
            self._file.close()
            self.fail(f"it cannot be read: {error.strerror}", "unreadable")
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def fail(self, message: str, code: str = "malformed") -> NoReturn:
        """Raise an ``InputError`` about this file."""
        raise InputError(f"{self.magic}-{code}", f"{self.name}: {message}")

    def mismatch(
        self,
        where: str,
        offset: int,
        expected: object,
        found: object,
        *,
        code: str = "malformed",
        hint: str = _DAMAGED,
    ) -> NoReturn:
        """Raise an ``InputError`` about one place of this file.

        Args:
            where: The section and the part of it, such as ``"section 5 (A)"``.
            offset: In the file, in bytes.
            expected: What should be there.
            found: What is there.
            code: Stable word for programs, without the format.
            hint: What to do about it.
        """
        details: dict[str, object] = {
            "file": self.name,
            "where": where,
            "offset": offset,
            "expected": str(expected),
            "found": str(found),
        }
        message = f"{self.name}: {where} at byte {offset}: expected {expected}, found {found}"
        raise InputError(f"{self.magic}-{code}", message, hint, details)

    def section(self, kind: int, title: str, n_bytes: int | None = None) -> Section:
        """Find a section.

        Args:
            kind: Its type number.
            title: What it holds, for messages.
            n_bytes: The length that it must have.

        Raises:
            InputError: There is none, or it has another length.
        """
        found = self.sections.get(kind)
        if found is None:
            there = ", ".join(map(str, sorted(self.sections))) or "none"
            self.mismatch(
                f"section {kind} ({title}) is missing", self.n_bytes, "it before the end", f"sections {there}"
            )
        if n_bytes is not None and found.n_bytes != n_bytes:
            self.mismatch(f"section {kind} ({title})", found.offset, f"{n_bytes} bytes", f"{found.n_bytes} bytes")
        return found

    def sha256(self) -> str:
        """Digest of the whole file, lower-case hex."""
        self._file.seek(0)
        return hashlib.file_digest(self._file, "sha256").hexdigest()  # type: ignore[arg-type] # it is open and binary

    def read_bytes(self, section: Section, offset: int, n_bytes: int) -> bytes:
        """Read a small part of a section; the caller knows that it lies inside."""
        buffer = bytearray(n_bytes)
        self._fill(section.offset + offset, memoryview(buffer))
        return bytes(buffer)

    def read_u32(self, section: Section, offset: int, n: int) -> tuple[int, ...]:
        """Read n numbers of 32 bits; the caller knows that they lie inside."""
        return struct.unpack(f"<{n}I", self.read_bytes(section, offset, 4 * n))

    def read_limbs(self, section: Section, width: int) -> NDArray[np.uint64]:
        """Read a whole section of (n, width) little-endian 64-bit limbs; its length was checked."""
        array = np.empty((section.n_bytes // (8 * width), width), dtype="<u8")
        self._fill(section.offset, array.reshape(-1).view(np.uint8).data)
        return array

    def read_words(self, section: Section) -> NDArray[np.uint32]:
        """Read a whole section of little-endian 32-bit words; its length was checked."""
        array = np.empty(section.n_bytes // 4, dtype="<u4")
        self._fill(section.offset, array.view(np.uint8).data)
        return array

    def read_records(self, section: Section, offset: int, dtype: np.dtype[np.void]) -> NDArray[np.void]:
        """Read the rest of a section from ``offset`` on as packed records; its length was checked."""
        array = np.empty((section.n_bytes - offset) // dtype.itemsize, dtype=dtype)
        self._fill(section.offset + offset, array.view(np.uint8).data)
        return array

    def _fill(self, offset: int, view: memoryview) -> None:
        self._file.seek(offset)
        done = 0
        while done < len(view):
            try:
                count = self._file.readinto(view[done : done + SLICE_BYTES])  # type: ignore[attr-defined] # both have it
            except OSError as error:
                self.fail(f"it cannot be read at byte {offset + done}: {error.strerror}", "unreadable")
            if not count:
                self.fail(f"it became shorter while it was read: byte {offset + done} is gone")
            done += count

    def _open(self, source: Path) -> BinaryIO:
        try:
            # Not blocking: a pipe without a writer would be waited for, before anything could be said about it.
            fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self.fail(f"it cannot be read: {error.strerror}", "unreadable")
        except ValueError:  # a NUL, or half of a surrogate pair
            self.fail("no file can have this name", "unreadable")
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            self.fail("it cannot be read: it is not a regular file", "unreadable")
        return os.fdopen(fd, "rb")

    def _index(self, version: int) -> dict[int, Section]:
        self._file.seek(0)
        start = self._file.read(HEAD_BYTES)
        if start[:4] != self.magic.encode():
            self._refuse_other_kind(start[:4].decode("latin-1"))
            self.mismatch(f"it is not a .{self.magic} file", 0, repr(self.magic.encode()), repr(start[:4]))
        if len(start) < HEAD_BYTES:
            self.mismatch("the header", 0, f"{HEAD_BYTES} bytes", f"{len(start)} bytes")
        found_version, n_sections = struct.unpack("<II", start[4:])
        if found_version != version:
            self.mismatch("the format version", 4, version, found_version)
        if n_sections > MAX_SECTIONS:
            self.mismatch("the number of sections", 8, f"at most {MAX_SECTIONS}", n_sections)
        sections: dict[int, Section] = {}
        at = HEAD_BYTES
        for number in range(1, n_sections + 1):
            kind, n_bytes = self._section_head(at, number, n_sections)
            at += HEAD_BYTES
            first = sections.get(kind)
            if first is None:
                sections[kind] = Section(kind, at, n_bytes)
            else:
                sections[kind] = Section(kind, first.offset, first.n_bytes, first.n_copies + 1)
            at += n_bytes
        if at != self.n_bytes:
            self.mismatch(f"the end of the last of {n_sections} sections", at, "the end of the file", self._left(at))
        return sections

    def _refuse_other_kind(self, magic: str) -> None:
        """A whole file of a kind that is known is in the wrong place, and not damaged."""
        if magic in _TITLES and self.magic in _TITLES:
            wanted = f"{_TITLES[self.magic]} (.{self.magic})"
            message = f"{self.name}: it is {_TITLES[magic]} (.{magic}), not {wanted}"
            raise InputError(f"{self.magic}-malformed", message, f"name {wanted} in its place")

    def _section_head(self, at: int, number: int, n_sections: int) -> tuple[int, int]:
        """Read the head of one section and hold its length against the rest of the file."""
        self._file.seek(at)
        head = self._file.read(HEAD_BYTES)
        if len(head) < HEAD_BYTES:
            self.mismatch(f"the head of section {number} of {n_sections}", at, f"{HEAD_BYTES} bytes", self._left(at))
        kind, n_bytes = struct.unpack("<IQ", head)
        if n_bytes > self.n_bytes - at - HEAD_BYTES:
            left = self._left(at + HEAD_BYTES)
            self.mismatch(f"section {kind}, number {number} of {n_sections}", at, f"its {n_bytes} bytes", left)
        return kind, n_bytes

    def _left(self, at: int) -> str:
        return f"{self.n_bytes - at} bytes before the end of the file"

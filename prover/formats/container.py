"""The container of circom and snarkjs files (.zkey, .wtns): magic, version, then sections in any order.

``magic (4 bytes) | u32 version | u32 number of sections | per section: u32 type | u64 length | payload``, all
little-endian. No number of the file is believed: every length is held against the file's size before memory is taken.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn, Self

import numpy as np

from prover.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from numpy.typing import NDArray

MAX_SECTIONS = 64  # no writer makes more than ten


@dataclass(frozen=True)
class Section:
    """One section of a file.

    Args:
        kind: Its type number.
        offset: Where its payload starts.
        n_bytes: Length of the payload, known to lie inside the file.
    """

    kind: int
    offset: int
    n_bytes: int


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
        self.name = name or (str(source) if isinstance(source, Path) else f"the {magic} data")
        self._file = self._open(source)
        try:
            with self._readable():
                self.n_bytes = self._file.seek(0, os.SEEK_END)
                self._sections = self._index(version)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def fail(self, message: str, code: str = "malformed", hint: str = "") -> NoReturn:
        """Raise an ``InputError`` about this file."""
        raise InputError(f"{self.magic}-{code}", f"{self.name}: {message}", hint)

    def section(self, kind: int, title: str, n_bytes: int | None = None) -> Section:
        """Find a section.

        Args:
            kind: Its type number.
            title: What it holds, for messages.
            n_bytes: The length that it must have.

        Raises:
            InputError: There is none, or it has another length.
        """
        found = self._sections.get(kind)
        if found is None:
            self.fail(f"section {kind} ({title}) is missing")
        if n_bytes is not None and found.n_bytes != n_bytes:
            self.fail(f"section {kind} ({title}) must have {n_bytes} bytes and has {found.n_bytes}")
        return found

    def sha256(self) -> str:
        """Digest of the whole file, lower-case hex."""
        with self._readable():
            self._file.seek(0)
            return hashlib.file_digest(self._file, "sha256").hexdigest()  # type: ignore[arg-type] # it is open and binary

    def read_bytes(self, section: Section, offset: int, n_bytes: int) -> bytes:
        """Read a small part of a section; the caller knows that it lies inside."""
        with self._readable():
            self._file.seek(section.offset + offset)
            return self._exactly(n_bytes, self._file.read(n_bytes))

    def read_limbs(self, section: Section, width: int) -> NDArray[np.uint64]:
        """Read a whole section of (n, width) little-endian 64-bit limbs; its length was checked."""
        array = np.empty((section.n_bytes // (8 * width), width), dtype="<u8")
        self._fill(section, 0, array)
        return array

    def read_records(self, section: Section, offset: int, dtype: np.dtype[np.void]) -> NDArray[np.void]:
        """Read the rest of a section from ``offset`` on as packed records; its length was checked."""
        array = np.empty((section.n_bytes - offset) // dtype.itemsize, dtype=dtype)
        self._fill(section, offset, array)
        return array

    def _fill(self, section: Section, offset: int, array: NDArray[np.uint64] | NDArray[np.void]) -> None:
        view = array.reshape(-1).view(np.uint8).data
        self._file.seek(section.offset + offset)
        done = 0
        while done < len(view):
            try:
                count = self._file.readinto(view[done:])  # type: ignore[attr-defined] # files and BytesIO have it
            except OSError as error:
                self.fail(f"it cannot be read at byte {section.offset + offset + done}: {error.strerror}", "unreadable")
            if not count:
                self.fail(f"it became shorter while it was read: byte {section.offset + offset + done} is gone")
            done += count

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """A disk that fails, and files of /proc that are none, answer with an error instead of bytes."""
        try:
            yield
        except OSError as error:
            self.fail(f"it cannot be read: {error.strerror}", "unreadable")

    def _exactly(self, n_bytes: int, data: bytes) -> bytes:
        if len(data) != n_bytes:
            self.fail(f"it ends too early: {n_bytes} bytes were expected and {len(data)} are there")
        return data

    def _open(self, source: Path | bytes) -> BinaryIO:
        if isinstance(source, bytes):
            return io.BytesIO(source)
        try:
            if not stat.S_ISREG(source.stat().st_mode):
                self.fail("it is not a regular file", "unreadable")
            return source.open("rb")
        except OSError as error:
            self.fail(f"it cannot be read: {error.strerror}", "unreadable")
        except ValueError:  # a NUL, or half of a surrogate pair
            self.fail("no file can have this name", "unreadable")

    def _index(self, version: int) -> dict[int, Section]:
        self._file.seek(0)
        start = self._file.read(12)
        if start[:4] != self.magic.encode():
            self.fail(f"it is not a .{self.magic} file: it starts with {start[:4]!r}")
        if len(start) < 12:
            self.fail(f"it ends inside its header of 12 bytes, after {len(start)}")
        found_version, n_sections = struct.unpack("<II", start[4:])
        if found_version != version:
            self.fail(f"it has format version {found_version}, and {version} is the one that is understood")
        if n_sections > MAX_SECTIONS:
            self.fail(f"it claims {n_sections} sections, and no writer makes more than {MAX_SECTIONS}")
        sections: dict[int, Section] = {}
        at = 12
        for number in range(1, n_sections + 1):
            self._file.seek(at)
            head = self._file.read(12)
            if len(head) < 12:
                self.fail(f"it ends at byte {self.n_bytes}, before section header {number} of {n_sections}")
            kind, n_bytes = struct.unpack("<IQ", head)
            if n_bytes > self.n_bytes - at - 12:
                self.fail(
                    f"section {kind} claims {n_bytes} bytes, and {self.n_bytes - at - 12} are left in the file",
                    hint="the file was cut or damaged: fetch it again and compare its digest",
                )
            if kind in sections:
                self.fail(f"section {kind} stands in it twice")
            sections[kind] = Section(kind, at + 12, n_bytes)
            at += 12 + n_bytes
        if at != self.n_bytes:
            self.fail(f"{self.n_bytes - at} bytes follow the last of its {n_sections} sections")
        return sections

"""The one reader of timing logs: bytes in, records out, in the order of the file.

Every line that is not blank becomes one record. A line of the grammar (docs/TIMELINE_FORMAT.md) is a LogEvent whose
durations are nanoseconds; any other is a BadLine that says where it stands and why it was not read. Nothing is
dropped in silence and nothing in a line stops the reading, with one exception: a header of a later schema, because
what follows it cannot be trusted to mean what it seems to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.errors import UnreadableError
from prover.timeline import EVENTS, SCHEMA, Value, parse_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from prover.timeline import Event

MAX_LINE_BYTES = 64 * 1024
CHUNK_BYTES = 256 * 1024
_SHOWN_CHARACTERS = 200

_INTEGER_KEYS = {"schema", "threads", "pid", "jobs_left", "parts", "parts_done"}
_INTEGER_SUFFIXES = ("_us", "_ns", "_bytes")

# What lines of the Rust daemon and its libraries look like: they are recognised so that the reason can say so.
_DIALECTS = (
    (re.compile(r"TIMELINE,"), "its TIMELINE CSV"),
    (re.compile(r"CUZK_(TIMING|NTT_H):"), "its CUZK_TIMING lines"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z +(TRACE|DEBUG|INFO|WARN|ERROR)\b"), "its tracing log"),
    (re.compile(r"thread '.*' (\(\d+\) )?panicked at "), "a panic of it"),
)
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@dataclass(frozen=True)
class LogEvent:
    """One line of the grammar.

    Args:
        file: Where it was read, for people.
        line: Line number, from 1.
        family: Such as ``"TIMELINE"``.
        event: Such as ``"SYNTH_END"``.
        run: The run's name.
        t_ns: CLOCK_MONOTONIC of the daemon's host.
        job: The job's name, or None.
        part: The partition's number in its job, or None.
        worker: The worker's name, or None.
        dev: The device's name, or None.
        values: The event's own keys. What the log calls ``NAME_us`` is ``NAME_ns`` here.
        known: Whether this version knows the event and all of its keys.
    """

    file: str
    line: int
    family: str
    event: str
    run: str
    t_ns: int
    job: str | None
    part: int | None
    worker: str | None
    dev: str | None
    values: Mapping[str, Value]
    known: bool


@dataclass(frozen=True)
class BadLine:
    """A line that is not of the grammar.

    Args:
        file: Where it was read, for people.
        line: Line number, from 1.
        reason: Why it was not read.
        text: Its first characters; bytes that are not printable are shown as escapes.
    """

    file: str
    line: int
    reason: str
    text: str


LogRecord = LogEvent | BadLine


class Parser:
    """Reads one log piece by piece, so that a file of any length, or one that still grows, needs little memory.

    Args:
        file: The log's name, for people; stands in every record.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._line = 0
        self._rest = b""
        self._skipping = False  # inside an over-long line that was reported already

    def feed(self, data: bytes) -> Iterator[LogRecord]:
        """Read more bytes, cut anywhere; yields a record for each line that is complete now.

        Raises:
            UnreadableError: A header says that the log has a later schema.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        for raw in lines:
            self._line += 1
            if self._skipping:
                self._skipping = False
            elif len(raw) > MAX_LINE_BYTES:
                yield self._bad(raw, f"longer than {MAX_LINE_BYTES} bytes")
            elif raw.strip():
                yield self._read(raw)
        if len(self._rest) > MAX_LINE_BYTES:
            if not self._skipping:
                yield BadLine(self._file, self._line + 1, f"longer than {MAX_LINE_BYTES} bytes", _shown(self._rest))
            self._skipping, self._rest = True, b""

    def finish(self) -> Iterator[LogRecord]:
        """End of the log: a last line without its newline was cut, even where what is left of it looks whole."""
        rest, self._rest = self._rest, b""
        self._line += 1
        if rest.strip() and not self._skipping:
            yield self._bad(rest, "cut: the log ends before the end of this line")

    def _read(self, raw: bytes) -> LogRecord:
        raw = raw.removesuffix(b"\r")  # a log that went through Windows
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            return self._bad(raw, f"byte {error.start + 1} is not UTF-8")
        if foreign := _foreign(text):
            return self._bad(raw, foreign)
        try:
            return self._normalise(parse_line(text))
        except ValueError as error:
            return self._bad(raw, str(error))

    def _normalise(self, event: Event) -> LogEvent:
        own = EVENTS.get((event.family, event.event))
        missing = [key for key in own or () if key not in event.values]
        if (event.family, event.event) == ("HEADER", "run"):
            self._check_schema(event.values.get("schema"))
        if missing:
            raise ValueError(f"{event.family} {event.event} lacks {', '.join(missing)}")
        for key, value in event.values.items():
            if (key in _INTEGER_KEYS or key.endswith(_INTEGER_SUFFIXES)) and not (
                isinstance(value, int) and value >= 0
            ):
                raise ValueError(f"{key}={value} is not a count")
        common = event.common
        for key in ("t_ns", "part"):
            value = common.get(key, 0)
            if not (isinstance(value, int) and value >= 0):
                raise ValueError(f"{key}={value} is not a count")
        return LogEvent(
            file=self._file,
            line=self._line,
            family=event.family,
            event=event.event,
            run=str(common["run"]),
            t_ns=int(common["t_ns"]),
            job=_text(common.get("job")),
            part=int(common["part"]) if "part" in common else None,
            worker=_text(common.get("worker")),
            dev=_text(common.get("dev")),
            values=dict(_in_ns(key, value) for key, value in event.values.items()),
            known=own is not None and set(event.values) == set(own),
        )

    def _check_schema(self, schema: Value | None) -> None:
        if isinstance(schema, int) and schema > SCHEMA:
            raise UnreadableError(
                "timeline-schema",
                f"{self._file}:{self._line}: this log has schema {schema}, and this cuzkops reads schema {SCHEMA}",
                "use the cuzkops that belongs to the daemon that wrote it, or a newer one",
            )

    def _bad(self, raw: bytes, reason: str) -> BadLine:
        return BadLine(self._file, self._line, reason, _shown(raw))


def parse_chunks(chunks: Iterable[bytes], file: str) -> Iterator[LogRecord]:
    """Read a whole log from pieces of any size.

    Args:
        chunks: The log's bytes, in order, cut anywhere.
        file: The log's name, for people.

    Yields:
        One record a line that is not blank.

    Raises:
        UnreadableError: A header says that the log has a later schema.
    """
    parser = Parser(file)
    for chunk in chunks:
        yield from parser.feed(chunk)
    yield from parser.finish()


def parse_file(path: Path, file: str | None = None) -> Iterator[LogRecord]:
    """Read a log file; ``file`` is its name in the records, else the path.

    Raises:
        UnreadableError: It cannot be opened, or a header says that it has a later schema.
    """
    try:
        with path.open("rb") as stream:
            yield from parse_chunks(iter(lambda: stream.read(CHUNK_BYTES), b""), file or str(path))
    except OSError as error:
        raise UnreadableError("log", f"{path} cannot be read: {error.strerror or error}") from error


def _foreign(text: str) -> str:
    """Why this cannot be a line of the grammar, for the kinds that deserve better than 'no key=value'."""
    plain = _ESCAPE.sub("", text)
    for pattern, what in _DIALECTS:
        if pattern.match(plain):
            return f"looks like the Rust cuzk daemon ({what}): that dialect is not read"
    if nuls := text.count("\0"):
        return f"holds {nuls} NUL bytes: the file was cut to length 0 while its writer went on"
    if plain != text:
        return "holds terminal escapes"
    if "\r" in text:
        return "holds a carriage return: a progress line of another program"
    return ""


def _in_ns(key: str, value: Value) -> tuple[str, Value]:
    return (f"{key.removesuffix('_us')}_ns", int(value) * 1000) if key.endswith("_us") else (key, value)


def _text(value: Value | None) -> str | None:
    return None if value is None else str(value)


def _shown(raw: bytes) -> str:
    text = raw[: _SHOWN_CHARACTERS + 1].decode(errors="backslashreplace")
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."

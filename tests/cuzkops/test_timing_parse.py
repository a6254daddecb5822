from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzkops.errors import UnreadableError
from cuzkops.timing.parse import MAX_LINE_BYTES, BadLine, LogEvent, LogRecord, Parser, parse_chunks, parse_file
from prover.timeline import COMMON_KEYS, EVENTS, Event, format_line

DATA = Path(__file__).parents[1] / "data" / "timelines"
START = b"TIMELINE run=r job=j part=0 t_ns=5 event=SYNTH_START"


def read(data: bytes) -> list[LogRecord]:
    return list(parse_chunks([data], "x.log"))


def bad(data: bytes) -> BadLine:
    (record,) = read(data)
    assert isinstance(record, BadLine), record
    return record


@pytest.mark.parametrize(("family", "event"), EVENTS)
def test_every_event_is_read_in_nanoseconds(family: str, event: str) -> None:
    values = {key: index + 1 for index, key in enumerate(EVENTS[family, event])}
    common = dict.fromkeys(COMMON_KEYS, 7)
    line = format_line(Event(family, event, common, values))
    (record,) = read(line.encode() + b"\n")
    assert isinstance(record, LogEvent)
    assert record.known
    assert (record.run, record.job, record.part, record.worker, record.dev, record.t_ns) == ("7", "7", 7, "7", "7", 7)
    expected = {
        (f"{key[:-3]}_ns" if key.endswith("_us") else key): value * 1000 if key.endswith("_us") else value
        for key, value in values.items()
    }
    assert dict(record.values) == expected


def test_records_say_where_they_stand_and_blank_lines_count() -> None:
    records = read(b"\n \n" + START + b"\nprose\n\t\n" + START + b"\n")
    assert [(record.file, record.line, type(record).__name__) for record in records] == [
        ("x.log", 3, "LogEvent"),
        ("x.log", 4, "BadLine"),
        ("x.log", 6, "LogEvent"),
    ]


def test_a_last_line_without_newline_is_cut_even_where_it_looks_whole() -> None:
    whole = b"TIMELINE run=r t_ns=5 event=SYNTH_END synth_us=29123"
    assert isinstance(read(whole + b"\n")[0], LogEvent)
    for end in range(1, len(whole) + 1):
        assert bad(whole[:end]).reason.startswith("cut: ")


def test_windows_line_ends_are_read() -> None:
    assert isinstance(read(START + b"\r\n")[0], LogEvent)


@pytest.mark.parametrize("n_bytes", [MAX_LINE_BYTES + 1, 3 * MAX_LINE_BYTES])
@pytest.mark.parametrize("piece_bytes", [1000, 1 << 20])
def test_an_over_long_line_is_one_record_and_the_next_is_read(n_bytes: int, piece_bytes: int) -> None:
    data = b"x" * n_bytes + b"\n" + START + b"\n"
    pieces = [data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)]
    first, second = parse_chunks(pieces, "x.log")
    assert isinstance(first, BadLine)
    assert first.reason == "longer than 65536 bytes"
    assert len(first.text) <= 200
    assert (type(second), second.line) == (LogEvent, 2)


def test_an_over_long_line_at_the_end_is_one_record() -> None:
    assert [record.line for record in parse_chunks([b"x" * 70000, b"y" * 70000], "x.log")] == [1]


def test_the_longest_line_that_is_read() -> None:
    line = START + b" note=" + b"x" * (MAX_LINE_BYTES - len(START) - 6)
    assert len(line) == MAX_LINE_BYTES
    (record,) = read(line + b"\n")
    assert isinstance(record, LogEvent)
    assert not record.known


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x1b[1m" + START, "holds terminal escapes"),
        (b"\0\0\0" + START, "holds 3 NUL bytes"),
        (b"50%\r100%", "holds a carriage return"),
        (START + b" x=\xff", "byte 56 is not UTF-8"),
        (b"TIMELINE run=r t_ns=5 event=SYNTH_END", "TIMELINE SYNTH_END lacks synth_us"),
        (b"TIMELINE run=r t_ns=5 event=SYNTH_END synth_us=1.5", "synth_us=1.5 is not a count"),
        (b"TIMELINE run=r t_ns=5 event=SYNTH_END synth_us=" + b"9" * 5000, "Exceeds the limit"),
        (b"TIMELINE run=r t_ns=x event=SYNTH_START", "t_ns=x is not a count"),
        (b"TIMELINE run=r part=-1 t_ns=1 event=SYNTH_START", "part=-1 is not a count"),
        (
            b"TIMELINE,41233,SYNTH_END,ps-porep-1,partition=3,synth_ms=2",
            "looks like the Rust cuzk daemon (its TIMELINE",
        ),
        (b"CUZK_TIMING: prep_msm_ms=1909", "looks like the Rust cuzk daemon (its CUZK_TIMING"),
        (b"2026-08-20T10:11:12.123456Z  INFO cuzk_core: x", "looks like the Rust cuzk daemon (its tracing"),
    ],
)
def test_the_reason_says_what_is_wrong(data: bytes, reason: str) -> None:
    assert reason in bad(data + b"\n").reason


def test_keys_and_events_of_a_later_version_are_kept_and_marked() -> None:
    later = read(START + b" retries=2\nGPU run=r t_ns=6 event=COPY copy_us=3\n")
    assert [(record.known, dict(record.values)) for record in later if isinstance(record, LogEvent)] == [
        (False, {"retries": 2}),
        (False, {"copy_ns": 3000}),
    ]


def test_a_header_of_a_later_schema_ends_the_reading() -> None:
    header = b"HEADER run=r t_ns=1 event=run schema=2\n"
    with pytest.raises(UnreadableError, match=r"x\.log:2: this log has schema 2, and this cuzkops reads schema 1"):
        read(b"\n" + header)


def test_a_log_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"none\.log cannot be read: No such file"):
        list(parse_file(tmp_path / "none.log"))


@pytest.mark.parametrize("path", sorted(DATA.glob("*.log")), ids=lambda path: path.stem)
@pytest.mark.parametrize("piece_bytes", [1, 7, 4096])
def test_the_size_of_the_pieces_does_not_matter(path: Path, piece_bytes: int) -> None:
    data = path.read_bytes()
    pieces = (data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes))
    assert list(parse_chunks(pieces, path.name)) == list(parse_file(path, path.name))


@given(st.lists(st.binary(max_size=40)))
def test_whatever_comes_each_line_is_one_record(lines: list[bytes]) -> None:
    data = b"\n".join(lines) + b"\n"
    records = read(data)
    assert [record.line for record in records] == [n for n, line in enumerate(data.split(b"\n"), 1) if line.strip()]


def test_feeding_gives_each_line_as_soon_as_it_is_whole() -> None:
    parser = Parser("x.log")
    assert list(parser.feed(START[:20])) == []
    assert [record.line for record in parser.feed(START[20:] + b"\n" + START)] == [1]
    assert [record.line for record in parser.feed(b"\n")] == [2]
    assert list(parser.finish()) == []

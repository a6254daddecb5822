"""Writer and reader of the timing log against each other, for every event."""

from __future__ import annotations

import fcntl
import os
import string
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.timeline import COMMON_KEYS, EVENTS, Event, TimelineWriter, format_line, parse_line, word

if TYPE_CHECKING:
    from pathlib import Path

    from prover.timeline import Value

WORDS = st.text(string.ascii_letters + string.digits + "._:/-", min_size=1, max_size=30).filter(
    lambda text: not text.removeprefix("-").isdigit()  # a word that looks like a number is read as one
)
VALUES: st.SearchStrategy[Value] = st.one_of(st.integers(-(10**20), 10**20), WORDS)


@st.composite
def events(draw: st.DrawFn) -> Event:
    family, name = draw(st.sampled_from(sorted(EVENTS)))
    optional = draw(st.sets(st.sampled_from([key for key in COMMON_KEYS if key not in ("run", "t_ns")])))
    common = {key: draw(VALUES) for key in COMMON_KEYS if key in optional or key in ("run", "t_ns")}
    return Event(family, name, common, {key: draw(VALUES) for key in EVENTS[family, name]})


@given(events())
def test_what_is_written_is_read_back(event: Event) -> None:
    line = format_line(event)
    assert "\n" not in line
    assert parse_line(line) == event
    assert parse_line(line + "\n") == event


@given(events())
def test_common_keys_come_first_and_in_order(event: Event) -> None:
    keys = [pair.split("=")[0] for pair in format_line(event).split(" ")[1:]]
    n_common = len(event.common)
    assert keys[:n_common] == [key for key in COMMON_KEYS if key in event.common]
    assert keys[n_common:] == ["event", *EVENTS[event.family, event.event]]


@given(st.text())
def test_any_text_becomes_a_legal_word(text: str) -> None:
    event = Event("JOB", "accepted", {"run": word(text), "t_ns": 1}, {"circuit": word(text), "parts": 1})
    assert format_line(event)


SOUND = Event("JOB", "accepted", {"run": "r", "t_ns": 1}, {"circuit": "mul60", "parts": 2})


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Event("JOB", "exploded", SOUND.common), "no such event"),
        (Event("JOB", "accepted", SOUND.common, {"circuit": "mul60"}), "has the keys"),
        (Event("JOB", "accepted", SOUND.common, {**SOUND.values, "more": 1}), "has the keys"),
        (Event("JOB", "accepted", {"run": "r"}, SOUND.values), "common keys"),
        (Event("JOB", "accepted", {**SOUND.common, "gpu": 1}, SOUND.values), "common keys"),
        (Event("JOB", "accepted", SOUND.common, {"circuit": "a b", "parts": 1}), "plain word"),
        (Event("JOB", "accepted", SOUND.common, {"circuit": "", "parts": 1}), "plain word"),
        (Event("JOB", "accepted", SOUND.common, {"circuit": "a", "parts": True}), "plain word"),
        (Event("JOB", "accepted", SOUND.common, {"circuit": "a\n", "parts": 1}), "plain word"),
    ],
)
def test_writer_refuses(event: Event, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        format_line(event)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "no family"),
        ("Starting up", "no family"),
        ("JOB", "missing"),
        ("JOB run=r event=accepted", "missing"),
        ("JOB run=r t_ns=1", "missing"),
        ("JOB run=r t_ns=1 event=accepted circuit", "not key=value"),
        ("JOB run=r t_ns=1 event=accepted  parts=1", "not key=value"),
        ("JOB run=r t_ns=1 event=accepted circuit=a,b", "not key=value"),
        ("JOB run=r t_ns=1 event=accepted Parts=1", "not key=value"),
        ("JOB run=r t_ns=1 event=accepted parts=1 parts=2", "stands twice"),
        ("JOB run=r t_ns=1 event=accepted event=done", "stands twice"),
        ("JOB run=r t_ns=1 event=accepted parts=1\r", "not key=value"),
    ],
)
def test_reader_refuses_with_a_position(line: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_line(line)


def test_reader_keeps_keys_of_later_versions() -> None:
    event = parse_line("JOB run=r t_ns=1 event=accepted circuit=a parts=1 colour=blue")
    assert event.values["colour"] == "blue"


def test_a_line_that_was_cut_takes_no_other_with_it() -> None:
    inlet, outlet = os.pipe()
    os.set_blocking(outlet, False)
    fcntl.fcntl(outlet, fcntl.F_SETPIPE_SZ, 4096)
    writer = TimelineWriter(outlet, "r")
    with pytest.raises(OSError, match="was cut"):
        writer.write("TIMELINE", "SYNTH_END", {"job": "j" * 4096}, synth_us=1)
    os.read(inlet, 8192)
    writer.write("TIMELINE", "SYNTH_END", {"job": "j"}, synth_us=2)
    _rest, line, end = os.read(inlet, 8192).split(b"\n")
    assert parse_line(line.decode()).values == {"synth_us": 2}
    assert end == b""
    os.close(inlet)
    os.close(outlet)


def test_lines_of_several_threads_stay_whole_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    writer = TimelineWriter(fd, "run 1")

    def work(part: int) -> None:
        for _ in range(200):
            writer.write("TIMELINE", "SYNTH_END", {"job": "j", "part": part}, synth_us=7)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(fd)
    read = [parse_line(line) for line in path.read_text().splitlines()]
    assert len(read) == 800
    times = [int(event.common["t_ns"]) for event in read]
    assert times == sorted(times)
    assert {event.common["run"] for event in read} == {"run-1"}

"""Progress: drawn over on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from cuzkops import rendering
from cuzkops.errors import OpsError
from cuzkops.rendering import Meter, Screen


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "_REDRAW_S", 0.0)
    monkeypatch.setattr(rendering, "_REPEAT_S", 0.0)
    monkeypatch.setenv("COLUMNS", "40")


def test_a_file_gets_plain_lines_and_no_picture() -> None:
    err = io.StringIO()
    screen = Screen(out=io.StringIO(), err=err)
    screen.progress("x" * 100, lambda _columns, _unicode: ["a picture"])
    screen.say("end")
    assert err.getvalue() == "x" * 100 + "\nend\n"


def test_a_terminal_is_drawn_over_and_cleared_before_the_result() -> None:
    out, err = io.StringIO(), Terminal()
    screen = Screen(out=out, err=err)
    asked: list[tuple[int, bool]] = []

    def picture(columns: int, unicode: bool) -> list[str]:
        asked.append((columns, unicode))
        return ["one", "two"]

    screen.progress("x" * 100, picture)
    first = err.getvalue()
    assert first == "\x1b[Kone\n\x1b[Ktwo\n\x1b[K" + "x" * 39, "a line that wraps could not be drawn over"
    screen.progress("short", picture)
    assert err.getvalue()[len(first) :] == "\r\x1b[2A\x1b[Kone\n\x1b[Ktwo\n\x1b[Kshort"
    drawn = err.getvalue()
    screen.result({}, "the result")
    assert err.getvalue()[len(drawn) :] == "\r\x1b[2A\x1b[J"
    assert out.getvalue() == "the result\n"
    assert asked == [(39, True), (39, True)]


def test_a_meter_says_rate_and_time_left_of_what_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.25, 2.0, 10.0, 11.0, 12.0, 14.0])
    monkeypatch.setattr("cuzkops.rendering.time.monotonic", lambda: next(clock))
    mib, meter = 1 << 20, Meter()
    assert meter.text("layer app", 10 * mib, 30 * mib) == "layer app: 10.00 MiB of 30.00 MiB"
    assert "/s" not in meter.text("layer app", 11 * mib, 30 * mib), "too early to tell"
    assert meter.text("layer app", 20 * mib, 30 * mib).endswith(", 5.00 MiB/s, about 2 s left")
    assert meter.text("circuit mul", 0, 8 * mib) == "circuit mul: 0 B of 8.00 MiB"
    assert "/s" not in meter.text("circuit mul", 0, 8 * mib), "it stands still"
    assert "/s" not in meter.text("circuit mul", 4 * mib, 8 * mib), "an earlier run may have sent all of this"
    assert meter.text("circuit mul", 6 * mib, 8 * mib).endswith(", 1.00 MiB/s, about 2 s left")


def test_a_result_that_cannot_be_written_is_one_sentence() -> None:
    err = io.StringIO()
    with Path("/dev/full").open("w") as full:
        screen = Screen(json_mode=True, out=full, err=err)
        with pytest.raises(OpsError, match="the result cannot be written to standard output: No space left") as caught:
            screen.result({"a": 1}, "")
        screen.error(caught.value)
        assert err.getvalue().startswith("error: the result cannot be written")


def test_a_standard_error_that_cannot_be_written_stops_nothing() -> None:
    out = io.StringIO()
    with Path("/dev/full").open("w") as full:
        screen = Screen(out=out, err=full)
        screen.say("lost")
        screen.progress("lost too")
        screen.result({}, "the result")
    assert out.getvalue() == "the result\n"


def test_what_others_name_does_not_steer_the_terminal() -> None:
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out=out, err=err)
    name = "a\x1b]0;b\x07\r\x9bé\tc"
    screen.say(name)
    screen.progress(name)
    screen.result({}, f"{name}\n{name}")
    screen.item({}, name)
    screen.failure("code", name, name, {"last_lines": [name]})
    spelled = r"a\x1b]0;b\x07\x0d\x9bé" + "\tc"
    assert out.getvalue() == f"{spelled}\n" * 3
    assert err.getvalue() == f"{spelled}\n{spelled}\nerror: {spelled}\n  | {spelled}\nhint: {spelled}\n"

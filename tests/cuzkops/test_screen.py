"""Progress: drawn over on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

import pytest

from cuzkops import rendering
from cuzkops.rendering import Screen


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

"""What the user sees: results on standard output, everything else on standard error, no colours.

With ``--json`` standard output holds exactly one JSON document (streams: one a line), also where a command fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, TextIO

from cuzkops.errors import OpsError
from cuzkops.units import format_bytes, format_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cuzkops.remote.host import Script

_CONTROLS = {*range(32), *range(127, 160)} - {ord("\n"), ord("\t")}
_SPELLED = {code: f"\\x{code:02x}" for code in _CONTROLS}
_REDRAW_S = 0.1  # a line on a terminal that is drawn over
_RATE_AFTER_S = 0.5  # before, a rate would be that of the first buffers
_REPEAT_S = 5.0  # a new line in a file


class Screen:
    """Where a command writes.

    Args:
        json_mode: Results are JSON documents.
        verbose: Details are shown too.
        out: Results; standard output.
        err: Everything else; standard error.
    """

    def __init__(
        self, *, json_mode: bool = False, verbose: bool = False, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.json_mode = json_mode
        self.verbose = verbose
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._streams = False  # one document a line
        self._n_drawn = 0  # lines on the terminal that are to be drawn over; the last one is unfinished
        self._last_progress_s = 0.0

    @property
    def interactive(self) -> bool:
        """Whether somebody can be asked."""
        return not self.json_mode and sys.stdin.isatty() and self._err.isatty()

    def say(self, text: str) -> None:
        """Tell the user something that is not the result."""
        self._clear()
        self._tell(_visible(text))

    def detail(self, text: str) -> None:
        """Tell it only with ``--verbose``."""
        if self.verbose:
            self.say(text)

    def work(self, text: str) -> None:
        """Show a line of long work: all of them with ``--verbose``, else how far it is."""
        (self.say if self.verbose else self.progress)(text)

    def progress(self, text: str, picture: Callable[[int, bool], Sequence[str]] | None = None) -> None:
        """Show how far something is: drawn over on a terminal, a line every few seconds in a file.

        Args:
            text: One line.
            picture: Makes the lines above it on a terminal, from its width in columns and whether it shows more than
                ASCII.
        """
        now_s = time.monotonic()
        terminal = self._err.isatty()
        if now_s - self._last_progress_s < (_REDRAW_S if terminal else _REPEAT_S):
            return
        self._last_progress_s = now_s
        text = _visible(text)
        if not terminal:
            self._tell(text)
            return
        columns = shutil.get_terminal_size().columns
        unicode = "utf" in (self._err.encoding or "").lower()
        lines = [*(picture(columns - 1, unicode) if picture else ()), text[: columns - 1]]
        drawing = "\n".join(f"\x1b[K{line}" for line in lines)
        rest = "\x1b[J" if self._n_drawn > len(lines) else ""
        self._tell(f"{self._back()}{drawing}{rest}", end="")
        self._n_drawn = len(lines)

    def result(self, document: object, text: str) -> None:
        """Give the command's one result: the document with ``--json``, else the text."""
        self._clear()
        self._give(json.dumps(plain(document), indent=2) if self.json_mode else _visible(text).rstrip("\n"))

    def item(self, document: object, text: str) -> None:
        """Give one item of a stream: one JSON document a line with ``--json``, else the text."""
        self._clear()
        self._streams = True
        self._give(json.dumps(plain(document)) if self.json_mode else _visible(text))

    def plan(self, scripts: list[Script]) -> None:
        """Give what ``--dry-run`` gives: each script with its title, in the order of a run."""
        document = {
            "plan": [{"title": script.title, "changes": script.changes, "script": script.text} for script in scripts]
        }
        parts = [
            f"# {script.title}{'' if script.changes else ' (changes nothing)'}\n{script.text}" for script in scripts
        ]
        self.result(document, "\n".join(parts) or "nothing would run on the host")

    def error(self, error: OpsError) -> None:
        """Show a failure: a sentence, the last lines of what failed, and what to do."""
        self.failure(error.code, error.message, error.hint, error.details)

    def failure(self, code: str, message: str, hint: str = "", details: Mapping[str, object] | None = None) -> None:
        """Show a failure that has no exception of ours."""
        self._clear()
        facts = dict(details or {})
        if self.json_mode:
            body = {"code": code, "message": message, "hint": hint, "details": plain(facts)}
            with contextlib.suppress(OpsError):  # standard error and the status still say it
                self._give(json.dumps({"error": body}, indent=None if self._streams else 2))
        self._tell(_visible(f"error: {message}"))
        last_lines = facts.get("last_lines")
        if isinstance(last_lines, list | tuple):
            for line in last_lines[-10:]:
                self._tell(_visible(f"  | {line}"))
        if self.verbose and isinstance(command := facts.get("command"), str):
            self._tell(_visible(f"the command was:\n{command}"))
        if hint:
            self._tell(_visible(f"hint: {hint}"))

    def confirm(self, question: str) -> bool:
        """Ask a yes-or-no question; only where ``interactive``."""
        self._clear()
        self._tell(_visible(f"{question} [y/N] "), end="")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def _back(self) -> str:
        """What moves a terminal to the begin of what was drawn."""
        up = f"\x1b[{self._n_drawn - 1}A" if self._n_drawn > 1 else ""
        return f"\r{up}" if self._n_drawn else ""

    def _clear(self) -> None:
        if self._n_drawn:
            self._tell(f"{self._back()}\x1b[J", end="")
            self._n_drawn = 0

    def _give(self, text: str) -> None:
        """Write to standard output.

        Raises:
            BrokenPipeError: Whoever read it has gone; Typer ends the command silently.
            OpsError: It cannot be written, such as on a full disk.
        """
        try:
            print(text, file=self._out, flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            _drop(self._out)
            message = f"the result cannot be written to standard output: {error.strerror}"
            raise OpsError("output", message, "free some space, or write it to another place") from error

    def _tell(self, text: str, end: str = "\n") -> None:
        """Write to standard error; what it does not take is lost, and stops nothing in the middle of its work."""
        try:
            print(text, end=end, file=self._err, flush=True)
        except OSError:
            _drop(self._err)


def _visible(text: str) -> str:
    """Spell control characters: names of others' processes and lines of their programs must not steer our terminal."""
    return text.translate(_SPELLED)


def _drop(stream: TextIO) -> None:
    """Let a stream that cannot be written lose what it holds: the interpreter would try again at exit, and complain."""
    with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor is not the interpreter's
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), stream.fileno())


class Meter:
    """How far transfers are, one after the other, with the rate and the time left."""

    def __init__(self) -> None:
        self._item = ""
        self._begin: tuple[float, int] = (0.0, 0)  # when any of this item was first there, and how much of it

    def text(self, item: str, done_bytes: int, total_bytes: int) -> str:
        """Say how far one is.

        Args:
            item: What travels.
            done_bytes: How much of it is there; what was there before it began does not count for the rate.
            total_bytes: How large it is.
        """
        now_s = time.monotonic()
        if item != self._item or done_bytes < self._begin[1] or not self._begin[1]:
            self._item, self._begin = item, (now_s, done_bytes)
        begin_s, first_bytes = self._begin
        text = f"{item}: {format_bytes(done_bytes)} of {format_bytes(total_bytes)}"
        if now_s - begin_s < _RATE_AFTER_S or done_bytes <= first_bytes:
            return text
        rate = (done_bytes - first_bytes) / (now_s - begin_s)
        left = format_duration_s(round((total_bytes - done_bytes) / rate))
        return f"{text}, {format_bytes(round(rate))}/s, about {left} left"


def plain(value: Any) -> Any:
    """Turn records into what JSON has: pydantic records by their aliases, dataclasses by their fields."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)

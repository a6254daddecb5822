"""Samples of the memory, kept on this machine, by run or by kill: a wait that is run again goes on with its kill's.

One file a kill, ``runs/kill-<boot>-<centiseconds>/memory.jsonl``: the boot and the instant of the baseline name the
kill for ever, on any host and from any command.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic import ValidationError

from cuzkops.errors import OpsError
from cuzkops.memory_curve import Point
from cuzkops.remote.procfs import Memory

if TYPE_CHECKING:
    from cuzkops.memory_verdict import Reason, Sample
    from cuzkops.records import KillRecord
    from cuzkops.state import RunFolder, State


class Series:
    """The samples so far: none, until ``read`` takes up those of the file; ``add`` appends one, also to the file.

    Args:
        folder: Of the kill, or of the run.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self.first: Memory | None = None
        """What the series began with; None while it is empty."""
        self.points: list[Point] = []
        self.problem = ""
        """Why samples are no longer kept, once they are not."""

    def add(self, sample: Sample, reason: Reason) -> None:
        """Add a sample. A file that cannot be written ends the keeping, not the wait."""
        self._remember(sample.memory)
        if self.problem:
            return
        line = {"reason": reason.code, "live": [process.pid for process in sample.live], **sample.memory.model_dump()}
        try:
            self._folder.add_memory_sample(line)
        except OpsError as error:
            self.problem = error.message

    def read(self) -> None:
        """Take up the samples that the file holds."""
        if self._folder.memory.exists() and not self._folder.memory.is_file():  # a pipe would be waited for
            self.problem = f"{self._folder.memory} is not a file"
            return
        try:
            text = self._folder.memory.read_text(errors="replace")
        except OSError:  # none yet; one that cannot be read cannot be written either, and the first sample says so
            return
        for line in text.splitlines():
            try:
                stored = json.loads(line)
                memory = Memory.model_validate({key: stored.get(key) for key in Memory.model_fields if key in stored})
            except (ValueError, AttributeError, ValidationError):
                continue  # the command that wrote it was killed in the middle of the line
            self._remember(memory)

    def _remember(self, memory: Memory) -> None:
        self.first = self.first or memory
        self.points.append(Point(memory.uptime_s, memory.available_bytes))


def open_series(state: State, record: KillRecord) -> Series:
    """The series of a kill, with what is kept of it.

    Raises:
        UnreadableError: The record's boot identity, which comes from a host, is no name for a folder.
    """
    series = Series(state.run(f"kill-{record.boot_id}-{round(record.uptime_s * 100)}"))
    series.read()
    return series

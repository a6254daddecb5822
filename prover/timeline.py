"""The grammar of the timing log, version 1, and its only writer. docs/TIMELINE_FORMAT.md is its contract.

A line is ``FAMILY key=value key=value ...``. The common keys come first and in this order: ``run``, ``job``, ``part``,
``worker``, ``dev``, ``t_ns``; each event then has its own. Values are integers (durations ``_us``, sizes ``_bytes``,
instants ``_ns``) or words of ``[A-Za-z0-9._:/-]``. Events are fixed: ``EVENTS`` lists all of them with their keys.
``t_ns`` is CLOCK_MONOTONIC of the daemon's host; the header of each file joins it to the wall clock.

Imports the standard library only: the operator's tool reads this module too.
"""

from __future__ import annotations

import os
import re
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = 1

COMMON_KEYS = ("run", "job", "part", "worker", "dev", "t_ns")

# (family, event) -> the event's own keys, in the order in which they are written. Families and base names are those
# of the Rust daemon where the meaning is the same (its `_ms` are `_us` here).
EVENTS: dict[tuple[str, str], tuple[str, ...]] = {
    # First line of a run; a reader must expect one at the start of any file. Everything needed to compare two logs.
    ("HEADER", "run"): (
        "schema",
        "build",
        "release",
        "launch",
        "config",
        "host",
        "gpus",
        "driver",
        "backend",
        "threads",
        "wall_unix_ns",
    ),
    # What the daemon was started with, all defaults included: SECTION.KEY:VALUE, joined by "/".
    ("CONFIG", "effective"): ("options",),
    # The daemon itself.
    ("DAEMON", "ready"): ("pid", "start_us"),
    ("DAEMON", "draining"): ("jobs_left",),
    ("DAEMON", "stopped"): ("uptime_us", "peak_rss_bytes"),
    ("CIRCUIT", "loaded"): ("circuit", "sha256", "load_us", "held_bytes"),
    ("CIRCUIT", "evicted"): ("circuit", "held_bytes"),
    # A job from acceptance to its end; recovered: an earlier process accepted it, and did not finish it.
    ("JOB", "accepted"): ("circuit", "parts"),
    ("JOB", "recovered"): ("circuit", "parts", "parts_done"),
    ("JOB", "started"): ("queue_us",),
    ("JOB", "done"): ("queue_us", "total_us"),
    ("JOB", "failed"): ("queue_us", "total_us", "code"),
    ("JOB", "cancelled"): ("queue_us",),
    # One partition (one witness) through the pipeline. GPU_* keep the Rust daemon's names on every backend.
    ("TIMELINE", "SYNTH_START"): (),
    ("TIMELINE", "SYNTH_END"): ("synth_us",),
    ("TIMELINE", "GPU_QUEUE"): (),
    ("TIMELINE", "GPU_PICKUP"): (),
    ("TIMELINE", "GPU_START"): (),
    ("TIMELINE", "GPU_END"): ("gpu_us",),
    # Phases inside GPU_START..GPU_END; they sum to gpu_total_us but for the time between them.
    ("CUZK_TIMING", "phases"): ("ntt_msm_h_us", "tail_msm_us", "b_g2_msm_us", "gpu_total_us"),
    ("CUZK_NTT_H", "phases"): ("ntt_kernels_us", "msm_invoke_us", "total_us"),
    # After the device: assembling the proof and verifying it with an independent library.
    ("FIN_TIMING", "partition"): ("finish_us", "verify_us", "total_us"),
    ("MEMORY", "sample"): ("rss_bytes", "peak_rss_bytes", "budget_bytes", "reserved_bytes"),
}

VALUE = re.compile(r"[A-Za-z0-9._:/-]+\Z")
_UNSAFE = re.compile(r"[^A-Za-z0-9._:/-]+")

Value = int | str


@dataclass(frozen=True)
class Event:
    """One line of the log.

    Args:
        family: Such as ``"TIMELINE"``.
        event: Such as ``"SYNTH_END"``.
        common: The common keys that are known; ``run`` and ``t_ns`` always are.
        values: The event's own keys.
    """

    family: str
    event: str
    common: Mapping[str, Value]
    values: Mapping[str, Value] = field(default_factory=dict)


def word(text: str) -> str:
    """Make any text a legal value: runs of other characters become one ``-``, nothing becomes ``none``."""
    return _UNSAFE.sub("-", text).strip("-") or "none"


def format_line(event: Event) -> str:
    """Write one event as one line, without the newline.

    Raises:
        ValueError: The event is not in ``EVENTS``, a key is missing or unknown, or a value is not legal.
    """
    own = EVENTS.get((event.family, event.event))
    if own is None:
        raise ValueError(f"no such event: {event.family} {event.event}")
    if set(event.values) != set(own):
        raise ValueError(f"{event.family} {event.event} has the keys {own}, not {tuple(event.values)}")
    if not {"run", "t_ns"} <= set(event.common) <= set(COMMON_KEYS):
        raise ValueError(f"common keys are {COMMON_KEYS}, with run and t_ns: not {tuple(event.common)}")
    pairs: list[tuple[str, Value]] = [(key, event.common[key]) for key in COMMON_KEYS if key in event.common]
    pairs.append(("event", event.event))
    pairs += [(key, event.values[key]) for key in own]
    for key, value in pairs:
        if isinstance(value, bool) or not (isinstance(value, int) or VALUE.match(value)):
            raise ValueError(f"{event.family} {event.event}: {key}={value!r} is not an integer or a plain word")
    return " ".join([event.family, *(f"{key}={value}" for key, value in pairs)])


def parse_line(line: str) -> Event:
    """Read one line that ``format_line`` wrote; keys of later versions are kept.

    Raises:
        ValueError: Not a line of this grammar; the message says at which character and why.
    """
    family, *words = line.rstrip("\n").split(" ")
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", family):
        raise ValueError("character 1: no family")
    common: dict[str, Value] = {}
    values: dict[str, Value] = {}
    event = ""
    at = len(family) + 2
    for item in words:
        key, equals, text = item.partition("=")
        if not equals or not re.fullmatch(r"[a-z][a-z0-9_]*", key) or not VALUE.match(text):
            raise ValueError(f"character {at}: {item[:40]!r} is not key=value")
        if key in common or key in values or (key == "event" and event):
            raise ValueError(f"character {at}: {key} stands twice")
        value: Value = int(text) if re.fullmatch(r"-?(0|[1-9][0-9]*)", text) else text
        if key == "event":
            event = text
        elif key in COMMON_KEYS:
            common[key] = value
        else:
            values[key] = value
        at += len(item) + 1
    if not event or "t_ns" not in common or "run" not in common:
        raise ValueError("run, t_ns or event is missing")
    return Event(family, event, common, values)


class TimelineWriter:
    """Appends events to one log file: one ``write`` a line, so lines of several threads never mix.

    Args:
        fd: A file descriptor opened for appending; owned by the caller.
        run: The run's name, written into every line.
    """

    def __init__(self, fd: int, run: str) -> None:
        self._fd = fd
        self._run = word(run)
        self._cut = False  # the last line lacks its end: what follows must not become a part of it
        self._lock = threading.Lock()

    def write(self, family: str, event: str, common: Mapping[str, Value] | None = None, **values: Value) -> int:
        """Write one event now.

        Args:
            family: The event's family.
            event: The event's name.
            common: Those of job, part, worker and dev that apply.
            values: The event's own keys.

        Returns:
            The event's ``t_ns``.

        Raises:
            ValueError: The event does not fit the grammar (a fault of the caller).
            OSError: The line could not be written whole.
        """
        with self._lock:  # t_ns is taken inside, so that the file's order is the order of time
            t_ns = time.monotonic_ns()
            line = format_line(Event(family, event, {"run": self._run, **(common or {}), "t_ns": t_ns}, values)) + "\n"
            data = (b"\n" if self._cut else b"") + line.encode("ascii")
            n_written = os.write(self._fd, data)
            self._cut = n_written != len(data)
            if self._cut:
                raise OSError(f"timing log: a line of {len(data)} bytes was cut")
        return t_ns

"""What the tests of the daemon share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from prover.timeline import Event, parse_line
from prover.timing_log import TimingLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Iterator[TimingLog]:
    log = TimingLog(tmp_path / "test.log", "test")
    yield log
    os.close(log._fd)


@pytest.fixture
def logged(log: TimingLog) -> Callable[[], list[Event]]:
    return lambda: [parse_line(line) for line in log.path.read_text().splitlines()]

"""What the header says of the host's devices."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from prover.timing_log import gpus_and_driver

if TYPE_CHECKING:
    import pytest


def test_without_the_library_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # an import of it fails
    assert gpus_and_driver() == ("none", "none")

"""Who watches a procedure of several steps."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cuzkops.memory_verdict import Reason, Sample
    from cuzkops.steps.findings import Finding
    from cuzkops.steps.ship import Transfer


class Observer(Protocol):
    """Watches a deploy or a rollback; whoever shows it decides how."""

    def step_begins(self, step: str) -> None:
        """A step begins."""

    def step_ended(self, step: str, sentence: str, seconds: float) -> None:
        """It is done; the sentence says what it did."""

    def says(self, text: str) -> None:
        """Something worth a line of its own, such as a warning."""

    def detail(self, text: str) -> None:
        """Something for those who watch closely, such as a line of the build."""

    def transferred(self, transfer: Transfer) -> None:
        """Bytes travelled."""

    def sampled(self, sample: Sample, reason: Reason) -> None:
        """A look at the memory while it comes back."""

    def if_interrupted(self, text: str) -> None:
        """What an interruption from now on leaves behind, and how to go on."""


@contextmanager
def observed(observer: Observer, step: str) -> Iterator[Callable[[str], None]]:
    """Show a step; the block says what it did by calling what it gets."""
    observer.step_begins(step)
    begin_s = time.monotonic()
    sentences: list[str] = []
    yield sentences.append
    observer.step_ended(step, " ".join(sentences), time.monotonic() - begin_s)


def warn(observer: Observer, findings: Iterable[Finding]) -> None:
    """Say what a preflight found odd."""
    for finding in findings:
        observer.says(f"{finding.severity}: {finding.message}")

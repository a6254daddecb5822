"""The keys of a configuration read whole, as far as a time allows: what a start would refuse is found without one."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import kernels
from kernels.interface import KernelError
from prover.checked_keys import CheckedKeys
from prover.errors import InputError
from prover.formats.zkey_pieces import check_pieces
from prover.instance import Home
from prover.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prover.check import CircuitPlan
    from prover.config import Config

LIMIT_S = 60.0
"""A start checks what this leaves out. See docs/PROVER.md for how much is read in that time."""


@dataclass
class KeysRead:
    """What was found.

    Args:
        n_bytes: Size of the keys together.
        read_bytes: How much of them was read, or was found sound by an earlier start.
        problems: File -> what is wrong with it.
    """

    n_bytes: int = 0
    read_bytes: int = 0
    problems: dict[Path, InputError] = field(default_factory=dict)


def read_keys(config: Config, plans: Sequence[CircuitPlan], limit_s: float = LIMIT_S) -> KeysRead:
    """Read keys piece by piece, the smallest first, on half of the CPUs: a daemon may be proving here.

    Args:
        config: Whose daemon may have loaded some of them before.
        plans: The circuits; their headers were read.
        limit_s: Time for all of them.
    """
    found = KeysRead()
    known = CheckedKeys(Home(config.home).checked_keys)
    deadline_s = time.monotonic() + limit_s
    sizes = {plan.path: plan.path.stat().st_size for plan in plans if plan.path.exists()}  # two may share one key
    digests = {plan.path: plan.sha256 for plan in plans}
    found.n_bytes = sum(sizes.values())
    try:
        backend = kernels.backend("host", threads=max(1, len(os.sched_getaffinity(0)) // 2))
    except KernelError:
        return found  # nothing can be proved here: a start says so
    with contextlib.closing(backend), Progress("reads the keys") as progress:
        for path, n_bytes in sorted(sizes.items(), key=lambda item: item[1]):
            if (sha256 := digests[path]) is not None and sha256 in known:
                found.read_bytes += n_bytes
                continue

            def goes_on(looked_bytes: int, path: Path = path, n_bytes: int = n_bytes) -> bool:
                progress.stage(f"reads the key {path}", looked_bytes / n_bytes)
                return time.monotonic() < deadline_s

            try:
                found.read_bytes += check_pieces(path, backend, goes_on)
            except InputError as error:
                found.problems[path] = error
    return found

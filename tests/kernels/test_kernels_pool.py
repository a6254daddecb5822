"""The threads of the host library: shared by calls at the same time, kept between calls, made anew after a fork."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from bls12 import Group, fr_mont, to_limbs

from kernels.gen.constants import R
from kernels.host.backend import HostBackend
from kernels.interface import FrMont, FrPlain

if TYPE_CHECKING:
    import random

    from kernels.host.library import HostLibrary

FORKS = """
import os, sys
import numpy as np
from kernels.host.backend import HostBackend
from kernels.interface import FrMont
values = FrMont(np.arange(4 * 2**15, dtype=np.uint64).reshape(-1, 4) >> np.uint64(2))
backend = HostBackend(4)
expected = backend.ntt(values).limbs
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(backend.ntt(values).limbs, expected) else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(status if np.array_equal(backend.ntt(values).limbs, expected) else 2)
"""


def n_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_calls_at_the_same_time_give_the_same_and_share_their_threads(library: HostLibrary, rng: random.Random) -> None:
    del library
    group = Group("g1")
    points = group.array([group.random(rng) for _ in range(50)] * 20)
    scalars = FrPlain(to_limbs([rng.randrange(R) for _ in range(1000)], 4))
    vector = FrMont(fr_mont([rng.randrange(R) for _ in range(2**14)]))
    backends = [HostBackend(threads) for threads in (1, 2, 4, 8)]
    bases = backends[0].load_bases(points)
    expected = backends[0].msm(bases, scalars).limbs, backends[0].ntt(vector).limbs
    before = n_threads()
    with ThreadPoolExecutor(8) as callers:
        sums = [callers.submit(backend.msm, bases, scalars) for backend in backends * 4]
        transforms = [callers.submit(backend.ntt, vector) for backend in backends * 4]
        assert all(np.array_equal(call.result().limbs, expected[0]) for call in sums)
        assert all(np.array_equal(call.result().limbs, expected[1]) for call in transforms)
    assert n_threads() <= before + 7 + 8  # the helpers of the largest call, however many calls; callers that still end


def test_threads_are_kept_between_calls(library: HostLibrary, rng: random.Random) -> None:
    del library
    vector = FrMont(fr_mont([rng.randrange(R) for _ in range(2**13)]))
    backend = HostBackend(3)
    backend.ntt(vector)
    before = n_threads()
    for _ in range(50):
        backend.ntt(vector)
    assert n_threads() == before


def test_a_forked_child_has_threads_of_its_own(library: HostLibrary) -> None:
    del library
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", FORKS], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")

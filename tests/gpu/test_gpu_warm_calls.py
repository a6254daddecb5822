"""What the workspace promises: a warm call takes nothing from the device and waits for nothing, whoever else calls."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from points import KINDS, limbs, multiples, scalars
from vectors import random_limbs

import kernels
from kernels.cuda.device import cupy
from kernels.cuda.msm_shape import Shape
from kernels.cuda.workspace import Workspace
from kernels.interface import FrMont, FrPlain, G1Affine, KernelError
from kernels.moduli import R

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernels.cuda.backend import CudaBackend
    from kernels.interface import Backend

pytestmark = pytest.mark.gpu
N = 1 << 12


class Calls:
    """One call of each kind, with data on the device and results in memory that is there."""

    def __init__(self, cuda: CudaBackend, rng: np.random.Generator) -> None:
        cp = cupy()
        self.points = KINDS["g1"](multiples("g1", scalars(rng, N)))
        bases = cuda.load_bases(self.points)
        tables = cuda.load_bases(self.points, 1 << 26)
        streamed = cuda.load_bases(self.points, held_limit_bytes=240 * 1500)
        g2 = cuda.load_bases(KINDS["g2"](multiples("g2", scalars(rng, N))))
        self.scalars = FrPlain(scalars(rng, 3 * N))
        there = cuda.put(self.scalars)
        one = FrPlain(there.limbs[:N])
        a, b = (cuda.put(FrMont(random_limbs(rng, N))) for _ in range(2))
        points = KINDS["g1"](cp.empty((3, 12), dtype=np.uint64))
        first = KINDS["g1"](points.limbs[:1])
        values, h = (kind(cp.empty((N, 4), dtype=np.uint64)) for kind in (FrMont, FrPlain))
        self.all: dict[str, Callable[[], object]] = {
            "msm": lambda: cuda.msm(bases, one, out=first),
            "tables": lambda: cuda.msm(tables, one, out=first),
            "vectors": lambda: cuda.msm(bases, there, n_vectors=3, out=points),
            "sets": lambda: cuda.msm_sets([bases, g2, bases, streamed], one),
            "streamed": lambda: cuda.msm(streamed, one, out=first),
            "ntt": lambda: cuda.ntt(a, out=values),
            "coset": lambda: cuda.ntt(a, inverse=True, coset_shift=7, out=values),
            "h": lambda: cuda.h(a, b, out=h),
            "combine": lambda: cuda.combine("multiply", a, b, out=values),
        }


@pytest.fixture(scope="module")
def calls(cuda: CudaBackend) -> Calls:
    return Calls(cuda, np.random.default_rng(5))


NAMES = ["msm", "tables", "vectors", "sets", "streamed", "ntt", "coset", "h", "combine"]


@pytest.mark.parametrize("name", NAMES)
def test_a_warm_call_takes_nothing_from_the_device(cuda: CudaBackend, calls: Calls, name: str) -> None:
    cp = cupy()
    taken: list[int] = []

    class Count(cp.cuda.MemoryHook):  # type: ignore[misc]  # CuPy has no types
        name = "count"

        def alloc_preprocess(self, **about: int) -> None:
            taken.append(about["mem_size"])

    calls.all[name]()
    held, used = cuda.workspace.n_bytes, cuda.workspace.used_bytes
    with Count():
        for _ in range(4):
            calls.all[name]()
    assert (taken, cuda.workspace.n_bytes, cuda.workspace.used_bytes) == ([], held, used)


@pytest.mark.parametrize("name", NAMES)
def test_a_warm_call_returns_before_the_device_is_done(cuda: CudaBackend, calls: Calls, name: str) -> None:
    cp = cupy()
    calls.all[name]()
    n = 1 << 22
    long = cuda.load_bases(G1Affine(cp.tile(cp.asarray(calls.points.limbs), (n // N, 1))))
    given = FrPlain(cp.tile(cp.asarray(calls.scalars.limbs[:N]), (n // N, 1)))
    cp.cuda.runtime.deviceSynchronize()
    for _ in range(8):  # about 0.2 s of work on the same stream
        cuda.msm(long, given)
    calls.all[name]()
    end = cp.cuda.get_current_stream().record()
    assert not end.done
    end.synchronize()


def test_a_shortage_in_an_msm_is_a_sentence_and_the_next_call_works(calls: Calls, host: Backend) -> None:
    limited: Any = kernels.backend("cuda", memory_limit_bytes=96 << 20)
    bases = limited.load_bases(calls.points)
    streamed = limited.load_bases(calls.points, held_limit_bytes=240 * 1100)
    expected = host.msm(host.load_bases(calls.points), FrPlain(calls.scalars.limbs[:N])).limbs
    many = FrPlain(np.tile(calls.scalars.limbs[:N], (512, 1)))
    for held in (bases, streamed):
        with pytest.raises(KernelError, match=r"asked for \d+ bytes on cuda:0 .* free, .* and the limit is 100663296"):
            limited.msm(held, many, n_vectors=512)
        assert np.array_equal(limited.msm(held, FrPlain(calls.scalars.limbs[:N])).limbs, expected)
    assert limited.workspace.n_bytes <= 96 << 20
    limited.close()


def test_threads_share_handles_and_have_streams_and_workspaces(
    cuda: CudaBackend, host: Backend, rng: np.random.Generator
) -> None:
    cp = cupy()
    points = [
        KINDS["g1" if i % 3 else "g2"](multiples("g1" if i % 3 else "g2", scalars(rng, 100 << i))) for i in range(4)
    ]
    loaded = [cuda.load_bases(p, 1 << 22 if i == 1 else 0) for i, p in enumerate(points)]  # type: ignore[type-var]
    given = [FrPlain(scalars(rng, len(p))) for p in points]
    expected = [host.msm(host.load_bases(p), s).limbs for p, s in zip(points, given, strict=True)]  # type: ignore[type-var]

    def work(number: int) -> bool:
        i = number % 4
        stream = cp.cuda.Stream(non_blocking=True)
        workspace = Workspace(cuda.on) if number % 2 else None
        found = [cuda.msm(loaded[i], given[i], stream=stream, workspace=workspace) for _ in range(10)]  # type: ignore[type-var]
        return all(np.array_equal(one.limbs, expected[i]) for one in found)

    with ThreadPoolExecutor(max_workers=8) as pool:
        assert all(pool.map(work, range(16)))


def test_two_backends_work_at_the_same_time(host: Backend, cuda: CudaBackend, rng: np.random.Generator) -> None:
    ordinals = (0, 1) if cupy().cuda.runtime.getDeviceCount() > 1 else (0, 0)  # with one device, two workspaces of it
    backends: list[Any] = [kernels.backend("cuda", device=ordinal) for ordinal in ordinals]
    points, given = KINDS["g1"](multiples("g1", scalars(rng, 3000))), FrPlain(scalars(rng, 3000))
    values = FrMont(random_limbs(rng, 1 << 12))
    sum_, transformed = host.msm(host.load_bases(points), given).limbs, host.ntt(values).limbs  # type: ignore[type-var]

    def work(backend: Any) -> bool:
        bases = backend.load_bases(points)
        there = backend.put(given)
        for _ in range(10):
            if not np.array_equal(backend.get(backend.msm(bases, there)).limbs, sum_):
                return False
            if not np.array_equal(backend.ntt(values).limbs, transformed):
                return False
        return True

    with ThreadPoolExecutor(max_workers=2) as pool:
        assert all(pool.map(work, backends))
    if ordinals[1]:
        elsewhere = backends[1].put(values)
        with pytest.raises(ValueError, match="an array of cuda:1 in a call on cuda:0"):
            cuda.ntt(elsewhere)
    for backend in backends:
        backend.close()


@pytest.mark.parametrize(("log2_n", "window_bits"), [(25, 20), (26, 7)])
def test_more_than_32_bit_numbers_can_address(
    cuda: CudaBackend, host: Backend, calls: Calls, log2_n: int, window_bits: int
) -> None:
    """2^25 records take 4.8 GB; 2^26 points with windows of 7 bits have more than 2^31 entries."""
    from kernels.cuda import msm_bases, msm_calls

    cp = cupy()
    while cuda.on.total_bytes < 1500 << log2_n:
        log2_n -= 1  # as large as this device can hold
    n = 1 << log2_n
    device, workspace = cuda.on, cuda.workspace
    points = G1Affine(cp.tile(cp.asarray(calls.points.limbs), (n // N, 1)))
    bases: Any = msm_bases.load_bases(device, workspace, points, shape=Shape("g1", n, window_bits, 1))
    given = FrPlain(cp.tile(cp.asarray(calls.scalars.limbs[:N]), (n // N, 1)))
    found = cuda.get(msm_calls.msm(device, workspace, bases, given))
    few = [int.from_bytes(row.tobytes(), "little") * (n // N) % R for row in calls.scalars.limbs[:N]]
    expected = host.msm(host.load_bases(calls.points), FrPlain(limbs(few, 4)))  # type: ignore[type-var]
    assert np.array_equal(found.limbs, expected.limbs)
    del points, bases, given
    cp.get_default_memory_pool().free_all_blocks()
    workspace.trim()

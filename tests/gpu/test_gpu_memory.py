"""Memory, streams and threads of the cuda backend: nothing is taken twice, and shortage is a sentence."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from vectors import random_limbs

import kernels
from kernels.cuda.device import cupy
from kernels.cuda.workspace import Workspace
from kernels.interface import FrMont, FrPlain, KernelError

if TYPE_CHECKING:
    from kernels.cuda.backend import CudaBackend
    from kernels.interface import Backend

pytestmark = pytest.mark.gpu


@pytest.mark.usefixtures("cuda")
def test_a_shortage_says_what_was_asked_and_the_next_call_works(host: Backend, rng: np.random.Generator) -> None:
    limited: Any = kernels.backend("cuda", memory_limit_bytes=64 << 20)
    large = FrMont(random_limbs(rng, 1 << 20))
    with pytest.raises(KernelError, match=r"asked for 33554432 bytes on cuda:0 .* free, .* and the limit is 67108864"):
        limited.h(large, large)
    small = FrMont(random_limbs(rng, 1 << 10))
    assert np.array_equal(limited.ntt(small).limbs, host.ntt(small).limbs)
    assert limited.workspace.n_bytes <= 64 << 20
    limited.close()
    with pytest.raises(KernelError, match="was closed"):
        limited.ntt(small)


def test_a_warm_call_takes_nothing_from_the_device(cuda: CudaBackend, rng: np.random.Generator) -> None:
    cp = cupy()
    a, b = (cuda.put(FrMont(random_limbs(rng, 1 << 14))) for _ in range(2))
    out = FrPlain(cp.empty((1 << 14, 4), dtype=np.uint64))
    values = FrMont(cp.empty((1 << 14, 4), dtype=np.uint64))

    def call() -> None:
        cuda.h(a, b, out=out)
        cuda.ntt(a, out=values)

    call()
    held, used = cuda.workspace.n_bytes, cuda.workspace.used_bytes
    for _ in range(5):
        call()
    assert (cuda.workspace.n_bytes, cuda.workspace.used_bytes) == (held, used)


def test_threads_streams_and_workspaces(cuda: CudaBackend, host: Backend, rng: np.random.Generator) -> None:
    cp = cupy()
    vectors = [FrMont(random_limbs(rng, 1 << (10 + i % 4))) for i in range(8)]
    expected = [host.ntt(vector, coset_shift=3 + i).limbs for i, vector in enumerate(vectors)]

    def work(i: int) -> bool:
        stream = cp.cuda.Stream(non_blocking=True)
        workspace = Workspace(cuda.on) if i % 2 else None
        for _ in range(20):
            found = cuda.ntt(vectors[i], coset_shift=3 + i, stream=stream, workspace=workspace)
            if not np.array_equal(found.limbs, expected[i]):
                return False
        return True

    with ThreadPoolExecutor(max_workers=8) as pool:
        assert all(pool.map(work, range(8)))


def test_a_stream_of_the_caller_orders_the_work(cuda: CudaBackend, host: Backend, rng: np.random.Generator) -> None:
    cp = cupy()
    values = FrMont(random_limbs(rng, 1 << 16))
    stream = cp.cuda.Stream(non_blocking=True)
    there = FrMont(cp.empty((1 << 16, 4), dtype=np.uint64))
    cp.cuda.get_current_stream().synchronize()
    there.limbs.set(values.limbs, stream=stream)
    cuda.ntt(there, out=there, stream=stream)
    cuda.ntt(there, inverse=True, out=there, stream=stream)
    stream.synchronize()
    assert np.array_equal(cuda.get(there).limbs, values.limbs)
    assert np.array_equal(host.ntt(values).limbs, cuda.ntt(values).limbs)


def test_no_such_device_is_a_sentence(cuda: CudaBackend) -> None:
    with pytest.raises(KernelError, match="there is no CUDA device 99: this process sees"):
        kernels.backend("cuda", device=99)
    assert str(cuda.on).startswith("cuda:0 (")

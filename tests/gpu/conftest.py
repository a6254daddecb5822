"""The two backends side by side on a machine with a device; without one, and only then, these tests are skipped."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import kernels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernels.cuda.backend import CudaBackend
    from kernels.interface import Backend

SEED = int(os.environ.get("CUZKOPS_SEED", "0")) or int.from_bytes(os.urandom(4), "little")


def pytest_report_header() -> str:
    return f"gpu tests: CUZKOPS_SEED={SEED}"


def n_devices() -> int:
    """Ask the driver itself, so that a broken CuPy is a failure and not a skip."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


@pytest.fixture(scope="session")
def cuda() -> Iterator[CudaBackend]:
    if n_devices() == 0:
        pytest.skip("there is no CUDA device")
    backend: Any = kernels.backend("cuda")
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def host() -> Backend:
    return kernels.backend("host")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng([SEED, *request.node.name.encode()])

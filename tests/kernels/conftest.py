"""The host backend, compiled when it is missing or old, and numbers that can be repeated."""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING

import pytest
from bls12 import Group

import kernels
from kernels.build import build
from kernels.host.backend import HostBackend
from kernels.host.library import LEAVES, HostLibrary, load_library

if TYPE_CHECKING:
    from kernels.interface import Backend


@pytest.fixture(scope="session")
def library() -> HostLibrary:
    build()
    return load_library()


@pytest.fixture(scope="session")
def host(library: HostLibrary) -> Backend:
    del library
    return kernels.backend("host", threads=2)


@pytest.fixture(scope="session", params=[(1, None), (3, "portable64"), (8, None)], ids=["1", "3-portable64", "8"])
def threaded(library: HostLibrary, request: pytest.FixtureRequest) -> HostBackend:
    """Several numbers of threads, and the arithmetic of every CPU beside the fastest of this one."""
    del library
    threads, leaf = request.param
    return HostBackend(threads, leaf)


@pytest.fixture(params=["portable64", "adx64", "carry32", "carry32-loose"])
def leaf(library: HostLibrary, request: pytest.FixtureRequest) -> int:
    """Number of an arithmetic below the fields; the carry32 ones are those of a device, emulated."""
    if request.param == "adx64" and library.best_leaf != "adx64":
        pytest.skip("this CPU has no mulx or no adcx")
    return LEAVES[request.param]


@pytest.fixture(params=["g1", "g2"])
def group(request: pytest.FixtureRequest) -> Group:
    return Group(request.param)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(zlib.crc32(request.node.name.encode()))

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
from kernels.host.library import HostLibrary, load_library

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


@pytest.fixture(scope="session", params=[1, 3, 8])
def threaded(library: HostLibrary, request: pytest.FixtureRequest) -> Backend:
    del library
    return HostBackend(request.param)


@pytest.fixture(params=["g1", "g2"])
def group(request: pytest.FixtureRequest) -> Group:
    return Group(request.param)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(zlib.crc32(request.node.name.encode()))

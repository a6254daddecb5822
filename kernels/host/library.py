"""Finds libcuzkops_host.so, checks that it is the right one, and declares its functions for ctypes."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kernels.interface import KernelError

ABI = 2  # kernels/src/host/abi.hpp has the same number
LIBRARY_NAME = "libcuzkops_host.so"
NATIVE_DIR_VARIABLE = "CUZKOPS_NATIVE_DIR"

_PACKAGE = Path(__file__).parent.parent
_OWN_NATIVE = _PACKAGE / "_native"
_HOW = "build it with: python -m kernels.build"

_pointer, _size, _int, _unsigned = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint
_leaf = _int
_FUNCTIONS: dict[str, list[Any]] = {
    "cuzkops_best_leaf": [],
    "cuzkops_msm_g1": [_leaf, _pointer, _pointer, _size, _int, _pointer],
    "cuzkops_msm_g2": [_leaf, _pointer, _pointer, _size, _int, _pointer],
    "cuzkops_first_invalid_g1": [_leaf, _pointer, _size, _int, _pointer],
    "cuzkops_first_invalid_g2": [_leaf, _pointer, _size, _int, _pointer],
    "cuzkops_ntt": [_leaf, _pointer, _pointer, _unsigned, _int, _unsigned, _int, _pointer, _int],
    "cuzkops_h": [_leaf, _pointer, _pointer, _pointer, _unsigned, _int, _pointer, _pointer],
    "cuzkops_combine": [_leaf, _int, _pointer, _pointer, _size, _int, _pointer],
    "cuzkops_multiply": [_leaf, _pointer, _pointer, _pointer, _size, _pointer, _int, _pointer],
    "cuzkops_field": [_leaf, _int, _int, _pointer, _pointer, _size, _pointer],
    "cuzkops_points": [_leaf, _int, _int, _pointer, _pointer, _size, _pointer],
    "cuzkops_fixed_base_table_g1": [_leaf, _pointer, _unsigned, _int, _pointer],
    "cuzkops_fixed_base_table_g2": [_leaf, _pointer, _unsigned, _int, _pointer],
    "cuzkops_fixed_base_g1": [_leaf, _pointer, _unsigned, _pointer, _size, _int, _pointer],
    "cuzkops_fixed_base_g2": [_leaf, _pointer, _unsigned, _pointer, _size, _int, _pointer],
    "cuzkops_first_outside_g1": [_leaf, _pointer, _pointer, _size, _int, _pointer],
    "cuzkops_first_outside_g2": [_leaf, _pointer, _pointer, _size, _int, _pointer],
    "cuzkops_bucket_sums_g1": [_leaf, _pointer, _pointer, _size, _size, _int, _pointer],
    "cuzkops_bucket_sums_g2": [_leaf, _pointer, _pointer, _size, _size, _int, _pointer],
}
LEAVES = {"portable64": 0, "adx64": 1, "carry32": 2, "carry32-loose": 3}  # kernels/src/host/abi.hpp: enum LeafNumber
_FAILURES = {
    1: "there is not enough memory for this operation",
    3: "the host library refuses these arguments",
}


class HostLibrary:
    """The loaded library. ctypes gives up Python's global lock during each call.

    Args:
        path: The library's file.

    Raises:
        KernelError: It cannot be loaded, or speaks another ABI.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._dll = ctypes.CDLL(str(path))
            self._dll.cuzkops_abi.restype = _int
            self._dll.cuzkops_sources_sha256.restype = ctypes.c_char_p
            found = self._dll.cuzkops_abi()
            for name, arguments in _FUNCTIONS.items():
                getattr(self._dll, name).argtypes = arguments
                getattr(self._dll, name).restype = _int
        except (OSError, AttributeError) as error:
            raise KernelError(f"{path} is not a host library of this version ({error}): {_HOW}") from None
        if found != ABI:
            raise KernelError(f"{path} has the interface number {found}, this version needs {ABI}: {_HOW}")

    @property
    def best_leaf(self) -> str:
        """Name in ``LEAVES`` of the fastest arithmetic that this CPU runs."""
        number = int(self._dll.cuzkops_best_leaf())
        return next(name for name, known in LEAVES.items() if known == number)

    @property
    def sources_sha256(self) -> str:
        """Digest of the sources that it was compiled from."""
        return bytes(self._dll.cuzkops_sources_sha256()).decode("ascii")

    def call_with_best_leaf(self, name: str, *arguments: Any) -> None:
        """Call a function that takes a leaf first, with the fastest one: see ``call``."""
        self.call(name, self._dll.cuzkops_best_leaf(), *arguments)

    def call(self, name: str, *arguments: Any) -> None:
        """Call one function; arrays go as the address of their memory, which the caller has checked.

        Raises:
            KernelError: It returns a status other than 0.
        """
        plain = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
        status = getattr(self._dll, name)(*plain)
        if status:
            raise KernelError(f"{name}: {_FAILURES.get(status, f'failed with status {status}')}")


def library_path(name: str = LIBRARY_NAME, how: str = _HOW) -> Path:
    """Where a compiled file is.

    The folder that $CUZKOPS_NATIVE_DIR names and no other, where it is set; else ``native`` beside the folder that
    holds this package (a shipped release: ``app/kernels`` and ``native``); else ``kernels/_native`` (a source tree).

    Args:
        name: The library, or a fatbin of the cuda backend.
        how: How to make it, for the message.

    Raises:
        KernelError: It is in none of them.
    """
    named = os.environ.get(NATIVE_DIR_VARIABLE)
    folders = [Path(named)] if named else [_PACKAGE.parent.parent / "native", _OWN_NATIVE]
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    looked = " nor in ".join(str(folder) for folder in folders)
    raise KernelError(f"{name} is not in {looked}: {how}")


@cache
def load_library() -> HostLibrary:
    """Load the library once a process.

    Raises:
        KernelError: It is missing, cannot be loaded, has another ABI, or (in a source tree) was compiled from other
            sources than those beside it.
    """
    library = HostLibrary(library_path())
    if library.path.parent == _OWN_NATIVE and (_PACKAGE / "src").is_dir():
        from kernels.build import sources_sha256  # noqa: PLC0415 - only a source tree has something to compare

        if library.sources_sha256 != sources_sha256():
            raise KernelError(f"{library.path} was compiled from other sources than those beside it: {_HOW}")
    return library

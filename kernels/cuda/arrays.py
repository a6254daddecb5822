"""Arrays of limbs in host memory or on a device: where they are, where a result goes, and copies between the two."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kernels.cuda.device import cupy
from kernels.interface import LimbArray

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernels.cuda.workspace import Workspace

ALIGNMENT_BYTES = 16
ArrayT = TypeVar("ArrayT", bound=LimbArray)


def is_on_device(array: LimbArray) -> bool:
    """Whether the limbs are a ``cupy.ndarray``."""
    return not isinstance(array.limbs, np.ndarray)


def address(array: LimbArray) -> int:
    """Where the limbs start, on the host or on the device."""
    limbs: Any = array.limbs
    return int(limbs.ctypes.data if isinstance(limbs, np.ndarray) else limbs.data.ptr)


def check_place(workspace: Workspace, *arrays: LimbArray) -> None:
    """Refuse arrays of another device.

    Raises:
        ValueError: One of them is there.
    """
    for array in arrays:
        limbs: Any = array.limbs
        if is_on_device(array) and limbs.device.id != workspace.device.ordinal:
            raise ValueError(f"an array of cuda:{limbs.device.id} in a call on {workspace.device.name}")


def check_alignment(*arrays: LimbArray) -> None:
    """Refuse arrays of the device that its widest loads cannot read: rows of memory that CuPy took always fit.

    Raises:
        ValueError: One of them starts elsewhere than at a multiple of 16 bytes.
    """
    if any(is_on_device(array) and address(array) % ALIGNMENT_BYTES for array in arrays):
        raise ValueError(f"an array on the device starts at no multiple of {ALIGNMENT_BYTES} bytes: copy it")


def checked_result(workspace: Workspace, out: ArrayT | None, kind: type[ArrayT], n: int, like: LimbArray) -> ArrayT:
    """Return ``out`` after a check of its type and length, or a new array beside ``like``.

    Raises:
        ValueError: ``out`` is another type or length, or may not be written.
    """
    if out is None:
        if is_on_device(like):
            return kind(workspace.array(n, kind.width, f"a result of {n} elements"))
        return kind(np.empty((n, kind.width), dtype=np.uint64))
    writable = is_on_device(out) or out.limbs.flags.writeable
    if type(out) is not kind or len(out) != n or not writable:
        raise ValueError(f"out must be a writable {kind.__name__} of {n}, not a {type(out).__name__} of {len(out)}")
    check_place(workspace, out)
    return out


def check_same_or_apart(result: LimbArray, *operands: LimbArray) -> None:
    """Refuse a result that overlaps an operand without being the same array.

    Raises:
        ValueError: It does.
    """
    for operand in operands:
        if is_same(result, operand) and len(result) == len(operand):
            continue
        if _overlap(result, operand):
            raise ValueError("out overlaps the values without being the same array")


def check_apart(result: LimbArray, *operands: LimbArray) -> None:
    """Refuse a result that shares memory with an operand.

    Raises:
        ValueError: It does.
    """
    if any(_overlap(result, operand) for operand in operands):
        raise ValueError("out shares memory with an operand")


def is_same(one: LimbArray, other: LimbArray) -> bool:
    """Whether two arrays start at the same place."""
    return is_on_device(one) == is_on_device(other) and address(one) == address(other)


def _overlap(one: LimbArray, other: LimbArray) -> bool:
    if is_on_device(one) != is_on_device(other):
        return False
    return address(one) < address(other) + other.n_bytes and address(other) < address(one) + one.n_bytes


def to_device(workspace: Workspace, array: ArrayT, what: str) -> ArrayT:
    """Return the array itself where it is on the device, else a copy there, put on the current stream."""
    if is_on_device(array):
        return array
    copy = type(array)(workspace.array(len(array), array.width, what))
    copy_in(address(copy), array.limbs)
    return copy


@contextmanager
def copying() -> Iterator[Any]:
    """Make a stream for copies; a failure waits for them, because their targets go back to a workspace."""
    stream = cupy().cuda.Stream(non_blocking=True)
    try:
        yield stream
    except BaseException:
        stream.synchronize()
        raise


def copy_in(target: int, source: np.ndarray[Any, Any]) -> None:
    """Copy a contiguous array of the host to the device, on the current stream.

    From pinned memory this returns at once, and the array must stay as it is until the copy was made.
    """
    if source.nbytes:
        cp = cupy()
        stream = cp.cuda.get_current_stream()
        kind = cp.cuda.runtime.memcpyHostToDevice
        cp.cuda.runtime.memcpyAsync(target, source.ctypes.data, source.nbytes, kind, stream.ptr)


def copy_out(target: LimbArray, source: int) -> None:
    """Copy from the device to an array of the host or of the device, on the current stream."""
    if target.n_bytes:
        runtime = cupy().cuda.runtime
        kind = runtime.memcpyDeviceToDevice if is_on_device(target) else runtime.memcpyDeviceToHost
        stream = cupy().cuda.get_current_stream()
        runtime.memcpyAsync(address(target), source, target.n_bytes, kind, stream.ptr)

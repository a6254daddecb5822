"""Memory of a device: every byte that the cuda backend takes comes from a workspace, which counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.cuda.device import cupy
from kernels.interface import KernelError

if TYPE_CHECKING:
    from kernels.cuda.device import Device


class Workspace:
    """Memory of one device under a limit, kept between calls.

    What a call gives back stays here for the next one, so that a call that was made before takes nothing new from the
    device and waits for nothing. Blocks that were given back are used again on the same stream only, in its order.
    Threads may share a workspace.

    Args:
        device: Where the memory is.
        limit_bytes: What may be taken in all; None leaves it to the device.
    """

    def __init__(self, device: Device, limit_bytes: int | None = None) -> None:
        self.device = device
        self.limit_bytes = limit_bytes
        self._pool = cupy().cuda.MemoryPool()
        if limit_bytes is not None:
            with cupy().cuda.Device(device.ordinal):
                self._pool.set_limit(size=limit_bytes)

    @property
    def n_bytes(self) -> int:
        """Bytes taken from the device, those kept for the next call included."""
        with cupy().cuda.Device(self.device.ordinal):
            return int(self._pool.total_bytes())

    @property
    def used_bytes(self) -> int:
        """Bytes that somebody holds now."""
        with cupy().cuda.Device(self.device.ordinal):
            return int(self._pool.used_bytes())

    def take(self, n_bytes: int, what: str) -> Any:
        """Take a block, inside ``Device.running``: ``.ptr`` is its address; it goes back when nobody refers to it.

        Args:
            n_bytes: Its size; the address is a multiple of 512.
            what: What it is for, for messages.

        Returns:
            A ``cupy.cuda.MemoryPointer``. What it holds is not set.

        Raises:
            KernelError: There is not so much: the message says what was asked, what is free and the limit.
        """
        cp = cupy()
        try:
            return self._pool.malloc(n_bytes)
        except cp.cuda.memory.OutOfMemoryError:
            raise KernelError(self._shortage(n_bytes, what)) from None

    def array(self, n_rows: int, width: int, what: str) -> Any:
        """Take a block as a (n_rows, width) ``cupy.ndarray`` of uint64: see ``take``."""
        memory = self.take(8 * n_rows * width, what)
        return cupy().ndarray((n_rows, width), dtype=np.uint64, memptr=memory)

    def trim(self) -> None:
        """Give the device back what nobody holds; waits for the device."""
        with self.device.running("giving memory back"):
            self._pool.free_all_blocks()

    def _shortage(self, n_bytes: int, what: str) -> str:
        free_bytes = int(cupy().cuda.runtime.memGetInfo()[0])
        limit = f"the limit is {self.limit_bytes}" if self.limit_bytes is not None else "there is no limit"
        return (
            f"{what} asked for {n_bytes} bytes on {self.device}: the device has {free_bytes} free, "
            f"this workspace holds {self.used_bytes} of {self.n_bytes}, and {limit}"
        )

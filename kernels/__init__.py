"""BLS12-381 arithmetic for Groth16: transforms, multi-scalar multiplications and sparse products.

``backend`` is the way in; ``kernels.interface`` says what a backend offers and in which formats numbers travel.
This package knows nothing of the prover or of the operator's tool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernels.interface import Backend

__all__ = ["backend"]


def backend(
    name: str, *, threads: int | None = None, device: int = 0, memory_limit_bytes: int | None = None
) -> Backend:
    """Open a backend.

    Args:
        name: ``"host"``: CPU threads of this machine. ``"cuda"``: an NVIDIA device, through CuPy.
        threads: Threads of the host that one operation uses; None is one for each CPU that this process may run on.
        device: Which CUDA device; the host backend has none.
        memory_limit_bytes: Most memory of the device that the cuda backend takes; None is what there is.

    Raises:
        kernels.interface.KernelError: There is no such backend, its library or kernels are missing or were built from
            other sources, ``threads`` is below 1, or there is no CuPy or no such device.
    """
    from kernels.interface import KernelError  # noqa: PLC0415 - numpy is loaded only when a backend is wanted

    if name == "host":
        from kernels.host.backend import HostBackend  # noqa: PLC0415 - the same

        return HostBackend(threads)
    if name == "cuda":
        from kernels.cuda.backend import CudaBackend  # noqa: PLC0415 - the same

        return CudaBackend(device, memory_limit_bytes)
    raise KernelError(f"there is no backend {name!r}: there are host and cuda")

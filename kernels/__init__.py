"""BLS12-381 arithmetic for Groth16: transforms, multi-scalar multiplications and sparse products.

``backend`` is the way in; ``kernels.interface`` says what a backend offers and in which formats numbers travel.
This package knows nothing of the prover or of the operator's tool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernels.interface import Backend

__all__ = ["backend"]


def backend(name: str, *, threads: int | None = None) -> Backend:
    """Open a backend.

    Args:
        name: ``"host"``: CPU threads of this machine.
        threads: Threads that one operation uses; None is one for each CPU that this process may run on.

    Raises:
        kernels.interface.KernelError: There is no such backend, its library is missing or was built from other
            sources, or ``threads`` is below 1.
    """
    from kernels.interface import KernelError  # noqa: PLC0415 - numpy is loaded only when a backend is wanted

    if name == "host":
        from kernels.host.backend import HostBackend  # noqa: PLC0415 - the same

        return HostBackend(threads)
    if name == "cuda":
        raise KernelError("the cuda backend is not there yet in this version: use the host backend")
    raise KernelError(f"there is no backend {name!r}: host is the one of this version")

"""One CUDA device: its kernels, its streams, its clock, and its errors as sentences.

Kernels come from fatbins that ``kernels.build`` made, one for each stage (a file of kernels/src/cuda); nothing is
compiled at run time, so that the driver and CuPy are all that a machine needs.
"""

from __future__ import annotations

import threading
from collections.abc import MutableMapping
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.host.library import library_path
from kernels.interface import KernelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernels.interface import Timer

_HOW = "build it with: python -m kernels.build_cuda"
_OWN_NATIVE = Path(__file__).parent.parent / "_native"


@cache
def cupy() -> Any:
    """Import CuPy, once.

    Raises:
        KernelError: It is not installed, or it does not find what it needs.
    """
    try:
        import cupy as found  # noqa: PLC0415 - only the cuda backend needs it, and its import takes a second
    except ImportError as error:
        raise KernelError(f"the cuda backend needs CuPy ({error}): pip install 'cuzkops[gpu]'") from None
    return found


def fatbin(stage: str) -> Path:
    """Where the kernels of a stage are.

    Raises:
        KernelError: They are nowhere, or (in a source tree) were compiled from other sources than those there.
    """
    path = library_path(f"cuzkops_{stage}.fatbin", _HOW)
    if path.parent == _OWN_NATIVE and (_OWN_NATIVE.parent / "src").is_dir():
        from kernels.build_cuda import is_current  # noqa: PLC0415 - only a source tree has something to compare

        if not is_current(path):
            raise KernelError(f"{path} was compiled from other sources than those beside it: {_HOW}")
    return path


class Device:
    """A device and the kernels that are loaded on it.

    Args:
        ordinal: Its number among the devices that this process sees.

    Raises:
        KernelError: There is no CuPy, no driver, or no such device.
    """

    def __init__(self, ordinal: int = 0) -> None:
        cp = cupy()
        try:
            n_devices = int(cp.cuda.runtime.getDeviceCount())
        except cp.cuda.runtime.CUDARuntimeError as error:
            raise KernelError(f"there is no CUDA device for the cuda backend: {error}") from None
        if not 0 <= ordinal < n_devices:
            raise KernelError(f"there is no CUDA device {ordinal}: this process sees {n_devices}")
        properties = cp.cuda.runtime.getDeviceProperties(ordinal)
        self.ordinal = ordinal
        self.name = f"cuda:{ordinal}"
        self.model = properties["name"].decode()
        self.n_multiprocessors = int(properties["multiProcessorCount"])
        self.capability = (int(properties["major"]), int(properties["minor"]))
        self.total_bytes = int(properties["totalGlobalMem"])
        self._modules: dict[str, Any] = {}
        self._kernels: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return f"{self.name} ({self.model})"

    def kernel(self, stage: str, function: str, shared_bytes: int = 0) -> Any:
        """Return a kernel; call it as ``kernel((blocks,), (threads,), arguments, shared_mem=)`` inside ``running``.

        Args:
            stage: Name of a file of kernels/src/cuda, without its suffix.
            function: An ``extern "C" __global__`` function of it.
            shared_bytes: Most dynamic shared memory of a block that a launch will ask for.

        Raises:
            KernelError: Its fatbin is missing or of other sources, or has nothing for this device.
        """
        found = self._kernels.get((stage, function))
        if found is None:
            with self._lock, self._errors(f"loading the kernel {function}"):
                if stage not in self._modules:
                    self._modules[stage] = cupy().RawModule(path=str(fatbin(stage)))
                found = self._modules[stage].get_function(function)
                if shared_bytes > 48 << 10:
                    found.max_dynamic_shared_size_bytes = shared_bytes
                self._kernels[stage, function] = found
        return found

    @contextmanager
    def running(self, call: str, stream: Any | None = None, **sizes: int) -> Iterator[Any]:
        """Make this device and a stream the current ones, and turn what CUDA raises into ``KernelError``.

        Args:
            call: What runs, for messages.
            stream: A ``cupy.cuda.Stream`` of this device; None is CuPy's current one.
            sizes: For messages.

        Yields:
            The stream.
        """
        cp = cupy()
        with cp.cuda.Device(self.ordinal), self._errors(call, **sizes):
            if stream is None:
                yield cp.cuda.get_current_stream()
            else:
                with stream:
                    yield stream

    @contextmanager
    def _errors(self, call: str, **sizes: int) -> Iterator[None]:
        cp = cupy()
        try:
            yield
        except (cp.cuda.runtime.CUDARuntimeError, cp.cuda.driver.CUDADriverError) as error:
            what = ", ".join(f"{name} {value}" for name, value in sizes.items())
            raise KernelError(f"{call}{f' of {what}' if what else ''} on {self}: {error}") from error


class Phases:
    """Time of the phases of one call by CUDA events; without a timer it does nothing.

    Args:
        timer: Gets the nanoseconds of each phase, or None.
    """

    def __init__(self, timer: Timer | None) -> None:
        self._timer = timer
        self._marks: list[tuple[str, Any]] = []
        self.mark("")

    def mark(self, phase: str) -> None:
        """End a phase: all that was put on the current stream since the mark before."""
        if self._timer is None:
            return
        event = cupy().cuda.Event()
        event.record()
        self._marks.append((phase, event))

    def add_up(self) -> None:
        """Wait for the last mark and add each phase to the timer; a ``LateTimer`` takes the marks as they are."""
        if isinstance(self._timer, LateTimer):
            self._timer.add_later(self._marks)
        elif self._timer is not None:
            _add_up(self._timer, self._marks)


class LateTimer(MutableMapping[str, int]):
    """Nanoseconds of phases that are over when somebody looks: a call with such a timer does not wait for its end."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._later: list[list[tuple[str, Any]]] = []

    def add_later(self, marks: list[tuple[str, Any]]) -> None:
        """Take the marks of a call, which may still be running."""
        self._later.append(marks)

    def __getitem__(self, phase: str) -> int:
        """Return the nanoseconds of a phase."""
        return self._settled()[phase]

    def __setitem__(self, phase: str, duration_ns: int) -> None:
        """Set the nanoseconds of a phase."""
        self._settled()[phase] = duration_ns

    def __delitem__(self, phase: str) -> None:
        """Forget a phase."""
        del self._settled()[phase]

    def __iter__(self) -> Iterator[str]:
        """Name the phases."""
        return iter(self._settled())

    def __len__(self) -> int:
        """Count the phases."""
        return len(self._settled())

    def _settled(self) -> dict[str, int]:
        later, self._later = self._later, []
        for marks in later:
            _add_up(self._known, marks)
        return self._known


def _add_up(timer: Timer, marks: list[tuple[str, Any]]) -> None:
    marks[-1][1].synchronize()
    for (_, start), (phase, end) in pairwise(marks):
        duration_ns = round(cupy().cuda.get_elapsed_time(start, end) * 1e6)
        timer[phase] = timer.get(phase, 0) + duration_ns

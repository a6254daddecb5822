"""Multi-scalar multiplications as a caller asks for them: one, a batch over one set of bases, or several sets."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from kernels.cuda import msm_streamed
from kernels.cuda.arrays import checked_result, copy_out, is_on_device
from kernels.cuda.device import Phases, cupy
from kernels.cuda.msm import Run
from kernels.cuda.msm_bases import CudaBases, on_device
from kernels.cuda.msm_shape import choose_shape
from kernels.cuda.msm_streamed import StreamedBases
from kernels.cuda.wide_scalars import fit_windows
from kernels.interface import Bases, FrPlain, G1Affine, G2Affine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernels.cuda.device import Device
    from kernels.cuda.msm_shape import Shape
    from kernels.cuda.workspace import Workspace
    from kernels.interface import Timer

PointsT = TypeVar("PointsT", G1Affine, G2Affine)
BATCH_ENTRIES, BATCH_BUCKETS, BATCH_VECTORS = 1 << 25, 1 << 21, 1 << 15
"""Of the vectors that are taken together, at most: more of them fill the device anyway."""


def msm(
    device: Device,
    workspace: Workspace,
    bases: Bases[PointsT],
    scalars: FrPlain,
    *,
    n_vectors: int = 1,
    n_wide: int | None = None,
    out: PointsT | None = None,
    stream: Any | None = None,
    timer: Timer | None = None,
    stages: Timer | None = None,
) -> PointsT:
    """Sum of scalars[i] * bases[i]: see ``Backend.msm``.

    Args:
        device: Of the bases.
        workspace: That gives the memory; of the same device.
        bases: A handle of ``load_bases``.
        scalars: On the device, or on the host: then the call copies them and waits for the result.
        n_vectors: Vectors of scalars that stand one after the other.
        n_wide: How many scalars have many digits, to choose windows by: see wide_scalars.py.
        out: Takes the result, a point for each vector, on the side of the scalars.
        stream: CUDA stream; None is CuPy's current one.
        timer: Phases ``h2d`` (scalars on the host only) and ``msm``, by CUDA events.
        stages: Phases ``sort``, ``accumulate``, ``reduce`` and ``finish`` of the same time.

    Returns:
        An affine point for each vector, on the side of the scalars.

    Raises:
        KernelError: There is not enough memory, or a kernel failed.
        ValueError: Bases and scalars do not fit.
    """
    held = _own(bases)
    held.check(scalars, n_vectors)
    with device.running("msm", stream, n=held.n, vectors=n_vectors) as used:
        result = checked_result(workspace, out, held.kind, n_vectors, scalars)
        phases, parts = Phases(timer), Phases(stages)
        limbs = on_device(workspace, scalars.limbs, f"{len(scalars)} scalars")
        if not is_on_device(scalars):
            phases.mark("h2d")
        there: Any = result.limbs
        if not is_on_device(result):
            there = workspace.array(n_vectors, held.kind.width, "the result of an MSM")
        places = (limbs.data.ptr, there.data.ptr)
        if isinstance(held, CudaBases) and n_vectors == 1 and held.n:
            _run(workspace, held.shape, n_wide).sum([held.records.ptr], *places, parts)
        else:
            _put_vectors(workspace, held, n_vectors, places, parts)
        phases.mark("msm")
        if not is_on_device(result):
            copy_out(result, there.data.ptr)
        if not (is_on_device(result) and is_on_device(scalars)):
            used.synchronize()
        phases.add_up()
        parts.add_up()
    return result


def msm_sets(
    device: Device,
    workspace: Workspace,
    sets: Sequence[Bases[Any]],
    scalars: FrPlain,
    *,
    n_wide: int | None = None,
    stream: Any | None = None,
    timer: Timer | None = None,
) -> list[Any]:
    """Sums of one vector of scalars against several sets of bases: see ``Backend.msm_sets``, and ``msm`` for n_wide.

    Sets of one shape share the sorted digits of the scalars and the chain of doublings at the end.
    """
    own = [_own(bases) for bases in sets]
    for held in own:
        held.check(scalars)
    found: list[Any] = [None] * len(own)
    with device.running("msm_sets", stream, n=len(scalars), sets=len(own)) as used:
        phases = Phases(timer)
        limbs = on_device(workspace, scalars.limbs, f"{len(scalars)} scalars")
        if not is_on_device(scalars):
            phases.mark("h2d")
        for alike in _alike(own):
            first = own[alike[0]]
            results = workspace.array(len(alike), first.kind.width, "the results of MSMs")
            _put_sets(workspace, [own[i] for i in alike], n_wide, (limbs.data.ptr, results.data.ptr))
            for row, i in enumerate(alike):
                found[i] = first.kind(results[row : row + 1])
            phases.mark(f"msm_{first.group}")
        phases.add_up()
        if not is_on_device(scalars):
            found = [type(point)(point.limbs.get(stream=used)) for point in found]
            used.synchronize()
    return found


def _own(bases: Bases[PointsT]) -> CudaBases[PointsT] | StreamedBases[PointsT]:
    if not isinstance(bases, CudaBases | StreamedBases):
        raise TypeError("these bases belong to another backend")
    return bases


def _alike(sets: Sequence[Bases[Any]]) -> list[list[int]]:
    """Numbers of the sets that share a sort: those on the device that have one shape."""
    groups: dict[Shape | int, list[int]] = {}
    for i, held in enumerate(sets):
        groups.setdefault(held.shape if isinstance(held, CudaBases) else i, []).append(i)
    return list(groups.values())


def _run(workspace: Workspace, shape: Shape, n_wide: int | None) -> Run:
    fitted = shape if n_wide is None else fit_windows(shape, n_wide)
    return Run(workspace.device, workspace, fitted)


def _put_sets(workspace: Workspace, sets: Sequence[Bases[Any]], n_wide: int | None, places: tuple[int, int]) -> None:
    """Put the sums of scalars at one address against sets that are alike on the stream, to points at another."""
    scalars, results = places
    first = sets[0]
    if isinstance(first, CudaBases) and first.n:
        records = [held.records.ptr for held in sets if isinstance(held, CudaBases)]
        _run(workspace, first.shape, n_wide).sum(records, scalars, results, Phases(None))
        return
    for i, held in enumerate(sets):
        _put_vectors(workspace, held, 1, (scalars, results + i * 8 * held.kind.width), Phases(None))


def _put_vectors(
    workspace: Workspace, held: Bases[Any], n_vectors: int, places: tuple[int, int], parts: Phases
) -> None:
    """Put the sums of vectors of scalars at one address on the stream, to points at another."""
    scalars, results = places
    point_bytes = 8 * held.kind.width
    if held.n == 0:
        runtime = cupy().cuda.runtime
        runtime.memsetAsync(results, 0, n_vectors * point_bytes, cupy().cuda.get_current_stream().ptr)
    elif isinstance(held, CudaBases):
        shape = batch_shape(held.shape, n_vectors)
        for first in range(0, n_vectors, shape.n_vectors):
            run = Run(workspace.device, workspace, replace(shape, n_vectors=min(shape.n_vectors, n_vectors - first)))
            there = (scalars + 32 * held.n * first, results + point_bytes * first)
            run.sum([held.records.ptr], *there, parts)
    elif isinstance(held, StreamedBases):
        for i in range(n_vectors):
            there = (scalars + 32 * held.n * i, results + point_bytes * i)
            msm_streamed.put_sum(workspace, held, there, parts)


@lru_cache(maxsize=256)
def batch_shape(shape: Shape, n_vectors: int) -> Shape:
    """Choose how many vectors of scalars to take at a time, and their windows.

    Args:
        shape: Of the bases. Tables fit its windows alone; without them any windows do.
        n_vectors: As many as there are.
    """
    if n_vectors == 1:
        return shape
    most = min(BATCH_ENTRIES // max(1, shape.max_entries), BATCH_BUCKETS // shape.n_buckets, BATCH_VECTORS)
    together = max(1, min(n_vectors, most))
    if shape.tables > 1:
        return replace(shape, n_vectors=together)
    return choose_shape(shape.group, shape.n_points, 0, together)

"""Several vectors over one set of bases, several sets for one vector, and bases that stay on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from points import KINDS, Case, scalars

from kernels.cuda import msm_calls
from kernels.cuda.device import cupy
from kernels.interface import FrPlain, Group, KernelError

if TYPE_CHECKING:
    from kernels.cuda.backend import CudaBackend
    from kernels.interface import Backend

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["g1", "g2"])
def case(request: pytest.FixtureRequest, cuda: Any, host: Backend, rng: np.random.Generator) -> Case:
    return Case(request.param, cuda, host, rng)


def like_a_witness(rng: np.random.Generator, n: int) -> FrPlain:
    numbers = scalars(rng, n)
    numbers[rng.random(n) < 0.3] = 0
    numbers[rng.random(n) < 0.3] = [1, 0, 0, 0]
    return FrPlain(numbers)


@pytest.mark.parametrize("n", [0, 1, 33, 1000, 2**13])
@pytest.mark.parametrize("n_vectors", [1, 2, 19])
@pytest.mark.parametrize("table_limit_bytes", [0, 1 << 28])
def test_vectors(case: Case, n: int, n_vectors: int, table_limit_bytes: int) -> None:
    points: Any = KINDS[case.group](case.points[:n].copy())
    given = like_a_witness(case.rng, n * n_vectors)
    bases = case.cuda.load_bases(points, table_limit_bytes)
    expected = case.host.msm(case.host.load_bases(points), given, n_vectors=n_vectors)
    assert np.array_equal(case.cuda.msm(bases, given, n_vectors=n_vectors).limbs, expected.limbs)
    there = case.cuda.msm(bases, case.cuda.put(given), n_vectors=n_vectors)
    assert np.array_equal(case.cuda.get(there).limbs, expected.limbs)


def test_vectors_in_several_rounds(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    points: Any = KINDS[case.group](case.points[:500].copy())
    given = like_a_witness(case.rng, 500 * 23)
    bases = case.cuda.load_bases(points)
    monkeypatch.setattr(msm_calls, "BATCH_ENTRIES", 5 * bases.shape.max_entries)
    msm_calls.batch_shape.cache_clear()
    assert msm_calls.batch_shape(bases.shape, 23).n_vectors == 5
    expected = case.host.msm(case.host.load_bases(points), given, n_vectors=23)
    assert np.array_equal(case.cuda.msm(bases, given, n_vectors=23).limbs, expected.limbs)
    msm_calls.batch_shape.cache_clear()


@pytest.mark.parametrize("n", [9, 32, 4097])
@pytest.mark.parametrize("table_limit_bytes", [0, 1 << 28])
def test_sets_of_a_proof(
    cuda: CudaBackend, host: Backend, rng: np.random.Generator, n: int, table_limit_bytes: int
) -> None:
    witness = like_a_witness(rng, n)
    groups: list[Group] = ["g1", "g1", "g1", "g2"]
    points: list[Any] = [
        KINDS[group](Case(group, cuda, host, rng).points[i:][:n].copy()) for i, group in enumerate(groups)
    ]
    points[2] = KINDS["g1"](points[2].limbs[5:].copy())
    n_before = [0, 0, 5, 0]
    sets = [cuda.load_bases(p, table_limit_bytes, n_before=k) for p, k in zip(points, n_before, strict=True)]
    held = [host.load_bases(p, n_before=k) for p, k in zip(points, n_before, strict=True)]
    expected = host.msm_sets(held, witness)
    timer: dict[str, int] = {}
    from_host, there = cuda.msm_sets(sets, witness, timer=timer), cuda.msm_sets(sets, cuda.put(witness))
    assert set(timer) == {"h2d", "msm_g1", "msm_g2"}
    for found, on_device, right in zip(from_host, there, expected, strict=True):
        assert np.array_equal(found.limbs, right.limbs)
        assert np.array_equal(cuda.get(on_device).limbs, right.limbs)
    alone = cuda.msm(sets[2], witness)
    assert np.array_equal(alone.limbs, expected[2].limbs)


@pytest.mark.parametrize("n", [1997, 2**13 + 1])
def test_bases_on_the_host_give_the_same_bits(case: Case, n: int) -> None:
    points: Any = KINDS[case.group](case.points[3:][:n].copy())
    n, n_before = len(points) + 3, 3
    per_point = 240 if case.group == "g1" else 960
    streamed = case.cuda.load_bases(points, n_before=n_before, held_limit_bytes=per_point * 1024)
    assert (streamed.n, streamed.held_bytes, streamed.n_pieces) == (n, 0, -(-n // 1024))
    resident = case.cuda.load_bases(points, n_before=n_before)
    given = like_a_witness(case.rng, 3 * n)
    expected = case.cuda.msm(resident, given, n_vectors=3).limbs
    assert np.array_equal(case.cuda.msm(streamed, given, n_vectors=3).limbs, expected)
    one = FrPlain(given.limbs[:n])
    for found in case.cuda.msm_sets([resident, streamed, resident], case.cuda.put(one)):
        assert np.array_equal(case.cuda.get(found).limbs, expected[:1])
    assert isinstance(case.cuda.load_bases(points, held_limit_bytes=1 << 30), type(resident))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5])
def test_windows_follow_the_witness(case: Case, share: float) -> None:
    numbers = np.zeros((2**13, 4), dtype=np.uint64)
    numbers[:, 0] = case.rng.integers(0, 2, 2**13)
    wide = case.rng.random(2**13) < share
    numbers[wide] = scalars(case.rng, int(wide.sum()))
    witness = FrPlain(numbers)
    there = case.cuda.put(witness)
    assert case.cuda._wide.of(there) == wide.sum()
    points: Any = KINDS[case.group](case.points[: 2**13].copy())
    bases, right = case.cuda.load_bases(points), case.host.msm(case.host.load_bases(points), witness)
    found = [case.cuda.msm(bases, there), *case.cuda.msm_sets([bases, bases], there)]
    assert all(np.array_equal(case.cuda.get(one).limbs, right.limbs) for one in found)


def test_a_limit_without_room_for_a_piece_is_a_sentence(case: Case) -> None:
    with pytest.raises(KernelError, match=rf"100000 bytes for bases of {case.group}: a piece of them takes"):
        case.cuda.load_bases(KINDS[case.group](case.points), held_limit_bytes=100_000)


def test_misfits_are_refused(case: Case) -> None:
    bases = case.cuda.load_bases(KINDS[case.group](case.points[:10].copy()))
    with pytest.raises(ValueError, match="5 scalars for 10 bases"):
        case.cuda.msm_sets([bases, bases], FrPlain(scalars(case.rng, 5)))
    with pytest.raises(ValueError, match="20 scalars for 3 vectors of 10 bases"):
        case.cuda.msm(bases, FrPlain(scalars(case.rng, 20)), n_vectors=3)
    wrong = KINDS[case.group](np.zeros((2, KINDS[case.group].width), dtype=np.uint64))
    with pytest.raises(ValueError, match="out must be a writable"):
        case.cuda.msm(bases, FrPlain(scalars(case.rng, 10)), out=wrong)


def test_results_go_where_they_are_asked_to(case: Case) -> None:
    kind: Any = KINDS[case.group]
    points, given = kind(case.points[:100].copy()), FrPlain(scalars(case.rng, 100))
    bases = case.cuda.load_bases(points)
    expected = case.host.msm(case.host.load_bases(points), given).limbs
    there, here = kind(cupy().empty((1, kind.width), dtype=np.uint64)), kind(np.zeros((1, kind.width), dtype=np.uint64))
    assert case.cuda.msm(bases, given, out=there) is there
    assert case.cuda.msm(bases, case.cuda.put(given), out=here) is here
    assert np.array_equal(case.cuda.get(there).limbs, expected)
    assert np.array_equal(here.limbs, expected)


def test_arrays_of_other_owners_may_start_anywhere(case: Case) -> None:
    cp = cupy()
    kind: Any = KINDS[case.group]
    points, given = kind(case.points[:100].copy()), FrPlain(scalars(case.rng, 100))

    def shifted(array: Any) -> Any:
        memory = cp.empty(array.size + 1, dtype=np.uint64)
        memory[1:].set(array.reshape(-1))
        return memory[1:].reshape(array.shape)  # at 8 bytes after a multiple of 16

    bases = case.cuda.load_bases(kind(shifted(points.limbs)))
    found = case.cuda.get(case.cuda.msm(bases, FrPlain(shifted(given.limbs))))
    assert np.array_equal(found.limbs, case.host.msm(case.host.load_bases(points), given).limbs)


def test_the_same_call_gives_the_same_bits(case: Case) -> None:
    bases = case.cuda.load_bases(KINDS[case.group](case.points))
    given = case.cuda.put(like_a_witness(case.rng, len(case.points)))
    found = [case.cuda.get(case.cuda.msm(bases, given)).limbs for _ in range(5)]
    assert all(np.array_equal(one, found[0]) for one in found)

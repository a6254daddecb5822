"""The cut of an MSM on a device: plain numbers, so no device is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kernels.cuda.msm import MODULE_TILES, MOST_TILE_BITS, tile_bits
from kernels.cuda.msm_calls import batch_shape
from kernels.cuda.msm_shape import CURVES, MAX_ENTRIES, MAX_RECORDS, Shape, choose_shape
from kernels.cuda.wide_scalars import SMALLEST_WINDOW_BITS, fit_windows

if TYPE_CHECKING:
    from kernels.interface import Group

GROUPS: list[Group] = ["g1", "g2"]
SIZES = [0, 1, 2, 33, 2**10, 2**14, 2**18, 2**20, 2**24, 2**26]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("n_points", SIZES)
@pytest.mark.parametrize("limit_bytes", [0, 10**8, 48 * 2**30])
def test_chosen_shapes_keep_the_limits_of_the_kernels(group: Group, n_points: int, limit_bytes: int) -> None:
    shape = choose_shape(group, n_points, limit_bytes)
    assert shape.windows * shape.window_bits >= CURVES[group].scalar_bits
    assert shape.windows <= shape.tables * shape.modules
    assert (shape.tables - 1) * n_points * CURVES[group].record_bytes <= limit_bytes
    assert shape.max_entries <= MAX_ENTRIES
    assert shape.n_records * CURVES[group].images <= MAX_RECORDS
    assert shape.n_buckets < 2**31
    bits = tile_bits(shape)
    assert 0 <= bits <= MOST_TILE_BITS
    assert (1 << (shape.window_bits - 1)) >> bits <= MODULE_TILES


@pytest.mark.parametrize("group", GROUPS)
def test_more_points_have_wider_windows(group: Group) -> None:
    assert choose_shape(group, 2**8, 0).window_bits < choose_shape(group, 2**16, 0).window_bits
    assert choose_shape(group, 2**16, 0).window_bits < choose_shape(group, 2**24, 0).window_bits


@pytest.mark.parametrize("group", GROUPS)
def test_tables_take_the_doublings_away(group: Group) -> None:
    assert choose_shape(group, 2**14, 0).modules > 1
    assert choose_shape(group, 2**14, 2**33).modules == 1


def test_numbers_of_a_shape() -> None:
    shape = Shape("g1", 1000, 16, 3)
    assert (shape.windows, shape.modules, shape.n_buckets) == (8, 3, 3 * 2**15)
    assert (shape.max_entries, shape.table_spacing, shape.n_records) == (16_000, 48, 3000)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("n_points", [0, 1, 2**10, 2**16, 2**20, 2**24])
@pytest.mark.parametrize("n_vectors", [1, 2, 7, 1000])
@pytest.mark.parametrize("limit_bytes", [0, 10**10])
def test_batches_keep_the_limits_of_the_kernels(group: Group, n_points: int, n_vectors: int, limit_bytes: int) -> None:
    alone = choose_shape(group, n_points, limit_bytes)
    shape = batch_shape(alone, n_vectors)
    assert 1 <= shape.n_vectors <= n_vectors
    assert shape.n_vectors == n_vectors or n_points * n_vectors > 2**16
    assert (shape.tables, shape.table_spacing) == (alone.tables, alone.table_spacing) or alone.tables == 1
    assert shape.max_entries <= MAX_ENTRIES
    assert shape.n_buckets < 2**31
    bits = tile_bits(shape)
    assert (1 << (shape.window_bits - 1)) >> bits <= MODULE_TILES


@pytest.mark.parametrize("group", GROUPS)
def test_few_wide_scalars_have_small_windows(group: Group) -> None:
    dense = choose_shape(group, 2**22, 0)
    fitted = fit_windows(dense, 2**18)
    assert SMALLEST_WINDOW_BITS <= fitted.window_bits <= dense.window_bits
    assert (fitted.n_points, fitted.tables) == (dense.n_points, 1)
    assert fit_windows(dense, 0).window_bits == SMALLEST_WINDOW_BITS
    assert fit_windows(dense, 2**22) is dense
    tables = choose_shape(group, 2**22, 2**36)
    assert tables.tables > 1
    assert fit_windows(tables, 0) is tables
    small = choose_shape(group, 2**12, 0)
    assert fit_windows(small, 5).window_bits <= small.window_bits
    huge = choose_shape(group, 2**28, 0)
    assert fit_windows(huge, 0).max_entries <= MAX_ENTRIES


@pytest.mark.parametrize("group", GROUPS)
def test_too_many_points_are_refused(group: Group) -> None:
    with pytest.raises(ValueError, match="takes up to"):
        choose_shape(group, 2**31, 0)

from __future__ import annotations

import pytest

from cuzkops.errors import UsageError
from cuzkops.units import format_bytes, format_duration_s, parse_duration_s, parse_size_bytes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("10m", 600), ("1.5h", 5400), ("500ms", 0.5), ("2 m", 120), ("0s", 0), ("1d", 86400), (" 7s ", 7)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "30", "s", "-5s", "1e3s", "10min", "10 M", "5s5", "inf", "nan", "1h30m", "٣s", "9" * 400 + "d"]
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration_s(text)
    assert repr(text) in caught.value.message
    assert "30s" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("2GiB", 2**31), ("512MiB", 2**29), ("1.5GiB", 3 * 2**29), ("2GB", 2 * 10**9), ("0B", 0), ("1kB", 1000)],
)
def test_sizes_are_read(text: str, n_bytes: int) -> None:
    assert parse_size_bytes(text) == n_bytes


@pytest.mark.parametrize("text", ["", "2", "2G", "2gib", "GiB", "-2GiB", "2GiB extra", "auto", "9" * 400 + "TiB"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_size_bytes(text)
    assert "2GiB" in caught.value.hint


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (3 * 2**29, "1.50 GiB"),
        (2**50, "1024.00 TiB"),
        (-(2**20), "-1.00 MiB"),
    ],
)
def test_sizes_are_written(n_bytes: int, text: str) -> None:
    assert format_bytes(n_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.00 us"),
        (0, "0 s"),
        (5, "5 s"),
        (60, "1 min 00 s"),
        (0.0000123, "12.3 us"),
        (0.00321, "3.21 ms"),
        (0.9999, "1.00 s"),
        (12.34, "12.3 s"),
        (59.9, "59.9 s"),
        (59.99, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3600, "1 h 00 min"),
        (7199.9, "2 h 00 min"),
    ],
)
def test_durations_are_written(seconds: float, text: str) -> None:
    assert format_duration_s(seconds) == text

"""Durations, sizes and instants as people write them: ``30s``, ``2GiB``. Read and written in this one place."""

from __future__ import annotations

import re
import time

from cuzkops.errors import UsageError

_DURATION_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST_S = 366 * 86400.0
_LARGEST_BYTES = 1 << 63
_SIZE_UNITS_BYTES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\Z")


def parse_duration_s(text: str) -> float:
    """Read a duration such as ``30s``, ``1.5m`` or ``500ms``; returns seconds.

    Raises:
        UsageError: It is not a number followed by ms, s, m, h or d.
    """
    number, unit = _split(text, "duration", "30s or 10m")
    if unit not in _DURATION_UNITS_S:
        raise _bad(text, "duration", "30s or 10m", f"the unit is {unit or 'missing'}, not ms, s, m, h or d")
    duration_s = number * _DURATION_UNITS_S[unit]
    if duration_s > _LONGEST_S:
        raise _bad(text, "duration", "30s or 10m", "it is longer than a year")
    return duration_s


def parse_size_bytes(text: str) -> int:
    """Read a size such as ``2GiB`` or ``500MB``; returns bytes, rounded down.

    Raises:
        UsageError: It is not a number followed by B, kB, MB, GB, TB, KiB, MiB, GiB or TiB.
    """
    number, unit = _split(text, "size", "2GiB or 512MiB")
    if unit not in _SIZE_UNITS_BYTES:
        units = ", ".join(_SIZE_UNITS_BYTES)
        raise _bad(text, "size", "2GiB or 512MiB", f"the unit is {unit or 'missing'}, not one of {units}")
    size = number * _SIZE_UNITS_BYTES[unit]
    if size >= _LARGEST_BYTES:
        raise _bad(text, "size", "2GiB or 512MiB", "no machine has that much")
    return int(size)


def format_bytes(n_bytes: int) -> str:
    """Write a size for people: ``1.50 GiB``, ``412 B``."""
    value, unit = float(abs(n_bytes)), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    sign = "-" if n_bytes < 0 else ""
    return f"{sign}{value:.0f} B" if unit == "B" else f"{sign}{value:.2f} {unit}"


def format_duration_s(duration_s: float) -> str:
    """Write a duration for people with three digits or minutes and seconds: ``3.21 ms``, ``12.4 s``, ``3 min 05 s``.

    A whole number is known to the second and no better: ``5 s``.
    """
    if duration_s >= 59.95:
        minutes, seconds = divmod(round(duration_s), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"
    if isinstance(duration_s, int):
        return f"{duration_s} s"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        value = duration_s * factor
        if value >= 0.9995 or unit == "us":
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{digits}f} {unit}"
    raise AssertionError("the loop ends with us")


def format_instant(unix_s: float) -> str:
    """Write an instant for people: ``2026-11-29 22:00:00 UTC``."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix_s))


def counted(n: int, noun: str) -> str:
    """Write a number of things for people: ``1 key``, ``2 keys``."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _split(text: str, what: str, example: str) -> tuple[float, str]:
    match = _QUANTITY.match(text.strip())
    if not match:
        raise _bad(text, what, example, "it is not a number with a unit")
    return float(match[1]), match[2]


def _bad(text: str, what: str, example: str, why: str) -> UsageError:
    return UsageError(what, f"{text!r} is not a {what}: {why}", f"write for example {example}")

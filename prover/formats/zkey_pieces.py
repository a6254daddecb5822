"""A proving key read whole, piece by piece: what a load would refuse is found in little memory, and nothing is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.interface import G1Affine, G2Affine
from prover.formats.container import Container, Section
from prover.formats.zkey import (
    COEFFICIENT,
    COEFFICIENT_BYTES,
    VERSION,
    PointGroup,
    check_entries,
    check_on_curve,
    header_points,
    read_open_header,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kernels.interface import Backend

PIECE = 2**17
"""Points, or entries of the matrices, that are looked at together: 5 to 24 MiB."""
_POINTS: dict[int, tuple[str, type[G1Affine | G2Affine]]] = {
    3: ("IC", G1Affine),
    5: ("A", G1Affine),
    6: ("B1", G1Affine),
    7: ("B2", G2Affine),
    8: ("C", G1Affine),
    9: ("H", G1Affine),
}


def check_pieces(path: Path, backend: Backend, goes_on: Callable[[int], bool]) -> int:
    """Check that every index of a key is in its range, and that every point lies on its curve.

    Not checked is what a load looks at besides: the digest, and whether the points lie in their subgroups.

    Args:
        path: The file.
        backend: What computes.
        goes_on: Told before each piece how many bytes were looked at; whether there is time for more.

    Returns:
        How many bytes were looked at: the size of the file where it was all of them.

    Raises:
        InputError: See ``read_zkey`` and ``check_on_curve``.
    """
    with Container(path, "zkey", VERSION) as file:
        header = read_open_header(file)
        looked_bytes = 0
        check_on_curve(file.name, header_points(header), backend)
        for kind, first, piece in _pieces(file):
            if not goes_on(looked_bytes):
                return looked_bytes
            if kind == 4:
                check_entries(file, file.read_records(piece, 0, COEFFICIENT), header, first)
            else:
                title, points = _POINTS[kind]
                limbs = file.read_limbs(piece, points.width)
                group = PointGroup(f"section {kind} ({title})", header.offsets[kind], points(limbs), first)
                check_on_curve(file.name, [group], backend)
            looked_bytes += piece.n_bytes
        return file.n_bytes


def _pieces(file: Container) -> Iterator[tuple[int, int, Section]]:
    """Every piece of the arrays: the kind of its section, the index of its first item, and where it lies."""
    sizes = {kind: (8 * points.width, 0) for kind, (_, points) in _POINTS.items()} | {4: (COEFFICIENT_BYTES, 4)}
    for kind, (item_bytes, head_bytes) in sizes.items():
        section = file.sections[kind]
        end = section.offset + section.n_bytes
        for n, offset in enumerate(range(section.offset + head_bytes, end, PIECE * item_bytes)):
            yield kind, n * PIECE, Section(kind, offset, min(PIECE * item_bytes, end - offset))

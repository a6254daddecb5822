"""A file past 400 lines or a function past 60 holds two ideas."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = [p for top in ("cuzkops", "prover", "kernels", "tests", "bench") for p in sorted((ROOT / top).rglob("*.py"))]
GENERATED = ("constants.hpp", "limbs_x86.hpp")  # by kernels/gen, which is read instead
NATIVE = [p for p in sorted((ROOT / "kernels" / "src").rglob("*.[chp]*p")) if p.name not in GENERATED]


def functions(path: Path) -> list[tuple[str, int]]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return [
        (node.name, (node.end_lineno or 0) - node.lineno + 1)
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


@pytest.mark.parametrize("path", PYTHON + NATIVE, ids=lambda path: str(path.relative_to(ROOT)))
def test_file_is_readable_at_one_go(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_hold_one_idea(path: Path) -> None:
    assert [(name, lines) for name, lines in functions(path) if lines > 60] == []

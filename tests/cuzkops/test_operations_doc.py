"""docs/OPERATIONS.md quotes what the tool really prints: each quotation is looked up in the source."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import typer.main

from cuzkops import cli
from cuzkops.memory_verdict import MemoryVerdict

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "OPERATIONS.md").read_text()
QUOTED = re.findall(r"^> (.+)$", TEXT, re.MULTILINE)
HOLE = "\0"


def strings_of(path: Path) -> list[str]:
    """Every string of a module that is no docstring; what a formatted one fills in is a hole."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    found = []
    for node in nodes:
        if id(node) in docstrings:
            continue
        if isinstance(node, ast.JoinedStr):
            found.append("".join(str(v.value) if isinstance(v, ast.Constant) else HOLE for v in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """The strings of the tool: a message is in one of them, whole."""
    return [text for path in sorted((ROOT / "cuzkops").rglob("*.py")) for text in strings_of(path)]


def is_printed(quotation: str, printed: list[str]) -> bool:
    """Whether one string of the source holds the quotation; its brackets stand for anything or for nothing."""
    pieces = [re.escape(piece.strip()) for piece in re.split(r"⟨[^⟩]*⟩", quotation) if piece.strip()]
    pattern = re.compile(r".*?".join(pieces), re.DOTALL)
    return bool(pieces) and any(pattern.search(text) for text in printed)


def test_there_are_quotations() -> None:
    assert len(QUOTED) > 30


@pytest.mark.parametrize("quotation", QUOTED, ids=range(len(QUOTED)))
def test_what_is_quoted_is_what_the_tool_prints(quotation: str, printed: list[str]) -> None:
    assert is_printed(quotation, printed)


def test_the_lookup_notices_a_word_that_nobody_prints(printed: list[str]) -> None:
    assert is_printed("a daemon named ⟨x⟩ runs already: ⟨y⟩", printed)
    assert not is_printed("a daemon named ⟨x⟩ walks already: ⟨y⟩", printed)
    assert not is_printed("runs already: ⟨y⟩ a daemon named ⟨x⟩", printed)
    assert not is_printed("⟨everything⟩", printed)


def test_every_reason_of_a_wait_has_its_row() -> None:
    reasons = re.search(r"or why it is not: ([a-z, -]+?)\.", " ".join(str(MemoryVerdict.__doc__).split()))
    assert reasons
    codes = reasons[1].split(", ")
    assert len(codes) >= 9
    assert [code for code in codes if f"| `{code}` |" not in TEXT] == []


def test_the_commands_in_it_exist() -> None:
    words = set(re.findall(r"cuzkops ([a-z-]+)", TEXT))
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined] # the group's own table
    assert words
    assert words <= set(commands)

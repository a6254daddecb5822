"""docs/PROVER.md names every command, option, key, endpoint and exit status, and every option has help."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prover.api import create_app
from prover.cli import _parser
from prover.config import SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = (Path(__file__).parents[2] / "docs" / "PROVER.md").read_text()


def parsers(parser: argparse.ArgumentParser, words: str = "prover") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helped = {choice.dest: choice.help for choice in action._choices_actions}
            for name, child in action.choices.items():
                assert helped[name], f"{words} {name} has no help"
                yield from parsers(child, f"{words} {name}")


COMMANDS = list(parsers(_parser()))


@pytest.mark.parametrize(("words", "parser"), COMMANDS, ids=[words for words, _ in COMMANDS])
def test_commands_and_options(words: str, parser: argparse.ArgumentParser) -> None:
    name = words.removeprefix("prover ").removeprefix("ctl ")
    assert re.search(rf"`(prover )?{re.escape(name)}[ `]", DOCUMENT), words
    for action in parser._actions:
        for option in action.option_strings:
            assert option in ("-h", "--help") or option in DOCUMENT, f"{words} {option}"
        if action.option_strings:
            assert action.help, f"{words} {action.option_strings} has no help"


def test_keys() -> None:
    for section, model in SECTIONS.items():
        for key in model.model_fields:
            assert f"| `{section}.{key}` |" in DOCUMENT


def test_endpoints() -> None:
    service: Any = None  # nothing is asked, only described
    for path, methods in create_app(service).openapi()["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}" in DOCUMENT


def test_exit_statuses() -> None:
    for status in ("0", "1", "2", "3", "4", "70", "130"):
        assert f"\n| {status} | " in DOCUMENT

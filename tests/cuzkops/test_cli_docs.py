"""docs/CLI.md holds the help of every command, word for word; on a mismatch what it should be is written beside."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer.main

from cuzkops import cli
from cuzkops.project import find_project
from prover.cli import main as prover_main

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCUMENT = ROOT / "docs" / "CLI.md"
VERBS = (
    "adopt",
    "bench",
    "build",
    "clean",
    "demo",
    "deploy",
    "doctor",
    "kill",
    "launch",
    "logs",
    "prove",
    "rollback",
    "runs compare",
    "runs list",
    "runs show",
    "ship",
    "status",
    "unlock",
    "wait-memory",
)


def commands() -> Mapping[str, object]:
    """Every command by its words: those of a group stand in its place."""
    found: dict[str, object] = {}
    for verb, command in typer.main.get_command(cli.app).commands.items():  # type: ignore[attr-defined] # its table
        inner = getattr(command, "commands", None)
        found |= {verb: command} if inner is None else {f"{verb} {name}": one for name, one in inner.items()}
    return found


def help_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.run([*words, "--help"]) == 0
    return capsys.readouterr().out.rstrip("\n")


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def test_the_verbs_are_those_of_the_loop() -> None:
    assert sorted(commands()) == sorted(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_and_option_has_help_and_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = commands()[verb]
    assert len(str(command.help)) > 20  # type: ignore[attr-defined]
    for parameter in command.params:  # type: ignore[attr-defined]
        assert parameter.help, f"{verb}: {parameter.name}"
    text = help_of(capsys, *verb.split())
    assert f"Example: cuzkops {verb}" in text
    assert "[OPTIONS]" in text.splitlines()[0]


def test_the_document_is_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    head = DOCUMENT.read_text().partition("\n## ")[0] if DOCUMENT.exists() else "# The command line"
    parts = [head, f"## cuzkops\n\n```text\n{help_of(capsys)}\n```"]
    parts += [f"## cuzkops {verb}\n\n```text\n{help_of(capsys, *verb.split())}\n```" for verb in sorted(commands())]
    expected = "\n\n".join(part.strip("\n") for part in parts) + "\n"
    if not DOCUMENT.exists() or DOCUMENT.read_text() != expected:
        beside = DOCUMENT.with_name("CLI.md.got")
        beside.write_text(expected)
        pytest.fail(f"docs/CLI.md is out of date: compare it with {beside} and replace it")


def test_readme_and_document_say_the_same_of_the_statuses() -> None:
    tables = [re.findall(r"^\| \d+ \|.*$", path.read_text(), re.MULTILINE) for path in (README, DOCUMENT)]
    assert len(tables[0]) == 10
    assert tables[0] == tables[1]


def test_every_command_is_in_the_readme() -> None:
    text = README.read_text()
    assert [verb for verb in VERBS if not re.search(rf"\b{verb}\b", text)] == []


def test_the_project_file_of_the_readme_is_one(tmp_path: Path) -> None:
    [example] = [
        block for block in re.findall(r"```toml\n(.*?)```", README.read_text(), re.DOTALL) if "target" in block
    ]
    (tmp_path / "cuzkops.toml").write_text(example)
    project = find_project(tmp_path)
    assert (project.target, project.config) == ("ops@gpu1:2222", tmp_path / "prover.toml")


def test_the_commands_of_the_readme_that_need_no_host_exist() -> None:
    section = README.read_text().partition("## Prove without a host")[2].partition("\n## ")[0]
    verbs = set(re.findall(r"^prover (\w+)", section, re.MULTILINE))
    assert verbs == {"prove", "vkey", "verify", "info", "setup"}
    for verb in verbs:
        with pytest.raises(SystemExit) as ended:
            prover_main([verb, "--help"])
        assert ended.value.code == 0

"""What the project promises about its own packaging."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~\[ ]", requirement)[0].lower() for requirement in requirements}


def pinned(lock: str) -> dict[str, set[str]]:
    """Package -> the versions a lock file pins (one for each environment marker)."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^ \\]+)", (ROOT / lock).read_text(), re.MULTILINE):
        found.setdefault(name.lower(), set()).add(version)
    return found


def test_operators_need_these_six_and_no_more() -> None:
    assert names(PROJECT["dependencies"]) == {"fabric", "paramiko", "typer", "rich", "pydantic", "psutil"}


def test_extras_are_the_documented_ones() -> None:
    extras = PROJECT["optional-dependencies"]
    assert names(extras["prover"]) == {
        "fastapi",
        "uvicorn",
        "numpy",
        "prometheus-client",
        "py-arkworks-bls12381",
        "nvidia-ml-py",
    }
    assert names(extras["gpu"]) == {"cupy-cuda13x"}
    assert names(extras["demo"]) == {"asyncssh"}
    assert names(extras["build"]) == {"pyinstaller"}


@pytest.mark.parametrize("lock", [f"requirements{part}.lock" for part in ("", "-prover", "-gpu", "-nvcc")])
def test_locks_hold_hashes_and_no_addresses(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert "--hash=sha256:" in text
    assert not re.search(r"^--", text, re.MULTILINE)


def test_the_daemon_runs_the_versions_that_were_tested() -> None:
    everything = pinned("requirements.lock")
    for lock, alone in (
        ("requirements-prover.lock", set()),
        ("requirements-gpu.lock", {"cupy-cuda13x", "cuda-pathfinder"}),
    ):
        others = {name for name, version in pinned(lock).items() if everything.get(name) != version}
        assert others == alone


def test_every_declared_dependency_is_locked() -> None:
    extras = PROJECT["optional-dependencies"]
    declared = names(PROJECT["dependencies"]) | set().union(*(names(extras[e]) for e in extras if e != "gpu"))
    assert declared <= set(pinned("requirements.lock"))


def test_no_ruff_rule_is_ignored_without_a_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    block = text[text.index("ignore = [") :]
    lines = [line for line in block[: block.index("\n]")].splitlines() if re.match(r'\s+"[A-Z]+[0-9]+"', line)]
    assert lines
    assert [line for line in lines if "#" not in line] == []


def test_tracked_files_name_no_machine_of_ours() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    shared = {"/", "/tmp/", "/var/tmp/", "/home/", "/root/", "/opt/", "/srv/"}  # noqa: S108 - every machine has these
    ours = [prefix.encode() for prefix in (f"{ROOT}/", f"{ROOT.parent}/") if prefix not in shared]
    guilty = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and any(prefix in path.read_bytes() for prefix in ours):
            guilty.append(name)
    assert guilty == []

"""The launcher, as it is shipped, in the shells that hosts have."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAUNCHER = ROOT / "cuzkops" / "artifact" / "launcher.sh"
BOOT = ROOT / "cuzkops" / "artifact" / "boot.py"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
SHELLS = [words for words in (["sh"], ["dash"], ["bash", "--posix"], ["busybox", "sh"]) if shutil.which(words[0])]

# Prints what a daemon would find: its PID, its folder, where it was started, and its arguments.
FACTS = """#!/bin/sh
printf '%s\\n' "$$" "$PROVER_RELEASE_DIR" "$PWD" "$@"
"""
PROBE = """
import os, sys
def main():
    print(os.getpid(), os.environ["PROVER_RELEASE_DIR"], os.getcwd(), *sys.argv[1:], sep="\\n")
    print(sys.flags.isolated, sys.flags.no_site, sys.dont_write_bytecode, sep="\\n")
    print(sys.argv[0], __file__, sys.path[-3:], sep="\\n")
    return 5
"""


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A release without a runtime, in a folder whose name has a space."""
    release = tmp_path / "my releases" / "r1"
    (release / "runtime").mkdir(parents=True)
    shutil.copy(LAUNCHER, release / "prover")
    (release / "prover").chmod(0o755)
    return release


@pytest.fixture
def bundled(release: Path) -> Path:
    (release / "runtime" / "prover").write_text(FACTS)
    (release / "runtime" / "prover").chmod(0o755)
    return release


@pytest.fixture
def on_host(release: Path) -> Path:
    shutil.copy(BOOT, release / "runtime" / "boot.py")
    (release / "runtime" / "host-python").write_text(f"{VERSION}\n{sys.executable}\n")
    (release / "app" / "prover").mkdir(parents=True)
    (release / "app" / "prover" / "__init__.py").touch()
    (release / "app" / "prover" / "cli.py").write_text(PROBE)
    return release


def start(argv: list[str | Path], *, cwd: Path, **environment: str) -> tuple[int, int, list[str], str]:
    """Start and wait: the PID that the caller sees, status, lines, standard error."""
    with subprocess.Popen(
        argv, cwd=cwd, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        out, err = process.communicate(timeout=30)
    return process.pid, process.returncode, out.splitlines(), err


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_bundled_runtime_gets_the_folder_the_arguments_and_the_same_pid(
    shell: list[str], bundled: Path, tmp_path: Path
) -> None:
    arguments = ["prove", "two words", "$HOME", ""]
    pid, status, lines, err = start([*shell, bundled / "prover", *arguments], cwd=tmp_path)
    assert (status, err) == (0, "")
    assert lines == [str(pid), str(bundled), str(tmp_path), *arguments]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_link_to_the_release_is_resolved(shell: list[str], bundled: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(bundled)
    _, _, lines, _ = start([*shell, "current/prover"], cwd=tmp_path, CDPATH=str(bundled.parent))
    assert lines[1:] == [str(bundled), str(tmp_path)]


def test_found_through_path(bundled: Path, tmp_path: Path) -> None:
    _, _, lines, _ = start(["prover", "x"], cwd=tmp_path, PATH=f"{bundled}:{os.environ['PATH']}")
    assert lines[1:] == [str(bundled), str(tmp_path), "x"]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_host_python_runs_isolated_in_the_same_process(shell: list[str], on_host: Path, tmp_path: Path) -> None:
    pid, status, lines, err = start([*shell, on_host / "prover", "serve", "a b"], cwd=tmp_path, PYTHONPATH="/nowhere")
    assert (status, err) == (5, "")
    assert lines[:5] == [str(pid), str(on_host), str(tmp_path), "serve", "a b"]
    assert lines[5:9] == ["1", "1", "True", str(on_host / "prover")]
    assert lines[9] == str(on_host / "app" / "prover" / "cli.py")
    assert lines[10] == str([str(on_host / where) for where in ("app", "runtime/site-packages", "gpu")])
    assert list(on_host.rglob("*.pyc")) == []


def path_with(folder: Path, **programs: str) -> str:
    """A PATH with these programs (name -> script) and the few that the launcher itself uses."""
    folder.mkdir()
    for name in ("sh", "dirname"):
        (folder / name).symlink_to(shutil.which(name) or name)
    for name, script in programs.items():
        (folder / name.replace("_", ".")).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name.replace("_", ".")).chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("name", [f"python{VERSION}".replace(".", "_"), "python3"])
def test_other_interpreter_of_the_same_version_is_found_on_path(on_host: Path, tmp_path: Path, name: str) -> None:
    (on_host / "runtime" / "host-python").write_text(f"{VERSION}\n/nowhere/python\n")
    path = path_with(tmp_path / "bin", **{name: f'exec {sys.executable} "$@"'})
    _, status, lines, err = start([on_host / "prover"], cwd=tmp_path, PATH=path)
    assert (status, err) == (5, "")
    assert lines[1] == str(on_host)


def test_interpreter_of_another_version_is_not_taken(on_host: Path, tmp_path: Path) -> None:
    (on_host / "runtime" / "host-python").write_text("3.99\n/nowhere/python\n")
    path = path_with(tmp_path / "bin", python3=f'exec {sys.executable} "$@"')
    _, status, lines, err = start([on_host / "prover"], cwd=tmp_path, PATH=path)
    assert (status, lines) == (127, [])
    assert err == (
        "prover: this release needs Python 3.99 on this host, "
        "and neither /nowhere/python nor python3.99 nor python3 is one\n"
    )


def test_release_without_runtime_is_named(release: Path, tmp_path: Path) -> None:
    _, status, _, err = start([release / "prover"], cwd=tmp_path)
    assert status == 127
    assert f"prover: {release} is not a whole release: runtime/prover and runtime/host-python are missing" in err

"""The demo as a user runs it: a process of its own, its whole loop, and its end after Ctrl-C."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cuzkops.demo import DATA, PROOFS, daemons_under
from cuzkops.remote.layout import Layout

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.peers, pytest.mark.timeout(600), pytest.mark.usefixtures("local_artifact")]


@pytest.fixture(autouse=True)
def _peers() -> None:
    for module in ("asyncssh", "py_arkworks_bls12381"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")


def processes_of(folder: Path) -> list[str]:
    """Command lines of everything that still runs and names the demo's folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def start_demo(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "cuzkops", "demo", "--keep", str(folder), *words]
    environment = os.environ | {
        "XDG_CACHE_HOME": str(ROOT / "build" / "test-cache")
    }  # where local_artifact's runtime is
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_the_data_are_the_fixtures() -> None:
    for circuit in PROOFS:
        for name in ("circuit.zkey", "witness.wtns", "verification_key.json"):
            fixture = ROOT / "tests" / "data" / "groth16" / circuit / name
            assert (DATA / circuit / name).read_bytes() == fixture.read_bytes()


def test_the_whole_loop(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    demo = start_demo(folder, "--json")
    out, err = demo.communicate(timeout=500)
    assert demo.returncode == 0, err
    document = json.loads(out)
    assert document["n_proofs"] == 2 * sum(PROOFS.values())
    first, second = document["releases"]
    assert first.partition("-")[0] == second.partition("-")[0]  # one build
    assert first != second  # two configurations
    table = document["table"]
    assert table["n_bad_lines"] == 0, table["bad_lines"]
    assert [run["header"]["release"] for run in table["runs"]] == [first, second]
    for run in table["runs"]:
        assert run["jobs"] == {"done": sum(PROOFS.values())}
        assert run["unended"] == []
        for circuit in run["circuits"]:
            partition = next(row for row in circuit["rows"] if row["phase"] == "partition")
            assert partition["n"] == PROOFS[circuit["circuit"]] - 1
            assert partition["warm_up_ns"] > 0
    assert "Traceback" not in err
    assert "INFO" not in err  # messages of libraries
    assert processes_of(folder) == []
    runs = sorted((folder / "state" / "runs").iterdir())
    assert len([run for run in runs if (run / "run.json").exists()]) == 2
    assert json.loads((runs[1] / "memory.jsonl").read_text().splitlines()[-1])["available_bytes"] > 0


@pytest.mark.parametrize("moment", ["3. deploy", "launch: started", "4. prove"])
def test_an_interruption_leaves_nothing_running(moment: str, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    demo = start_demo(folder)
    assert demo.stderr is not None
    for line in demo.stderr:
        if line.startswith(moment):
            break
    else:
        pytest.fail(f"the demo ended before {moment!r}")
    time.sleep(0.2)
    os.kill(demo.pid, signal.SIGINT)
    _, err = demo.communicate(timeout=200)
    assert demo.returncode == 130, err
    assert "error: interrupted: the demo's daemon and host were stopped\n" in err
    assert "Traceback" not in err
    assert processes_of(folder) == []


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    demo = start_demo(tmp_path)
    _, err = demo.communicate(timeout=60)
    assert demo.returncode == 2
    assert "is not an empty folder" in err
    assert (tmp_path / "mine").exists()


def test_only_daemons_of_the_folder_are_found(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path), "prover")
    mark = f"{layout.releases}/x/config.toml"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", mark]) as process:
        try:
            assert daemons_under(layout) == [process.pid]
            assert daemons_under(Layout(str(tmp_path), "other")) == []
        finally:
            process.kill()
    assert daemons_under(layout) == []

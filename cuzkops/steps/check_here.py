"""What the daemon itself says of a configuration on this machine, before anything travels.

The host's own check is the authority (``check.py``). This one finds earlier what is wrong whatever the host: keys that
do not exist, values of the wrong kind, a proving key that is none. Where the artifact does not run here, the prover
beside this tool is asked, and where there is none, nobody.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuzkops.artifact.elf import glibc_version
from cuzkops.artifact.layer_cache import cache_folder, prune
from cuzkops.artifact.layers import unpack_layers
from cuzkops.artifact.listing import list_archive
from cuzkops.errors import OpsError
from cuzkops.remote.ctl import parse_answer
from cuzkops.steps.findings import Finding
from prover.protocol import CheckAnswer

if TYPE_CHECKING:
    from cuzkops.configuration import DeployConfig
    from cuzkops.steps.build import Artifact
    from prover.protocol import Problem

_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class CheckedHere:
    """What was found on this machine.

    Args:
        sentence: Who was asked, for people.
        findings: An error for each problem.
    """

    sentence: str
    findings: list[Finding]


def check_here(artifact: Artifact, config: DeployConfig) -> CheckedHere:
    """Ask the daemon on this machine what is wrong with a configuration whatever the host.

    Raises:
        UsageError: A layer of the artifact holds what may not be unpacked.
    """
    return _checked(config, _provers(artifact))


def check_by_tool(config: DeployConfig) -> CheckedHere:
    """The same without an artifact: only the prover beside this tool is asked."""
    return _checked(config, _beside())


def _checked(config: DeployConfig, provers: list[tuple[str, list[str]]]) -> CheckedHere:
    with tempfile.TemporaryDirectory(prefix="cuzkops-check-") as raw:
        folder = Path(raw)
        (folder / "config.toml").write_bytes(config.text)
        (folder / "circuits").mkdir()
        for circuit in config.circuits.values():
            with contextlib.suppress(FileExistsError):  # two names may share one key
                (folder / "circuits" / circuit.sha256).symlink_to(circuit.path.absolute())
        for who, argv in provers:
            answer = _ask(argv, folder)
            if answer is not None:
                found = [_finding(problem, config, raw) for problem in answer.problems if _is_certain(problem, config)]
                return CheckedHere(f"the configuration was checked here by {who}", found)
    return CheckedHere("the configuration is checked on the host: the artifact does not run here", [])


def _provers(artifact: Artifact) -> list[tuple[str, list[str]]]:
    """Who can be asked, the artifact itself first."""
    found = []
    if why_not_here(artifact) == "":
        with contextlib.suppress(OSError, OpsError):  # no room here for a release: the host is asked instead
            found.append(("the artifact", [str(_release(artifact) / "prover")]))
    return found + _beside()


def _beside() -> list[tuple[str, list[str]]]:
    if importlib.util.find_spec("prover.cli") is None:
        return []
    return [("the prover beside this tool", [sys.executable, "-m", "prover"])]


def why_not_here(artifact: Artifact) -> str:
    """Why an artifact does not run on this machine; empty where it should."""
    manifest = artifact.manifest
    if not sys.platform.startswith("linux") or manifest.target.partition("-")[0] != platform.machine():
        return f"it is for {manifest.target}, and this machine is {platform.machine()}"
    libc, version = platform.libc_ver()
    if libc != "glibc" or glibc_version(version) < glibc_version(manifest.glibc_floor):
        return f"it needs glibc {manifest.glibc_floor}, and this machine has {libc or 'another'} {version}"
    return ""


def _release(artifact: Artifact) -> Path:
    """The artifact unpacked in the tool's cache: made once."""
    cache = cache_folder("releases")
    release = cache / artifact.manifest.build_id
    if (release / "prover").is_file():
        os.utime(release)
        return release
    # CuPy takes 200 MB, and what is wrong with a GPU here may be right on the host.
    archives = [artifact.layer_path(layer) for layer in artifact.manifest.layers if layer.name != "gpu"]
    for archive in archives:
        list_archive(archive)  # refuses what would land elsewhere
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".making-") as raw:
        made = Path(raw) / "release"
        made.mkdir()
        unpack_layers(archives, made)
        shutil.copy(artifact.directory / "manifest.json", made)
        with contextlib.suppress(OSError):  # another deploy was faster
            made.rename(release)
    prune(cache)
    return release


def _ask(argv: list[str], folder: Path) -> CheckAnswer | None:
    words = ["serve", "--check-config", "--json", "--config", str(folder / "config.toml"), "--remote-dir", str(folder)]
    try:
        done = subprocess.run(
            [*argv, *words], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):  # it does not run here: what it would say, it says on the host
        return None
    answer = parse_answer(done.stdout, CheckAnswer)
    return answer if isinstance(answer, CheckAnswer) else None


def _is_certain(problem: Problem, config: DeployConfig) -> bool:
    """Whether a problem is one on every host."""
    where = problem.where
    if where.startswith("circuits."):
        return where.partition(" (")[2].removesuffix(")") in config.circuits
    if where == "circuits" or where.startswith("circuit "):  # sizes against the budget, which may be the host's
        return config.budget_bytes is not None
    if where == "gpus.backend":  # a GPU that is not here may be there; a name of no backend is none anywhere
        return not config.uses_gpu
    return not where.startswith("memory.budget")


def _finding(problem: Problem, config: DeployConfig, folder: str) -> Finding:
    """A problem in the operator's words: his places and his files, and not those that were made for the check."""
    where, message = problem.where, problem.message
    name = where.partition(" (")[2].removesuffix(")")
    if name in config.places:
        place = config.places[name]
        where = place if place.endswith(name) else f"{place} ({name})"
    for circuit in config.circuits.values():
        message = message.replace(f"{folder}/circuits/{circuit.sha256}", str(circuit.path))
    message = message.replace(f"{folder}/config.toml", config.source)
    return Finding("configuration", "error", where, f"{where}: {message}", problem.hint)

"""What a deploy ships as ``config.toml``, and the circuits that it names.

The tool reads three things of the daemon's configuration: ``daemon.name``, ``memory.budget`` and ``[[circuits]]``.
Everything else is carried unread; the daemon itself judges it on the host (``check``). A circuit's local ``path``
becomes the digest of the file, under which the file is shipped.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cuzkops.artifact.layers import file_sha256
from cuzkops.errors import UsageError, listed
from cuzkops.paths import expanded
from cuzkops.toml import dump_toml, read_toml
from cuzkops.units import parse_size_bytes
from prover.protocol import DEFAULT_NAME, NAME_PATTERN, SHA256_PATTERN

if TYPE_CHECKING:
    from collections.abc import Mapping


class CarriedCircuit(NamedTuple):
    """A proving key that is shipped: its digest and where it lies here."""

    sha256: str
    path: Path


class _Entry(NamedTuple):
    """One circuit as it was given: its dotted key or option, what to blame in a message, and what it says."""

    place: str
    blame: str
    table: dict[str, Any]


_DEFAULT_SOURCE = "the default configuration"


@dataclass(frozen=True)
class DeployConfig:
    """A configuration as it is shipped.

    Args:
        text: ``config.toml``, every local path replaced by its digest.
        sha256: Digest of ``text``.
        name: The daemon's name.
        circuits: Circuit name -> its key, found here and shipped.
        host_circuits: Circuit name -> absolute path or digest of a key that only the host has; left alone.
        budget_bytes: The explicit memory budget, or None where there is none or it is ``auto``.
        source: The file that was read, or words for the default, for messages.
        places: Circuit name -> where it was given: ``circuits.0`` of the file, or ``--circuit NAME``.
        uses_gpu: Whether its backend is that of a GPU.
    """

    text: bytes
    sha256: str
    name: str
    circuits: dict[str, CarriedCircuit]
    host_circuits: dict[str, str]
    budget_bytes: int | None
    source: str
    places: dict[str, str] = field(default_factory=dict)
    uses_gpu: bool = False

    @property
    def host_digests(self) -> dict[str, str]:
        """Those of ``host_circuits`` that are named by digest."""
        return {name: where for name, where in self.host_circuits.items() if not where.startswith("/")}

    @property
    def is_bare(self) -> bool:
        """Whether nobody named a configuration or a circuit."""
        return self.source == _DEFAULT_SOURCE and not (self.circuits or self.host_circuits)


class ConfigurationProblemsError(UsageError):
    """A configuration that is wrong.

    Args:
        problems: Each with its hint, or an empty string.
        rest: What it is without what is wrong: more may be found in that.
    """

    def __init__(self, problems: list[tuple[str, str]], rest: DeployConfig) -> None:
        alone = problems[0] if len(problems) == 1 else None
        message = alone[0] if alone else f"{len(problems)} problems:\n{listed(problems)}"
        details: dict[str, object] = {"problems": [message for message, _ in problems]}
        super().__init__("configuration", message, alone[1] if alone else "", details)
        self.problems = problems
        self.rest = rest


def load_configuration(
    path: Path | None, *, name: str | None = None, circuits: Mapping[str, Path] | None = None, budget: str | None = None
) -> DeployConfig:
    """Read a configuration file, or make the default one, and find what it carries.

    Args:
        path: The TOML file, or None for a default; relative paths in it are relative to its folder.
        name: The daemon's name where the file has none (``"prover"`` if this is None too).
        circuits: Further circuits, name -> local zkey or absolute path on the host.
        budget: Memory budget such as ``"2GiB"`` that replaces the file's.

    Raises:
        UsageError: The file cannot be read, or its parts are not what they should be.
        ConfigurationProblemsError: Circuits or the budget are wrong; all is named at once, with dotted keys.
    """
    source = str(path) if path else _DEFAULT_SOURCE
    document = read_toml(path, "configuration") if path else {}
    daemon, memory = _section(document, "daemon", source), _section(document, "memory", source)
    document = {**document, "daemon": {**daemon, "name": _settled_name(daemon.get("name"), name, source)}}
    budget_place = f"{source}: memory.budget"
    if budget is not None:
        document["memory"] = {**memory, "budget": budget}
        budget_place = "--budget"
    entries = [
        _Entry(f"circuits.{i}", f"{source}: circuits.{i}", table)
        for i, table in enumerate(_circuit_entries(document, source))
    ]
    for key, zkey in (circuits or {}).items():
        path_here = str(zkey.absolute() if os.access(zkey, os.F_OK) else zkey)
        blame = f"--circuit {key} (besides {source}): circuit"
        entries.append(_Entry(f"--circuit {key}", blame, {"name": key, "path": path_here}))
    return _settle(document, entries, path.parent if path else Path(), source, budget_place)


def _without(document: dict[str, Any], key: str) -> dict[str, Any]:
    return {other: value for other, value in document.items() if other != key}


def _settled_name(stored: object, given: str | None, source: str) -> str:
    if stored is not None and given is not None and stored != given:
        raise UsageError("configuration", f"{source}: daemon.name is {stored!r}, but {given!r} was asked for")
    name = given or stored or DEFAULT_NAME
    if not (isinstance(name, str) and re.fullmatch(NAME_PATTERN, name)):
        raise UsageError(
            "configuration",
            f"{source}: daemon.name is {name!r}, not 1 to 64 letters, digits, '.', '_' or '-' after a letter or digit",
        )
    return name


def _section(document: dict[str, Any], key: str, source: str) -> dict[str, Any]:
    section = document.get(key, {})
    if not isinstance(section, dict):
        raise UsageError("configuration", f"{source}: {key} is {section!r}, not a table")
    return section


def _circuit_entries(document: dict[str, Any], source: str) -> list[dict[str, Any]]:
    entries = document.get("circuits", [])
    if not (isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)):
        raise UsageError("configuration", f"{source}: circuits is not a list of tables", "write [[circuits]]")
    return list(entries)


def _settle(
    document: dict[str, Any], entries: list[_Entry], folder: Path, source: str, budget_place: str
) -> DeployConfig:
    """Settle each circuit and the budget; both come with the place to blame, a key of the file or an option."""
    problems: list[tuple[str, str]] = []
    carried: dict[str, CarriedCircuit] = {}
    host: dict[str, str] = {}
    shipped: list[dict[str, Any]] = []
    places: dict[str, str] = {}
    for place, blame, entry in entries:
        try:
            name, where = _circuit(entry, folder, {*carried, *host})
        except ValueError as error:
            problems.append((f"{blame}{error.args[0]}", "".join(error.args[1:])))
            continue
        places[name] = place
        if isinstance(where, CarriedCircuit):
            carried[name] = where
            entry = {**_without(entry, "path"), "sha256": where.sha256}  # noqa: PLW2901 - the entry as it is shipped
        else:
            host[name] = where
        shipped.append(entry)
    memory = _section(document, "memory", source)
    budget_bytes = None
    try:
        budget_bytes = _budget_bytes(memory.get("budget"))
    except UsageError as error:
        problems.append((f"{budget_place}: {error.message}", error.hint))
        document = {**document, "memory": _without(memory, "budget")}
    if budget_bytes is not None:  # in bytes, because we take more spellings than the daemon
        document = {**document, "memory": {**memory, "budget": f"{budget_bytes}B"}}
    document = {**_without(document, "circuits"), **({"circuits": shipped} if shipped else {})}
    text = dump_toml(document).encode()
    digest = hashlib.sha256(text).hexdigest()
    name = str(document["daemon"]["name"])
    gpus = document.get("gpus")
    uses_gpu = isinstance(gpus, dict) and gpus.get("backend") == "cuda"
    config = DeployConfig(text, digest, name, carried, host, budget_bytes, source, places, uses_gpu)
    if problems:
        raise ConfigurationProblemsError(problems, config)
    return config


def _circuit(entry: dict[str, Any], folder: Path, taken: set[str]) -> tuple[str, CarriedCircuit | str]:
    """One circuit: its name, and its key here or where the host has it; ValueError: what is wrong, and what to do."""
    name, path, sha256 = entry.get("name"), entry.get("path"), entry.get("sha256")
    if not (isinstance(name, str) and re.fullmatch(NAME_PATTERN, name)):
        raise ValueError(f".name is {name!r}, not a name of letters, digits, '.', '_' or '-'")
    if name in taken:
        raise ValueError(f".name: {name!r} stands twice", "give one of them another name, or take it out")
    if sha256 is not None and not (isinstance(sha256, str) and re.fullmatch(SHA256_PATTERN, sha256)):
        raise ValueError(f".sha256 of {name} is {sha256!r}, not 64 hexadecimal digits")
    if path is None:
        if sha256 is None:
            raise ValueError(f" ({name}) has neither path nor sha256")
        return name, str(sha256)
    if not isinstance(path, str) or not path:
        raise ValueError(f".path of {name} is {path!r}, not a path")
    return name, _key_at(path, sha256, folder, name)


def _key_at(path: str, sha256: str | None, folder: Path, name: str) -> CarriedCircuit | str:
    try:
        local = folder / expanded(path, f"the path of circuit {name}")
        exists = local.exists()
    except UsageError as error:
        raise ValueError(f": {error.message}") from error
    except OSError as error:  # such as a name that is too long
        raise ValueError(f".path of {name}: {path} cannot be used: {error.strerror}") from error
    if not exists:
        if not path.startswith("/"):
            missing = f".path of {name}: {local} does not exist (a path of the host must be absolute)"
            raise ValueError(missing, _neighbours(local))
        if sha256 is not None:
            raise ValueError(f" ({name}): {path} does not exist here, and the host's key has either path or sha256")
        return path
    if not (local.is_file() or local.is_dir()):  # a pipe or a device may never end
        raise ValueError(f".path of {name}: {local} is not a regular file")
    try:
        found = file_sha256(local)
    except OSError as error:
        raise ValueError(f".path of {name}: {local} cannot be read: {error.strerror}") from error
    if sha256 not in (None, found):
        raise ValueError(f".sha256 of {name} is {sha256}, but {local} has {found}")
    return CarriedCircuit(found, local)


def _neighbours(path: Path) -> str:
    """What to name instead of a file that is not there: what is called like it in its folder, else the keys there."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return f"there is no folder {path.parent}"
    near = difflib.get_close_matches(path.name, names, n=3) or [name for name in names if name.endswith(".zkey")][:3]
    where = "this folder" if path.parent == Path() else str(path.parent)
    return f"{where} has {', '.join(near)}" if near else ""


def _budget_bytes(budget: object) -> int | None:
    if budget is None or budget == "auto":
        return None
    if not isinstance(budget, str):
        raise UsageError("size", f'{budget!r} is not a size: write a text such as "2GiB", or "auto"')
    return parse_size_bytes(budget)

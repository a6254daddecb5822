"""The daemon's configuration: a TOML file, read as a whole, with every mistake in it named at once.

``playbooks/reference.toml`` shows every key. Imports pydantic only.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import ipaddress
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from prover.cuzk_toml import explain
from prover.errors import InputError
from prover.instance import expanded
from prover.protocol import DEFAULT_NAME, Name, Problem, Sha256
from prover.timeline import word

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(B|KiB|MiB|GiB|TiB)")
_LARGEST_BYTES = 1 << 63
_FILE_LIMIT_BYTES = 1 << 20
_SMALLEST_LOG_BYTES = 64 << 10
_UNITS_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def parse_size_bytes(text: str) -> int:
    """Read a size such as ``2GiB``; returns bytes, rounded down.

    Raises:
        ValueError: It is not a number followed by B, KiB, MiB, GiB or TiB, or larger than any memory.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size: write a number and B, KiB, MiB, GiB or TiB, such as 2GiB")
    size = float(match[1]) * _UNITS_BYTES[match[2]]
    if size >= _LARGEST_BYTES:
        raise ValueError("this is more than any machine has")
    return int(size)


def parse_listen(text: str) -> tuple[str, int]:
    """Read ``ADDRESS:PORT`` or ``[V6]:PORT``; returns both parts.

    Raises:
        ValueError: It is something else, or the address is not a loopback one.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        address = None
    if not colon or address is None or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError(f"{text!r} is not an address: write 127.0.0.1:PORT, or leave it empty for the socket alone")
    if not address.is_loopback:
        raise ValueError(f"{host} is not a loopback address: everybody who reaches this port may use the daemon")
    return str(address), int(port)


def _checked_budget(text: str) -> str:
    if text != "auto" and parse_size_bytes(text) == 0:
        raise ValueError("a budget of 0 fits nothing")
    return text


def _checked_size(text: str) -> str:
    if parse_size_bytes(text) < _SMALLEST_LOG_BYTES:
        raise ValueError("a file of less than 64KiB holds too little")
    return text


def _checked_listen(text: str) -> str:
    if text:
        parse_listen(text)
    return text


class Section(BaseModel):
    """Base of the sections: frozen, strict types, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class DaemonSection(Section):
    """``[daemon]``."""

    name: Name = Field(default=DEFAULT_NAME, description="the home is <remote_dir>/<name>")
    drain_timeout_s: float = Field(default=600, gt=0, le=86400, description="how long a drain waits for jobs")
    listen: Annotated[str, AfterValidator(_checked_listen)] = Field(default="", description="loopback TCP, or none")
    queue_limit: int = Field(default=64, ge=1, le=100_000, description="unfinished jobs that are held at most")
    connection_limit: int = Field(default=256, ge=8, le=100_000, description="clients at once")
    idle_timeout_s: float = Field(default=60, gt=0, le=86400, description="how long a client may be silent")
    keep_results_s: float = Field(default=3600, ge=0, le=86400 * 30, description="how long results are kept")
    keep_proofs: int = Field(default=4096, ge=1, le=4096, description="proofs that are kept at most")


class MemorySection(Section):
    """``[memory]``."""

    budget: Annotated[str, AfterValidator(_checked_budget)] = Field(default="auto", description="a size, or auto")
    wait_s: float = Field(default=600, ge=0, le=86400, description="how long a partition waits for memory")
    evict_idle_s: float = Field(default=0, ge=0, le=86400, description="how long a key is idle before it gives way")

    @property
    def budget_bytes(self) -> int | None:
        """The budget in bytes, or None for ``auto``."""
        return None if self.budget == "auto" else parse_size_bytes(self.budget)


class GpusSection(Section):
    """``[gpus]``: what computes."""

    backend: Literal["host", "cuda"] = "host"
    workers: int = Field(default=1, ge=1, le=64, description="threads that take partitions to the device")


class SynthesisSection(Section):
    """``[synthesis]``."""

    threads: int = Field(default=0, ge=0, le=4096, description="0 is one for each CPU that the process may use")


class PipelineSection(Section):
    """``[pipeline]``."""

    lookahead: int = Field(default=1, ge=1, le=1024, description="partitions that wait for the device, synthesised")


class LoggingSection(Section):
    """``[logging]``: the prose on standard error, and the size of the timing log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    max_bytes: Annotated[str, AfterValidator(_checked_size)] = Field(default="64MiB", description="of one file")
    keep_files: int = Field(default=4, ge=1, le=1000, description="full files that are kept")

    @property
    def max_file_bytes(self) -> int:
        """``max_bytes`` in bytes."""
        return parse_size_bytes(self.max_bytes)


class CircuitSection(Section):
    """One of ``[[circuits]]``: a proving key, by path or by digest."""

    name: Name
    path: str | None = None
    sha256: Sha256 | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> CircuitSection:
        if (self.path is None) == (self.sha256 is None):
            raise ValueError("give either path or sha256")
        return self


class Settings(Section):
    """The whole file."""

    daemon: DaemonSection = DaemonSection()
    memory: MemorySection = MemorySection()
    gpus: GpusSection = GpusSection()
    synthesis: SynthesisSection = SynthesisSection()
    pipeline: PipelineSection = PipelineSection()
    logging: LoggingSection = LoggingSection()
    circuits: list[CircuitSection] = []

    def effective(self) -> str:
        """Every key with its value, defaults included, as one word: ``SECTION.KEY:VALUE`` joined by ``/``."""
        sections = self.model_dump(exclude={"circuits"})
        pairs = [f"{name}.{key}:{word(str(v))}" for name, section in sections.items() for key, v in section.items()]
        return "/".join([*pairs, f"circuits:{':'.join(circuit.name for circuit in self.circuits) or 'none'}"])


SECTIONS: dict[str, type[Section]] = {
    "daemon": DaemonSection,
    "memory": MemorySection,
    "gpus": GpusSection,
    "synthesis": SynthesisSection,
    "pipeline": PipelineSection,
    "logging": LoggingSection,
    "circuits": CircuitSection,
}


@dataclass(frozen=True)
class CircuitFile:
    """Where a configured circuit lies on this host.

    Args:
        name: What requests call it.
        path: Absolute path of its zkey.
        sha256: What the file's digest must be, or None where the configuration names a path.
    """

    name: str
    path: Path
    sha256: str | None


@dataclass(frozen=True)
class Config:
    """A configuration that is in order.

    Args:
        file: Where it was read.
        sha256: Digest of the file's bytes.
        settings: What it says.
        remote_dir: Folder that all daemons of this host share.
        circuits: Its circuits, in its order.
    """

    file: Path
    sha256: str
    settings: Settings
    remote_dir: Path
    circuits: list[CircuitFile]

    @property
    def home(self) -> Path:
        """Folder of this daemon."""
        return self.remote_dir / self.settings.daemon.name


class ConfigProblemsError(InputError):
    """The configuration holds mistakes.

    Args:
        file: The configuration.
        sha256: Digest of its bytes.
        problems: Every mistake.
    """

    def __init__(self, file: Path, sha256: str, problems: list[Problem]) -> None:
        lines = [f"{problem.where}: {problem.message}" for problem in problems]
        super().__init__(
            "config",
            f"{file}: {lines[0]}" if len(lines) == 1 else "\n  ".join([f"{file} has {len(lines)} problems:", *lines]),
            problems[0].hint if len(problems) == 1 else "playbooks/reference.toml shows every key",
            {"problems": [problem.model_dump() for problem in problems]},
        )
        self.sha256 = sha256
        self.problems = problems


def load_config(file: Path, remote_dir: Path) -> Config:
    """Read a configuration.

    Args:
        file: The TOML file.
        remote_dir: Folder that all daemons of this host share; digests of circuits are looked up in it.

    Raises:
        InputError: It cannot be read.
        ConfigProblemsError: It can be read, and something in it is wrong; names everything that is.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(_FILE_LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:  # a NUL in its name
        raise InputError("config-unreadable", f"the configuration cannot be read: {error}", "check --config") from None
    if len(data) > _FILE_LIMIT_BYTES:
        message = f"{file} has more than {_FILE_LIMIT_BYTES} bytes: it is no configuration"
        raise InputError("config-unreadable", message, "check --config")
    sha256 = hashlib.sha256(data).hexdigest()
    settings, problems = parse_settings(data)
    if settings is None:
        raise ConfigProblemsError(file, sha256, problems)
    remote_dir = expanded(remote_dir, "--remote-dir").absolute()
    circuits = [_locate(circuit, file.absolute().parent, remote_dir) for circuit in settings.circuits]
    return Config(file.absolute(), sha256, settings, remote_dir, circuits)


def parse_settings(data: bytes) -> tuple[Settings | None, list[Problem]]:
    """Read the bytes of a configuration: either the settings, or every problem in it."""
    try:
        table = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets thousands deep
        return None, [Problem(where="file", message=f"this is not TOML: {error}")]
    if (explained := explain(table)) is not None:
        message = f"this is a cuzk.toml of the Rust daemon, which this daemon does not read; here, {explained}"
        hint = "write a configuration like playbooks/reference.toml and name each proving key in [[circuits]]"
        return None, [Problem(where="file", message=message, hint=hint)]
    try:
        settings = Settings.model_validate(table)
    except ValidationError as error:
        return None, [_problem(details) for details in error.errors(include_url=False)]
    names = [circuit.name for circuit in settings.circuits]
    twice = sorted({name for name in names if names.count(name) > 1})
    problems = [Problem(where="circuits", message=f"the name {n} stands twice", hint="rename one") for n in twice]
    return (None, problems) if problems else (settings, [])


def circuits_in_order(file: Path, remote_dir: Path) -> dict[int, CircuitFile]:
    """The circuits of a wrong configuration that are right by themselves, by their place: their keys can be looked at.

    Args:
        file: The TOML file; one that cannot be read, or is no TOML, has none.
        remote_dir: As for ``load_config``.
    """
    found: dict[int, CircuitFile] = {}
    with contextlib.suppress(OSError, ValueError, RecursionError, InputError):
        entries = tomllib.loads(file.read_bytes().decode("utf-8")).get("circuits", [])
        remote_dir = expanded(remote_dir, "--remote-dir").absolute()
        for i, entry in enumerate(entries if isinstance(entries, list) else []):
            with contextlib.suppress(ValidationError, InputError):
                found[i] = _locate(CircuitSection.model_validate(entry), file.absolute().parent, remote_dir)
    return found


def _locate(circuit: CircuitSection, beside: Path, remote_dir: Path) -> CircuitFile:
    if circuit.sha256 is not None:
        return CircuitFile(circuit.name, remote_dir / "circuits" / circuit.sha256, circuit.sha256)
    path = expanded(Path(circuit.path or ""), f"the path of circuit {circuit.name}")
    return CircuitFile(circuit.name, beside / path, None)


def _problem(details: ErrorDetails) -> Problem:
    where = ".".join(str(part) for part in details["loc"]) or "file"
    if details["type"] == "extra_forbidden":
        known = _known_keys(details["loc"])
        near = difflib.get_close_matches(str(details["loc"][-1]), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
        return Problem(where=where, message=f"there is no such key ({hint})", hint="remove or rename it")
    if details["type"] == "missing":
        return Problem(where=where, message="this key is missing", hint="add it")
    message = details["msg"].removeprefix("Value error, ")
    value = details["input"]
    found = "" if isinstance(value, dict | list) else f", found {value!r}"
    return Problem(where=where, message=f"{message[:1].lower()}{message[1:]}{found}", hint="correct this value")


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    model = SECTIONS[str(location[0])] if len(location) > 1 else Settings
    return list(model.model_fields)

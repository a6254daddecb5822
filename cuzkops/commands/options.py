"""Options that several commands share, and how a command gets them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuzkops.session import Session, find_place
from cuzkops.units import parse_duration_s, parse_size_bytes

if TYPE_CHECKING:
    from cuzkops.session import Place


class HostKey(StrEnum):
    """What to do with the key of a host that was never seen."""

    STRICT = "strict"
    ACCEPT_NEW = "accept-new"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output, also on failure.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show more of what happens, and whole failed scripts.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print each script that would run on the host, and run none that changes it.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Timeout = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="Give up after this long, such as 90s or 30m.")
]


class BuilderName(StrEnum):
    """Who makes the artifact."""

    DOCKER = "docker"
    LOCAL = "local"


Builder = Annotated[
    BuilderName | None,
    typer.Option(
        "--builder",
        help="docker: in a container, for any host. local: from this machine's Python. Else cuzkops.toml, else docker.",
        show_default=False,
    ),
]
BaseImage = Annotated[
    str | None,
    typer.Option(
        "--base-image",
        metavar="IMAGE",
        help="Base image of the Docker build; else cuzkops.toml's, else the Dockerfile's own.",
        show_default=False,
    ),
]
GpuArchs = Annotated[
    str | None,
    typer.Option(
        "--gpu-archs",
        metavar="LIST",
        help='GPU architectures of the Docker build: "90 100", all, or none for a prover without CUDA; '
        "else those of $GPU_ARCHS, cuzkops.toml's, all.",
        show_default=False,
    ),
]
Artifact = Annotated[
    Path | None,
    typer.Option("--artifact", metavar="DIR", help="A built artifact, as `cuzkops build` made it.", show_default=False),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The daemon's configuration; else cuzkops.toml's, else a default one.",
        show_default=False,
    ),
]
Circuits = Annotated[
    list[str] | None,
    typer.Option(
        "--circuit",
        metavar="NAME=ZKEY",
        help="A circuit to serve besides those of the configuration; a key that lies here travels. May be repeated.",
        show_default=False,
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="SIZE",
        help="Memory budget of the daemon, such as 2GiB; else that of the configuration.",
        show_default=False,
    ),
]

Thorough = Annotated[
    bool, typer.Option("--thorough", help="Hash every key on the host, also one that was hashed and has not changed.")
]
Keep = Annotated[
    int,
    typer.Option(
        "--keep", metavar="N", min=1, help="The newest N releases of this daemon stay on the host, and those in use."
    ),
]
KEEP = 5
Need = Annotated[
    str | None,
    typer.Option(
        "--need",
        metavar="SIZE",
        help="Host memory that the new daemon needs, such as 2GiB; else its budget, else what it says itself.",
        show_default=False,
    ),
]
Grace = Annotated[
    str | None,
    typer.Option(
        "--grace",
        metavar="DURATION",
        help="Time to end by itself before SIGKILL, such as 30s; else as long as it says that its jobs may take.",
        show_default=False,
    ),
]

_TARGET = Annotated[
    str | None,
    typer.Argument(
        metavar="TARGET",
        help="Where to work: local, [user@]host[:port], [v6]:port, or an alias of ssh_config. "
        "Else CUZKOPS_TARGET, else cuzkops.toml, else the last target.",
        show_default=False,
    ),
]
_NAME = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="The daemon's name on the host. [default: prover]", show_default=False),
]
_REMOTE_DIR = Annotated[
    str | None,
    typer.Option(
        "--remote-dir",
        metavar="DIR",
        help="Folder of the daemons on the host. [default: ~/.cuzkops]",
        show_default=False,
    ),
]
_IDENTITY = Annotated[
    Path | None,
    typer.Option(
        "--identity",
        "-i",
        metavar="FILE",
        help="Private key for SSH; else ssh_config and the agent.",
        show_default=False,
    ),
]
_HOST_KEY = Annotated[
    HostKey | None,
    typer.Option(
        "--host-key",
        help="Whether to trust a host that was never seen; a changed key never is. Else ssh_config, else accept-new.",
        show_default=False,
    ),
]


def with_output(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command ``--json`` and ``--verbose``; it takes the Session first and its own options by name."""

    def call(session: Session, values: dict[str, Any]) -> None:
        command(session, **values)

    return _extend(command, call, {})


def on_host(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command TARGET and the options of a host; it takes the Place first and its own options by name."""
    common: dict[str, tuple[Any, Any]] = {
        "target": (_TARGET, None),
        "name": (_NAME, None),
        "remote_dir": (_REMOTE_DIR, None),
    }
    common |= {"identity": (_IDENTITY, None), "host_key": (_HOST_KEY, None)}

    def call(session: Session, values: dict[str, Any]) -> None:
        where = {name: values.pop(name) for name in common}
        policy: HostKey | None = where.pop("host_key")
        place: Place = find_place(session, host_key=policy.value if policy else "", **where)
        command(place, **values)

    return _extend(command, call, common)


def size_bytes(text: str | None) -> int | None:
    """Read the value of an option that is a size, or None where it was not given."""
    return None if text is None else parse_size_bytes(text)


def grace_s(text: str | None) -> float | None:
    """Read the value of ``--grace``, or None where it was not given."""
    return None if text is None else parse_duration_s(text)


def _given(context: typer.Context, names: set[str]) -> tuple[str, ...]:
    """The options among ``names`` that stand on the command line, with their values, as words."""
    words: list[str] = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name not in names or source is None or source.name != "COMMANDLINE" or not parameter.opts:
            continue
        option, value = parameter.opts[0], context.params[parameter.name]
        if not option.startswith("-"):
            continue  # an argument
        if value is True:
            words.append(option)
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [option, str(getattr(one, "value", one))]
    return tuple(words)


def _extend(
    command: Callable[..., None], call: Callable[[Session, dict[str, Any]], None], common: dict[str, tuple[Any, Any]]
) -> Callable[..., None]:
    """Make the function that Typer sees: the command's own parameters but the first, then the common ones."""
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    extra = {**common, "json_mode": (Json, False), "verbose": (Verbose, False)}
    parameters = [
        inspect.Parameter("context", keyword, annotation=typer.Context),
        *(parameter.replace(kind=keyword) for parameter in own),
        *(inspect.Parameter(name, keyword, annotation=kind, default=value) for name, (kind, value) in extra.items()),
    ]

    @functools.wraps(command)
    def function(context: typer.Context, **values: Any) -> None:
        session: Session = context.obj
        session.screen.json_mode = values.pop("json_mode")
        session.screen.verbose = values.pop("verbose")
        session.given = _given(context, {parameter.name for parameter in own})
        call(session, values)

    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what inspect.signature reads
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function

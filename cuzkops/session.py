"""One command at work: where it writes, what the tool remembers, and the host and daemon that it is about."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cuzkops.errors import OpsError, UsageError
from cuzkops.paths import current_folder
from cuzkops.project import Project, find_project
from cuzkops.state import LastPlace, State
from cuzkops.target import Target, parse_target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.rendering import Screen

TargetSource = Literal["the command line", "CUZKOPS_TARGET", "cuzkops.toml", "the last command"]

# A command in a hint that names no place yet: a verb, and at most options and numbers behind it.
_BARE_COMMAND = re.compile(
    r"`cuzkops (adopt|clean|deploy|doctor|kill|launch|logs|rollback|ship|status|unlock|wait-memory)"
    r"((?: --[a-z-]+| \d+| [A-Z]+)*)`"
)


@dataclass
class Session:
    """What every command has; made once, in ``cuzkops.cli``.

    Args:
        screen: Where it writes.
        state: What the tool remembers.
        interrupted: What to say if Ctrl-C comes now: what is left running, and how to go on.
        given: The command's own options as they were given, as words: those of its place are ``Place``'s.
    """

    screen: Screen
    state: State
    interrupted: str = "nothing was changed"
    given: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """The host and the daemon that a command is about.

    Args:
        session: The command.
        project: The settings of the project around.
        target: The host.
        target_source: Who named it.
        name: The daemon's name.
        remote_dir: Folder on the host, ``~`` not yet expanded.
        identity: Private key for SSH, or None for what ssh_config and the agent offer.
        host_key: ``"strict"`` or ``"accept-new"`` for hosts never seen; empty for what ssh_config says.
        name_given: Whether somebody named the daemon; else ``name`` is the default one.
    """

    session: Session
    project: Project
    target: Target
    target_source: TargetSource
    name: str
    remote_dir: str
    identity: Path | None = None
    host_key: str = ""
    name_given: bool = False

    @property
    def screen(self) -> Screen:
        """Where the command writes."""
        return self.session.screen

    @contextlib.contextmanager
    def open(self, *, remember: bool = True) -> Iterator[tuple[Host, Layout]]:
        """Connect and find the daemon's paths.

        Args:
            remember: Whether the commands that follow without a target mean this one: those that only look leave the
                remembered target alone, so that a later kill does not act where somebody only looked.
        """
        from cuzkops.remote.login import Access  # noqa: PLC0415 - `--help` needs no connection
        from cuzkops.remote.opening import open_host, resolve_layout  # noqa: PLC0415 - the same

        access = Access(self.identity, self.host_key)
        with open_host(self.target, access, on_host_key=self.screen.say) as host:
            layout = resolve_layout(host, self.remote_dir, self.name)
            if remember:
                self.session.state.remember_place(self.last_place())
            try:
                yield host, layout
            except OpsError as error:
                error.message, error.hint = self.placed(error.message), self.placed(error.hint)
                raise

    def last_place(self) -> LastPlace:
        """This place as the commands that follow find it."""
        from prover.protocol import DEFAULT_NAME, DEFAULT_REMOTE_DIR  # noqa: PLC0415 - `--help` loads no records

        name = None if self.name == DEFAULT_NAME else self.name
        return LastPlace(str(self.target), name, None if self.remote_dir == DEFAULT_REMOTE_DIR else self.remote_dir)

    def locked(self, host: Host, layout: Layout, step: str) -> AbstractContextManager[object]:
        """Hold the lock of the host for a block, which is one step."""
        from cuzkops.remote.lock import held, this_process  # noqa: PLC0415 - `--help` loads no records
        from cuzkops.state import new_run_id  # noqa: PLC0415 - the same

        owner = this_process(self.session.state.client_id(), new_run_id(), step)
        return held(host, layout, owner, self.screen.say)

    def command(self, verb: str) -> str:
        """A command line for this place, for hints; ``verb`` is a verb with what follows it, for a shell."""
        from prover.protocol import DEFAULT_NAME, DEFAULT_REMOTE_DIR  # noqa: PLC0415 - `--help` loads no records

        words = [str(self.target)]
        if self.name != DEFAULT_NAME:
            words += ["--name", self.name]
        if self.remote_dir != DEFAULT_REMOTE_DIR:
            words += ["--remote-dir", self.remote_dir]
        if self.identity is not None:
            words += ["--identity", str(self.identity)]
        if self.host_key:
            words += ["--host-key", self.host_key]
        return f"cuzkops {verb} {shlex.join(words)}"

    def again(self, verb: str) -> str:
        """The command line of the running command, with every option that was given."""
        return shlex.join([*shlex.split(self.command(verb)), *self.session.given])

    def placed(self, text: str) -> str:
        """A sentence in which every command names this place: the steps know verbs alone."""
        return _BARE_COMMAND.sub(lambda match: f"`{self.command(match[1] + match[2])}`", text)


def find_place(
    session: Session,
    *,
    target: str | None,
    name: str | None,
    remote_dir: str | None,
    identity: Path | None,
    host_key: str,
) -> Place:
    """Settle where a command works, and print the target.

    The target is the argument, else CUZKOPS_TARGET, else that of cuzkops.toml, else the last command's. With the last
    command's target come its daemon and its folder, where nothing else names them.

    Raises:
        UsageError: No target is known, or one that is not a target; the sentence says where it came from.
    """
    from prover.protocol import DEFAULT_NAME, DEFAULT_REMOTE_DIR  # noqa: PLC0415 - `--help` loads no records

    for option, value in (("--name", name), ("--remote-dir", remote_dir)):
        if value == "":  # a variable that is not set must not mean the default daemon
            raise UsageError("usage", f"{option} is empty", "is a variable not set? leave it out for the default")
    project = find_project(current_folder())
    last, source = _choose_target(target, project, session.state)
    try:
        found = parse_target(last.target)
    except UsageError as error:
        raise UsageError(error.code, f"{error.message} (from {source})", error.hint) from error
    name, remote_dir = name or project.name, remote_dir or project.remote_dir
    known = "".join(
        f" {option} {word}"
        for option, given, word in (("--name", name, last.name), ("--remote-dir", remote_dir, last.remote_dir))
        if given is None and word is not None
    )
    session.screen.say(f"target: {found}{known}" + ("" if source == "the command line" else f" (from {source})"))
    name = name or last.name
    return Place(
        session=session,
        project=project,
        target=found,
        target_source=source,
        name=name or DEFAULT_NAME,
        remote_dir=remote_dir or last.remote_dir or DEFAULT_REMOTE_DIR,
        identity=identity or project.identity,
        host_key=host_key,
        name_given=name is not None,
    )


def _choose_target(argument: str | None, project: Project, state: State) -> tuple[LastPlace, TargetSource]:
    if argument is not None:  # an empty one is a mistake, such as a variable that is not set
        return LastPlace(argument), "the command line"
    if environment := os.environ.get("CUZKOPS_TARGET"):
        return LastPlace(environment), "CUZKOPS_TARGET"
    if project.target:
        return LastPlace(project.target), "cuzkops.toml"
    if last := state.last_place():
        return last, "the last command"
    raise UsageError(
        "no-target",
        "no target: none was named, and neither CUZKOPS_TARGET nor cuzkops.toml nor an earlier command has one",
        "name one: local, or [user@]host[:port]",
    )

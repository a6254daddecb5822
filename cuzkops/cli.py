"""The command line: assembles Typer, and is the one place where an error becomes a sentence and an exit status."""

from __future__ import annotations

import io
import signal
import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from cuzkops import __version__
from cuzkops.commands import (
    adopt,
    bench,
    build,
    clean,
    demo,
    deploy,
    doctor,
    kill,
    launch,
    logs,
    prove,
    rollback,
    runs,
    ship,
    status,
    unlock,
    wait_memory,
)
from cuzkops.errors import OpsError, UsageError
from cuzkops.rendering import Screen
from cuzkops.session import Session
from cuzkops.state import open_state

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

INTERNAL = 70
INTERRUPTED = 130

app = typer.Typer(
    name="cuzkops",
    help="Build, ship, restart and measure GPU provers on remote hosts.",
    epilog="Start with `cuzkops demo`, which runs the whole loop on this machine. "
    "Exit statuses: 0 done, 1 failed, 2 usage or preflight, 3 unreachable, 4 timed out or memory not back, "
    "5 unreadable log, 6 locked, 70 our own fault, 130 interrupted.",
    rich_markup_mode=None,  # plain text everywhere, and rich is not loaded
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,  # they may hold what must not be shown
    add_completion=True,
)
for _module in (
    *(demo, doctor, deploy, build, ship, kill, adopt, wait_memory, launch, status, logs, prove),
    *(bench, runs, rollback, clean, unlock),
):
    _module.register(app)


@app.callback()
def common(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    """Build, ship, restart and measure GPU provers on remote hosts."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status; what goes wrong was printed."""
    if list(arguments) == ["--version"]:
        print(__version__)  # noqa: T201 - the result
        return 0
    screen = Screen(json_mode=_asks_for_json(arguments), verbose="-v" in arguments or "--verbose" in arguments)
    try:
        _refuse_unreadable(arguments)
        session = Session(screen, open_state())
    except OpsError as error:
        screen.error(error)
        return error.exit_status
    return _run(arguments, session)


def _run(arguments: Sequence[str], session: Session) -> int:
    screen = session.screen
    try:
        status = app(args=list(arguments) or ["--help"], prog_name="cuzkops", standalone_mode=False, obj=session)
    except OpsError as error:
        screen.error(error)
        return error.exit_status
    except typer.TyperException as error:
        screen.failure("usage", error.format_message(), _usage_hint(error))
        return 2
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted(session)
    except Exception as error:  # noqa: BLE001 - the last line of defence: a fault of ours
        return _fault(session, error)
    # Typer turns Ctrl-C inside a command into the status 130; commands themselves return nothing.
    return _interrupted(session) if status == INTERRUPTED else int(status or 0)


def _refuse_unreadable(arguments: Sequence[str]) -> None:
    """Refuse what is not UTF-8, once for all commands: scripts, records and configurations could not hold it."""
    for word in arguments:
        try:
            word.encode()
        except UnicodeEncodeError:
            message = f"the argument {word!a} is not UTF-8"
            raise UsageError("usage", message, "give the file another name, or set the locale to UTF-8") from None


def main() -> NoReturn:
    """Run the command line of this process."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path or a label that this locale cannot write is no fault
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # under nohup a closed terminal is to be ignored
            signal.signal(number, _stop)
    sys.exit(run(sys.argv[1:]))


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    """SIGTERM and a closed terminal end a command as Ctrl-C does: everything is put in order."""
    raise KeyboardInterrupt


def _asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether ``--json`` stands among the options, before Typer has read them: its own errors are JSON too."""
    words = list(arguments)
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def _usage_hint(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"try: {context.command_path if context else 'cuzkops'} --help"


def _interrupted(session: Session) -> int:
    session.screen.failure("interrupted", f"interrupted: {session.interrupted}")
    return INTERRUPTED


def _fault(session: Session, error: Exception) -> int:
    import traceback  # noqa: PLC0415 - not needed by a command that works

    trace = traceback.format_exc()
    summary = f"internal error: {type(error).__name__}: {error}".splitlines()[0]
    try:
        where = str(session.state.write_fault(trace))
        hint = f"the traceback is in {where}; please report it"
    except OpsError as unwritable:
        where, hint = "", f"{unwritable.message}; the traceback follows\n{trace}"
    session.screen.failure("internal", summary, hint, {"traceback_file": where})
    return INTERNAL

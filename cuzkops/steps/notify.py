"""Notify: tell a program of this machine how a wait ended. An argument list, run without a shell."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

from cuzkops.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEADLINE_S = 30.0
_SHOWN_CHARACTERS = 200


def parse_command(text: str) -> tuple[str, ...]:
    """Split a command line into words, as a shell does, and find its program; nothing of it is ever run by a shell.

    Raises:
        UsageError: It has no words, an open quote, or a program that is not here.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError("notify", f"{text!r} is not a command: {error}", "close the quote") from error
    if not words:
        raise UsageError("notify", "the command to notify is empty", "name a program with its arguments")
    if shutil.which(words[0]) is None:
        message = f"the program {words[0]!r} to notify is not here, or cannot be run"
        raise UsageError("notify", message, "name one of this machine; pipes and redirections need a script of yours")
    return tuple(words)


def notify(command: Sequence[str], sentence: str, document: str) -> str:
    """Run a program with a sentence as its last argument and a JSON document on its standard input.

    Args:
        command: The program and its arguments.
        sentence: For people.
        document: For programs.

    Returns:
        What went wrong, as a sentence; empty where nothing did.
    """
    try:
        done = subprocess.run(
            [*command, sentence], input=document.encode(), capture_output=True, timeout=_DEADLINE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not end within {_DEADLINE_S:g} s and was stopped"
    except OSError as error:
        return f"{command[0]} could not be run: {error.strerror or error}"
    if done.returncode == 0:
        return ""
    said = " ".join((done.stderr or done.stdout).decode(errors="replace").split())[-_SHOWN_CHARACTERS:]
    return f"{command[0]} ended with status {done.returncode}" + (f": {said}" if said else "")

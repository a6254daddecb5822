"""Talking to the daemon of a host: ``current/prover ctl VERB --json``, run there, and in no other way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from cuzkops.errors import OpsError
from cuzkops.remote.host import Script
from prover.protocol import ErrorBody

if TYPE_CHECKING:
    from cuzkops.remote.host import Completed, Host
    from cuzkops.remote.layout import Layout
    from prover.protocol import Record

    R = TypeVar("R", bound=Record)

_LOOKS = ("ready", "status", "job", "metrics")
"""Verbs that change nothing."""
_SPARE_S = 30
"""An interpreter starts and loads within this, on any host that is worth proving on."""


def ctl(
    host: Host,
    layout: Layout,
    answer: type[R],
    *words: str,
    standard_input: str | None = None,
    release_id: str | None = None,
    timeout_s: float = 30,
) -> R:
    """Ask the daemon and read its answer.

    Args:
        host: The host.
        layout: Which daemon.
        answer: Record that the verb answers with.
        words: The verb and its arguments.
        standard_input: File on the host that the verb reads.
        release_id: Release whose client is used; by default the launched one.
        timeout_s: How long the daemon may take.

    Raises:
        OpsError: The daemon's own error, nobody answers, or what came is not such an answer.
        TimeoutExpired: ``timeout_s`` passed.
    """
    script = ctl_script(layout, *words, standard_input=standard_input, release_id=release_id)
    return read_answer(host.run(script, timeout_s=timeout_s + _SPARE_S), answer)


def ctl_script(layout: Layout, *words: str, standard_input: str | None = None, release_id: str | None = None) -> Script:
    """Build the script behind ``ctl``; arguments as there."""
    arguments = {f"ARGUMENT_{i}": word for i, word in enumerate(words)}
    parameters = {
        "RELEASE": layout.release(release_id) if release_id else layout.current,
        "DAEMON_HOME": layout.home,
        "INPUT": standard_input or "/dev/null",
        "MISSING": json.dumps({"error": _missing(layout, release_id)}),
        **arguments,
    }
    call = " ".join(f'"${name}"' for name in arguments)
    body = f"""
if [ ! -x "$RELEASE/prover" ]; then
    printf '%s\\n' "$MISSING"
    exit 1
fi
"$RELEASE/prover" ctl {call} --json --home "$DAEMON_HOME" <"$INPUT"
"""
    return Script(f"ask the daemon: {' '.join(words)}", body, parameters, changes=words[0] not in _LOOKS)


def _missing(layout: Layout, release_id: str | None) -> dict[str, str]:
    """What to answer where the program itself is missing, in the form of a daemon's own error."""
    if release_id:
        message = f"the release {release_id} of {layout.name} is not in {layout.home}"
        return {"code": "no-release", "message": message, "hint": "ship it again with `cuzkops ship`"}
    message = f"no daemon {layout.name} was deployed there: {layout.home} has no release in use"
    return {"code": "not-deployed", "message": message, "hint": "deploy one with `cuzkops deploy`"}


def parse_answer(stdout: bytes, answer: type[R]) -> R | ErrorBody | str:
    """Read what a prover printed with ``--json``: its answer, its error, or a word on what is wrong with the text."""
    from pydantic import ValidationError  # noqa: PLC0415 - costs a tenth of a second of every start

    from prover.protocol import ErrorAnswer  # noqa: PLC0415 - the same

    try:
        return answer.model_validate_json(stdout)
    except ValidationError as invalid:
        what = str(invalid.errors()[0]["msg"])
    try:
        return ErrorAnswer.model_validate_json(stdout).error
    except ValidationError:
        return what


def read_answer(done: Completed, answer: type[R]) -> R:
    """Read what a verb printed.

    Raises:
        OpsError: It is an error, or not such an answer.
    """
    found = parse_answer(done.stdout, answer)
    if isinstance(found, answer) and done.status == 0:
        return found
    if isinstance(found, ErrorBody):
        hint = "start it with `cuzkops launch`" if found.code == "no-daemon" else found.hint
        raise OpsError(found.code, found.message, hint, found.details)
    done.check()
    message = f"{done.script.title}: the answer is not {answer.__name__}: {found}"
    raise OpsError("answer", message, "use the same version of the tool and the daemon")

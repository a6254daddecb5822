"""HTTP over the daemon's unix socket, and sentences for every way in which nobody answers."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from prover.errors import InputError, ProverError
from prover.instance import Home, expanded, is_alive, release_folder

if TYPE_CHECKING:
    from prover.protocol import DaemonRecord, ErrorBody

_CONNECT_TIMEOUT_S = 10.0


class NobodyAnswersError(ProverError):
    """No daemon runs, or it does not answer."""


def find_home(given: str | None) -> Home:
    """Find the daemon's home: as given, else that of the release this program belongs to, else the default one."""
    if given:
        return Home(expanded(Path(given), "--home").absolute())
    release = release_folder()
    if release is not None and release.absolute().parent.name == "releases":
        return Home(release.absolute().parents[1])
    from prover.protocol import DEFAULT_NAME, DEFAULT_REMOTE_DIR  # noqa: PLC0415 - see prover.instance.read_record

    return Home(expanded(Path(DEFAULT_REMOTE_DIR, DEFAULT_NAME), "the default home"))


def find_daemon(home: Home) -> DaemonRecord:
    """Read who runs in a home.

    Raises:
        NobodyAnswersError: Nobody does, or it is a daemon without our interface.
    """
    from prover.protocol import DaemonRecord  # noqa: PLC0415 - see prover.instance.read_record

    start = "start one with `prover serve --config FILE`"
    try:
        record = DaemonRecord.model_validate_json(home.record.read_bytes())
    except FileNotFoundError:
        message = f"no daemon runs in {home.root}"
        raise NobodyAnswersError("no-daemon", message, f"{start}, or name another home with --home") from None
    except OSError as error:
        raise NobodyAnswersError("no-daemon", f"the daemon's record cannot be read: {error}", "check --home") from None
    except ValueError as error:
        message = f"{home.record} is not a record of this version: {str(error).splitlines()[0]}"
        raise NobodyAnswersError("daemon-record", message, "use the prover of the release that runs") from None
    if not is_alive(record):
        message = f"no daemon runs in {home.root}: process {record.pid} has ended without tidying up"
        raise NobodyAnswersError("daemon-died", message, f"its last words are in {home.logs}; {start}")
    if not record.api:
        message = f"the daemon in {home.root} (process {record.pid}) is not a prover: it has no interface of ours"
        raise NobodyAnswersError("foreign-daemon", message, "talk to it with its own tools")
    return record


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_CONNECT_TIMEOUT_S)
        self.sock.connect(self._path)
        self.sock.settimeout(self.timeout)


class Client:
    """Talks to the daemon of one home.

    Args:
        home: Where it runs.

    Raises:
        NobodyAnswersError: Nobody runs there.
    """

    def __init__(self, home: Home) -> None:
        self.record = find_daemon(home)

    def call(
        self, method: str, path: str, body: bytes | IO[bytes] | None = None, *, n_bytes: int = 0, timeout_s: float = 30
    ) -> tuple[int, bytes]:
        """Make one request; returns the HTTP status and the body of the answer, whatever they are.

        Args:
            method: Such as ``"GET"``.
            path: With its query.
            body: What to send: bytes, or a file of ``n_bytes``.
            n_bytes: Length of a file.
            timeout_s: How long the daemon may be silent.

        Raises:
            NobodyAnswersError: It does not answer.
        """
        connection = _UnixConnection(self.record.api, timeout_s)
        headers = {"Content-Type": "application/json"} if isinstance(body, bytes) else {}
        if body is not None and not isinstance(body, bytes):
            headers = {"Content-Length": str(n_bytes), "Content-Type": "application/octet-stream"}
        try:
            # A daemon that refuses before it has read everything closes: its answer lies in the socket.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._silence(error, timeout_s) from None
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: bytes | None = None, *, timeout_s: float = 30) -> bytes:
        """Make one request; returns the body of the answer.

        Raises:
            NobodyAnswersError: The daemon does not answer.
            ProverError: It refused, in its own words.
        """
        return accepted(*self.call(method, path, body, timeout_s=timeout_s))

    def verification_key(self, circuit: str) -> dict[str, Any]:
        """Ask what proofs of a circuit are verified with; raises as ``ask`` does."""
        answer: dict[str, Any] = json.loads(self.ask("GET", f"/v1/circuits/{_quoted(circuit)}/verification-key"))
        return answer

    def put(self, sha256: str, file: IO[bytes], n_bytes: int) -> bytes:
        """Put a witness; raises as ``ask`` does."""
        path = f"/v1/witnesses/{sha256}"
        return accepted(*self.call("PUT", path, file, n_bytes=n_bytes, timeout_s=120))

    def _silence(self, error: Exception, timeout_s: float) -> NobodyAnswersError:
        who = f"the daemon (process {self.record.pid})"
        if isinstance(error, TimeoutError):
            message = f"{who} did not answer within {timeout_s:g} s"
            return NobodyAnswersError("no-answer", message, "look at its standard error, or restart it")
        if isinstance(error, PermissionError):
            message = f"{self.record.api} belongs to another user"
            return NobodyAnswersError("no-answer", message, "run this as the user who started the daemon")
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            message = f"{who} does not listen on {self.record.api}"
            return NobodyAnswersError(
                "no-answer", message, "it is starting or ending, or its socket was removed: restart it"
            )
        message = f"{who} ended, or closed the connection, while it was asked ({type(error).__name__})"
        return NobodyAnswersError("no-answer", message, "look at its standard error")


def job_path(job_id: str, wait_s: float = 0) -> str:
    """The address of a job, to be answered when it has ended or after ``wait_s``.

    Raises:
        InputError: The id is empty, which would be the address of all jobs.
    """
    if not job_id:
        raise InputError("no-such-job", "the id of the job is empty", "is a variable not set?")
    return f"/v1/jobs/{_quoted(job_id)}" + (f"?wait_s={wait_s:g}" if wait_s else "")


def _quoted(word: str) -> str:
    return quote(word, safe="", errors="surrogateescape")  # an argument need not be UTF-8


def accepted(status: int, body: bytes) -> bytes:
    """Return the answer, or raise the daemon's own error."""
    if status < 400:
        return body
    from prover.protocol import ErrorAnswer  # noqa: PLC0415 - see prover.instance.read_record

    try:
        error = ErrorAnswer.model_validate_json(body).error
    except ValueError:
        message = f"the daemon answered {status}: {body[:200].decode(errors='replace')}"
        raise ProverError("answer", message, "use the prover of the release that runs") from None
    raise refusal(error)


def refusal(error: ErrorBody, **details: Any) -> ProverError:
    """Make an error of the daemon ours, with the exit status that it means."""
    failure = ProverError(error.code, error.message, error.hint, {**error.details, **details})
    status = error.details.get("exit_status")
    failure.exit_status = status if isinstance(status, int) else 1
    return failure


def dump(request: dict[str, Any]) -> bytes:
    """Write a request as JSON."""
    return json.dumps(request).encode()

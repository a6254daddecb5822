"""The journal: every accepted job and every proof, in SQLite, before anybody hears of it.

Whatever ends the process, the next one finds each accepted job, and each proof that was ever shown. Each change is one
transaction that is on the disk when the call returns (WAL with ``synchronous=FULL``), so a proof that is not here was
never shown, and may be made again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prover.errors import CapacityError, InputError, ProverError
from prover.protocol import ErrorBody, JobRequest, JobState, ProofRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

SCHEMA = 1
_TABLES = """
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    request TEXT NOT NULL,
    state TEXT NOT NULL,
    cancel_asked INTEGER NOT NULL DEFAULT 0,
    submitted_unix_ns INTEGER NOT NULL,
    started_unix_ns INTEGER,
    finished_unix_ns INTEGER,
    error TEXT
);
CREATE TABLE proofs (
    job TEXT NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
    part INTEGER NOT NULL,
    proof TEXT NOT NULL,
    PRIMARY KEY (job, part)
) WITHOUT ROWID;
"""
# Of a later version than schema 1, and unknown to it: a daemon that does not know it goes on without it.
_CRASHES = """
CREATE TABLE IF NOT EXISTS crashes (
    job TEXT NOT NULL PRIMARY KEY REFERENCES jobs(id) ON DELETE CASCADE,
    n INTEGER NOT NULL
) WITHOUT ROWID;
"""
_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}


class JournalError(ProverError):
    """The journal cannot be written: nothing was changed."""


class JournalFullError(CapacityError, JournalError):
    """The same, because the disk is full."""


@dataclass(frozen=True)
class StoredJob:
    """A job as the journal has it.

    Args:
        seq: Rises from job to job.
        id: Its name.
        request: What was asked.
        state: Queued for every job that has not ended: what ran when the process ended runs again.
        cancel_asked: Whether it was to be cancelled.
        submitted_unix_ns: Wall clock.
        started_unix_ns: The same, or None.
        finished_unix_ns: The same, or None.
        error: Why it failed.
        proofs: Partition -> its proof.
        n_crashes: How often it was at work when the process crashed; see ``count_crash``.
    """

    seq: int
    id: str
    request: JobRequest
    state: JobState
    cancel_asked: bool
    submitted_unix_ns: int
    started_unix_ns: int | None
    finished_unix_ns: int | None
    error: ErrorBody | None
    proofs: dict[int, ProofRecord] = field(default_factory=dict)
    n_crashes: int = 0


class Journal:
    """The file; threads may share it.

    Args:
        path: Made with mode 0600 where it is missing; None keeps everything in memory, for a process that needs no
            journal after its end.

    Raises:
        InputError: It is not a journal, or one of a later version.
        ProverError: It cannot be opened.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._name = str(path or "the journal in memory")
        self._lock = threading.Lock()
        try:
            if path is not None:
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            # autocommit: every transaction below is written out; the lock keeps threads apart
            self._db = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise ProverError(
                "journal", f"the journal cannot be opened: {error}", f"look at {self._name} and its disk"
            ) from None
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def accept(self, job_id: str, request: JobRequest, submitted_unix_ns: int) -> int:
        """Write down a job; returns its number in the order of acceptance.

        Raises:
            JournalError: It could not be written, and was not accepted.
        """
        row = (job_id, request.model_dump_json(), JobState.QUEUED, submitted_unix_ns)
        with self._change() as db:
            added = db.execute("INSERT INTO jobs (id, request, state, submitted_unix_ns) VALUES (?, ?, ?, ?)", row)
            return int(added.lastrowid or 0)

    def ask_cancel(self, job_id: str) -> None:
        """Write down that a running job is to be cancelled.

        Raises:
            JournalError: It could not be written.
        """
        with self._change() as db:
            db.execute("UPDATE jobs SET cancel_asked = 1 WHERE id = ?", (job_id,))

    def add_proof(self, job_id: str, part: int, proof: ProofRecord) -> None:
        """Write down the proof of a partition whose job goes on.

        Raises:
            JournalError: It could not be written.
        """
        with self._change() as db:
            _insert_proof(db, job_id, part, proof)

    def count_crash(self, job_ids: Sequence[str]) -> None:
        """Count a crash of the process against the jobs that were at work.

        Of several, any may have been innocent: they come to one crash at least, and are proved one at a time from then
        on. Only one that was at work alone comes to a second one.

        Raises:
            JournalError: It could not be written.
        """
        more = "UPDATE SET n = n + 1" if len(job_ids) == 1 else "NOTHING"
        sql = f"INSERT INTO crashes SELECT id, 1 FROM jobs WHERE id = ? ON CONFLICT (job) DO {more}"  # noqa: S608 - ours
        with self._change() as db:
            db.executemany(sql, [(job_id,) for job_id in job_ids])

    def finish(
        self,
        job_id: str,
        state: JobState,
        *,
        started_unix_ns: int | None,
        finished_unix_ns: int,
        error: ErrorBody | None = None,
        last: tuple[int, ProofRecord] | None = None,
    ) -> None:
        """Write down the end of a job, with its last proof in the same transaction.

        Raises:
            JournalError: It could not be written.
        """
        text = None if error is None else error.model_dump_json()
        row = (state, started_unix_ns, finished_unix_ns, text, job_id)
        with self._change() as db:
            if last is not None:
                _insert_proof(db, job_id, *last)
            sql = "UPDATE jobs SET state = ?, started_unix_ns = ?, finished_unix_ns = ?, error = ? WHERE id = ?"
            db.execute(sql, row)
            if state is not JobState.DONE:
                db.execute("DELETE FROM proofs WHERE job = ?", (job_id,))

    def forget(self, job_ids: Iterable[str]) -> None:
        """Remove jobs that aged out.

        Raises:
            JournalError: They could not be removed.
        """
        with self._change() as db:
            db.executemany("DELETE FROM jobs WHERE id = ?", [(job_id,) for job_id in job_ids])

    def jobs(self) -> list[StoredJob]:
        """Read every job, the oldest first.

        Raises:
            InputError: An entry cannot be understood.
        """
        try:
            with self._lock:
                rows = self._db.execute("SELECT * FROM jobs ORDER BY seq").fetchall()
                proofs = self._db.execute("SELECT job, part, proof FROM proofs").fetchall()
                crashes = dict(self._db.execute("SELECT job, n FROM crashes").fetchall())
            found = {row[1]: _stored(row, crashes.get(row[1], 0)) for row in rows}
            for job_id, part, text in proofs:
                found[job_id].proofs[part] = ProofRecord.model_validate_json(text)
        except (sqlite3.Error, ValueError, KeyError) as error:
            raise _damaged(self._name, str(error).splitlines()[0]) from None
        return list(found.values())

    def close(self) -> None:
        """Close the file."""
        with self._lock, closing(self._db):
            pass

    def _prepare(self) -> None:
        try:
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA:
                message = f"{self._name} was written by a later version: its schema is {version}, and {SCHEMA} is known"
                hint = "start that version again and let it drain, or move the file away with its jobs"
                raise InputError("journal-schema", message, hint)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA foreign_keys = ON")
            if version == 0:
                self._db.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
            self._db.execute(_CRASHES)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise _not_written(error) from None
            raise _damaged(self._name, str(error)) from None

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """One transaction: on the disk at the end of the block, or not there at all."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                raise _not_written(error) from None
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")


def _insert_proof(db: sqlite3.Connection, job_id: str, part: int, proof: ProofRecord) -> None:
    db.execute("INSERT INTO proofs (job, part, proof) VALUES (?, ?, ?)", (job_id, part, proof.model_dump_json()))


def _stored(row: tuple[int, str, str, str, int, int, int | None, int | None, str | None], n_crashes: int) -> StoredJob:
    seq, job_id, request, state, cancel_asked, submitted, started, finished, error = row
    return StoredJob(
        seq=seq,
        id=job_id,
        request=JobRequest.model_validate(json.loads(request)),
        state=JobState(state),
        cancel_asked=bool(cancel_asked),
        submitted_unix_ns=submitted,
        started_unix_ns=started,
        finished_unix_ns=finished,
        error=None if error is None else ErrorBody.model_validate_json(error),
        n_crashes=n_crashes,
    )


def _not_written(error: sqlite3.Error) -> JournalError:
    message = f"the journal cannot be written: {error}"
    if getattr(error, "sqlite_errorcode", None) in _FULL:
        return JournalFullError("disk-full", message, "free some space, then try again")
    return JournalError("journal", message, "look at its disk")


def _damaged(name: str, what: str) -> InputError:
    return InputError(
        "journal-damaged", f"{name} is not a journal of this daemon: {what}", "move it away: its jobs are lost"
    )

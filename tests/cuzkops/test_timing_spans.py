from __future__ import annotations

from pathlib import Path

from cuzkops.timing.parse import parse_chunks, parse_file
from cuzkops.timing.spans import MAX_BAD_LINES_KEPT, Run, Span, build_timeline

DATA = Path(__file__).parents[1] / "data" / "timelines"


def runs(text: str) -> tuple[Run, ...]:
    return build_timeline(parse_chunks([text.encode()], "x.log")).runs


def spans(text: str) -> list[Span]:
    (run,) = runs(text)
    return list(run.spans)


def brief(found: list[Span]) -> list[tuple[str, str, int | None]]:
    return [(span.phase, span.outcome, span.duration_ns) for span in found]


def test_a_stated_duration_beats_the_clock_and_the_clock_serves_where_none_is_stated() -> None:
    found = spans(
        "TIMELINE run=r job=j part=0 t_ns=1000 event=SYNTH_START\n"
        "TIMELINE run=r job=j part=0 t_ns=9000 event=SYNTH_END synth_us=7\n"
        "TIMELINE run=r job=j part=0 t_ns=9500 event=GPU_QUEUE\n"
        "TIMELINE run=r job=j part=0 t_ns=9900 event=GPU_PICKUP\n"
        "FIN_TIMING run=r job=j part=0 t_ns=12000 event=partition finish_us=1 verify_us=2 total_us=3\n"
    )
    assert brief(found) == [
        ("synth", "done", 7000),
        ("gpu_queue", "done", 400),
        ("finish", "done", 1000),
        ("verify", "done", 2000),
        ("partition", "done", 11000),
    ]
    assert (found[0].start_ns, found[0].end_ns, found[0].line) == (1000, 9000, 2)


def test_a_partition_begun_anew_leaves_its_first_try_unfinished() -> None:
    start = "TIMELINE run=r job=j part=0 t_ns=1 event=SYNTH_START\n"
    found = spans(start + start)
    assert [(span.phase, span.outcome, span.line) for span in found] == [
        ("synth", "unfinished", 1),
        ("partition", "unfinished", 1),
        ("synth", "unfinished", 2),
        ("partition", "unfinished", 2),
    ]


def test_a_job_that_failed_takes_its_open_partitions_with_it() -> None:
    found = spans(
        "JOB run=r job=j t_ns=1 event=accepted circuit=mul60 parts=2\n"
        "TIMELINE run=r job=j part=1 t_ns=2 event=SYNTH_START\n"
        "JOB run=r job=j t_ns=9 event=failed queue_us=0 total_us=1 code=x\n"
    )
    assert brief(found) == [("job", "failed", 1000), ("synth", "failed", None), ("partition", "failed", None)]
    assert {span.circuit for span in found} == {"mul60"}


def test_a_job_of_an_earlier_process_is_known_by_its_recovery() -> None:
    found = spans(
        "JOB run=r job=j t_ns=1 event=recovered circuit=mul60 parts=2 parts_done=1\n"
        "TIMELINE run=r job=j part=1 t_ns=2 event=SYNTH_START\n"
        "TIMELINE run=r job=j part=1 t_ns=9 event=SYNTH_END synth_us=1\n"
        "JOB run=r job=j t_ns=20 event=done queue_us=0 total_us=2\n"
    )
    assert brief(found)[:2] == [("synth", "done", 1000), ("job", "done", 2000)]
    assert {span.circuit for span in found} == {"mul60"}


def test_late_lines_of_a_failed_job_open_nothing() -> None:
    found = spans(
        "JOB run=r job=j t_ns=9 event=failed queue_us=0 total_us=1 code=x\n"
        "TIMELINE run=r job=j part=1 t_ns=10 event=GPU_END gpu_us=3\n"
    )
    assert brief(found) == [("job", "failed", 1000), ("gpu", "done", 3000)]


def test_the_header_of_a_rotated_file_continues_its_run() -> None:
    timeline = build_timeline(parse_file(DATA / "rotated-and-restarted.log", "x"))
    first, second = timeline.runs
    assert first.name == second.name == "run-rotated"
    assert first.header is not None
    assert first.header.line == 1
    assert len([span for span in first.spans if span.phase == "job"]) == 2
    assert first.unknown == {"TIMELINE GPU_COPY": 1, "MEMORY sample": 1}
    assert second.header is not None
    assert second.header.values["build"] == "8899aabbccddeeff"


def test_lines_of_two_daemons_in_one_file_are_kept_apart() -> None:
    timeline = build_timeline(parse_file(DATA / "two-daemons.log", "x"))
    assert [(run.name, run.n_events) for run in timeline.runs] == [("run-a", 25), ("run-b", 25)]
    assert all(span.outcome == "done" for run in timeline.runs for span in run.spans)


def test_all_bad_lines_are_counted_though_not_all_are_kept() -> None:
    timeline = build_timeline(parse_chunks([b"prose\n" * (MAX_BAD_LINES_KEPT + 5)], "x"))
    assert timeline.n_bad_lines == MAX_BAD_LINES_KEPT + 5
    assert len(timeline.bad_lines) == MAX_BAD_LINES_KEPT

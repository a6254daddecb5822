"""The judge of wait-memory: recorded traces of an H200 host, and every reason of a wait."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from cuzkops.memory_verdict import Judge, LiveProcess, MemoryVerdict, Reason, Sample
from cuzkops.records import KillRecord, ProcessId
from cuzkops.remote.procfs import Leftovers, Memory

TRACES = Path(__file__).parents[1] / "data" / "kill-traces"
GIB = 1 << 30
OUR_FILE, THEIR_FILE = "/dev/shm/pool", "/dev/shm/theirs"  # noqa: S108 - names in a record, never opened
BOOT = "6a1f9a52-3c5e-4a0e-9f4e-3d9a7c1d2b11"


def memory(uptime_s: float, available: int, *, pins: int | None = None) -> Memory:
    return Memory(
        uptime_s=uptime_s,
        total_bytes=128 * GIB,
        mem_available_bytes=available,
        available_bytes=available,
        shmem_bytes=0,
        pins_pages=pins,
    )


def kill_record(available: int, footprint: int, **changes: object) -> KillRecord:
    fields: dict[str, object] = {
        "name": "prover",
        "boot_id": BOOT,
        "processes": [ProcessId(pid=812, start_ticks=100)],
        "exe": "/opt/cuzk",
        "footprint_bytes": footprint,
        "available_bytes": available,
        "shmem_bytes": 0,
        "pins_pages": None,
        "gpu_used_bytes": None,
        "dev_shm": {},
        "others": {},
        "uptime_s": 0.0,
        "signalled_uptime_s": 0.0,
    }
    return KillRecord.model_validate(fields | changes)


def trace(name: str) -> list[tuple[float, str, int]]:
    with (TRACES / name).open(newline="") as file:
        return [(float(r["t_s"]), r["proc_state"], int(r["MemAvailable_kib"]) * 1024) for r in csv.DictReader(file)]


def sampled(rows: list[tuple[float, str, int]], phase_s: float, period_s: float) -> list[tuple[float, str, int]]:
    """The first row at or after each sampling instant; the recordings have gaps."""
    picked: list[tuple[float, str, int]] = []
    at_s = phase_s
    for row in rows:
        if row[0] >= at_s:
            picked.append(row)
            at_s = phase_s + period_s * (1 + (row[0] - phase_s) // period_s)
    return picked


def replay(judge: Judge, rows: list[tuple[float, str, int]]) -> MemoryVerdict | None:
    for t_s, state, available in rows:
        live = () if state in "-Z" else (LiveProcess(812, state),)
        verdict = judge.feed(Sample(BOOT, memory(t_s, available), live))
        if verdict is not None:
            return verdict
    return None


@pytest.mark.parametrize("phase_s", [0.0, 0.03, 0.06, 0.11, 0.125, 0.17, 0.2, 0.24])
@pytest.mark.parametrize(
    ("name", "footprint_gib", "expected_s", "true_from_s"),
    [
        ("kill-hostalloc-48gib-kill.csv", 48, 10.0, 9.6),
        ("kill-thp-register-48gib-kill.csv", 48, 1.5, 0.0),
        ("kill-hostalloc-16gib-term.csv", 16, 4.0, 0.0),
    ],
)
def test_recorded_kills_are_released_in_time_and_never_early(
    name: str, footprint_gib: int, expected_s: float, true_from_s: float, phase_s: float
) -> None:
    rows = trace(name)
    record = kill_record(rows[0][2], footprint_gib * GIB)
    verdict = replay(Judge(record, None, 1800), [rows[0], *sampled(rows[1:], phase_s, 0.25)])
    assert verdict is not None
    assert verdict.released
    assert verdict.code == "released"
    assert abs(verdict.seconds - expected_s) <= 0.5
    assert verdict.seconds >= true_from_s


@pytest.mark.parametrize("period_s", [0.02, 0.5, 1.0])
def test_other_sampling_periods_are_never_early(period_s: float) -> None:
    rows = trace("kill-hostalloc-48gib-kill.csv")
    verdict = replay(Judge(kill_record(rows[0][2], 48 * GIB), None, 1800), sampled(rows, 0.0, period_s))
    assert verdict is not None
    assert 9.6 <= verdict.seconds <= 9.9 + 2 * period_s


def test_the_flat_start_of_a_kill_says_that_the_kernel_still_unpins() -> None:
    rows = trace("kill-hostalloc-48gib-kill.csv")
    judge = Judge(kill_record(rows[0][2], 48 * GIB), None, 1800)
    assert replay(judge, [row for row in sampled(rows, 0.0, 0.25) if row[0] < 4]) is None
    assert judge.reason.code == "unpinning"
    assert "812" in judge.reason.sentence


def test_while_memory_comes_back_rate_and_time_left_are_told() -> None:
    rows = trace("kill-hostalloc-48gib-kill.csv")
    judge = Judge(kill_record(rows[0][2], 48 * GIB), None, 1800)
    assert replay(judge, [row for row in sampled(rows, 0.0, 0.25) if row[0] < 7.5]) is None
    assert 5 * GIB < judge.rate_bytes_per_s < 15 * GIB
    assert "s left" in judge.reason.sentence


def run(judge: Judge, samples: list[Sample]) -> MemoryVerdict | None:
    for sample in samples:
        verdict = judge.feed(sample)
        if verdict is not None:
            return verdict
    return None


def flat(
    available: int, seconds: float, *, start_s: float = 0.0, pins: int | None = None, **seen: object
) -> list[Sample]:
    """Samples each 0.25 s in which nothing changes."""
    n_samples = round(seconds / 0.25) + 1
    return [
        Sample(BOOT, memory(start_s + 0.25 * at, available, pins=pins), **seen)  # type: ignore[arg-type] # by name
        for at in range(n_samples)
    ]


def test_one_good_sample_is_not_enough() -> None:
    judge = Judge(kill_record(10 * GIB, 8 * GIB), None, 1800)
    assert run(judge, flat(18 * GIB, 0)) is None
    assert judge.reason.code == "settling"


def test_two_good_samples_must_agree() -> None:
    judge = Judge(kill_record(10 * GIB, 8 * GIB), None, 1800)
    samples = [Sample(BOOT, memory(0.25 * at, 18 * GIB + at * GIB // 2)) for at in range(6)]
    assert run(judge, samples) is None


def test_a_bad_sample_between_two_good_ones_starts_again() -> None:
    judge = Judge(kill_record(10 * GIB, 8 * GIB), None, 1800)
    samples = [Sample(BOOT, memory(0.25 * at, size * GIB)) for at, size in enumerate([18, 12, 18])]
    assert run(judge, samples) is None


def test_a_process_that_lives_is_never_released() -> None:
    judge = Judge(kill_record(10 * GIB, 8 * GIB), None, 1800)
    assert run(judge, flat(30 * GIB, 60, live=(LiveProcess(812, "S"),))) is None
    assert judge.reason.code == "still-running"


def test_a_process_without_a_signal_is_told_apart() -> None:
    judge = Judge(kill_record(10 * GIB, 8 * GIB, signalled_uptime_s=None), None, 1800)
    assert run(judge, flat(10 * GIB, 1, live=(LiveProcess(812, "S"),))) is None
    assert "was not told to stop yet" in judge.reason.sentence


def test_a_zombie_without_threads_is_gone() -> None:
    verdict = run(Judge(kill_record(10 * GIB, 8 * GIB), None, 1800), flat(18 * GIB, 1, zombies=(812,)))
    assert verdict is not None
    assert verdict.released
    assert "zombie" in verdict.sentence


def test_pins_that_fall_hold_the_verdict_back() -> None:
    pages = 8 * GIB // 4096
    judge = Judge(kill_record(10 * GIB, 8 * GIB, pins_pages=pages), None, 1800)
    falling = [Sample(BOOT, memory(0.25 * at, 18 * GIB, pins=pages - at * pages // 24)) for at in range(20)]
    assert run(judge, falling) is None
    assert judge.reason.code == "driver-releasing"
    verdict = run(judge, flat(18 * GIB, 1, start_s=5, pins=pages // 50))
    assert verdict is not None
    assert verdict.released


def test_pins_of_others_do_not_hold_it_back_for_ever() -> None:
    pages = 8 * GIB // 4096
    judge = Judge(kill_record(10 * GIB, 8 * GIB, pins_pages=pages), None, 1800)
    verdict = run(judge, flat(18 * GIB, 10, pins=pages))
    assert verdict is not None
    assert verdict.released
    assert 5 <= verdict.seconds <= 5.6
    assert "for others" in verdict.sentence


def test_the_driver_releases_after_the_exit() -> None:
    judge = Judge(kill_record(10 * GIB, 8 * GIB), None, 1800)
    assert run(judge, flat(11 * GIB, 20)) is None
    assert judge.reason.code == "driver-releasing"


def test_a_stall_is_a_message_and_not_an_end() -> None:
    judge = Judge(kill_record(10 * GIB, 8 * GIB), None, 1800)
    assert run(judge, flat(11 * GIB, 60)) is None
    assert judge.reason.code == "stalled"
    verdict = run(judge, flat(18 * GIB, 1, start_s=61))
    assert verdict is not None
    assert verdict.released


def test_files_left_in_dev_shm_end_the_wait_by_name() -> None:
    record = kill_record(10 * GIB, 8 * GIB, dev_shm={OUR_FILE: 4 * GIB}, own_shm=[OUR_FILE])
    left = Leftovers({OUR_FILE: 4 * GIB})
    verdict = run(Judge(record, None, 1800), flat(14 * GIB, 10, leftovers=left))
    assert verdict is not None
    assert (verdict.released, verdict.code) == (False, "tmpfs-left")
    assert f"{OUR_FILE} 4.00 GiB" in verdict.sentence
    assert verdict.still_bytes > 3 * GIB


def test_an_old_file_of_others_explains_nothing() -> None:
    record = kill_record(10 * GIB, 8 * GIB, dev_shm={THEIR_FILE: 6 * GIB})
    left = Leftovers({THEIR_FILE: 6 * GIB})
    judge = Judge(record, None, 1800)
    assert run(judge, flat(14 * GIB, 20, leftovers=left)) is None
    assert judge.reason.code == "driver-releasing"


def test_a_new_tenant_ends_the_wait_by_name() -> None:
    record = kill_record(10 * GIB, 8 * GIB, others={"77:5": GIB})
    seen = {"others": {"77:5": 5 * GIB}, "names": {"77:5": "trainer"}}
    verdict = run(Judge(record, None, 1800), flat(14 * GIB, 10, **seen))
    assert verdict is not None
    assert (verdict.released, verdict.code) == (False, "other-tenant")
    assert "pid 77 (trainer) by 4.00 GiB" in verdict.sentence


def test_a_tenant_that_grew_less_than_what_is_missing_explains_nothing() -> None:
    record = kill_record(10 * GIB, 8 * GIB, others={"77:5": GIB})
    judge = Judge(record, None, 1800)
    assert run(judge, flat(11 * GIB, 20, others={"77:5": 3 * GIB}, names={"77:5": "trainer"})) is None
    assert judge.reason.code == "driver-releasing"


def test_a_tenant_is_not_blamed_while_pins_are_still_falling() -> None:
    pages = 8 * GIB // 4096
    record = kill_record(10 * GIB, 8 * GIB, pins_pages=pages)
    judge = Judge(record, None, 1800)
    assert run(judge, flat(11 * GIB, 20, pins=pages, others={"77:5": 9 * GIB})) is None
    assert judge.reason.code == "driver-releasing"


def test_pages_that_went_to_the_hugetlb_pool_end_the_wait() -> None:
    record = kill_record(10 * GIB, 8 * GIB)
    verdict = run(Judge(record, None, 1800), flat(10 * GIB, 10, leftovers=Leftovers({}, 8 * GIB)))
    assert verdict is not None
    assert (verdict.released, verdict.code) == (False, "hugetlb-pool")


def test_after_a_reboot_it_is_released_with_a_warning() -> None:
    sample = Sample("another-boot", memory(3.0, 100 * GIB))
    verdict = Judge(kill_record(10 * GIB, 8 * GIB), None, 1800).feed(sample)
    assert verdict is not None
    assert (verdict.released, verdict.code) == (True, "rebooted")
    assert "rebooted" in verdict.sentence


def test_after_a_reboot_a_need_is_still_asked_for() -> None:
    judge = Judge(kill_record(10 * GIB, 8 * GIB), 50 * GIB, 1800)
    samples = [Sample("another-boot", memory(0.25 * at, 100 * GIB)) for at in range(30)]
    verdict = run(judge, samples)
    assert verdict is not None
    assert verdict.released
    assert "rebooted" in verdict.sentence


def test_nothing_killed_and_nothing_needed_is_released_at_once() -> None:
    verdict = Judge(None, None, 1800).feed(flat(GIB, 0)[0])
    assert verdict is not None
    assert (verdict.released, verdict.code) == (True, "nothing-killed")


def test_nothing_killed_and_a_need_waits_for_a_calm_window() -> None:
    verdict = run(Judge(None, 4 * GIB, 1800), flat(8 * GIB, 10))
    assert verdict is not None
    assert verdict.released
    assert 5 <= verdict.seconds <= 5.3
    assert "nothing was killed" in verdict.sentence


def restless(low_bytes: int, high_bytes: int, seconds: int) -> list[Sample]:
    """Samples of a host on which memory comes and goes twice a second."""
    return [
        Sample("boot", memory(0.25 * at, high_bytes if at % 4 < 2 else low_bytes)) for at in range(round(4 * seconds))
    ]


def test_a_need_far_below_what_comes_and_goes_on_a_busy_host_is_met() -> None:
    verdict = run(Judge(None, 4 * GIB, 1800), restless(8 * GIB, 12 * GIB, 10))
    assert verdict is not None
    assert (verdict.released, verdict.code) == (True, "calm")
    assert "8.00 GiB have been available for 5 s" in verdict.sentence


def test_a_need_that_the_next_movement_could_reach_is_not_met() -> None:
    judge = Judge(None, 5 * GIB, 1800)
    assert run(judge, restless(8 * GIB, 12 * GIB, 20)) is None
    assert judge.reason.code == "settling"
    assert "it moved by 4.00 GiB within 5 s: as much once more would be short" in judge.reason.sentence


def test_an_unmet_need_without_a_kill_waits_until_the_deadline() -> None:
    verdict = run(Judge(None, 16 * GIB, 20), flat(8 * GIB, 30, others={"77:5": 3 * GIB}, names={"77:5": "trainer"}))
    assert verdict is not None
    assert (verdict.released, verdict.timed_out, verdict.code) == (False, True, "short")
    assert verdict.seconds == 20
    assert verdict.still_bytes == 8 * GIB
    assert "pid 77 (trainer)" in verdict.sentence


def test_a_small_need_is_enough_before_all_is_back() -> None:
    verdict = run(Judge(kill_record(10 * GIB, 80 * GIB), 12 * GIB, 1800), flat(13 * GIB, 1))
    assert verdict is not None
    assert verdict.released


def test_a_need_beyond_what_came_back_is_said_at_once() -> None:
    verdict = run(Judge(kill_record(10 * GIB, 8 * GIB), 40 * GIB, 1800), flat(18 * GIB, 10))
    assert verdict is not None
    assert (verdict.released, verdict.code) == (False, "short")
    assert verdict.seconds < 6
    assert verdict.still_bytes == 22 * GIB


def test_the_deadline_gives_the_reason() -> None:
    judge = Judge(kill_record(10 * GIB, 8 * GIB), None, 10)
    verdict = run(judge, flat(10 * GIB, 20, live=(LiveProcess(812, "D"),)))
    assert verdict is not None
    assert (verdict.released, verdict.timed_out, verdict.code) == (False, True, "unpinning")
    assert verdict.seconds == 10


def test_whoever_has_a_gpu_open_is_named_while_the_driver_releases() -> None:
    judge = Judge(kill_record(10 * GIB, 8 * GIB), None, 1800)
    held = {77: "python3", 78: "python3", 79: "trainer", 80: "trainer"}
    assert run(judge, flat(11 * GIB, 20, holders=held)) is None
    assert judge.reason.code == "driver-releasing"
    assert "pid 77 (python3), pid 78 (python3), pid 79 (trainer) and 1 more have a GPU open" in judge.reason.sentence
    assert run(judge, flat(11 * GIB, 40, start_s=21)) is None
    assert judge.reason.code == "stalled"
    assert "have a GPU open" in judge.reason.sentence
    assert run(judge, flat(11 * GIB, 1, start_s=62, holders={})) is None
    assert "GPU" not in judge.reason.sentence


def test_a_process_of_its_session_that_was_not_recorded_is_waited_for() -> None:
    judge = Judge(kill_record(10 * GIB, 8 * GIB), None, 1800)
    assert run(judge, flat(30 * GIB, 5, members=(LiveProcess(813, "S"),))) is None
    assert judge.reason == Reason("still-running", "process 813 (S) of its session lives on: run kill again")
    verdict = run(judge, flat(30 * GIB, 1, start_s=6, members=()))
    assert verdict is not None
    assert verdict.released

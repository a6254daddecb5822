"""The memory estimate against what a process really grows by."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from groth16_files import CIRCUITS, host, path_of

from kernels.cuda.msm_shape import CURVES
from prover.formats.zkey import read_header
from prover.memory.estimate import (
    DEVICE_G1_BYTES,
    DEVICE_G2_BYTES,
    FIXED_BYTES,
    MemoryEstimate,
    estimate_of,
    least_on_device,
)

ROOT = Path(__file__).parents[2]
# An estimate that is far above the truth refuses work that would fit.
FACTOR = 4

MEASURE = """
import json, sys
from pathlib import Path
import kernels
from prover.formats.wtns import read_witness
from prover.groth16 import load_key, prove

def status(key):
    text = Path("/proc/self/status").read_text()
    return int(text.split(key + ":")[1].split()[0]) * 1024

def growth(work):
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again from here
    before = status("VmRSS")
    result = work()
    return result, status("VmHWM") - before

backend = kernels.backend("host", threads=int(sys.argv[3]))
key, load_bytes = growth(lambda: load_key(Path(sys.argv[1]), backend))
_, work_bytes = growth(lambda: prove(key, read_witness(Path(sys.argv[2]))))
print(json.dumps([load_bytes, work_bytes]))
"""


def estimate(zkey: Path, threads: int) -> MemoryEstimate:
    return estimate_of(read_header(zkey), threads)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("circuit", CIRCUITS)
def test_growth_stays_below_the_estimate_and_near_it(circuit: str, threads: int) -> None:
    host()
    zkey, wtns = path_of(circuit, "circuit.zkey"), path_of(circuit, "witness.wtns")
    command = [sys.executable, "-c", MEASURE, zkey, wtns, str(threads)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    load_bytes, work_bytes = json.loads(done.stdout)
    bound = estimate(zkey, threads)
    assert load_bytes <= bound.load_bytes
    assert work_bytes <= bound.work_bytes
    if circuit == "merkle_mimc5":  # the smaller ones vanish in the fixed part
        assert bound.load_bytes - FIXED_BYTES <= FACTOR * load_bytes
        assert bound.work_bytes - FIXED_BYTES <= FACTOR * work_bytes


def test_estimate_grows_with_the_circuit_and_the_threads() -> None:
    bounds = [estimate(path_of(circuit, "circuit.zkey"), 2) for circuit in CIRCUITS]
    for name in ("held_bytes", "load_bytes", "work_bytes"):
        values = [getattr(bound, name) for bound in bounds]
        assert values == sorted(values)
    assert all(bound.load_bytes >= bound.held_bytes for bound in bounds)
    zkey = path_of("merkle_mimc5", "circuit.zkey")
    assert estimate(zkey, 8).work_bytes > estimate(zkey, 1).work_bytes
    assert estimate(zkey, 8).held_bytes == estimate(zkey, 1).held_bytes


def test_a_point_on_a_device_takes_what_its_backend_says() -> None:
    assert (CURVES["g1"].record_bytes, CURVES["g2"].record_bytes) == (DEVICE_G1_BYTES, DEVICE_G2_BYTES)


def test_the_least_on_a_device_is_points_matrices_and_vectors() -> None:
    header = read_header(path_of("mul60", "circuit.zkey"))
    need = least_on_device(header)
    points = header.n_vars * (3 * 144 + 768) + header.domain_size * 144
    assert need.held_bytes == points + header.n_coefficients * 36 + 16 * (header.domain_size + 1)
    assert need.work_bytes == 32 * (header.n_vars + 5 * header.domain_size)

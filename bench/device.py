"""The cuda backend beside sppark on one device: ``python bench/device.py [--peer peer.so] [--rounds 9] [--only NTT]``.

Prints a table and writes bench/results/kernels.json. The peer is built from bench/peer_sppark.cu (its head says how)
and runs on the same device in the same process, one after the other in each row; without it the rows have no ratio.
Times are medians by CUDA events with the data on the device, or by the clock around the whole call for MSMs and proofs.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import cupy as cp
from device_msm import msm_rows
from device_ntt import h_rows, ntt_rows, overhead_rows
from device_proof import proof_rows
from device_registers import register_rows
from device_rows import Bench, BenchError, Row

import kernels

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results" / "kernels.json"


def all_rows(bench: Bench, only: str) -> Iterator[Row]:
    """Measure each row whose work has ``only`` in its name, as late as possible."""
    for part in (register_rows, ntt_rows, h_rows, overhead_rows, msm_rows, proof_rows):
        for work, measure in part(bench):
            if only in work:
                yield measure()
                cp.get_default_memory_pool().free_all_blocks()
                bench.backend.workspace.trim()


def document(rows: list[Row]) -> dict[str, object]:
    """Put the rows beside what they were measured on."""
    device = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    driver, runtime = cp.cuda.runtime.driverGetVersion(), cp.cuda.runtime.runtimeGetVersion()
    return {
        "device": device,
        "host": f"{platform.machine()}, Linux {platform.release()}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "versions": {
            "cupy": cp.__version__,
            "cuda_driver": driver,
            "cuda_runtime": runtime,
            "python": platform.python_version(),
            "peer": "supranational/sppark 17278d7",
        },
        "rows": [asdict(row) for row in rows],
    }


def main() -> int:
    """Measure, print, write; 1 where a row is below its floor."""
    parser = argparse.ArgumentParser(description="The cuda backend beside sppark.")
    parser.add_argument("--peer", type=Path, help="the adapter, built (see bench/peer_sppark.cu)")
    parser.add_argument("--rounds", type=int, default=9, help="measurements of a row (default: %(default)s)")
    parser.add_argument("--only", default="", help="rows whose work has this in its name")
    parser.add_argument("--largest", type=int, default=27, help="log2 of the largest size (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="(default: %(default)s)")
    options = parser.parse_args()
    bench = Bench(kernels.backend("cuda"), options.peer, options.rounds, options.largest)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows, start = [], time.monotonic()
    try:
        for row in all_rows(bench, options.only):
            print(f"{time.monotonic() - start:5.0f} s  {row.line()}", flush=True)
            rows.append(row)
            options.out.write_text(json.dumps(document(rows), indent=2) + "\n", encoding="utf-8")
    except BenchError as error:
        sys.stderr.write(f"bench/device.py: {error}\n")
        return 1
    return int(any(row.is_below_floor for row in rows))


if __name__ == "__main__":
    sys.exit(main())

"""``python -m cuzkops.artifact --out DIR``: the procedure that the Dockerfile runs and ``--builder local`` too."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from cuzkops.artifact.assemble import Recipe, assemble
from cuzkops.errors import OpsError


def main(words: list[str] | None = None) -> int:
    """Read the options, assemble, and say in one sentence what went wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m cuzkops.artifact", description="Put the prover's artifact together."
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder that receives the artifact; made, must be empty"
    )
    parser.add_argument("--project", type=Path, default=Path(), help="source tree (default: here)")
    parser.add_argument("--runtime", choices=("auto", "bundled", "host-python"), default="auto")
    parser.add_argument("--builder-name", default="local", help="recorded in the manifest, for people")
    parser.add_argument("--native", type=Path, help="a library that was compiled before (default: compile it)")
    parser.add_argument("--timeout-s", type=float, default=3600.0)
    options = parser.parse_args(words)
    options.out.mkdir(parents=True, exist_ok=True)
    if any(options.out.iterdir()):
        parser.error(f"{options.out} is not empty")
    recipe = Recipe(
        project=options.project.resolve(),
        out=options.out.resolve(),
        runtime=options.runtime,
        builder=options.builder_name,
        native=options.native.resolve() if options.native else None,
        deadline=time.monotonic() + options.timeout_s,
    )
    try:
        assemble(recipe, lambda line: print(line, flush=True))  # noqa: T201 - this is a program
    except OpsError as error:
        print(f"artifact: {error.message}", *([error.hint] if error.hint else []), sep="\n", file=sys.stderr)  # noqa: T201 - the same
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())

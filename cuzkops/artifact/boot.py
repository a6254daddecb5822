"""Start the prover of the release that this file lies in.

The one script inside the runtime layer. It knows nothing of our code but the name of its entry point, so that the
app layer can change without a new runtime. Wheels and app are plain files: they are found on ``sys.path``.
"""

import importlib
import os
import sys


def main() -> int:
    """Make this process the prover; returns its exit status."""
    sys.dont_write_bytecode = True  # a release is shared by hard links and never changes
    bundled = getattr(sys, "frozen", False)
    runtime = os.path.dirname(os.path.abspath(sys.executable if bundled else __file__))  # noqa: PTH100, PTH120 - starts without pathlib
    release = os.path.dirname(runtime)  # noqa: PTH120 - the same
    if bundled:
        _forget_the_loader()
    os.environ.setdefault("PROVER_RELEASE_DIR", release)
    sys.path += [f"{release}/app", f"{runtime}/site-packages", f"{release}/gpu"]
    sys.argv[0] = f"{release}/prover"
    # By name at run time: an import statement would make PyInstaller pack the prover of the build environment.
    status: int = importlib.import_module("prover.cli").main()
    return status


def _forget_the_loader() -> None:
    """Drop what the bundle's loader set for this process alone: its children, and itself started again, begin anew."""
    for name in [name for name in os.environ if name.startswith("_PYI_")]:
        del os.environ[name]
    os.environ.pop("LD_LIBRARY_PATH", None)
    before = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    if before is not None:
        os.environ["LD_LIBRARY_PATH"] = before


if __name__ == "__main__":
    sys.exit(main())

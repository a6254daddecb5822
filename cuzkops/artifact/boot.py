"""Start the prover of the release that this file lies in.

The one script inside the runtime layer. It knows nothing of our code but the name of its entry point, so that the
app layer can change without a new runtime. Wheels and app are plain files: they are found on ``sys.path``.
"""

import importlib
import os
import sys

sys.dont_write_bytecode = True  # a release is shared by hard links and never changes
_here = os.path.dirname(os.path.abspath(sys.executable if getattr(sys, "frozen", False) else __file__))  # noqa: PTH100, PTH120 - pathlib is not needed to start
_release = os.path.dirname(_here)  # noqa: PTH120 - the same
os.environ.setdefault("PROVER_RELEASE_DIR", _release)
if getattr(sys, "frozen", False):
    # what the bundle's loader set for this process alone; its children, and itself started again, begin without
    for _name in [name for name in os.environ if name.startswith("_PYI_")]:
        del os.environ[_name]
    _libraries = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    os.environ.pop("LD_LIBRARY_PATH", None)
    if _libraries is not None:
        os.environ["LD_LIBRARY_PATH"] = _libraries

sys.path += [f"{_release}/app", f"{_here}/site-packages"]
sys.argv[0] = f"{_release}/prover"

# By name at run time: an import statement would make PyInstaller pack the prover of the build environment.
sys.exit(importlib.import_module("prover.cli").main())

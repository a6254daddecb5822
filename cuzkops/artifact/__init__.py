"""The artifact: what is built once and then shipped, as a folder of layers and a manifest.

::

    assemble            the procedure: the layers, the manifest, and a first start of the result
    ├── runtime         the interpreter and the wheels; CuPy where there are kernels of a device
    │   ├── runtime_bundled        PyInstaller's onedir: the host needs no Python
    │   ├── runtime_host_python    no interpreter: the host's own, of the same minor version
    │   ├── distributions          the installed wheels that the daemon needs, as plain files
    │   └── layer_cache            made once and then taken from the tool's cache
    ├── source          our Python, the native libraries, and which revision they are
    ├── layers          deterministic archives: same content, same digest
    └── elf             the glibc that all of this needs

``launcher.sh`` and ``boot.py`` are the two files that start a release; they know nothing of our code but the name of
its entry point. ``python -m cuzkops.artifact`` is the same procedure for the Dockerfile.
"""

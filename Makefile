# Two commands set everything up on a machine with Python 3.11+, make and g++: `make demo` and `make test`.
PYTHON ?= python3
CXX ?= g++
VENV := .venv
BIN := $(VENV)/bin
# The environment is current when this file exists: its name changes with the locks and the interpreter.
STAMP := $(VENV)/installed-$(shell cat requirements.lock pyproject.toml | cksum | cut -d' ' -f1)-$(shell $(PYTHON) -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)

# Most tests wait for a process or a connection: more of them at a time than there are CPUs.
WORKERS ?= 4

# Without byte code every process of every test compiles our sources anew, and rewrites their assertions.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-beside test-alone test-hosts test-gpu lint format lock env kernels cuda device-bundle clean

demo: env kernels ## build, ship, kill, wait, launch, prove, pull and parse: the whole loop on this machine
	$(BIN)/cuzkops demo

test: test-beside test-alone ## everything whose peer is present; the rest is skipped with the reason

test-beside: env kernels ## the tests that may run beside each other
	$(BIN)/pytest -m "not gpu and not alone and not hosts" --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS)

test-alone: env kernels ## the tests that judge by this machine's memory, one after the other
	$(BIN)/pytest -m "not gpu and alone" $(TESTS) $(shell grep -rl --include='test_*.py' 'mark\.alone' tests)

test-hosts: env kernels ## what stands on a host, on each kind of them: this machine, sshd as a user and as root, bash, fish, tcsh and busybox in containers
	$(BIN)/pytest --verbose tests/peers/test_host_loop.py tests/peers/test_hosts.py tests/peers/test_resume.py $(TESTS)

lint: env ## ruff, mypy strict, codespell, and generated files that must match
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/python -m kernels.gen.constants --check

format: env
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

env: $(STAMP)

$(STAMP):
	@command -v $(PYTHON) >/dev/null || { echo "missing: $(PYTHON) (Python 3.11 or newer; set PYTHON= to name another)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "missing: Python 3.11 or newer ($(PYTHON) is older; set PYTHON= to name another)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "missing: the venv module of $(PYTHON) (on Debian: apt install python3-venv)" >&2; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

kernels: env ## the native library of the host backend (does nothing when it is current)
	@command -v $(CXX) >/dev/null || { echo "missing: $(CXX) (a C++17 compiler; on Debian: apt install g++)" >&2; exit 1; }
	$(BIN)/python -m kernels.build --cxx $(CXX)

cuda: env ## the kernels of the cuda backend; GPU_ARCHS="90 compute_80" for some architectures alone
	$(BIN)/python -m kernels.build_cuda

device-bundle: kernels cuda ## (PEER=peer.so adds the peer) dist/device-bundle: what a bare GPU machine with Python 3.12 and CuPy needs to test and measure
	$(BIN)/python bench/bundle.py $(if $(PEER),--peer $(PEER))

test-gpu: kernels cuda ## the tests that need an NVIDIA device (and CuPy: .venv/bin/pip install --require-hashes -r requirements-gpu.lock)
	$(BIN)/pytest -m gpu tests/gpu

UV_COMPILE = uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11
# What an extra of pyproject.toml lists, without what the tool needs besides.
EXTRA = $(BIN)/python -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"][sys.argv[1]], sep="\n")'
lock: env ## write the lock files anew but that of nvcc, hashes only (needs uv: pip install uv)
	$(UV_COMPILE) --extra prover --extra demo --extra build --extra test pyproject.toml -o requirements.lock
	{ echo pydantic; $(EXTRA) prover; } | $(UV_COMPILE) -c requirements.lock - -o requirements-prover.lock
	$(EXTRA) gpu | $(UV_COMPILE) -c requirements.lock - -o requirements-gpu.lock

clean:
	rm -rf build dist kernels/_native

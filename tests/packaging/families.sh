#!/usr/bin/env bash
# Runs addnorm.check, from the wheel that wheel.sh made, on the text families of transformers, and on all cases of the
# benchmark of DEForm. Sound models must have no findings, and bugs must be named. It takes two hours on one core. Exit
# status 77: Debian's PyTorch is older than 2.4, or PyPI cannot be reached.
set -euo pipefail
project=$(cd "$(dirname "$0")/../.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"

skip() { echo "families: SKIPPED: $1"; exit 77; }
/usr/bin/python3 -c 'import torch; assert tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)' 2>/dev/null ||
  skip "PyTorch is missing, or older than 2.4"
/usr/bin/python3 -m venv --system-site-packages venv
venv/bin/pip install --quiet transformers 2>pip.log || skip "PyPI cannot be reached: $(tail -1 pip.log)"
venv/bin/pip install --quiet --no-deps --no-index "$project"/build/wheels/*.whl
failed=0
for what in bugs sound; do
  OMP_NUM_THREADS=1 venv/bin/python -B "$project/tests/python/families.py" "$what" results.jsonl || failed=1
done
ADDNORM_LONG_TESTS=1 OMP_NUM_THREADS=1 PYTHONPATH=$project/tests/python \
  venv/bin/python -B -m pytest -q -p no:cacheprovider --import-mode=importlib "$project/tests/python/deform_test.py" ||
  failed=1
exit $failed

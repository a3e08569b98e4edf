#!/usr/bin/env bash
# Runs the benchmarks that `make bench` has built; arguments go to `addnorm bench`, as in
#   bench/run.sh --shape 8192x768
set -euo pipefail
bench=$(dirname "$0")
python=${PYTHON:-/usr/bin/python3}  # which has PyTorch
bin=${BIN:-$bench/../build/release/bin}

"$bin/addnorm" bench --python "$python" "$@"
echo
"$bin/norm_bench"
echo
"$bin/epilogue_bench"
echo
if "$python" -c 'import torch' 2>/dev/null; then
  "$python" "$bench/block_vs_torch.py" "$bin/block_bench"
  echo
  "$python" "$bench/train_vs_torch.py" "$bin/train_bench"
  echo
  PYTHONPATH=$bin/../python "$python" "$bench/converted_vs_torch.py"
else
  echo "The benchmark against PyTorch is skipped: $python has no torch (python3-torch)"
fi

echo
scripts=$bench/../scripts
"$scripts/with-node.sh" npm --prefix "$bench/web" ci --no-audit --no-fund --loglevel=error >/dev/null
"$scripts/with-node.sh" node "$bench/web/bench.mjs"
echo
"$scripts/with-node.sh" npm --prefix "$bench/../web" run --silent bench

#!/usr/bin/env bash
# Runs every fuzzer for some seconds from its corpus: fuzz/run.sh 60
set -euo pipefail
cd "$(dirname "$0")/.."

for target in c json npy profile recipe run safetensors; do
  found=build/fuzz/corpus/$target
  log=build/fuzz/$target.log
  mkdir -p "$found"
  if ! build/fuzz/bin/fuzz_"$target" -max_total_time="$1" -max_len=65536 -timeout=10 \
      -print_final_stats=1 -artifact_prefix="build/fuzz/$target-" "$found" "fuzz/corpus/$target" \
      >"$log" 2>&1; then
    tail -40 "$log" >&2
    echo "fuzz: $target broke; its input lies beside $log" >&2
    exit 1
  fi
  echo "$target: $(awk '/number_of_executed_units/ {print $2}' "$log") inputs"
done

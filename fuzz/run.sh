#!/usr/bin/env bash
# Runs each fuzzer for a number of seconds, from its corpus: fuzz/run.sh 60
set -euo pipefail
shopt -s failglob
cd "$(dirname "$0")/.."

for fuzzer in build/fuzz/bin/fuzz/*; do
  target=${fuzzer##*/}
  found=build/fuzz/corpus/$target
  log=build/fuzz/$target.log
  mkdir -p "$found"
  if ! "$fuzzer" -max_total_time="$1" -max_len=65536 -timeout=10 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/$target-" "$found" "fuzz/corpus/$target" >"$log" 2>&1; then
    tail -40 "$log" >&2
    echo "fuzz: $target broke; its input lies beside $log" >&2
    exit 1
  fi
  awk -v target="$target" '
    $2 == "DONE" { edges = $4 }  # "#12 DONE cov: 34 ft: 56"
    /number_of_executed_units/ { printf "%-12s %9d executions, %5d edges\n", target, $2, edges }
  ' "$log"
done

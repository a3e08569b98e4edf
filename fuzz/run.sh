#!/usr/bin/env bash
# Runs every fuzzer for some seconds from its corpus: fuzz/run.sh 60
set -euo pipefail
cd "$(dirname "$0")/.."

for reader in json npy profile recipe run safetensors; do
  found=build/fuzz/corpus/$reader
  log=build/fuzz/$reader.log
  mkdir -p "$found"
  if ! build/fuzz/bin/fuzz_"$reader" -max_total_time="$1" -max_len=65536 -timeout=10 \
      -print_final_stats=1 -artifact_prefix="build/fuzz/$reader-" "$found" "fuzz/corpus/$reader" \
      >"$log" 2>&1; then
    tail -40 "$log" >&2
    echo "fuzz: $reader broke; its input lies beside $log" >&2
    exit 1
  fi
  echo "$reader: $(awk '/number_of_executed_units/ {print $2}' "$log") inputs"
done

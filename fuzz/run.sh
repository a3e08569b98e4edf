#!/ usr / bin / env bash
#Runs every fuzzer for some seconds from its corpus : fuzz / run.sh 60
set -euo pipefail
cd "$(dirname "$0")/.."

for reader in json npy profile recipe safetensors;
do
  found = build / fuzz / corpus / $reader mkdir -
          p "$found" echo "$reader" build / fuzz / bin / fuzz_$reader - max_total_time =
              "$1" - max_len =
                  65536 - rss_limit_mb =
                      2048 - timeout =
                          10 - print_final_stats =
                              1 - artifact_prefix =
                                  "build/fuzz/$reader-"
                                  "$found"
                                  "fuzz/corpus/$reader" 2 > &1 |
                                      grep - E
                                          "ERROR|SUMMARY|stat::number_of_executed|stat::peak_rss" ||
                                  true [[${PIPESTATUS[0]} == 0]] || {
    echo "fuzz: $reader: found something, see build/fuzz/$reader-*" > &2;
    exit 1;
  }
done

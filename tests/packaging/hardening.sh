#!/usr/bin/env bash
# What is built stops at an overwritten stack or buffer, and its addresses cannot be rewritten:
#   hardening.sh FILE…
set -euo pipefail

failed=0
expect() {  # expect <what> <pattern> <text>
  grep -qE "$2" <<<"$3" && return
  echo "hardening: $file: $1 is missing" >&2
  failed=1
}
for file; do
  header=$(readelf --file-header "$file")
  dynamic=$(readelf --wide --dynamic "$file")
  symbols=$(readelf --wide --dyn-syms "$file")
  expect "immediate binding (-z now)" 'BIND_NOW|Flags:.* NOW' "$dynamic"
  expect "read-only relocations (-z relro)" GNU_RELRO "$(readelf --wide --program-headers "$file")"
  expect "stack protector" __stack_chk_fail "$symbols"
  expect "FORTIFY" '__[a-z]+_chk' "$(grep -v __stack_chk_fail <<<"$symbols")"
  expect "position independence" 'Type: +DYN' "$header"
  if [[ $header == *X86-64* ]]; then  # where a large frame touches each of its pages
    code=$(objdump --disassemble --no-show-raw-insn "$file")
    expect "stack-clash protection" 'or[a-z]* +\$0x0,(0x[0-9a-f]+)?\(%rsp' "$code"
  fi
done
exit $failed

#!/usr/bin/env bash
# Checks that the binaries detect overwritten stacks and buffers, and that their addresses cannot be rewritten:
#   hardening.sh BUILD FILE…
set -euo pipefail

failed=0
expect() {  # expect <what> <pattern> <text>
  grep -qE "$2" <<<"$3" && return
  echo "hardening: $file: $1 is missing" >&2
  failed=1
}
commands=$1/compile_commands.json
shift
for file; do
  dynamic=$(readelf --wide --dynamic "$file")
  symbols=$(readelf --wide --dyn-syms "$file")
  expect "immediate binding (-z now)" 'BIND_NOW|Flags:.* NOW' "$dynamic"
  expect "read-only relocations (-z relro)" GNU_RELRO "$(readelf --wide --program-headers "$file")"
  expect "stack protector" __stack_chk_fail "$symbols"
  expect "FORTIFY" '__[a-z]+_chk' "$(grep -v __stack_chk_fail <<<"$symbols")"
  expect "position independence" 'Type: +DYN' "$(readelf --file-header "$file")"
done
# This option leaves no mark in the binary: frames of a page or more touch each of their pages.
file=$commands
unprobed=$(grep '"command":.*/src/.*\.cc' "$commands" | grep -cv -- -fstack-clash-protection || true)
expect "-fstack-clash-protection in $unprobed commands" '^0$' "$unprobed"
exit $failed

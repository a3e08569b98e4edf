#!/usr/bin/env bash
# Looks for AVX instructions in functions outside the namespaces of the instruction sets, which a processor without AVX
# would run: vector_instructions.sh LIBRARY
set -euo pipefail
objdump --disassemble --demangle --no-show-raw-insn "$1" | awk '
  /^[0-9a-f]+ <.*>:$/ { of_set = /N_(AVX2|AVX3)::/; name = $0 }
  /^ +[0-9a-f]+:\tv/ { if (of_set) known++; else found[name]++ }
  END {
    for (name in found) print found[name] " AVX instructions in " name
    if (known == 0) print "no AVX instruction was recognized"
    exit length(found) > 0 || known == 0
  }'

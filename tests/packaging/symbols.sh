#!/usr/bin/env bash
# Compares the exported symbols of a shared library with symbols.txt: symbols.sh LIBRARY
set -euo pipefail
nm --dynamic --defined-only --demangle --just-symbols "$1" | LC_ALL=C sort |
  diff "$(dirname "$0")/symbols.txt" -

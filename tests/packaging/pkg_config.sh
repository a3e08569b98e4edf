#!/usr/bin/env bash
# Builds and runs the examples with pkg-config alone: pkg_config.sh {static|shared} LIBDIR COMPILER
set -euo pipefail
cd "$(dirname "$0")/../../examples"
kind=$1 libdir=$2 cxx=$3

export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
read -ra cflags <<<"$(pkg-config --cflags addnorm)"
read -ra libs <<<"$(pkg-config --libs $([[ $kind == shared ]] || echo --static) addnorm)"

for example in inference probe; do
  "$cxx" -std=c++20 "${cflags[@]}" $example.cc "${libs[@]}" -o "$out/$example"
  "$out/$example"
done
cc -std=c99 -pedantic -Werror "${cflags[@]}" add_norm.c "${libs[@]}" -o "$out/add_norm"
"$out/add_norm"

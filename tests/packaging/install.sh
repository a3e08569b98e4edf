#!/usr/bin/env bash
# Installs components into an empty prefix and then moves it:
#   install.sh BUILD FIRST_PREFIX PREFIX COMPONENT...
set -euo pipefail
build=$1 first=$2 prefix=$3
rm -rf "$first" "$prefix"
for component in "${@:4}"; do
  cmake --install "$build" --component "$component" --prefix "$first"
done
mv "$first" "$prefix"

#!/usr/bin/env bash
# Compares the shared library's ABI with that of the last tag. As long as the library's name is the same, only
# additions are allowed:
#   abi.sh SOURCE FOLDER COMPILER
# Exit status 77: there is nothing to compare with.
set -euo pipefail
source=$1 folder=$2 compiler=$3
tests=$(cd "$(dirname "$0")" && pwd)

tag=$(git -C "$source" describe --tags --abbrev=0 --match 'v*' 2>/dev/null) || {
  echo "abi: no tag v* is reachable from here; nothing to compare with"
  exit 77
}
old=$folder/$(git -C "$source" rev-parse "$tag^{commit}")
mkdir -p "$old/source"
git -C "$source" archive "$tag" | tar -x -C "$old/source"

# The inner loops of the kernels do not matter: one instruction set, no optimization.
install() {
  cmake -G Ninja -S "$1" -B "$2/build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER="$compiler" \
    -DBUILD_SHARED_LIBS=ON -DADDNORM_LIBRARY_ONLY=ON -DADDNORM_TESTS=OFF \
    -DADDNORM_INSTRUCTION_SETS=baseline -DCMAKE_INSTALL_LIBDIR=lib >/dev/null
  cmake --build "$2/build" >/dev/null
  rm -rf "$2/installed"
  cmake --install "$2/build" --prefix "$2/installed" >/dev/null
}
install "$old/source" "$old"
install "$source" "$folder/new"
old+=/installed
new=$folder/new/installed

name() { objdump -p "$1/lib/libaddnorm.so" | awk '$1 == "SONAME" {print $2}'; }
if [[ $(name "$old") != "$(name "$new")" ]]; then
  echo "abi: $(name "$old") of $tag has become $(name "$new"), so its ABI may be another"
  exit 0
fi
echo "abi: $(name "$new") against that of $tag"
abidiff --no-added-syms --suppressions "$tests/abi.suppr" \
  --headers-dir1 "$old/include" --headers-dir2 "$new/include" \
  "$old/lib/libaddnorm.so" "$new/lib/libaddnorm.so"

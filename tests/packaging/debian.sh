#!/usr/bin/env bash
# Runs lintian on the Debian packages, then installs, uses and purges them in a fresh Debian:
#   debian.sh FOLDER_OF_PACKAGES
# The fresh root uses the mirrors of this machine's apt, and is deleted at the end.
# Exit status 77: it cannot be created here.
set -euo pipefail
shopt -s nullglob
packages=("$1"/*.deb)
here=$(cd "$(dirname "$0")" && pwd)

((${#packages[@]})) || { echo "debian: no packages in $1; expected those of make package" >&2; exit 1; }
if ((UID)) && ! unshare --map-auto --map-root-user true; then
  echo "debian: SKIPPED: a fresh root takes root's rights or user namespaces, and here are neither"
  exit 77
fi

lintian --fail-on error "${packages[@]}"

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
apt-config dump Acquire >"$out/apt.conf"
apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
  'Created-By: Packages' 'Origin: Debian' | sort -u |
  mmdebstrap --quiet --variant=minbase --include=g++,make,cmake,pkg-config --aptopt="$out/apt.conf" --format=null \
    --customize-hook="mkdir \"\$1/packages\"" \
    --customize-hook="copy-in ${packages[*]} $here/../../examples/inference.cc \
      $here/../../examples/probe.cc $here/../../examples/add_norm.c $here/debian_inside.sh $here/../../docs/snippets /packages" \
    --customize-hook='chroot "$1" bash /packages/debian_inside.sh' \
    "$(. /etc/os-release && echo "$VERSION_CODENAME")" /dev/null -

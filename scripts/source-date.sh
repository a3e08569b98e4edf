#!/usr/bin/env bash
# Prints SOURCE_DATE_EPOCH for what is built here: the time of the commit, so that the same commit makes the
# same bytes. Outside of a clone, or without git, it is the time of CHANGELOG.md.
set -euo pipefail
cd "$(dirname "$0")/.."
git log -1 --format=%ct 2>/dev/null || date -r CHANGELOG.md +%s

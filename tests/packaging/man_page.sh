#!/usr/bin/env bash
# Checks that the man page is valid and has every flag that --help shows: man_page.sh PROGRAM
set -euo pipefail
program=$1
page=$(mktemp)
trap 'rm "$page"' EXIT
"$program" manual man >"$page"

# It has no date, so that the same sources give the same page.
findings=$(mandoc -T lint -W warning "$page" | grep -v 'missing date' || true)
[[ -z $findings ]] || { echo "$findings" >&2; exit 1; }

text=$(mandoc -T utf8 -O width=80 "$page" | col -b)
commands=$("$program" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]\+\) .*/\1/p')
[[ -n $commands ]]
for command in $commands; do
  for flag in $("$program" "$command" --help | sed -n 's/^  \(-h,\)\?\(--[a-z0-9-]\+\).*/\2/p'); do
    grep -q -e "$flag\b" <<<"$text" || { echo "man page: no $flag, which $command has" >&2; exit 1; }
  done
done

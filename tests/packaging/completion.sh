#!/usr/bin/env bash
# Checks a shell's completions of partial command lines, with the files that `cmake --install` has installed:
#   completion.sh {bash|fish|zsh} PREFIX
set -euo pipefail
shell=$1 share=$2/share here=$(cd "$(dirname "$0")" && pwd)
PATH=$2/bin:$PATH
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"
mkdir runs
touch "profile 1.jsonl"

# Prints the completions of the words, one per line, without the descriptions of fish and zsh.
offered_by_bash() {
  bash -c 'source "$1/bash-completion/completions/addnorm"
           compopt() { :; }  # works only where readline asks
           COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
           _addnorm addnorm "${@: -1}" "${@: -2:1}"
           printf "%s\n" "${COMPREPLY[@]}"' bash "$share" "$@"
}
offered_by_fish() {
  local line
  printf -v line '%s ' "${@:1:$#-1}"
  fish --no-config -c 'source $argv[1]; complete -C $argv[2]' \
    "$share/fish/vendor_completions.d/addnorm.fish" "$line${*: -1}" | cut -f1 | sed 's|/$||'
}
offered_by_zsh() {
  local line
  printf -v line '%s ' "${@:1:$#-1}"
  zsh -f "$here/completion.zsh" "$share/zsh/site-functions" "$line${*: -1}"
}

# expect "OFFERS" WORD...: checks all completions of the last word, separated by slashes.
expect() {
  local offers
  offers=$("offered_by_$shell" "${@:2}" | LC_ALL=C sort -u | paste -sd/)
  [[ $offers == "$1" ]] && return
  echo "$shell: '${*:2}' offers '$offers'; expected '$1'" >&2
  return 1
}
expect study addnorm stu
expect derf/dyt/layer/rms addnorm study --norm ''
expect rms addnorm study --norm r
expect bf16 addnorm train --out r --dtype b
expect --placement addnorm train --pl
expect gradient-flow addnorm lab variance gradient-f
expect norm-missing addnorm lab variance --break norm-m
expect '' addnorm study --layers ''
expect runs addnorm serve --runs ''
expect 'profile 1.jsonl' addnorm doctor pro
# fish completes only one value per flag.
[[ $shell == fish ]] || expect 'profile 1.jsonl' addnorm train --text runs pro

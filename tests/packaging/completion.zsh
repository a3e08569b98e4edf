# What zsh offers for a begun line, one a line: completion.zsh FUNCTIONS LINE
# Completion takes a terminal: a zsh behind a pseudo one lists on Ctrl+T, between < and >, what
# compadd would add.
zmodload zsh/zpty
zpty inner zsh -f -i
zpty -w inner "fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w inner 'compadd() { local -a all; builtin compadd -O all "$@"; print -rl -- "<"$^all">"
  builtin compadd "$@" }; list() { _main_complete; print "<do""ne>" }'
zpty -w inner 'zle -C list list-choices list; bindkey "^T" list; PS1=; print "<rea""dy>"'
until [[ $line == *'<ready>'* ]]; do zpty -r inner line; done
zpty -w -n inner "$2"$'\C-T'
while zpty -r inner line && [[ $line != *'<done>'* ]]; do
  [[ $line != *"<"?*">"* ]] || print -r -- ${(Q)${${line##*<}%>*}}
done

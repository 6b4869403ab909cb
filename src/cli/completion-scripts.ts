// cspell:ignore COMPREPLY compopt compdef funcstack

/**
 * Scripts that complete the command line, one for each shell. A script gets the candidates for the last word from
 * `farebox completion SHELL -- WORDS`. The answer `:files` means that the shell completes file names.
 */
export const completionScripts = {
  // Bash splits words at ":" and "=". So the script splits the line at spaces, and removes from each candidate the part
  // up to the last ":" or "=".
  bash: `_farebox() {
  local line="\${COMP_LINE:0:COMP_POINT}" words current found candidate
  read -ra words <<< "$line"
  [[ "$line" == *[[:space:]] ]] && words+=("")
  current="\${words[\${#words[@]}-1]}"
  found="$(farebox completion bash -- "\${words[@]:1}" 2>/dev/null)"
  COMPREPLY=()
  [[ "$found" == ":files" ]] && return
  while read -r candidate; do
    [[ -n "$candidate" ]] && COMPREPLY+=("\${candidate#"\${current%"\${current##*[:=]}"}"}")
  done <<< "$found"
  [[ \${#COMPREPLY[@]} == 1 && "$COMPREPLY" == *[:=] ]] && compopt -o nospace
}
complete -o default -F _farebox farebox
`,
  zsh: `#compdef farebox
_farebox() {
  local -a found candidates begun
  local line
  found=("\${(@f)$(farebox completion zsh -- "\${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
  if [[ "$found[1]" == ":files" ]]; then
    _files
    return
  fi
  for line in $found; do
    if [[ "\${line%%$'\\t'*}" == *[:=] ]]; then
      begun+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
    else
      candidates+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
    fi
  done
  _describe -V farebox candidates -- begun -S ''
}
compdef _farebox farebox
if [[ "$funcstack[1]" == "_farebox" ]]; then _farebox "$@"; fi
`,
  fish: `function __farebox_candidates
    set -l words (commandline -opc) (commandline -ct)
    set -l found (farebox completion fish -- $words[2..-1] 2>/dev/null)
    if test "$found" = ":files"
        __fish_complete_path (commandline -ct)
    else
        printf '%s\\n' $found
    end
end
complete -c farebox -f -a '(__farebox_candidates)'
`,
} as const;

export type Shell = keyof typeof completionScripts;

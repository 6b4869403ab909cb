# Beginning of the script that runs the shell blocks of one page. The blocks follow. `faults` is the file for faults, and `block` is
# the place of the current block. PATH has only the programs that blocks may run, and stand-ins for those that they may not.

# Records a fault. Exit codes are not enough: a pipe, `&&` and `$(…)` hide them.
fault() {
  printf '%s: %s\n' "$block" "$*" >>"$faults"
}

# Runs a command that must succeed.
must() {
  local code=0 shown=$*
  "$@" || code=$?
  shown=${shown#command }
  [ $code = 0 ] || fault "exit code $code: ${shown/#call /farebox }"
}

trap 'fault "failed: $BASH_COMMAND"' ERR

command_not_found_handle() {
  fault "no rule for the program $1"
}

farebox() {
  case "$1 $2" in
    "init "*)
      # A page may show several ways to set up.
      if [ -f farebox.yaml ]; then
        end_proxy
        command -p rm -f farebox.yaml farebox.db*
      fi
      must call "$@"
      ;;
    "serve "*)
      end_proxy
      FAREBOX_PORT=0 start '^farebox listening on (http:.*)$' "$@"
      proxy=$started
      url=${BASH_REMATCH[1]}
      # The next start opens file 3 again.
      exec 4<&3
      export FAREBOX_PORT=${url##*:}
      ;;
    "watch "*)
      start . "$@"
      kill $started
      ;;
    "sandbox "*)
      # Another program may use the port of the page.
      start '^sandbox gateway listening on' "$@" --port 0
      kill $started
      ;;
    "run "*) must command farebox "$@" ;;
    # It takes seconds: test/system/serve/demo.test.ts runs it.
    "demo "*) ;;
    # PostgreSQL: test/system/cli/postgres.test.ts and test/system/cli/db-copy.test.ts run them.
    "proxies "* | "db copy") ;;
    # It compares samples of the account: test/system/cli/reconcile.test.ts runs it.
    "reconcile "*) ;;
    *) must call "$@" ;;
  esac
}

# Runs farebox in the process of test/support/command-server.ts.
call() {
  local file=$PWD/.call-$$-$RANDOM
  {
    printf '%s\0' "$PWD"
    command -p env -0
    printf '\0'
    printf '%s\0' "$@"
  } >"$file"
  exec 5<>/dev/tcp/127.0.0.1/$commands
  printf '%s\n' "$file" >&5
  command -p cat <&5
  exec 5>&-
  command -p cat "$file.stderr" >&2
  return "$(<"$file.code")"
}

# Process id of the proxy, and its address.
proxy=
url=

# Starts farebox, and waits until it prints a line that matches a pattern. Prints that line.
start() {
  local pattern=$1 line
  shift
  command -p rm -f .output
  command -p mkfifo .output
  command farebox "$@" >.output &
  started=$!
  exec 3<.output
  while read -r line <&3; do
    if [[ $line =~ $pattern ]]; then
      printf '%s\n' "$line"
      return
    fi
  done
  fault "ended without a line that matches $pattern: farebox $*"
}

end_proxy() {
  [ -n "$proxy" ] || return 0
  kill "$proxy"
  must wait "$proxy"
  proxy=
}

# Other scripts run tests and tools of the checkout: test/unit/docs/commands.test.ts finds them and their options.
npm() {
  if [[ "$*" == "run --silent farebox -- "* ]]; then farebox "${@:5}"; fi
}

# Pages name the proxy by its default address, or by that of an installed one.
curl() {
  local words=("${@//http:\/\/127.0.0.1:4000/$url}")
  must command curl --silent --show-error --fail-with-body "${words[@]//https:\/\/farebox.example/$url}"
  echo
}

jq() {
  must command jq "$@"
}

# The day of the examples, so that a page can name a file of that day.
date() {
  echo 2026-11-20
}

# All files of a page are in one folder.
cd() {
  :
}

# test/system/cli/completion.test.ts loads the completion in each shell.
source() {
  while read -r _; do :; done <"$1"
}

# Lets an endless loop run once.
sleep() {
  [ -z "$slept" ] && slept=1
}

# Undoes what is left when the process that started it has ended, for whatever reason. It reads
# orders from standard input: `+7 COMMAND` is to be undone by that command, `-7` no longer; `!123`
# is a group of processes that is making something right now, `~123` no longer. Standard output is
# the journal, which gets a `-7` for each command that was run here; the journal is held open, and
# so locked, as long as this runs.
# shellcheck shell=sh
# What interrupts the run must not interrupt its undoing.
trap '' INT TERM HUP QUIT USR1 USR2 TSTP TTIN TTOU
limit=$1 journal=$2
order=' ' makers=' '
# Who is in the group $1, and has not ended.
alive() {
  cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | while read -r state _ group _; do
    case $state in Z | X) ;; *) [ "$group" != "$1" ] || echo yes ;; esac
  done
}
while IFS= read -r line; do
  number=${line%% *}
  number=${number#?}
  case $line in
    +*)
      eval "undo_$number=\${line#* }"
      order=" $number$order"
      ;;
    -*)
      unset "undo_$number"
      order="${order%%" $number "*} ${order#*" $number "}"
      ;;
    !*) makers=" $number$makers" ;;
    ~*) makers="${makers%%" $number "*} ${makers#*" $number "}" ;;
  esac
done
# What is half made must not be finished behind our back. Most is whole in a moment, and engines of
# containers take it ill to be killed at their work.
for group in $makers; do
  tries=0
  while [ $tries -lt 400 ] && [ -n "$(alive "$group")" ]; do
    [ $tries -lt 150 ] || kill -s KILL -- "-$group" 2>/dev/null
    tries=$((tries + 1))
    sleep 0.02
  done
done
failed=0
for number in $order; do
  eval "line=\${undo_$number}"
  # In a group of its own, which `timeout` makes: what hangs is killed with all it has started.
  if timeout -s KILL "$limit" /bin/sh -c "$line" </dev/null >/dev/null; then
    echo "-$number"
  else
    echo "nightwatt: could not undo: $line" >&2
    failed=1
  fi
done
[ $failed -ne 0 ] || rm -f "$journal"
exit $failed

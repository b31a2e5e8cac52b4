# Undoes what is left when whoever started it has ended, however that was. It is told on standard
# input: `+7 COMMAND` is to be undone by that command, `-7` no longer. Standard output is the journal,
# which gets a `-7` for each that was undone here; it is held open, and so locked, as long as this runs.
# shellcheck shell=sh
# What interrupts the run must not interrupt its undoing.
trap '' INT TERM HUP QUIT USR1 USR2 TSTP TTIN TTOU
limit=$1 journal=$2
order=' '
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
  esac
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

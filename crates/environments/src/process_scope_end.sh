# Kills all that is in the cgroups called NAME or NAME.SOMETHING, or has that name in its environment, until nothing is
# left, and removes the cgroups.
name=NAME
groups() {
  find $(while read -r _ at kind _; do case $kind in cgroup | cgroup2) echo "$at" ;; esac; done </proc/mounts) \
    -depth -type d \( -name "$name" -o -name "$name.*" -o -path "*/$name/*" -o -path "*/$name.*/*" \) 2>/dev/null
}
marked() { grep -l "NIGHTWATT_PEN=$name" /proc/[0-9]*/environ 2>/dev/null | sed 's|/proc/||; s|/environ||'; }
tries=0
while [ $tries -lt 400 ]; do
  found=$(groups) left=
  for group in $found; do
    [ ! -e "$group/cgroup.kill" ] || echo 1 >"$group/cgroup.kill"
    kill -KILL $(cat "$group/cgroup.procs") 2>/dev/null
    rmdir "$group" 2>/dev/null || left=yes
  done
  pids=$(marked)
  [ -z "$pids" ] || { kill -KILL $pids 2>/dev/null; left=yes; }
  [ -n "$left" ] || exit 0
  tries=$((tries + 1))
  # The kernel takes a moment to end them, and the shell gets no event when it has.
  sleep 0.05
done
echo "still running: $(cat $(groups | sed 's|$|/cgroup.procs|') 2>/dev/null) $(marked)" >&2
exit 1

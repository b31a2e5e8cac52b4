# Makes a cgroup of version 2 called $1 beneath our own, or else beneath the root; with a limit of $2
# bytes of memory, if that is not empty, by whichever version has the controller. Prints the folders.
name=$1 memory=$2 limited=
# What was made is not yet allowed to be used.
usable() { (echo 0 >"$1/cgroup.procs") 2>/dev/null; }
own() { sed -n "s/^[0-9]*:$1://p" /proc/self/cgroup; }
while read -r _ at kind options _; do
  case $kind,$options in
    cgroup2,*)
      for home in "$at$(own '')" "$at"; do
        group=${home%/}/$name
        mkdir "$group" 2>/dev/null || continue
        if usable "$group" && { [ -z "$memory" ] || [ -e "$group/memory.max" ] || [ "${home%/}" = "$at" ]; }; then
          if [ -n "$memory" ] && echo "$memory" >"$group/memory.max"; then
            limited=yes
            [ ! -e "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
          fi
          echo "$group"
          break
        fi
        rmdir "$group"
      done
      ;;
    cgroup,*memory*)
      [ -n "$memory" ] || continue
      group=$at$(own memory)/$name
      mkdir "$group" && usable "$group" && echo "$memory" >"$group/memory.limit_in_bytes" &&
        limited=yes && echo "$group"
      ;;
  esac
done </proc/mounts 2>/dev/null
[ -z "$memory" ] || [ -n "$limited" ] || echo unlimited

# Removes the folder $1, but nothing of what is mounted in it: that is unmounted, and if it stays, so does
# the folder.
mounts() {
  while read -r _ _ _ _ at _; do
    path=$(printf '%b.' "$at")
    case ${path%.} in "$1" | "$1"/*) printf '%s\n' "$at" ;; esac
  done </proc/self/mountinfo | LC_ALL=C sort -r
}
remove() (
  [ -e "$1" ] || [ -L "$1" ] || exit 0
  # The kernel writes real paths. If the folder itself is a link, it does not belong to us.
  home=$(cd "${1%/*}/" && pwd -P) && [ -r /proc/self/mountinfo ] || exit 1
  folder=${home%/}/${1##*/}
  [ ! -L "$folder" ] || exec rm -f "$folder"
  set -f
  before=
  while found=$(mounts "$folder") && [ -n "$found" ]; do
    if [ "$found" = "$before" ]; then
      printf '%s\n' "$folder is not removed, because something is mounted in it:" "$found" >&2
      exit 1
    fi
    before=$found
    for at in $found; do
      path=$(printf '%b.' "$at")
      umount "${path%.}"
    done
  done
  # Not every rm knows it; nothing is mounted there any more.
  same=--one-file-system
  rm -f $same 2>/dev/null || same=
  rm -rf $same "$folder"
)

# One guard per rank: setsid sh -c THIS kcp-guard GRACE_TENTHS SCRATCH LAUNCHER_PID setsid [setpriv ...] PROGRAM ARGS...
#
#   launcher ──pipe──> watcher          ends the rank's process group when the pipe closes, which the
#      │                                launcher does to stop the rank and the kernel does if the launcher dies
#      └── guard (this shell) ─ waits ─> program   leader of its own session and process group
#
# Guard and watcher are in a session of their own, so that neither a terminal's signals nor a SIGKILL to the launcher's
# process group reaches them. The watcher needs neither launcher nor guard alive, so no single SIGKILL leaves a rank behind.
# setpriv, where there is one, has the kernel kill the program once its guard is gone: so it ends, too, where launcher,
# guard and watcher are all killed.
#
# SCRATCH/pid holds the program's pid, SCRATCH/status its exit status (128 + n for signal n) once it has ended, and
# SCRATCH/over the same once its group has ended too. Then the guard holds neither of the rank's outputs any more, and waits
# for the launcher to let it go: a JVM cuts off what it reads of a process that has ended, even where others still write.
# The launcher has made the three files and given them room, so that a disk that fills up later stops nobody; a note is
# there once it has a newline. A guard that cannot write them all the same ends with the program's status.
tenths=$1 scratch=$2 launcher=$3
shift 3

# Caught, not ignored: an ignored signal would stay ignored in the program.
trap : HUP INT QUIT TERM USR1 USR2
exec 3<&0 4>&2 </dev/null 2>/dev/null

# Whether the process group $1 has a member that is not a zombie (orphans may wait a second for their reaper).
group_lives() {
  kill -s 0 -- "-$1" || return 1
  for stat in /proc/[0-9]*/stat; do
    read -r line <"$stat" || continue
    set -- "$1" ${line##*) }
    [ "$4" = "$1" ] && [ "$2" != Z ] && return 0
  done
  return 1
}

# A killed launcher may stay as a zombie until its own parent looks.
launcher_lives() {
  read -r line <"/proc/$launcher/stat" || return 1
  set -- ${line##*) }
  [ "$1" != Z ]
}

# "kill -s NAME --", since dash takes the -- of "kill -NAME -- -PID" for an operand.
# TERM, and after the grace KILL, to the process group $1; $2 is its leader where that may not have called setsid yet.
end_group() {
  kill -s TERM -- "-$1" || ${2:+kill -s TERM -- "$2"}
  kill -s CONT -- "-$1"
  left=$tenths
  while [ "$left" -gt 0 ] && group_lives "$1"; do
    command -p sleep 0.1
    left=$((left - 1))
  done
  kill -s KILL -- "-$1" || ${2:+kill -s KILL -- "$2"}
}

(
  trap '' HUP INT QUIT TERM TSTP TTIN TTOU
  read -r _
  tries=50
  until read -r program <"$scratch/pid"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || exit 1
    command -p sleep 0.1
  done
  end_group "$program" "$program"
) <&3 3<&- 4>&- >/dev/null &
watcher=$!

# The inner shell redirects, not this one: dash would print "Killed" and the like to the rank's stderr.
# The program starts last and keeps the pid that its shell writes down: exec, setsid and setpriv do not change it.
/bin/sh -c 'exec 2>&4 3<&- 4>&-; echo "$$" 1<>"$0/pid" && exec "$@"' "$scratch" "$@"
status=$?
echo "$status" 1<>"$scratch/status"
noted=$?
exec >/dev/null 4>&-

if read -r program <"$scratch/pid" && group_lives "$program"; then
  end_group "$program"
fi
kill -s KILL -- "$watcher"
if [ "$noted" = 0 ] && echo "$status" 1<>"$scratch/over"; then
  read -r _ <&3
fi
# The launcher reads and removes the job's folder. Without a launcher the guards do it, once each has removed its part; a
# part without a guard, which was not started any more, is not waited for longer than a rank may take to end.
if ! launcher_lives; then
  command -p rm -rf -- "$scratch"
  job=${scratch%/*}
  left=$((tenths + 20))
  while set -- "$job"/rank-*; [ -e "$1" ] && [ "$left" -gt 0 ]; do
    command -p sleep 0.1
    left=$((left - 1))
  done
  command -p rm -rf -- "$job"
fi
exit "$status"

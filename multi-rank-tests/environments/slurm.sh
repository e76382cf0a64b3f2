#!/usr/bin/env bash
# Parity under srun, three tasks of a one-node Slurm that this script starts and stops. Exit code 77 where there is no
# Slurm, this is not root, or another Slurm runs here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
skip() {
  echo "slurm: SKIPPED, $*" >&2
  exit 77
}
for program in slurmctld slurmd srun munged; do
  command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ] ||
    skip "$program is not installed (Debian: slurm-wlm, munge)"
done
[ "$(id -u)" = 0 ] || skip "its daemons need root"
if pgrep -x slurmctld >/dev/null || pgrep -x slurmd >/dev/null; then
  skip "another Slurm runs on this machine"
fi
PATH=$PATH:/usr/sbin

state=$(mktemp -d)
chmod 755 "$state"
pids=()
cleanup() {
  local pid
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null || true
  done
  for pid in "${pids[@]}"; do
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$state"
}
trap cleanup EXIT

cpus=$(nproc)
mkdir -p "$state/ctld" "$state/spool" "$state/munge"
cat >"$state/slurm.conf" <<CONF
ClusterName=kcp
SlurmctldHost=localhost
SlurmctldPort=6817
SlurmdPort=6818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$state/munge/socket
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
KillWait=5
StateSaveLocation=$state/ctld
SlurmdSpoolDir=$state/spool
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdLogFile=$state/slurmd.log
NodeName=localhost CPUs=$cpus RealMemory=1000
PartitionName=main Nodes=localhost Default=YES MaxTime=INFINITE State=UP
CONF
echo 'CgroupAutomount=no' >"$state/cgroup.conf"
export SLURM_CONF=$state/slurm.conf

# A key and a socket of our own: a munged that runs already is left alone.
dd if=/dev/urandom of="$state/munge/key" bs=1 count=1024 status=none
chmod 400 "$state/munge/key"
munged --foreground --force --key-file="$state/munge/key" --socket="$state/munge/socket" \
  --pid-file="$state/munge/pid" --log-file="$state/munge/log" --seed-file="$state/munge/seed" 2>"$state/munge/err" &
pids+=($!)
for ((i = 0; i < 100; i++)); do
  [ -S "$state/munge/socket" ] && break
  sleep 0.1
done
slurmctld -D 2>/dev/null &
pids+=($!)
slurmd -D -N localhost 2>/dev/null &
pids+=($!)
ready=
for ((i = 0; i < 300; i++)); do
  if [ "$(sinfo -h -o %t 2>/dev/null)" = idle ]; then
    ready=yes
    break
  fi
  sleep 0.1
done
if [ -z "$ready" ]; then
  tail -n 20 "$state"/*.log "$state/munge/log" "$state/munge/err" >&2 || true
  echo "slurm: the one-node Slurm did not come up" >&2
  exit 1
fi

"$here/parity.sh" Slurm srun -n 3 --overcommit --kill-on-bad-exit=1

# The shell of a batch script is no task: kcp may start ranks there itself.
out=$state/batch.out
sbatch -W -n 2 --overcommit -o "$out" --wrap "'$here/../../kcp' conv \
  --in '$here/../../conv-kernels/src/test/resources/golden/tiny_docs.safetensors' --out '$state/y' --world 2" >/dev/null ||
  { cat "$out" >&2; exit 1; }
grep -q '"world":2' "$out" || { cat "$out" >&2; echo "slurm: kcp in a batch script did not start two ranks" >&2; exit 1; }
echo "slurm: kcp conv --world 2 ran in a batch script"

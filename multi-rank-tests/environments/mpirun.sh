#!/usr/bin/env bash
# Parity under Open MPI's mpirun, three ranks on this machine. Exit code 77 where there is no Open MPI.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v mpirun >/dev/null || ! mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
  echo "mpirun: SKIPPED, Open MPI is not installed (Debian: openmpi-bin)" >&2
  exit 77
fi
options=(--oversubscribe -np 3)
if [ "$(id -u)" = 0 ]; then
  options=(--allow-run-as-root "${options[@]}")
fi
"$here/parity.sh" "Open MPI" mpirun "${options[@]}"

# Inside a Slurm batch job every rank sees the batch's SLURM_PROCID of 0 too: the innermost launcher counts.
PARITY=conv SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_LOCALID=0 \
  "$here/parity.sh" "Open MPI" mpirun "${options[@]}"

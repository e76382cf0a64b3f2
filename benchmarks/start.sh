#!/bin/sh
# Start cost of kcp: median, shortest and longest of N runs (20), with the processor time of all processes.
# Usage: benchmarks/start.sh [N]; exit code 1 if a median misses the aim.
exec python3 - "$(CDPATH='' cd "$(dirname "$0")/.." && pwd)/kcp" "${1:-20}" <<'PYTHON'
import os, resource, statistics, subprocess, sys, time

kcp, runs = sys.argv[1], int(sys.argv[2])


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(command):
    walls, cpus = [], []
    for _ in range(runs):
        cpu_before, begin = cpu(), time.monotonic()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        walls.append(time.monotonic() - begin)
        cpus.append(cpu() - cpu_before)
    return walls, cpus


subprocess.run([kcp, "--version"], stdout=subprocess.DEVNULL, check=True)  # builds, if need be
missed = False
for words, aim, program in [(["--help"], 0.3, None), (["run", "-n", "2", "--", "true"], 0.5, ["true"])]:
    walls, cpus = measure([kcp, *words])
    alone = statistics.median(measure(program)[0]) if program else 0.0
    cost = statistics.median(walls) - alone
    missed |= cost >= aim
    print(
        f"kcp {' '.join(words)}: cost {cost:.3f} s (aim {aim} s), wall median {statistics.median(walls):.3f} "
        f"from {min(walls):.3f} to {max(walls):.3f} s, processor median {statistics.median(cpus):.3f} s, "
        f"runs {runs}, load {os.getloadavg()[0]:.1f}"
    )
sys.exit(missed)
PYTHON

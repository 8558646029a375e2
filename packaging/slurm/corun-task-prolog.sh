#!/bin/sh
# Slurm's TaskProlog: holds a job's task to the CPUs of one last-level cache, within those that Slurm gave it.
# slurm.conf: TaskProlog=/usr/local/lib/corun/corun-task-prolog.sh; taking that line away undoes it.
# A job opts out by CORUN_HOLD=0. Whatever goes wrong here leaves the task where Slurm put it.

# Slurm reads stdout: each line is an order to it (export, unset, print) and changes the job's environment or output.
# This script has none, so that all it says goes to stderr, where Slurm left one open.
(: >&2) || exec 2>/dev/null
exec >&2

[ "${CORUN_HOLD:-1}" = 1 ] || exit 0
root=${CORUN_SYSFS:-/sys/devices/system/cpu}

# "0-3,8" as one number a line.
numbers() {
    echo "$1" | tr ',' '\n' | while IFS=- read -r first last; do
        [ -n "$first" ] && seq "$first" "${last:-$first}"
    done
}

# The CPUs of the last-level cache of a CPU: the cache with the highest level.
llc_of() {
    best=0 list=
    for index in "$root/cpu$1"/cache/index*; do
        level=$(cat "$index/level" 2>/dev/null) || continue
        [ "$level" -ge "$best" ] && best=$level && list=$(cat "$index/shared_cpu_list")
    done
    echo "$list"
}

# The shell that runs this is not the task: the task is its parent, the process of slurmstepd that becomes it.
task=${SLURM_TASK_PID:-$PPID}
allowed=$(taskset -cp "$task" 2>/dev/null | sed 's/.*: //')
[ -n "$allowed" ] || exit 0
needed=${SLURM_CPUS_PER_TASK:-1}

# Tasks of a job on this node take the caches by turns.
turn=${SLURM_LOCALID:-0}
caches=$(numbers "$allowed" | while read -r cpu; do llc_of "$cpu"; done | awk 'NF && !seen[$0]++')
count=$(echo "$caches" | awk 'NF' | wc -l)
[ "$count" -gt 1 ] || exit 0

try=0
while [ "$try" -lt "$count" ]; do
    at=$(((turn + try) % count + 1))
    cache=$(echo "$caches" | sed -n "${at}p")
    inside=$(numbers "$cache" | sort -n | uniq | while read -r cpu; do
        numbers "$allowed" | grep -qx "$cpu" && echo "$cpu"
    done | paste -sd, -)
    have=$(echo "$inside" | tr ',' '\n' | awk 'NF' | wc -l)
    if [ "$have" -ge "$needed" ]; then
        taskset -cp "$inside" "$task" >/dev/null 2>&1 && echo "corun: held to CPUs $inside"
        exit 0
    fi
    try=$((try + 1))
done
exit 0

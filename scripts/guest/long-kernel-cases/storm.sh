# The scheduler comes and goes as often as the kernel's command line says with corun_attaches=, while 2,000 threads a second
# come and go, each in its class from birth. The second is the guest's: boot with SILENCE=900 ICOUNT=shift=0,sleep=off, by
# which an instruction takes 1 ns. At the 8 ns of the other cases the eight CPUs make 690 threads a second, and no more.
attaches=$(sed -n 's/.*corun_attaches=\([0-9]*\).*/\1/p' /proc/cmdline)
scx_exercise storm "${attaches:-200}" 2000
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]
if dmesg | grep -E 'sched_ext.*(error|stall)|BUG|Oops'; then exit 1; fi

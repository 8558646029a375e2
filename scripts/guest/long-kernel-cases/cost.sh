# What a switch of threads costs by the kernel's scheduler and by corun's, in instructions where the clock counts those.
turns=$(sed -n 's/.*corun_turns=\([0-9]*\).*/\1/p' /proc/cmdline)
scx_exercise cost "${turns:-5}" 0
[ "$(cat /sys/devices/system/cpu/present)" = 0 ] || scx_exercise cost "${turns:-5}" 0-1

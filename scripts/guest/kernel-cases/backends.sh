# A policy by two backends in turn (corun ab --against): in some blocks its threads are in the kernel's scheduler and
# keep their affinities, in the others they are held by their affinities and no scheduler is in force.
corun doctor >doctor.log
grep 'sched_ext ' doctor.log
grep -q 'yes  sched_ext  *--backend sched-ext' doctor.log
profile a 32; profile b 1
mix a b >mix.toml
corun ab mix.toml --profiles profiles --policy dio-2010 --counters model --interval 1 --backend sched-ext --spill-after never \
  --against affinity --block 8 --washout 3 --sample 1 --longest 22 --collapse 100 --harm 99 --format json >ab.json 2>ab.log &
ab=$!
in_kernel=0 by_affinity=0
while kill -0 $ab 2>/dev/null; do
  held=0 ext=0
  for pid in $(stand_ins); do
    [ "$(sed -n 's/^Cpus_allowed_list:\t*//p' /proc/$pid/status)" = 0-7 ] || held=$((held + 1))
    [ "$(sed 's/.*) //' /proc/$pid/stat | cut -d' ' -f39)" != 7 ] || ext=$((ext + 1))
  done
  case "$(cat /sys/kernel/sched_ext/state) $held $ext" in
    "enabled 0 2") in_kernel=$((in_kernel + 1)) ;;
    "disabled 2 0") by_affinity=$((by_affinity + 1)) ;;
  esac
  sleep 1
done
wait $ab
cat ab.log ab.json
echo "looks: $in_kernel in the kernel, $by_affinity by affinity"
[ $in_kernel -gt 2 ]
[ $by_affinity -gt 2 ]
grep -q '"against": "affinity"' ab.json
! grep -q '"pairs": 0' ab.json
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ]

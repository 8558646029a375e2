# Two core types, declared in a machine file as the guest's cores are all alike: CAMPS by real system
# calls, counters by the model. Everybody gets big cores and small ones by turns.
object() {
  printf '[[%s]]\nkind = "%s"\n' "$1" "$2"
}
cluster() {
  object object.object cache
  printf 'level = 3\nsize_kib = 16384\nways = 16\nline_bytes = 64\ninclusion = "inclusive"\n'
  object object.object.object core
  printf 'count = 2\ncore_type = "%s"\n' "$1"
}
{
  cat <<TEXT
version = 1
name = "declared"
memory_latency_ns = [[90.0, 150.0], [150.0, 90.0]]
[calibration]
low_btr_mb_per_s = 400.0
high_btr_mb_per_s = 4000.0
amp_threshold_ms = 400.0
[[core_type]]
name = "big"
capacity = 1.0
clock_mhz = 3000.0
dispatch_width = 4.0
reorder_buffer = 192
outstanding_misses = 10
branch_penalty_cycles = 15.0
[[core_type]]
name = "little"
capacity = 0.4
clock_mhz = 1500.0
dispatch_width = 2.0
reorder_buffer = 0
outstanding_misses = 2
branch_penalty_cycles = 8.0
[[bandwidth]]
name = "memory"
kind = "memory-controller"
stage = 0
peak_mb_per_s = 12000.0
TEXT
  for type in big little; do
    object object package
    object object.object numa-node
    printf 'memory_mib = 512\n'
    cluster $type | sed 's/^\[\[object/[[object.object/'
    cluster $type | sed 's/^\[\[object/[[object.object/'
  done
} >declared.toml
corun topology --machine declared.toml
profile heavy 32; profile mid 8; profile light 1; profile quiet 0.25
{
  echo "version = 1"
  for app in heavy mid light quiet heavy mid light quiet; do
    printf '[[app]]\nprofile = "%s"\n' $app
  done
} >typed.toml
sed 's/count = 2/count = 4/' declared.toml >other.toml
if corun run typed.toml --machine other.toml --profiles profiles --policy camps --counters model \
  2>refused; then
  exit 1
fi
grep "share a cache" refused
corun run typed.toml --machine declared.toml --profiles profiles --policy camps --counters model \
  --interval 1 --duration 200 -o typed.json 2>said &
run=$!
for _ in $(seq 60); do [ "$(stand_ins | wc -l)" = 8 ] && break; sleep 1; done
files=$(stand_ins | sed 's,.*,/proc/&/status,')
# Eight threads, each on either kind.
for _ in $(seq 60); do
  awk '/^Cpus_allowed_list/ && $2 ~ /^[-,0-3]+$/ { print FILENAME, "big" }
    /^Cpus_allowed_list/ && $2 ~ /^[-,4-7]+$/ { print FILENAME, "little" }' $files >>where
  [ "$(sort -u where | wc -l)" = 16 ] && break
  sleep 1
done
kill $run
wait $run || [ $? = 130 ]
sort where | uniq -c
tail -n 3 said
[ "$(sort -u where | wc -l)" = 16 ]
grep -q '"as_before"' typed.json

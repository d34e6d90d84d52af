#!/usr/bin/env bash
# Instructions and cache misses per operation of fixed workloads, counted by valgrind, so that the
# noise of a shared machine can't hide a regression.
#
#   benches/instructions.sh            compare with benches/instructions.tsv; above +5 %: exit 1
#   benches/instructions.sh --update   write that file
#   benches/instructions.sh NAME...    only these workloads
#   benches/instructions.sh --hot NAME the functions of a workload by the code that is hot in them
#
# A count is the difference of two runs of different length, divided by the operations between
# them, so that set-up costs nothing. Misses are those of first-level caches of 32 KiB, 8 ways,
# for instructions and for data, as cachegrind models them. Another compiler gives other counts (the
# baseline names the one it was made with), and so does a processor without AVX2. Without valgrind there
# is nothing to do, and that is no error.
#
# PROFILE=dist counts that profile; then nothing is compared with the baseline by exit status.
set -euo pipefail
cd "$(dirname "$0")/.."
baseline=benches/instructions.tsv
limit=5
# Misses move by a few where code lies: that many an operation are no regression.
slack=10
all=(segment segment-without-copies segment-by-reference segment-without-wire ack-reno ack-cubic ack-dctcp ack-sack
     exchange incast-packet incast-packet-ledger racks-packet racks-packet-ledger)

mode=compare
case "${1:-}" in
  --update) mode=update; shift ;;
  --hot) mode=hot; shift ;;
esac
names=("$@")
if ((${#names[@]} == 0)); then names=("${all[@]}"); fi

if ! command -v valgrind >/dev/null 2>&1; then
  echo "valgrind is not installed: instruction counts skipped"
  exit 0
fi

profile=${PROFILE:-release}
if [[ $mode == hot ]]; then
  export CARGO_PROFILE_RELEASE_DEBUG=line-tables-only
fi
cargo build --quiet --profile "$profile" --locked -p narrows-benches --example instructions
program=${CARGO_TARGET_DIR:-target}/$profile/examples/instructions

# valgrind counts each byte of a "rep movsb" as an instruction: have memcpy use vectors.
export GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Prints "operations instructions misses-of-instructions misses-of-data".
count() {
  local operations
  operations=$(valgrind --tool=cachegrind --cache-sim=yes --log-file=/dev/null \
    --I1=32768,8,64 --D1=32768,8,64 --LL=2097152,16,64 \
    --cachegrind-out-file="$scratch/out" "$program" "$1" "$2")
  # summary: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw
  awk -v n="$operations" '$1 == "summary:" { print n, $2, $3, $6 + $9 }' "$scratch/out"
}

# Prints, an operation and separated by tabs: instructions, misses of instructions, of data.
measure() {
  local short long
  short=$(count "$1" 2)
  long=$(count "$1" 10)
  awk -v a="$short" -v b="$long" 'BEGIN {
    split(a, s); split(b, l)
    if (s[2] == "" || l[2] == "" || l[1] <= s[1]) exit 1
    n = l[1] - s[1]
    # One count or two less in the longer run are none.
    for (i = 2; i <= 4; i++) more[i] = l[i] > s[i] ? (l[i] - s[i]) / n : 0
    printf "%.1f\t%.1f\t%.1f\n", more[2], more[3], more[4]
  }'
}

# The functions in which code is hot, that is executed at least once in five operations: their
# instructions an operation, and the cache lines of 64 bytes that their hot code takes.
hot() {
  local operations
  operations=$(valgrind --tool=callgrind --dump-instr=yes --compress-strings=no --compress-pos=no \
    --log-file=/dev/null --callgrind-out-file="$scratch/out" "$program" "$1" 10)
  awk -v n="$operations" '
    function value(hex,  i, v) {
      v = 0
      for (i = 3; i <= length(hex); i++) v = v * 16 + index("0123456789abcdef", substr(hex, i, 1)) - 1
      return v
    }
    /^fn=/ { name = substr($0, 4); next }
    /^calls=/ { called = 1; next }
    /^0x/ {
      if (called) { called = 0; next }
      own[$1 SUBSEP name] += $NF
    }
    END {
      for (key in own) {
        if (own[key] * 5 < n) continue
        split(key, part, SUBSEP)
        executed[part[2]] += own[key]
        line = int(value(part[1]) / 64)
        if (!((part[2], line) in seen)) { seen[part[2], line] = 1; lines[part[2]]++ }
        if (!(line in any)) { any[line] = 1; total++ }
        sum += own[key]
      }
      for (f in executed) printf "%d\t%.1f\t%s\n", lines[f], executed[f] / n, f
      printf "%d\t%.1f\t%s (%.1f KiB)\n", total, sum / n, "all hot code", total / 16
    }' "$scratch/out" | sort -rn | awk -F '\t' '
      BEGIN { printf "%6s %12s  %s\n", "lines", "instructions", "function" }
      { printf "%6d %12.1f  %s\n", $1, $2, $3 }'
}

if [[ $mode == hot ]]; then
  for name in "${names[@]}"; do
    echo "$name"
    hot "$name"
  done
  exit 0
fi

rustc_version=$(rustc --version)
if [[ $mode == update ]]; then
  {
    echo "# Of each operation: instructions, first-level misses of instructions and of data;"
    echo "# made by benches/instructions.sh --update"
    echo "# with $rustc_version, $(uname -m)"
    for name in "${all[@]}"; do
      printf '%s\t%s\n' "$name" "$(measure "$name")"
    done
  } | tee "$baseline.new"
  mv "$baseline.new" "$baseline"
  exit 0
fi

if ! grep -qF "$rustc_version" "$baseline"; then
  echo "note: the baseline is of another compiler: $(sed -n 3p "$baseline")"
fi
status=0
printf '%-22s %-14s %10s %10s %8s\n' workload "per operation" baseline now change
for name in "${names[@]}"; do
  old=$(awk -F '\t' -v n="$name" '$1 == n { print $2, $3, $4 }' "$baseline")
  if [[ -z $old ]]; then
    echo "$name: not in $baseline" >&2
    exit 2
  fi
  new=$(measure "$name")
  awk -v name="$name" -v o="$old" -v c="$new" -v limit="$limit" -v slack="$slack" 'BEGIN {
    split(o, was, " "); split(c, is, "\t"); split("instructions,L1I misses,L1D misses", what, ",")
    for (i = 1; i <= 3; i++) {
      change = was[i] > 0 ? 100 * (is[i] - was[i]) / was[i] : 0
      more = is[i] - was[i]
      bad = more > was[i] * limit / 100 && (i == 1 || more > slack)
      worse = worse || bad
      printf "%-22s %-14s %10.1f %10.1f %+7.1f%%%s\n", i == 1 ? name : "", what[i], was[i], is[i],
        change, (bad ? "  WORSE" : "")
    }
    exit worse
  }' || status=1
done
if ((status != 0)); then
  echo "more than $limit % above the baseline; if that is meant, say why and run with --update"
fi
if [[ $profile != release ]]; then status=0; fi
exit "$status"

#!/usr/bin/env bash
# Instructions per operation of fixed workloads, counted by valgrind, so that the noise of a
# shared machine can't hide a regression.
#
#   benches/instructions.sh            compare with benches/instructions.tsv; above +5 %: exit 1
#   benches/instructions.sh --update   write that file
#   benches/instructions.sh NAME...    only these workloads
#
# A count is the difference of two runs of different length, divided by the operations between
# them, so that set-up costs nothing. Another compiler gives other counts: the baseline names the
# one it was made with. Without valgrind there is nothing to do, and that is no error.
set -euo pipefail
cd "$(dirname "$0")/.."
baseline=benches/instructions.tsv
limit=5
all=(segment segment-without-wire ack-reno ack-cubic ack-dctcp ack-sack incast-packet)

update=no
if [[ "${1:-}" == --update ]]; then
  update=yes
  shift
fi
names=("$@")
if ((${#names[@]} == 0)); then names=("${all[@]}"); fi

if ! command -v valgrind >/dev/null 2>&1; then
  echo "valgrind is not installed: instruction counts skipped"
  exit 0
fi

cargo build --quiet --release --locked -p narrows-benches --example instructions
program=${CARGO_TARGET_DIR:-target}/release/examples/instructions

# valgrind counts each byte of a "rep movsb" as an instruction: have memcpy use vectors.
export GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000

# Prints "instructions operations".
count() {
  local out operations
  out=$(mktemp)
  operations=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$out" \
    "$program" "$1" "$2")
  awk -v n="$operations" '/Collected/ { print $NF, n }' "$out"
  rm -f "$out"
}

# Prints instructions per operation with one decimal.
measure() {
  local short long
  short=$(count "$1" 2)
  long=$(count "$1" 10)
  awk -v a="$short" -v b="$long" 'BEGIN {
    split(a, s); split(b, l)
    if (s[1] == "" || l[1] == "" || l[2] <= s[2]) exit 1
    printf "%.1f\n", (l[1] - s[1]) / (l[2] - s[2])
  }'
}

rustc_version=$(rustc --version)
if [[ $update == yes ]]; then
  {
    echo "# Instructions per operation; made by benches/instructions.sh --update"
    echo "# with $rustc_version, $(uname -m)"
    for name in "${all[@]}"; do
      printf '%s\t%s\n' "$name" "$(measure "$name")"
    done
  } | tee "$baseline.new"
  mv "$baseline.new" "$baseline"
  exit 0
fi

if ! grep -qF "$rustc_version" "$baseline"; then
  echo "note: the baseline is of another compiler: $(sed -n 2p "$baseline")"
fi
status=0
printf '%-22s %10s %10s %8s\n' workload baseline now change
for name in "${names[@]}"; do
  old=$(awk -F '\t' -v n="$name" '$1 == n { print $2 }' "$baseline")
  if [[ -z $old ]]; then
    echo "$name: not in $baseline" >&2
    exit 2
  fi
  new=$(measure "$name")
  awk -v n="$name" -v o="$old" -v c="$new" -v limit="$limit" 'BEGIN {
    change = 100 * (c - o) / o
    printf "%-22s %10.1f %10.1f %+7.1f%%%s\n", n, o, c, change, (change > limit ? "  WORSE" : "")
    exit (change > limit)
  }' || status=1
done
if ((status != 0)); then
  echo "more than $limit % above the baseline; if that is meant, say why and run with --update"
fi
exit "$status"

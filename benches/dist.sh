#!/usr/bin/env bash
# The command as fast as it gets: link-time optimisation, inlined and laid out by a profile of what
# it does (PGO), and its functions placed so that they do not push each other out of the instruction
# cache (benches/examples/layout.rs). target/dist/narrows.
#
#   benches/dist.sh            build it: train, merge, build, trace, link; two builds, minutes
#   benches/dist.sh --count    count instructions and cache misses a data packet of target/release and
#                              target/dist, with valgrind, on what it was not trained on
#
# Needs llvm-profdata of the compiler's own version: `rustup component add llvm-tools`. Functions are placed
# where there is valgrind and the linker is lld, which is Rust's own on x86-64 Linux.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# What it is trained on: incasts that collapse and that do not, with all congestion controls and loss
# detectors, losses and reordering on the way, packets as bytes, full NICs; a fabric of leaves and
# spines; long flows. So much of each that none counts for more than the others.
train() {
  local narrows=$1 n=0
  while read -r line; do
    local command=()
    read -ra command <<<"$line"
    n=$((n + 1))
    "$narrows" "${command[@]}" -r 1 --seed 20 --quiet --no-report >/dev/null
  done <<'END'
incast -n 8,40 --sru 96KiB --blocks 20 --rto 1ms --cc reno,cubic,dctcp --rate 10Gb/s
incast -n 20 --sru 128KiB --blocks 10 --rto linux,fine --loss newreno,sack,rack --cc reno,cubic
incast -n 12 --sru 128KiB --blocks 10 --rto 1ms --cc cubic,dctcp --loss sack,rack --impair loss=0.5%,reorder=1%,hold=20us-80us
incast -n 12 --sru 64KiB --blocks 10 --rto 1ms --cc reno,dctcp --server-nic 8p --wire on,off
run leaf-spine --set traffic.copy.size=500kB
run dctcp-queue --set run.warm_up=50ms --set run.duration=200ms
END
}

# The instructions of a run that functions are placed by.
trace() {
  valgrind --tool=lackey --trace-mem=yes --log-fd=9 \
    "$target/dist/narrows" "$@" -j 1 -r 1 --seed 20 --quiet --no-report --no-ledger 9>&1 >/dev/null | grep '^I'
}

count() {
  local narrows=$1 out
  shift
  valgrind --tool=cachegrind --cache-sim=yes --log-file=/dev/null \
    --I1=32768,8,64 --D1=32768,8,64 --LL=2097152,16,64 --cachegrind-out-file="$scratch/out" \
    "$narrows" "$@" -j 1 -r 1 --quiet --no-report --no-ledger --csv "$scratch/runs.csv"
  # summary: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw
  out=$(awk '$1 == "summary:" { print $2, $3, $6 + $9 }' "$scratch/out")
  python3 -c 'import csv, sys
print(sum(int(row["segments"]) for row in csv.DictReader(open(sys.argv[1]))), sys.argv[2])' \
    "$scratch/runs.csv" "$out"
}

# A count is the difference of two runs of different length, so that set-up costs nothing.
compare() {
  local name=$1 short=$2 long=$3 profile
  shift 3
  for profile in release dist; do
    local a b
    a=$(count "$target/$profile/narrows" "$@" $short)
    b=$(count "$target/$profile/narrows" "$@" $long)
    awk -v name="$name" -v profile="$profile" -v a="$a" -v b="$b" 'BEGIN {
      split(a, s); split(b, l); n = l[1] - s[1]
      printf "%-12s %-8s %12.0f %10.1f %10.1f\n", name, profile, (l[2] - s[2]) / n, (l[3] - s[3]) / n, (l[4] - s[4]) / n
    }'
  done
}

if [[ ${1:-} == --count ]]; then
  if ! command -v valgrind >/dev/null 2>&1; then
    echo "valgrind is not installed: nothing is counted"
    exit 0
  fi
  for profile in release dist; do
    if [[ ! -x $target/$profile/narrows ]]; then
      echo "there is no $target/$profile/narrows: cargo build --release, and $0" >&2
      exit 1
    fi
  done
  # valgrind counts each byte of a "rep movsb" as an instruction: have memcpy use vectors.
  export GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000
  printf '%-12s %-8s %12s %10s %10s\n' workload profile instructions "L1I misses" "L1D misses"
  compare incast "--blocks 2" "--blocks 10" incast -n 32 --sru 64KiB --rate 10Gb/s --rto 1ms --cc reno
  compare shuffle "--set traffic.shuffle.size=20kB" "--set traffic.shuffle.size=60kB" run shuffle
  compare dumbbell "--set run.duration=200ms" "--set run.duration=500ms" run dumbbell
  exit 0
fi

tools=$(echo "$(rustc --print sysroot)"/lib/rustlib/*/bin)
if [[ ! -x $tools/llvm-profdata ]]; then
  echo "there is no llvm-profdata of this compiler: rustup component add llvm-tools" >&2
  exit 1
fi
build() {
  local flags=$1
  shift
  RUSTFLAGS="${RUSTFLAGS:-} $flags" cargo rustc --profile dist --locked -p narrows-cli --bin narrows -- "$@"
}
echo "building what counts"
build "-Cprofile-generate=$scratch/raw"
echo "training"
train "$target/dist/narrows"
"$tools/llvm-profdata" merge -o "$target/dist.profdata" "$scratch/raw"
echo "building by $target/dist.profdata"
build "-Cprofile-use=$target/dist.profdata"
if ! command -v valgrind >/dev/null 2>&1; then
  echo "valgrind is not installed: functions lie as the linker has them"
elif ! grep -aq "Linker: LLD" "$target/dist/narrows"; then
  echo "the linker is not lld: functions lie as it has them"
else
  echo "placing functions"
  rustc --edition 2024 -O -o "$scratch/layout" benches/examples/layout.rs
  "$tools/llvm-nm" --print-size --defined-only "$target/dist/narrows" >"$scratch/symbols"
  "$scratch/layout" "$scratch/symbols" \
    <(trace incast -n 40 --sru 96KiB --blocks 4 --rto 1ms --cc reno --rate 10Gb/s) \
    <(trace incast -n 8 --sru 96KiB --blocks 10 --rto 1ms --cc reno --rate 10Gb/s) \
    <(trace incast -n 12 --sru 128KiB --blocks 2 --rto 1ms --cc cubic --loss rack --impair loss=0.5%,reorder=1%,hold=20us-80us) \
    <(trace run leaf-spine --set traffic.copy.size=30kB) \
    >"$scratch/order"
  # Linked anew, of the same code.
  build "-Cprofile-use=$target/dist.profdata" \
    "-Clink-arg=-Wl,--symbol-ordering-file=$scratch/order" -Clink-arg=-Wl,--no-warn-symbol-ordering
fi
ls -l "$target/dist/narrows"

#!/bin/sh
# Makes ../incast-ns3.csv and ../incast-ns3-delayed-ack.csv again, in the folder that is named or
# where they are kept: the incast of incast.cc in the ns-3 of this machine, a line for each cell and
# seed. Takes a quarter of an hour of one core. Needs Debian's libns3-dev, libgsl-dev, g++ and
# pkg-config.
#   record.sh [FOLDER]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/..}
mkdir -p "$folder"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
packages="ns3-core ns3-network ns3-internet ns3-point-to-point ns3-traffic-control"
# shellcheck disable=SC2046,SC2086 # Lists of words. Debian's has names of files nobody needs.
g++ -O2 -std=c++17 "$here/incast.cc" \
  $(pkg-config --cflags --libs $packages | tr ' ' '\n' | grep -v '\.so$') -o "$out/incast"
version="ns-3.$(pkg-config --modversion ns3-core | sed 's/^3\.//') (Debian's libns3-dev)"

# table NAME ACKS OPTION...: the cells of standard input, as N, RTOmin and how many seeds.
table() {
  name=$1
  acks=$2
  shift 2
  {
    cat <<TEXT
# $version, recorded with harness/validate/reference/ns3/record.sh
# Incast of 20 barrier-synchronised blocks, SRU 256 KiB, 1 Gb/s, 25 us per hop, a drop-tail port of 64 KiB, NewReno with SACK, MSS 1460, initial window 10, $acks.
# Goodput in Mb/s, and retransmission timeouts of the whole run: what \`incast --servers=N --rtoMin=Tms --seed=S${*:+ $*}\` prints.
n,rto_min_ms,seed,goodput,timeouts
TEXT
    while read -r servers rto seeds; do
      seed=1
      while [ "$seed" -le "$seeds" ]; do
        "$out/incast" --servers="$servers" --rtoMin="${rto}ms" --seed="$seed" "$@" >"$out/said"
        read -r goodput timeouts rest <"$out/said"
        echo "$servers,$rto,$seed,$goodput,$timeouts"
        seed=$((seed + 1))
      done
    done
  } >"$out/$name"
  cat "$out/$name" >"$folder/$name"
}

table incast-ns3-delayed-ack.csv "an ACK for two packets or after 200 ms" --delAck=2 <<'CELLS'
8 1 5
16 1 5
32 1 3
CELLS
table incast-ns3.csv "an ACK per packet" <<'CELLS'
4 200 5
8 200 5
8 1 5
32 200 5
32 1 5
64 1 3
128 1 3
128 200 3
CELLS

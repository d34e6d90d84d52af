#!/bin/sh
# Makes the figures of ../fast08_knobs.csv again, in the folder that is named or where it is kept,
# by the ns-2.35 of this machine (Debian's ns2); which lines there are it reads from the file that is
# kept. Takes about ten minutes of one core.
#   record.sh [FOLDER]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/..}
mkdir -p "$folder"
made=$(mktemp)
trap 'rm -f "$made"' EXIT

# Goodput and timeouts a block of incast.tcl with these options.
run() { ns "$here/incast.tcl" "$@" | cut -d' ' -f1,2; }

while IFS=, read -r buffer n block rto knob one two timeouts; do
  case $buffer in
    '#'* | buffer) printf '%s\n' "$buffer${n:+,$n}${block:+,$block}${rto:+,$rto}${knob:+,$knob}${one:+,$one}${two:+,$two}${timeouts:+,$timeouts}" ; continue ;;
  esac
  set -- buffer "$buffer" servers "$n" rtomin "$(echo "$rto" | awk '{print $1 / 1e6}')"
  # As long as it takes for a mean, and no longer: ns-2 is slow.
  case $n-$rto in
    8-*) set -- "$@" time 5 ;;
    *-1000 | *-10000) set -- "$@" time 4 ;;
    32-*) set -- "$@" time 10 ;;
  esac
  [ "$block" = - ] || set -- "$@" block "$block"
  case $knob in
    jitter) set -- "$@" jitter 0.000001 ;;
    deflate) set -- "$@" exit_recovery_fix_ 1 ;;
    'deflate and jitter') set -- "$@" exit_recovery_fix_ 1 jitter 0.000001 ;;
    'no restart') set -- "$@" restart 0 ;;
  esac
  first=$(run "$@" seed 1)
  second=-
  [ "$two" = - ] || second=$(run "$@" seed 2 | cut -d' ' -f1)
  echo "$buffer,$n,$block,$rto,$knob,${first% *},$second,${first#* }"
done <"$here/../fast08_knobs.csv" >"$made"
cat "$made" >"$folder/fast08_knobs.csv"

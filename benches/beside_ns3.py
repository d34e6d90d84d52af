#!/usr/bin/env python3
"""A leaf-spine of 256 hosts in narrows and in ns-3: packets a second and memory, in turns.

Builds `harness/validate/reference/ns3/leaf_spine.cc` (Debian's libns3-dev, libgsl-dev, g++ and pkg-config)
and the example `fabric`, and runs the same traffic with both, one after the other. A packet is a TCP
segment with data that was sent, retransmissions included. Both stop after the same simulated time,
a part of what the files say, since ns-3 takes many minutes for the whole. CPU is user time: of
narrows that of the whole process, of ns-3 that of Simulator::Run alone, with the set-up beside it.
Memory is the peak of the resident set. Nothing is asserted.

    benches/beside_ns3.py [--rounds 3] [--only shuffle] [--until 2ms] [--scheduler ns3::HeapScheduler]
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "harness/validate/reference/ns3/leaf_spine.cc"
PACKAGES = ["core", "network", "internet", "point-to-point", "traffic-control"]
# What the files of the experiments say, as options of the program for ns-3.
TRAFFICS = {
    "shuffle": ["--size=20000", "--parallel=4"],
    "fan-out": ["--size=30000", "--k=8", "--load=8Gbps"],
}


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def build_ns3(folder):
    flags = output("pkg-config", "--cflags", "--libs", *(f"ns3-{name}" for name in PACKAGES))
    # Debian's list names development files of other packages that nothing here needs.
    flags = [flag for flag in flags.split() if not flag.endswith(".so")]
    program = folder / "leaf_spine"
    subprocess.run(["g++", "-O2", "-std=c++17", SOURCE, *flags, "-o", program], check=True)
    return program


def build_ours():
    subprocess.run(
        ["cargo", "build", "--quiet", "--release", "--locked", "-p", "narrows-benches"]
        + ["--example", "fabric"],
        check=True,
        cwd=ROOT,
    )
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release/examples/fabric"


def run(*words):
    """What the program printed, as numbers by their names, and what it took."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        # This process is small: a child's peak begins with that of who started it.
        child = subprocess.Popen(words, stdout=said, cwd=ROOT)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit(f"{words[0]} ended with {child.returncode}")
        said.seek(0)
        found = {name: float(value) for name, value in map(str.split, said)}
    found["wall"] = time.monotonic() - began
    found["mib"] = usage.ru_maxrss / 1024
    found.setdefault("run_cpu", usage.ru_utime)
    found["rate"] = found["packets"] / found["run_cpu"]
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", choices=TRAFFICS)
    options.add_argument("--until", default="2ms", help="simulated time")
    options.add_argument("--scheduler", default="ns3::MapScheduler", help="ns-3's event queue")
    options = options.parse_args()
    for program in ("g++", "pkg-config"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is not installed: apt-get install libns3-dev libgsl-dev g++ pkg-config")
    if subprocess.run(["pkg-config", "--exists", "ns3-core"]).returncode != 0:
        sys.exit("ns-3 is not installed: apt-get install libns3-dev libgsl-dev")
    version = output("pkg-config", "--modversion", "ns3-core").strip()
    with tempfile.TemporaryDirectory(prefix="beside-ns3-") as folder:
        ns3, ours = build_ns3(pathlib.Path(folder)), build_ours()
        print(f"narrows beside ns-3 {version} ({options.scheduler}), until {options.until}, {options.rounds} rounds", flush=True)
        for traffic, words in TRAFFICS.items():
            if options.only not in (None, traffic):
                continue
            rounds = []
            for n in range(options.rounds):
                pair = (
                    run(ours, f"benches/experiments/{traffic}-256.toml", f"run.duration={options.until}"),
                    run(
                        *(ns3, f"--traffic={traffic}", *words, f"--duration={options.until}"),
                        f"--SchedulerType={options.scheduler}",
                    ),
                )
                rounds.append(pair)
                for name, found in zip(("narrows", "ns-3"), pair):
                    print(
                        f"{traffic} {n + 1} {name:8}"
                        f" {found['packets']:.0f} packets, {found['run_cpu']:.2f} s user"
                        + (f" (and {found['setup_cpu']:.2f} of set-up)" if "setup_cpu" in found else "")
                        + f", {found['rate']:.0f} packets/s, {found['mib']:.0f} MiB,"
                        f" {found['wall']:.1f} s wall; {found['transfers']:.0f} transfers,"
                        f" {found['timeouts']:.0f} timeouts, simulated {found['simulated'] * 1e3:.2f} ms",
                        flush=True,
                    )
            for what, unit in (("rate", "packets/s"), ("mib", "MiB")):
                middle = [statistics.median(pair[i][what] for pair in rounds) for i in (0, 1)]
                ratio = statistics.median(a[what] / b[what] for a, b in rounds)
                print(
                    f"{traffic}, medians: narrows {middle[0]:.0f} {unit}, ns-3 {middle[1]:.0f} {unit};"
                    f" ratio of a pair {ratio:.3g}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

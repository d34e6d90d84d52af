#!/usr/bin/env python3
"""Bulk transfer and HTTP beside the kernel's TCP, in the lab of `narrows live`.

On the lab's bridge stands one more host of the kernel's, which does the same as ours in turn:
iperf3 in both directions with one and with eight streams, and a file of 1 KB over HTTP, from nginx
and from `narrows live serve --http`. Takes root, iperf3 and nginx; everything is in namespaces of
its own, which are removed afterwards.

    cargo build --release && sudo chrt -r 10 benches/beside_kernel.py [--rounds 3] [--only http]
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

LAB = f"beside{os.getpid()}"
EXTRA = f"{LAB}-k"
KERNEL, PEER, OURS = "10.77.0.254", "10.77.0.253", "10.77.0.1"


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout


def switch_namespace():
    """The lab's second namespace, in which its bridge is."""
    names = [line.split()[0] for line in run("ip", "netns").splitlines()]
    others = [n for n in names if n.startswith(LAB) and n not in (LAB, EXTRA)]
    if len(others) != 1:
        sys.exit(f"expected one namespace of the switch, found {others}")
    return others[0]


def use_cubic(namespace):
    """As ours does, whatever the machine is set to: BBR paces by what it has measured."""
    for route in json.loads(run("ip", "-j", "-n", namespace, "-4", "route")):
        same = ["dev", route["dev"], "scope", route["scope"], "src", route["prefsrc"]]
        run("ip", "-n", namespace, "route", "replace", route["dst"], *same, "congctl", "cubic")


@contextlib.contextmanager
def lab(narrows):
    run(narrows, "live", "up", "--lab", LAB)
    try:
        switch = switch_namespace()
        links = json.loads(run("ip", "-j", "-n", switch, "link", "show", "type", "bridge"))
        bridge = links[0]["ifname"]
        run("ip", "netns", "add", EXTRA)
        run("ip", "-n", switch, "link", "add", "extra", "type", "veth", "peer", "eth0", "netns", EXTRA)
        run("ip", "-n", switch, "link", "set", "extra", "master", bridge, "up")
        run("ip", "-n", EXTRA, "addr", "add", f"{PEER}/24", "dev", "eth0")
        run("ip", "-n", EXTRA, "link", "set", "eth0", "up")
        run("ip", "-n", EXTRA, "link", "set", "lo", "up")
        for host in (LAB, EXTRA):
            use_cubic(host)
        yield
    finally:
        subprocess.run(["ip", "netns", "del", EXTRA], capture_output=True)
        subprocess.run([narrows, "live", "down", "--lab", LAB], capture_output=True)


@contextlib.contextmanager
def background(*words):
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_for(address, port):
    for _ in range(500):
        with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
            return
        time.sleep(0.02)
    sys.exit(f"nothing listens at {address}:{port}")


def gbps(text):
    """What the receiving end counted: of iperf3's report, or of ours."""
    result = json.loads(text)
    if "end" in result:
        return result["end"]["sum_received"]["bits_per_second"] / 1e9
    return (result["received"] or result["peer_received"]) * 8 / result["seconds"] / 1e9


def bulk(narrows, rounds, seconds):
    """iperf3 of the lab's kernel is the server; the clients are another kernel's and ours."""
    rows = {}
    with background("ip", "netns", "exec", LAB, "iperf3", "-s"):
        time.sleep(0.5)
        for round in range(rounds):
            for name, words in [
                ("one stream, sends", []),
                ("one stream, receives", ["-R"]),
                ("`-P 8`, sends", ["-P", "8"]),
                ("`-P 8`, receives", ["-P", "8", "-R"]),
            ]:
                same = ["-c", KERNEL, "-t", str(seconds), *words]
                theirs = run("ip", "netns", "exec", EXTRA, "iperf3", "-J", *same)
                ours = run(narrows, "live", "iperf3", "--lab", LAB, "--json", *same)
                pair = gbps(theirs), gbps(ours)
                rows.setdefault(name, []).append(pair)
                print(f"round {round + 1}: {name}: {pair[0]:.1f}, {pair[1]:.1f} Gb/s", file=sys.stderr)
    heads = [f"round {i + 1}" for i in range(rounds)]
    print("| iperf3, Gb/s: kernel, narrows |", " | ".join(heads), "| median of the ratios |")
    print("|---" * (rounds + 2) + "|")
    for name, pairs in rows.items():
        ratio = statistics.median(ours / theirs for theirs, ours in pairs)
        print(f"| {name} | " + " | ".join(f"{a:.1f}, {b:.1f}" for a, b in pairs) + f" | {ratio:.2f} |")


def fetch(connection, address):
    connection.sendall(f"GET /page HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
    got = b""
    while b"\r\n\r\n" not in got:
        got += receive(connection)
    head, _, body = got.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))
    while len(body) < length:
        body += receive(connection)


def receive(connection):
    data = connection.recv(65536)
    if not data:
        sys.exit("the server closed the connection")
    return data


def connect(address):
    connection = socket.create_connection((address, 80), 10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def median_request_us(address, count, kept):
    """Of requests to `address`, from the namespace of this process."""
    times = []
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(connect(address)) if kept else None
        for _ in range(count):
            begin = time.perf_counter_ns()
            if kept:
                fetch(connection, address)
            else:
                with connect(address) as once:
                    fetch(once, address)
            times.append(time.perf_counter_ns() - begin)
    return statistics.median(times) / 1e3


def measure(address, count, kept):
    """The same from the lab's kernel."""
    words = [sys.executable, __file__, "--measure", address, "--requests", str(count)]
    return float(run("ip", "netns", "exec", LAB, *words, *(["--kept"] if kept else [])))


def http(narrows, rounds, count):
    folder = tempfile.mkdtemp()
    try:
        os.chmod(folder, 0o755)
        with open(f"{folder}/page", "wb") as page:
            page.write(b"x" * 1024)
        config = f"{folder}/nginx.conf"
        with open(config, "w") as file:
            file.write(
                f"daemon off; worker_processes 1; user root; pid {folder}/pid; error_log stderr;\n"
                "events {}\nhttp { access_log off; keepalive_requests 1000000; tcp_nodelay on;\n"
                f"server {{ listen 80; root {folder}; }} }}\n"
            )
        theirs = background("ip", "netns", "exec", EXTRA, "nginx", "-c", config)
        ours = background(narrows, "live", "serve", "--lab", LAB, "--http", folder)
        with theirs, ours:
            for address in (PEER, OURS):
                measure(address, 1, False)
            print("| p50 of 1 KB over HTTP in us | nginx | narrows | median of the ratios |\n|---|---|---|---|")
            for name, kept in [("a connection each", False), ("one connection", True)]:
                pairs = []
                for _ in range(rounds):
                    pairs.append([measure(a, count, kept) for a in (PEER, OURS)])
                ratio = statistics.median(b / a for a, b in pairs)
                spans = [f"{min(x):.0f} to {max(x):.0f}" for x in zip(*pairs)]
                print(f"| {name} | {spans[0]} | {spans[1]} | {ratio:.2f} |", flush=True)
    finally:
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--narrows", default="target/release/narrows", help="the program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2, help="of each iperf3 run")
    parser.add_argument("--requests", type=int, default=4000, help="of each HTTP round")
    parser.add_argument("--only", choices=["bulk", "http"])
    parser.add_argument("--measure", metavar="ADDRESS", help="time requests from this namespace, and no more")
    parser.add_argument("--kept", action="store_true", help="over one connection")
    args = parser.parse_args()
    if args.measure:
        wait_for(args.measure, 80)
        print(median_request_us(args.measure, args.requests, args.kept))
        return
    missing = [p for p in (args.narrows, "ip", "iperf3", "nginx") if not shutil.which(p)]
    if missing or os.geteuid() != 0:
        sys.exit(f"it takes root, and these programs: {' '.join(missing) or '(all are there)'}")
    print(run(args.narrows, "--version").strip())
    with lab(args.narrows):
        if args.only != "http":
            bulk(args.narrows, args.rounds, args.seconds)
        if args.only != "bulk":
            http(args.narrows, args.rounds, args.requests)


if __name__ == "__main__":
    main()

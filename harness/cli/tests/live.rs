//! `narrows live` against the kernel and the programs that people use: curl, nc, iperf3, tshark; and the stories
//! that have a twin there.
//!
//! Each test has a lab of its own name, which is gone afterwards, however the test ends. Where that
//! cannot be a test is skipped with a message; with `CI=true` it fails.
#![cfg(target_os = "linux")]

use narrows_story::story::Live;
use narrows_story::{Story, stories};
use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;

fn narrows() -> Command {
    Command::new(env!("CARGO_BIN_EXE_narrows"))
}

/// A lab's name, and a folder. Dropping it removes both.
struct TestLab {
    name: String,
    folder: PathBuf,
}

impl TestLab {
    /// `None`: the machine cannot, or lacks one of `programs`.
    fn new(programs: &[&str]) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("nwtest-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir_all(&folder).unwrap();
        let lab = Self { name, folder };
        let missing = programs.iter().find(|p| !is_there(p));
        let why = match missing {
            Some(program) => format!("{program} is not installed"),
            None => {
                let up = lab.live(&["up"]).output().unwrap();
                if up.status.success() {
                    return Some(lab);
                }
                String::from_utf8_lossy(&up.stderr).into_owned()
            }
        };
        let ci = std::env::var("CI").is_ok_and(|v| v == "true");
        assert!(!ci, "{why}");
        eprintln!("SKIPPED: {why}");
        None
    }

    /// `narrows live COMMAND --lab NAME ...`.
    fn live(&self, arguments: &[&str]) -> Command {
        let mut command = narrows();
        let (first, rest) = arguments.split_first().unwrap();
        command
            .args(["live", first, "--lab", &self.name])
            .args(rest);
        command
    }

    /// A program on the kernel's host, with a limit that only a hang reaches.
    fn kernel(&self, arguments: &[&str]) -> Command {
        let mut command = self.live(&["exec", "--", "timeout", "600"]);
        command.args(arguments);
        command
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A server of ours: it has said where it listens.
    fn serve(&self, arguments: &[&str]) -> Server {
        let mut command = self.live(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        lines.read_line(&mut ready).unwrap();
        assert!(ready.contains("10.77.0."), "{ready}");
        // Nobody may wait for us to read.
        let reader = thread::spawn(move || {
            let mut rest = String::new();
            lines.read_to_string(&mut rest).unwrap();
            rest
        });
        Server {
            child,
            reader: Some(reader),
        }
    }

    fn is_up(&self) -> bool {
        let status = text(&mut self.live(&["status"]));
        status.contains("is up")
    }
}

impl Drop for TestLab {
    fn drop(&mut self) {
        let _ = self.live(&["down"]).output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Stopped as Ctrl-C does when it is dropped.
struct Server {
    child: Child,
    reader: Option<thread::JoinHandle<String>>,
}

impl Server {
    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// Ctrl-C; what it said after it was ready.
    fn stop(mut self) -> String {
        self.signal("-INT");
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(130));
        self.reader.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Run it; it must succeed.
fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn text(command: &mut Command) -> String {
    String::from_utf8(output(command).stdout).unwrap()
}

/// Bytes that are not the same anywhere.
fn data(len: usize) -> Vec<u8> {
    let mut x = 0x9E37_79B9_7F4A_7C15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bytes.extend(x.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Every frame of a capture is well formed, and every checksum right.
fn check_capture(path: &Path) {
    let capture = path.to_str().unwrap();
    let mut shark = Command::new("tshark");
    shark.args(["-n", "-r", capture, "-T", "fields"]);
    for field in [
        "frame.protocols",
        "_ws.malformed",
        "ip.checksum.status",
        "tcp.checksum.status",
    ] {
        shark.args(["-e", field]);
    }
    for check in ["ip.check_checksum:TRUE", "tcp.check_checksum:TRUE"] {
        shark.args(["-o", check]);
    }
    let text = text(&mut shark);
    let (mut ip, mut tcp) = (0, 0);
    for (n, line) in text.lines().enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        let at = n + 1;
        assert_eq!(fields[1], "", "frame {at} is malformed: {line}");
        // 1 is good, 0 is bad.
        assert!(matches!(fields[2], "1" | ""), "frame {at}: {line}");
        assert!(matches!(fields[3], "1" | ""), "frame {at}: {line}");
        ip += u32::from(fields[2] == "1");
        tcp += u32::from(fields[3] == "1");
    }
    assert!(ip > 10 && tcp > 10, "{ip} IPv4 and {tcp} TCP checksums");
}

#[test]
fn up_and_down_as_often_as_one_likes() {
    let Some(lab) = TestLab::new(&[]) else { return };
    assert!(text(&mut lab.live(&["up"])).contains("already"));
    let other = lab.live(&["up", "--mtu", "9000"]).output().unwrap();
    assert_eq!(other.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&other.stderr).contains("MTU of 1500"));
    let status = text(&mut lab.live(&["status"]));
    assert!(
        status.contains("MTU 1500") && status.contains("10.77.0.254"),
        "{status}"
    );

    assert!(text(&mut lab.live(&["down"])).contains("is removed"));
    assert!(text(&mut lab.live(&["down"])).contains("no lab"));
    assert!(text(&mut lab.live(&["status"])).contains("is down"));
    let away = lab.kernel(&["true"]).output().unwrap();
    assert_eq!(away.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&away.stderr).contains("live up"));
    for name in [lab.name.clone(), format!("{}-switch", lab.name)] {
        assert!(!Path::new("/run/netns").join(name).exists());
    }
}

#[test]
fn what_is_left_is_reclaimed_and_what_is_not_ours_is_left_alone() {
    let Some(lab) = TestLab::new(&["umount"]) else {
        return;
    };
    // Half of it is gone.
    let switch = PathBuf::from(format!("/run/netns/{}-switch", lab.name));
    output(Command::new("umount").arg(&switch));
    assert!(text(&mut lab.live(&["status"])).contains("is down"));
    assert!(text(&mut lab.live(&["up"])).contains("in place of what was left"));
    assert!(lab.is_up());
    output(&mut lab.live(&["down"]));

    let own = PathBuf::from(format!("/run/netns/{}", lab.name));
    fs::write(&own, "somebody's").unwrap();
    for command in ["up", "down", "status"] {
        let refused = lab.live(&[command]).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{command}");
        assert!(said.contains(own.to_str().unwrap()), "{command}: {said}");
    }
    assert_eq!(fs::read_to_string(&own).unwrap(), "somebody's");
    fs::remove_file(own).unwrap();
}

#[test]
fn a_namespace_of_somebody_elses_is_left_alone() {
    let Some(lab) = TestLab::new(&["ip"]) else {
        return;
    };
    output(&mut lab.live(&["down"]));
    for name in [lab.name.clone(), format!("{}-switch", lab.name)] {
        output(Command::new("ip").args(["netns", "add", &name]));
        let mut add = Command::new("ip");
        output(add.args(["-n", &name, "link", "add", "br7", "type", "bridge"]));
        for command in ["up", "down"] {
            let refused = lab.live(&[command]).output().unwrap();
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(1), "{command}");
            assert!(said.contains("no lab of narrows"), "{command}: {said}");
        }
        output(Command::new("ip").args(["-n", &name, "link", "show", "br7"]));
        output(Command::new("ip").args(["netns", "delete", &name]));
    }
    output(&mut lab.live(&["up"]));
}

/// Who made the lab leaves, and somebody else is still in it.
#[test]
fn a_lab_in_use_stays() {
    let Some(lab) = TestLab::new(&["nc"]) else {
        return;
    };
    output(&mut lab.live(&["down"]));
    let first = lab.serve(&["serve", "--echo"]);
    let second = lab.serve(&["serve", "--echo", "--host", "2"]);
    first.stop();
    assert!(lab.is_up());
    let mut nc = lab.kernel(&["nc", "-N", "10.77.0.2", "7"]);
    let mut nc = nc.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let nc = nc.as_mut().unwrap();
    nc.stdin.take().unwrap().write_all(b"there").unwrap();
    let mut back = String::new();
    let mut out = nc.stdout.take().unwrap();
    out.read_to_string(&mut back).unwrap();
    assert_eq!(back, "there");
    assert!(nc.wait().unwrap().success());
    second.stop();
}

#[test]
fn a_lab_made_for_a_server_goes_with_it_and_a_killed_one_leaves_nothing_in_the_way() {
    let Some(lab) = TestLab::new(&[]) else { return };
    output(&mut lab.live(&["down"]));
    let server = lab.serve(&["serve", "--echo"]);
    assert!(lab.is_up());
    let second = lab.live(&["serve", "--discard"]).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("host 1 is taken"), "{said}");
    assert!(server.stop().contains("0 connections"));
    assert!(!lab.is_up());

    let server = lab.serve(&["serve", "--echo"]);
    server.signal("-KILL");
    drop(server);
    assert!(lab.is_up());
    let server = lab.serve(&["serve", "--echo"]);
    let status = text(&mut lab.live(&["status"]));
    assert!(status.contains("host 1:"), "{status}");
    server.stop();

    let waiting = lab.serve(&["up", "--wait"]);
    assert!(lab.is_up());
    waiting.stop();
    // It was up before, and stays.
    assert!(lab.is_up());
}

#[test]
fn curl_fetches_from_our_server() {
    let Some(lab) = TestLab::new(&["curl", "tshark"]) else {
        return;
    };
    let folder = lab.file("www");
    fs::create_dir(&folder).unwrap();
    let big = data(30_000_000);
    fs::write(folder.join("big"), &big).unwrap();
    let capture = lab.file("http.pcapng");
    let server = lab.serve(&[
        "serve",
        "--http",
        folder.to_str().unwrap(),
        "--pcap",
        capture.to_str().unwrap(),
    ]);

    let got = lab.file("got");
    let to = got.to_str().unwrap();
    output(&mut lab.kernel(&["curl", "-sSfo", to, "http://10.77.0.1/big"]));
    assert!(
        fs::read(&got).unwrap() == big,
        "another file than was served"
    );
    output(&mut lab.kernel(&[
        "curl",
        "-gsSfo",
        to,
        "-r",
        "5-99999",
        "http://[fd77::1]/big",
    ]));
    assert!(fs::read(&got).unwrap() == big[5..100_000], "another part");

    // Several over one connection.
    let one = "http://10.77.0.1/big";
    let kept = text(&mut lab.kernel(&[
        "curl",
        "-sSf",
        "-w",
        "%{num_connects}",
        "-o",
        to,
        one,
        "-o",
        to,
        one,
        "-o",
        to,
        one,
    ]));
    assert_eq!(kept, "100");
    let small = folder.join("small");
    fs::write(&small, &big[..1_000_000]).unwrap();
    let parallel = format!("{to}-#1");
    output(&mut lab.kernel(&[
        "curl",
        "-sSfZ",
        "--parallel-max",
        "50",
        "-o",
        &parallel,
        "http://10.77.0.1/small?[1-50]",
    ]));
    for n in 1..=50 {
        let path = lab.file(&format!("got-{n}"));
        assert!(fs::read(path).unwrap() == big[..1_000_000], "file {n}");
    }
    let missing = lab.kernel(&["curl", "-sf", "http://10.77.0.1/no"]);
    assert_eq!({ missing }.output().unwrap().status.code(), Some(22));
    server.stop();
    check_capture(&capture);
}

/// What our server answers to `sent`, the client's side closed behind it.
fn answer(lab: &TestLab, sent: &str) -> String {
    let mut nc = lab.kernel(&["nc", "-N", "-w", "600", "10.77.0.1", "80"]);
    let nc = nc.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut nc = nc.spawn().unwrap();
    nc.stdin.take().unwrap().write_all(sent.as_bytes()).unwrap();
    let heard = nc.wait_with_output().unwrap();
    String::from_utf8_lossy(&heard.stdout).into_owned()
}

#[test]
fn a_client_that_has_closed_its_side_gets_its_answer() {
    let Some(lab) = TestLab::new(&["nc"]) else {
        return;
    };
    let folder = lab.file("www");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("page"), data(1_000)).unwrap();
    let server = lab.serve(&["serve", "--http", folder.to_str().unwrap()]);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
    for _ in 0..10 {
        let heard = answer(&lab, &get("/page"));
        assert!(heard.starts_with("HTTP/1.1 200 "), "{heard:?}");
    }
    let two = answer(&lab, &(get("/page") + &get("/no")));
    assert!(two.contains(" 200 OK") && two.contains(" 404 "), "{two:?}");
    let long = answer(&lab, &get(&format!("/{}", "x".repeat(7_000))));
    assert!(long.starts_with("HTTP/1.1 414 "), "{long:?}");
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n".to_owned();
    let post = answer(&lab, &(post + &"x".repeat(3_000_000)));
    assert!(post.starts_with("HTTP/1.1 405 "), "{post:?}");
    server.stop();
}

#[test]
fn exec_passes_arguments_on_as_they_are() {
    let Some(lab) = TestLab::new(&["printf"]) else {
        return;
    };
    let arguments = [
        "-s", "-1", "--help", "-D", "-.5", "--", "-x", "", "--lab", "--n=-1",
    ];
    let mut printf = lab.live(&["exec", "printf", "<%s>"]);
    let said = text(printf.args(arguments));
    assert_eq!(said, format!("<{}>", arguments.join("><")));
}

/// AF_XDP where a TAP is otherwise, and each host by the address that it has by itself.
#[test]
fn hosts_on_af_xdp_and_their_link_local_addresses() {
    let Some(lab) = TestLab::new(&["curl"]) else {
        return;
    };
    let folder = lab.file("www");
    fs::create_dir(&folder).unwrap();
    let page = data(3_000_000);
    let path = folder.join("page");
    fs::write(&path, &page).unwrap();
    let capture = lab.file("xdp.pcapng");
    let server = lab.serve(&[
        "serve",
        "--echo",
        "--http",
        folder.to_str().unwrap(),
        "--device",
        "xdp",
        "--pcap",
        capture.to_str().unwrap(),
    ]);
    for host in ["10.77.0.1", "[fd77::1]", "[fe80::77:ff:fe00:1%25eth0]"] {
        let url = format!("http://{host}/page");
        let got = output(&mut lab.kernel(&["curl", "-gsSf", &url])).stdout;
        assert!(got == page, "{} bytes from {host}", got.len());
    }
    // A second server finds the place taken; clients of ours by either device.
    let again = lab.live(&["serve", "--echo", "--device", "xdp"]).output();
    let said = String::from_utf8_lossy(&again.unwrap().stderr).into_owned();
    assert!(said.contains("host 1 is taken"), "{said}");
    let again = lab.live(&["serve", "--echo"]).output();
    let said = String::from_utf8_lossy(&again.unwrap().stderr).into_owned();
    assert!(said.contains("host 1 is taken"), "{said}");
    for device in ["tap", "xdp"] {
        let to = "[fe80::77:ff:fe00:1%eth0]:7";
        let path = path.to_str().unwrap();
        let back = output(&mut lab.live(&["send", to, path, "--device", device]));
        assert!(back.stdout == page, "{} bytes came back", back.stdout.len());
    }
    let status = text(&mut lab.live(&["status"]));
    assert_eq!(status.matches("narrows at").count(), 1, "{status}");
    server.stop();
    let status = text(&mut lab.live(&["status"]));
    assert!(!status.contains("narrows at"), "{status}");
    check_capture(&capture);
}

/// The checksum that a program of the kernel's side computes of what curl gives it.
fn curl_sum(lab: &TestLab, url: &str) -> String {
    let pipe = format!("set -o pipefail; curl -sSf {url} | sha256sum");
    let sum = text(&mut lab.kernel(&["bash", "-c", &pipe]));
    sum.split(' ').next().unwrap().to_owned()
}

fn sum(path: &Path) -> String {
    let sum = text(Command::new("sha256sum").arg(path));
    sum.split(' ').next().unwrap().to_owned()
}

/// A file of `len` bytes of which some are written: different ones in each, at places all over it.
fn sparse(path: &Path, len: u64, seed: usize) {
    let mut file = fs::File::create(path).unwrap();
    file.set_len(len).unwrap();
    let bytes = data(64 << 10);
    for (n, at) in (0..len).step_by(7_654_321).enumerate() {
        file.seek(SeekFrom::Start(at)).unwrap();
        let from = (n * 31 + seed * 997) % 30_000;
        let room = (len - at).min(30_000) as usize;
        file.write_all(&bytes[from..from + room]).unwrap();
    }
}

#[test]
fn curl_downloads_a_gigabyte() {
    let Some(lab) = TestLab::new(&["curl", "bash", "sha256sum"]) else {
        return;
    };
    let folder = lab.file("www");
    fs::create_dir(&folder).unwrap();
    let big = folder.join("big");
    sparse(&big, 1_000_000_000, 0);
    for n in 1..=50 {
        sparse(&folder.join(n.to_string()), 4_000_000 + n, n as usize);
    }
    let server = lab.serve(&["serve", "--http", folder.to_str().unwrap()]);
    let whole = sum(&big);
    assert_eq!(curl_sum(&lab, "http://10.77.0.1/big"), whole);

    // All of it again in ten parts over one connection.
    let parts = lab.file("parts");
    let parts = parts.to_str().unwrap();
    let mut curl = vec!["curl".to_owned()];
    for part in 0..10_u64 {
        let range = format!("{}-{}", part * 100_000_000, (part + 1) * 100_000_000 - 1);
        if part > 0 {
            curl.push("--next".to_owned());
        }
        let each = [
            "-sSf",
            "-w",
            "%{stderr}%{num_connects} ",
            "-r",
            &range,
            "http://10.77.0.1/big",
        ];
        curl.extend(each.map(str::to_owned));
    }
    let quoted: Vec<String> = curl.iter().map(|a| format!("'{a}'")).collect();
    let pipe = format!(
        "set -o pipefail; {} 2>{parts} | sha256sum",
        quoted.join(" ")
    );
    let of_parts = text(&mut lab.kernel(&["bash", "-c", &pipe]));
    assert!(of_parts.starts_with(&whole), "{of_parts}");
    let connects = fs::read_to_string(parts).unwrap();
    assert_eq!(connects.trim(), "1 0 0 0 0 0 0 0 0 0");

    // Fifty at once.
    let got = lab.file("got");
    fs::create_dir(&got).unwrap();
    output(&mut lab.kernel(&[
        "curl",
        "-sSfZ",
        "--parallel-immediate",
        "--parallel-max",
        "50",
        "-o",
        &format!("{}/#1", got.display()),
        "http://10.77.0.1/[1-50]",
    ]));
    for n in 1..=50 {
        let name = n.to_string();
        assert_eq!(sum(&got.join(&name)), sum(&folder.join(&name)), "file {n}");
    }
    let said = server.stop();
    assert!(said.contains("52 connections"), "{said}");
}

#[test]
fn nc_speaks_to_echo_discard_and_chargen() {
    let Some(lab) = TestLab::new(&["nc"]) else {
        return;
    };
    let server = lab.serve(&["serve", "--echo", "--discard", "--chargen"]);
    let bytes = data(3_000_000);
    for (host, port) in [("10.77.0.1", "7"), ("fd77::1", "7")] {
        let mut nc = lab.kernel(&["nc", "-N", host, port]);
        let nc = nc.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut nc = nc.spawn().unwrap();
        let mut input = nc.stdin.take().unwrap();
        let sent = bytes.clone();
        let sender = thread::spawn(move || input.write_all(&sent).unwrap());
        let back = nc.wait_with_output().unwrap();
        sender.join().unwrap();
        assert!(back.status.success());
        assert!(
            back.stdout == bytes,
            "{} bytes came back",
            back.stdout.len()
        );
    }
    let mut nc = lab.kernel(&["nc", "-N", "10.77.0.1", "9"]);
    let mut nc = nc.stdin(Stdio::piped()).spawn().unwrap();
    nc.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert!(nc.wait().unwrap().success());

    let mut nc = lab.kernel(&["nc", "10.77.0.1", "19"]);
    let mut nc = nc
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(nc.stdout.take().unwrap());
    for n in 0..2_000_usize {
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line).unwrap();
        assert_eq!(line.len(), 74);
        assert_eq!(usize::from(line[0] - b' '), n % 95);
    }
    drop(lines);
    nc.kill().unwrap();
    nc.wait().unwrap();
    assert!(server.stop().contains("4 connections"));
}

/// Ours with ours: both ends are this stack, and the switch is the kernel's.
#[test]
fn get_and_send() {
    let Some(lab) = TestLab::new(&["tshark"]) else {
        return;
    };
    let folder = lab.file("www");
    fs::create_dir(&folder).unwrap();
    let bytes = data(5_000_000);
    let page = folder.join("page");
    fs::write(&page, &bytes).unwrap();
    let server = lab.serve(&["serve", "--echo", "--http", folder.to_str().unwrap()]);

    let got = lab.file("got");
    let capture = lab.file("get.pcapng");
    output(&mut lab.live(&[
        "get",
        "http://10.77.0.1/page",
        "-o",
        got.to_str().unwrap(),
        "--cc",
        "dctcp",
        "--rto",
        "5ms",
        "--no-offload",
        "--pcap",
        capture.to_str().unwrap(),
    ]));
    assert!(fs::read(&got).unwrap() == bytes, "another page");
    check_capture(&capture);

    let missing = lab.live(&["get", "http://[fd77::1]/no"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("404"));
    let nobody = lab.live(&["get", "10.77.0.1:99"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("refused"));

    let back = output(&mut lab.live(&["send", "10.77.0.1:7", page.to_str().unwrap()]));
    assert!(
        back.stdout == bytes,
        "{} bytes came back",
        back.stdout.len()
    );
    server.stop();
}

/// The bytes sent and received in what `iperf3 --json` says, and all of it.
fn rates(json: &str) -> (f64, f64, serde_json::Value) {
    let all: serde_json::Value = serde_json::from_str(json).unwrap();
    assert!(all.get("error").is_none(), "{all}");
    let of = |sum: &str| all["end"][sum]["bytes"].as_f64().unwrap();
    (of("sum_sent"), of("sum_received"), all.clone())
}

#[test]
fn iperf3_measures_us() {
    measured_by_iperf3("tap");
}

#[test]
fn iperf3_measures_us_on_af_xdp() {
    measured_by_iperf3("xdp");
}

fn measured_by_iperf3(device: &str) {
    let Some(lab) = TestLab::new(&["iperf3"]) else {
        return;
    };
    let server = lab.serve(&["iperf3", "-s", "--device", device]);
    let run = |more: &[&str]| {
        let mut all = vec!["iperf3", "-c", "10.77.0.1", "--json"];
        all.extend(more);
        text(&mut lab.kernel(&all))
    };
    let (_, received, all) = rates(&run(&["-t", "1"]));
    assert!(received > 0.0);
    assert_eq!(all["end"]["receiver_tcp_congestion"], "cubic");
    let (sent, received, all) = rates(&run(&["-t", "1", "-R"]));
    assert!(received > 0.0 && sent >= received, "{sent} {received}");
    assert_eq!(all["end"]["sender_tcp_congestion"], "cubic");
    let (_, received, all) = rates(&run(&["-t", "1", "-P", "8"]));
    assert!(received > 0.0);
    assert_eq!(all["end"]["streams"].as_array().unwrap().len(), 8);
    let (_, received, _) = rates(&run(&["-t", "1", "-P", "8", "-R", "-O", "1"]));
    assert!(received > 0.0);
    let (_, received, _) = rates(&run(&["-n", "5M"]));
    // It rounds up to blocks, and what it has sent arrives.
    assert!(received >= f64::from(5 << 20), "{received}");
    rates(&run(&["-t", "1", "--bidir"]));

    let udp = lab
        .kernel(&["iperf3", "-c", "10.77.0.1", "-u", "-t", "1"])
        .output();
    assert!(!udp.unwrap().status.success());
    let said = server.stop();
    assert_eq!(said.lines().count(), 6, "{said}");
}

#[test]
fn we_measure_with_iperf3() {
    measured_with_iperf3("tap");
}

#[test]
fn we_measure_with_iperf3_on_af_xdp() {
    measured_with_iperf3("xdp");
}

fn measured_with_iperf3(device: &str) {
    let Some(lab) = TestLab::new(&["iperf3"]) else {
        return;
    };
    // Without `timeout`: ending it ends iperf3 itself.
    let mut server = lab.live(&["exec", "--", "iperf3", "-s", "--forceflush"]);
    let child = server.stdout(Stdio::piped()).spawn().unwrap();
    let mut server = Server {
        child,
        reader: None,
    };
    let mut lines = BufReader::new(server.child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0);
    }
    thread::spawn(move || lines.read_to_string(&mut String::new()));
    let run = |more: &[&str]| {
        let mut all = vec!["iperf3", "-c", "10.77.0.254", "-J", "--device", device];
        all.extend(more);
        serde_json::from_str::<serde_json::Value>(&text(&mut lab.live(&all))).unwrap()
    };
    let sent = run(&["-n", "20MB", "-P", "4"]);
    assert_eq!(sent["sent"], 20_000_000);
    assert_eq!(sent["streams"], 4);
    let got = run(&["-t", "1", "-R"]);
    let count = |name: &str| got[name].as_u64().unwrap();
    assert!(count("received") > 0 && count("peer_sent") >= count("received"));
    let both = run(&["-t", "1", "--bidir"]);
    assert!(both["sent"].as_u64() > Some(0) && both["received"].as_u64() > Some(0));
}

/// Explains what comes by at the kernel's host until Ctrl-C, and ends with everything so far.
#[test]
fn explain_listens_to_a_lab() {
    let Some(lab) = TestLab::new(&["curl"]) else {
        return;
    };
    fs::write(lab.file("small"), [1; 5_000]).unwrap();
    let folder = lab.folder.to_str().unwrap();
    let server = lab.serve(&["serve", "--http", folder]);
    for interface in [
        ["--lab".to_owned(), lab.name.clone()],
        ["--live".to_owned(), format!("{}:eth0", lab.name)],
    ] {
        let mut listening = narrows()
            .arg("explain")
            .args(interface)
            .args(["--for", "600s", "--json", "-"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(listening.stderr.take().unwrap());
        let mut ready = String::new();
        said.read_line(&mut ready).unwrap();
        assert!(ready.starts_with("Listening to "), "{ready}");
        let pause = std::time::Duration::from_millis(300);
        for _ in 0..2 {
            output(&mut lab.kernel(&["curl", "-s", "http://10.77.0.1/small"]));
            #[allow(clippy::disallowed_methods)] // Live, time passes by itself.
            thread::sleep(pause);
        }
        let pid = listening.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status();
        assert!(sent.unwrap().success());
        let ended = listening.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130));
        let json = String::from_utf8_lossy(&ended.stdout);
        assert!(json.contains("eth0, live"), "{json}");
        assert!(json.contains("\"connections\": 2"), "{json}");
    }
    drop(server);
    let none = narrows()
        .args(["explain", "--live", "narrows-no-such"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&none.stderr);
    assert!(said.contains("No such device"), "{said}");
}

/// What the live twin of a story must show.
struct Twin {
    story: &'static str,
    claims: &'static [&'static str],
    rows: &'static [Rows],
}

/// Rows of a table, by the least of cells that each has behind its name.
type Rows = (usize, &'static [&'static str]);

/// All that there are; those that take longest first.
const TWINS: &[Twin] = &[
    Twin {
        story: "enobufs",
        claims: &["E1", "E3", "E5", "E6", "E8"],
        rows: &[
            (
                4,
                &[
                    "live, Linux, 12 packets, second, peer forgotten",
                    "live, Linux, 12 packets, second, peer remembered",
                    "simulated, 25 ms, second, peer forgotten",
                    "live, ours, 25 ms, second, peer forgotten",
                    "simulated, 25 ms, second, peer remembered",
                    "live, ours, 25 ms, second, peer remembered",
                ],
            ),
            (
                3,
                &[
                    "simulated, reset, 12 buffers",
                    "simulated, congestion, 12 buffers",
                    "simulated, congestion, 1000 buffers",
                    "live, Linux, a queue of 12 packets",
                    "live, Linux, a queue of 1000 packets",
                    "simulated, 25 ms, reset, no loss",
                    "live, ours, 25 ms, reset, no loss",
                    "simulated, 25 ms, reset, a loss each second",
                    "live, ours, 25 ms, reset, a loss each second",
                    "simulated, 25 ms, a segment less, no loss",
                    "live, ours, 25 ms, a segment less, no loss",
                ],
            ),
        ],
    },
    Twin {
        story: "rack tails",
        claims: &["D1", "D3", "D25", "D15", "D17"],
        rows: &[
            (
                11,
                &[
                    "CUBIC, simulated",
                    "CUBIC, live, kernel",
                    "CUBIC, live, ours",
                    "DCTCP, receiver of 2015, simulated",
                    "DCTCP, receiver of 2015, live, ours",
                    "DCTCP, RFC 8257, simulated",
                    "DCTCP, RFC 8257, live, ours",
                    "DCTCP, receiver of today, simulated",
                    "DCTCP, receiver of today, live, ours",
                ],
            ),
            // A kernel need not have it.
            (0, &["DCTCP, receiver of today, live, kernel"]),
        ],
    },
    Twin {
        story: "writes",
        claims: &["S5", "S6", "S9"],
        rows: &[(
            6,
            &[
                "1+1+1+1+n, window of 3 after a pause, delayed ACK",
                "... with tail loss probes",
                "... read as it comes",
                "... without delayed ACK",
                "... with the window kept",
                "written at once",
            ],
        )],
    },
    Twin {
        story: "burst",
        claims: &["M10", "M17"],
        rows: &[
            (3, &["mean of a port", "drops a second of a port"]),
            (
                5,
                &[
                    "max/mean at 500 ms",
                    "max/mean at 250 ms",
                    "max/mean at 128 ms",
                    "max/mean at 64 ms",
                    "max/mean at 32 ms",
                    "max/mean at 16 ms",
                    "max/mean at 8 ms",
                    "max/mean at 4 ms",
                    "max/mean at 2 ms",
                ],
            ),
        ],
    },
    Twin {
        story: "rack coalesce",
        claims: &["D11", "D13"],
        rows: &[(
            5,
            &[
                "simulated, 25 Gb/s, rx_usecs 1us",
                "simulated, 25 Gb/s, rx_usecs 1ms",
                "simulated, kernel, timer 0 us",
                "live, kernel, timer 0 us",
                "simulated, kernel, timer 1000 us",
                "live, kernel, timer 1000 us",
                "simulated, kernel, timer 3000 us",
                "live, kernel, timer 3000 us",
                "simulated, ours, timer 0 us",
                "live, ours, timer 0 us",
                "simulated, ours, timer 1000 us",
                "live, ours, timer 1000 us",
                "simulated, ours, timer 3000 us",
                "live, ours, timer 3000 us",
            ],
        )],
    },
    Twin {
        story: "busyport",
        claims: &["M25", "M33"],
        rows: &[
            (4, &["simulated, suspend", "simulated, async"]),
            (
                5,
                &[
                    "live, kernel, suspend",
                    "live, kernel, async",
                    "live, ours, suspend",
                    "live, ours, async",
                ],
            ),
        ],
    },
    Twin {
        story: "racks",
        claims: &["D23", "D24"],
        rows: &[(
            9,
            &[
                "0%",
                "10%",
                "25%",
                "50%",
                "75%",
                "90%",
                "100%",
                "every second",
            ],
        )],
    },
];

impl Twin {
    /// Rows that hang on what is on the path: where a program is not, one says so.
    fn rows_of_programs(&self) -> &'static [Rows] {
        match (self.story, is_there("erl")) {
            ("busyport", true) => &[(
                5,
                &[
                    "live, Erlang/OTP, suspend",
                    "live, Erlang/OTP, relay",
                    "live, Erlang/OTP, nosuspend",
                ],
            )],
            ("busyport", false) => &[(0, &["Live, Erlang/OTP"])],
            _ => &[],
        }
    }

    /// Runs it. Whether its claims hold is the machine's; that it judges them, shows its table and cleans up is
    /// not.
    fn check(&self) {
        let story = self.story;
        let mut command = narrows();
        command.arg("story").args(story.split(' ')).arg("--live");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = child.spawn().unwrap();
        let prefix = format!("narrows-run-{}-", child.id());
        let ran = child.wait_with_output().unwrap();
        let (out, err) = (
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr),
        );
        let differs = match ran.status.code() {
            Some(0) => false,
            Some(1) => true,
            code => panic!("{story}: {code:?}: {err}"),
        };
        let verdict = |claim: &&str| {
            let mut lines = out.lines().map(str::split_whitespace);
            let mut words = lines.find(|words| words.clone().next() == Some(*claim));
            let verdict = words.as_mut().and_then(|words| words.nth(1));
            let verdict = verdict.unwrap_or_else(|| panic!("{story}: no {claim}: {out}{err}"));
            assert!(
                ["holds", "differs"].contains(&verdict),
                "{story}: {claim}: {out}"
            );
            verdict
        };
        let verdicts: Vec<&str> = self.claims.iter().map(verdict).collect();
        assert_eq!(verdicts.contains(&"differs"), differs, "{story}: {out}");
        for (least, rows) in self.rows.iter().chain(self.rows_of_programs()) {
            for row in *rows {
                let cells = cells(&out, row);
                let cells = cells.unwrap_or_else(|| panic!("{story}: no row '{row}': {out}"));
                assert!(cells >= *least, "{story}: '{row}' has {cells} cells: {out}");
            }
        }
        assert!(out.contains("The machine meanwhile"), "{story}: {out}");
        let names = fs::read_dir("/run/netns").unwrap();
        let left: Vec<_> = names
            .map(|name| name.unwrap().file_name())
            .filter(|name| name.to_string_lossy().starts_with(&prefix))
            .collect();
        assert!(left.is_empty(), "{story}: {left:?}");
    }
}

/// How many cells a row has behind its name, which may go on, in all tables that have it; `None` if none has.
fn cells(out: &str, row: &str) -> Option<usize> {
    let rows = out.lines().filter_map(|line| line.strip_prefix("  "));
    let found = rows.filter(|line| {
        let behind = line.strip_prefix(row);
        behind.is_some_and(|b| b.is_empty() || b.starts_with([' ', ':']))
    });
    let cells = found.map(|row| {
        let words = row.split("  ").filter(|cell| !cell.trim().is_empty());
        words.count() - 1
    });
    cells.reduce(|all, more| all + more)
}

#[test]
fn stories_are_judged_live_and_leave_no_namespace() {
    let Some(_lab) = TestLab::new(&[]) else {
        return;
    };
    let has_twin = |story: &&&Story| matches!(story.live, Live::Twin(_));
    let mut there: Vec<&str> = stories::ALL
        .iter()
        .filter(has_twin)
        .map(|story| story.name)
        .collect();
    let mut known: Vec<&str> = TWINS.iter().map(|twin| twin.story).collect();
    there.sort_unstable();
    known.sort_unstable();
    assert_eq!(there, known);
    // They wait most of their time.
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(twin) = TWINS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    twin.check();
                }
            });
        }
    });
}

#[test]
fn rows_that_are_not_there_are_missed() {
    let out = "  head  a  b\n\n  12%   1  2.5us\n  2%: none\nD1   holds    2% of all\n";
    assert_eq!(cells(out, "12%"), Some(2));
    assert_eq!(cells(out, "2%"), Some(0));
    assert_eq!(cells(out, "12"), None);
    assert_eq!(cells(out, "D1"), None);
}

/// The costs of a kernel whose veth cannot merge have no row of what is merged, so that of the other stands
/// for both.
#[test]
fn what_packets_cost_is_held_against_the_model() {
    let Some(_lab) = TestLab::new(&[]) else {
        return;
    };
    let out = text(narrows().arg("calibrate"));
    for row in ["packet", "call"] {
        assert_eq!(cells(&out, row), Some(2), "{out}");
    }
    for whose in ["this kernel", "simulated"] {
        let row = format!("segment by segment, {whose}");
        assert_eq!(cells(&out, &row), Some(3), "{out}");
        let merged = cells(&out, &format!("merged by GRO, {whose}"));
        let unknown = out.contains("does not poll and merge");
        assert_eq!(merged, (!unknown).then_some(3), "{out}");
    }
    // What was measured is there before what is simulated with it.
    let section = out.find("[host.cpu]\ncounts = true\n");
    assert!(
        section.is_some() && section < out.find("a write of 32"),
        "{out}"
    );
}

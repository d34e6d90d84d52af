//! A cell of the matrix: one connection between us and the kernel, in a namespace of its own.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

use super::cable;
use super::judge::{Exchange, KernelInfo, Lost, counted_alike, settled_alike};
use super::live::{host, read_some};
use super::netns::{
    PATIENCE, add_address, counter, counters, dropped_frames, eventually, in_namespace, sysctl,
    until,
};
use super::transfer::{Begin, Board, DOWN, Open, Order, Seen, Then, Transfer, UP};
use super::wire::{Syns, Wire};
use narrows::config::TcpConfig;
use narrows::conn::info::{
    TCPI_OPT_ECN, TCPI_OPT_SACK, TCPI_OPT_TIMESTAMPS, TCPI_OPT_WSCALE, TcpInfo,
};
use narrows::conn::state::CloseReason;
use narrows::device::Device;
use narrows::device::fault::{Fault, FaultStats, Faults, Faulty};
use narrows::device::tap::{Tap, TapConfig};
use narrows::device::xdp::AttachMode;
use narrows::driver::poll::{PollConfig, PollHandle, spawn};
use narrows::driver::{Clock, LiveTcp};
use narrows::interface::Medium;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// What is between us and the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Super-frames, and checksums left to the other side.
    TapOffload,
    /// A frame for each segment, with its checksum.
    Tap,
    TunOffload,
    Tun,
    Xdp(AttachMode),
}

/// How the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Each side closes when it has sent everything.
    Fin,
    /// The same, after both sides' figures of the open connection were found to agree.
    Judged,
    /// The kernel sends nothing before it has seen our FIN.
    WeCloseFirst,
    /// We send nothing before we have seen the kernel's FIN.
    KernelClosesFirst,
    /// We let go of the connection as soon as everything is queued.
    WeLetGo,
    /// After everything has arrived.
    WeReset,
    /// After everything has arrived; SO_LINGER with 0.
    KernelResets,
    /// SO_LINGER: the kernel's close waits until we have acknowledged everything.
    KernelLingers,
    /// The kernel closes without having read what arrived: that is a reset.
    KernelLeavesUnread,
    /// We do.
    WeLeaveUnread,
}

/// Both sides' options that are on unless a cell says otherwise.
pub const USUAL: u8 = TCPI_OPT_TIMESTAMPS | TCPI_OPT_SACK | TCPI_OPT_WSCALE;

/// One connection. What is not said is as usual: over a TAP with offload and an MTU of 1500, by
/// IPv4, both sides with their defaults, nothing lost, a FIN from each side at the end.
#[derive(Clone, Debug)]
pub struct Cell {
    pub name: String,
    pub kernel_opens: bool,
    /// So do we, and the SYNs cross.
    pub both_open: bool,
    pub up: u64,
    pub down: u64,
    pub ipv6: bool,
    pub link: Link,
    pub mtu: usize,
    pub tcp: TcpConfig,
    pub sysctls: Vec<(&'static str, &'static str)>,
    /// `TCPI_OPT_*` that are in use in the end.
    pub options: u8,
    pub out: Faults,
    pub into: Faults,
    /// Of the faults.
    pub seed: u64,
    pub mark_every: u64,
    pub end: End,
    /// Ask the program `ss` as well.
    pub ss: bool,
}

pub const KB: u64 = 1 << 10;
pub const MB: u64 = 1 << 20;
pub const GB: u64 = 1_000_000_000;

fn size(n: u64) -> String {
    match n {
        n if n > 0 && n.is_multiple_of(GB) => format!("{} GB", n / GB),
        n if n > 0 && n.is_multiple_of(MB) => format!("{} MB", n / MB),
        n if n > 0 && n.is_multiple_of(KB) => format!("{} kB", n / KB),
        1 => "1 byte".to_owned(),
        n => format!("{n} bytes"),
    }
}

impl Cell {
    fn new(who: &str, kernel_opens: bool) -> Self {
        Self {
            name: who.to_owned(),
            kernel_opens,
            both_open: false,
            up: 0,
            down: 0,
            ipv6: false,
            link: Link::TapOffload,
            mtu: 1500,
            tcp: TcpConfig::default(),
            sysctls: Vec::new(),
            options: USUAL,
            out: Faults::default(),
            into: Faults::default(),
            seed: *SEEDS.start(),
            mark_every: 0,
            end: End::Fin,
            ss: false,
        }
    }

    fn named(mut self, more: &str) -> Self {
        let _ = write!(self.name, ", {more}");
        self
    }

    /// The kernel connects to us.
    pub fn passive() -> Self {
        Self::new("the kernel connects", true)
    }

    /// We connect to the kernel.
    pub fn active() -> Self {
        Self::new("we connect", false)
    }

    /// Each connects to the other: simultaneous open (RFC 9293 section 3.5, figure 7). What the
    /// kernel sends is late by so much that its SYN meets ours on the way.
    pub fn simultaneous() -> Self {
        let late = Fault::Delay(narrows::Duration::from_millis(100));
        let mut cell = Self::new("both connect", true);
        cell.both_open = true;
        cell.into.rates = vec![(late, 1_000_000)];
        cell
    }

    /// One of each.
    pub fn either() -> [Self; 2] {
        [Self::passive(), Self::active()]
    }

    /// We send so much.
    pub fn up(self, bytes: u64) -> Self {
        let mut cell = self.named(&format!("{} up", size(bytes)));
        cell.up = bytes;
        cell
    }

    /// The kernel sends so much.
    pub fn down(self, bytes: u64) -> Self {
        let mut cell = self.named(&format!("{} down", size(bytes)));
        cell.down = bytes;
        cell
    }

    pub fn ipv6(self) -> Self {
        let mut cell = self.named("IPv6");
        cell.ipv6 = true;
        cell
    }

    pub fn over(self, link: Link) -> Self {
        let mut cell = self.named(&format!("over {link:?}"));
        cell.link = link;
        cell
    }

    pub fn mtu(self, mtu: usize) -> Self {
        let mut cell = self.named(&format!("MTU {mtu}"));
        cell.mtu = mtu;
        cell
    }

    /// Our side is configured so.
    pub fn ours(self, name: &str, set: impl FnOnce(&mut TcpConfig)) -> Self {
        let mut cell = self.named(name);
        set(&mut cell.tcp);
        cell
    }

    /// The kernel's side is configured so.
    pub fn theirs(self, sysctl: &'static str, value: &'static str) -> Self {
        let mut cell = self.named(&format!("{sysctl}={value}"));
        cell.sysctls.push((sysctl, value));
        cell
    }

    /// These options are not in use.
    pub fn without(mut self, options: u8) -> Self {
        self.options &= !options;
        self
    }

    /// ECN is in use.
    pub fn with_ecn(mut self) -> Self {
        self.options |= TCPI_OPT_ECN;
        self
    }

    /// Every so-many-th packet is marked.
    pub fn marked(self, every: u64) -> Self {
        let mut cell = self.named(&format!("every {every}th packet marked"));
        cell.mark_every = every;
        cell
    }

    /// Faults on what we send, and on what we receive.
    pub fn faults(self, name: &str, out: Faults, into: Faults) -> Self {
        let mut cell = self.named(name);
        (cell.out, cell.into) = (out, into);
        cell
    }

    pub fn end(self, end: End) -> Self {
        let mut cell = self.named(&format!("{end:?}"));
        cell.end = end;
        cell
    }

    /// What `ss -ti` prints is compared too, where segments can be counted.
    pub fn asked_by_ss(self) -> Self {
        let mut cell = self.named("asked by ss");
        cell.ss = true;
        cell
    }

    fn is_clean(&self) -> bool {
        [&self.out, &self.into]
            .iter()
            .all(|f| f.rates.is_empty() && f.script.is_empty())
    }
}

/// Of faults. How many frames there are, acknowledgements above all, is the machine's: where no fault came of
/// one seed, the next one is taken.
const SEEDS: RangeInclusive<u64> = 7..=16;

/// Whether what a cell is about came to pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Faulted {
    AsSaid,
    /// A fault that was to come in a share of the frames came in none.
    Never,
}

/// Run them one after the other, all of them; the names of those that failed.
pub fn run(cells: impl IntoIterator<Item = Cell>) {
    let (mut all, mut failed) = (0, Vec::new());
    for cell in cells {
        all += 1;
        let name = cell.name.clone();
        let began = Clock.now();
        if cell.run_until_faulted().is_err() {
            failed.push(name);
        } else {
            let took: Duration = Clock.now().since(began).into();
            eprintln!("{:>5} ms  {name}", took.as_millis());
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {all} cells failed, see above:\n  {}",
        failed.len(),
        failed.join("\n  ")
    );
}

/// The running connection.
struct Run {
    driver: PollHandle<Transfer, LiveTcp, Wire>,
    board: Arc<Board>,
    faults: Arc<Mutex<(FaultStats, FaultStats)>>,
    stream: TcpStream,
}

impl Cell {
    fn address(&self, kernel: bool) -> SocketAddr {
        let text = match (kernel, self.ipv6) {
            (true, false) => "10.77.0.9:7",
            (false, false) => "10.77.0.1:7",
            (true, true) => "[fd77::9]:7",
            (false, true) => "[fd77::1]:7",
        };
        text.parse().unwrap()
    }

    fn tap(&self, medium: Medium, offload: bool) -> Box<dyn Device> {
        let config = TapConfig {
            medium,
            offload,
            mtu: Some(self.mtu),
            ..TapConfig::default()
        };
        let tap = Tap::open("nw%d", &config).unwrap();
        add_address(tap.name(), "10.77.0.9".parse().unwrap(), 24);
        if self.ipv6 {
            add_address(tap.name(), "fd77::9".parse().unwrap(), 64);
        }
        Box::new(tap)
    }

    fn device(&self) -> Option<Box<dyn Device>> {
        Some(match self.link {
            Link::TapOffload => self.tap(Medium::Ethernet, true),
            Link::Tap => self.tap(Medium::Ethernet, false),
            Link::TunOffload => self.tap(Medium::Ip, true),
            Link::Tun => self.tap(Medium::Ip, false),
            Link::Xdp(mode) if cable::lay(self.mtu, 1, self.ipv6) => {
                if !self.is_clean() {
                    // What is corrupted shall not look like a checksum that was left out.
                    super::netns::ethtool(cable::PEER, cable::SET_TX_CHECKSUM, 0);
                }
                Box::new(cable::open(mode))
            }
            Link::Xdp(_) => return None,
        })
    }

    fn open(&self, device: Box<dyn Device>) -> Run {
        let faulty = Faulty::new(device, self.seed, self.out.clone(), self.into.clone());
        let wire = Wire::new(faulty, self.mark_every);
        let (board, faults) = (Arc::new(Board::default()), wire.faults());
        let begin = match self.end {
            End::KernelClosesFirst => Begin::AfterFin,
            _ => Begin::AtOnce,
        };
        let then = match self.end {
            End::WeLetGo => Then::Release,
            End::Judged | End::WeReset | End::KernelResets | End::WeLeaveUnread => Then::Wait,
            _ => Then::Close,
        };
        let interface = host(1, self.tcp.clone(), wire.capabilities());
        let run = |app: Transfer| spawn(PollConfig::default(), interface, wire, app).unwrap();
        let app = |open| {
            let mut app = Transfer::new(open, self.up, begin, then, board.clone());
            app.deaf = self.end == End::WeLeaveUnread;
            app
        };
        let (driver, stream) = if self.both_open {
            let (ours, theirs) = (self.address(false), self.address(true));
            // It has sent its SYN, or tries to find us, before we begin.
            let socket = connecting(theirs, ours);
            let driver = run(app(Open::Both(ours, theirs)));
            (driver, connected(socket))
        } else if self.kernel_opens {
            let at = self.address(false);
            let driver = run(app(Open::Kernel(at)));
            (driver, TcpStream::connect_timeout(&at, PATIENCE).unwrap())
        } else {
            let at = self.address(true);
            let listener = TcpListener::bind(at).unwrap();
            // accept() obeys it too.
            patience(&listener, libc::SO_RCVTIMEO);
            let driver = run(app(Open::Ours(at)));
            (driver, listener.accept().unwrap().0)
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Run {
            driver,
            board,
            faults,
            stream,
        }
    }

    /// # Errors
    /// What the run panicked with.
    fn run_until_faulted(self) -> std::thread::Result<()> {
        for seed in SEEDS {
            let cell = Self {
                seed,
                ..self.clone()
            };
            let (tell, told) = mpsc::channel();
            in_namespace(&self.name, move || tell.send(cell.run()).unwrap())?;
            // It says nothing if it was skipped.
            if told.recv() != Ok(Faulted::Never) {
                return Ok(());
            }
            eprintln!("no fault came of seed {seed}: {}", self.name);
        }
        Err(Box::new("no fault came of any seed"))
    }

    fn run(self) -> Faulted {
        if !self.ipv6 {
            // Its routers and groups are not looked for: what is counted is the connection's.
            sysctl("net/ipv6/conf/all/disable_ipv6", "1");
        }
        let Some(device) = self.device() else {
            return Faulted::AsSaid;
        };
        for (name, value) in &self.sysctls {
            sysctl(&format!("net/ipv4/{name}"), value);
        }
        let run = self.open(device);
        let Run { driver, board, .. } = &run;
        let writer = (self.end != End::WeCloseFirst).then(|| self.send(&run.stream));
        let read = |stream: &TcpStream, limit| read(stream, limit);
        match self.end {
            End::Fin | End::WeCloseFirst | End::KernelClosesFirst | End::WeLetGo => {
                assert_eq!(read(&run.stream, u64::MAX).unwrap(), self.up, "bytes up");
                let writer = writer.unwrap_or_else(|| self.send(&run.stream));
                writer.join().unwrap().unwrap();
                if self.end != End::WeLetGo {
                    self.all_here(board, |seen| seen.peer_closed);
                }
            }
            End::Judged | End::WeReset | End::KernelResets => {
                assert_eq!(read(&run.stream, self.up).unwrap(), self.up, "bytes up");
                writer.unwrap().join().unwrap().unwrap();
                self.all_here(board, |_| true);
                self.judge(&run);
                match self.end {
                    End::WeReset => {
                        board.order(Order::Abort);
                        driver.wake();
                        let kind = read(&run.stream, u64::MAX).unwrap_err().kind();
                        assert_eq!(kind, io::ErrorKind::ConnectionReset);
                    }
                    End::KernelResets => {
                        linger(&run.stream, 0);
                        return self.finish_after(run, CloseReason::Reset);
                    }
                    _ => {
                        run.stream.shutdown(Shutdown::Write).unwrap();
                        board.order(Order::Close);
                        driver.wake();
                        assert_eq!(read(&run.stream, u64::MAX).unwrap(), 0);
                        self.all_here(board, |seen| seen.peer_closed);
                    }
                }
            }
            End::KernelLingers => {
                writer.unwrap().join().unwrap().unwrap();
                linger(&run.stream, PATIENCE.as_secs() as u16);
                return self.finish_after_linger(run);
            }
            End::KernelLeavesUnread => {
                writer.unwrap().join().unwrap().unwrap();
                // The peer is to know of data that nobody reads.
                until("data arrives", || {
                    KernelInfo::of(&run.stream).bytes_received >= self.up.min(10_000)
                });
                return self.finish_after(run, CloseReason::Reset);
            }
            End::WeLeaveUnread => {
                writer.unwrap().join().unwrap().unwrap();
                until("data arrives", || {
                    self.info(&run).tcpi_bytes_received >= self.down.min(10_000)
                });
                board.order(Order::Release);
                driver.wake();
                let kind = read(&run.stream, u64::MAX).unwrap_err().kind();
                assert_eq!(kind, io::ErrorKind::ConnectionReset);
            }
        }
        let theirs = KernelInfo::of(&run.stream);
        assert_eq!(theirs.options & 0xf, self.options, "options in use");
        self.finish(run.driver)
    }

    /// The kernel sends, and closes that direction if that is how it ends.
    fn send(&self, stream: &TcpStream) -> std::thread::JoinHandle<io::Result<()>> {
        let mut stream = stream.try_clone().unwrap();
        let (total, end) = (self.down, self.end);
        let thread = std::thread::Builder::new().name(format!("{}, kernel sends", self.name));
        let body = move || {
            let (mut at, mut buf) = (0, vec![0; 1 << 18]);
            while at < total {
                let n = (total - at).min(buf.len() as u64) as usize;
                DOWN.fill(at, &mut buf[..n]);
                stream.write_all(&buf[..n])?;
                at += n as u64;
            }
            match end {
                End::Fin | End::WeCloseFirst | End::KernelClosesFirst | End::WeLetGo => {
                    stream.shutdown(Shutdown::Write)
                }
                _ => Ok(()),
            }
        };
        thread.spawn(body).unwrap()
    }

    /// Wait until our side has sent and received everything, and is `so`.
    fn all_here(&self, board: &Board, so: impl Fn(&Seen) -> bool) {
        let all = |seen: &Seen| {
            let done = seen.sent == self.up && seen.got == self.down && so(seen);
            done || seen.wrong.is_some() || seen.got > self.down
        };
        let seen = board.await_seen("everything is here", all);
        assert_eq!(seen.wrong, None, "a wrong byte came down: {seen:?}");
        assert_eq!(seen.got, self.down, "bytes down: {seen:?}");
        let accepts = self.kernel_opens && !self.both_open;
        assert_eq!(seen.accepted, usize::from(accepts));
    }

    fn info(&self, run: &Run) -> TcpInfo {
        run.board.ask_info();
        run.driver.wake();
        let seen = run
            .board
            .await_seen("the driver answers", |seen| seen.info.is_some());
        seen.info.unwrap()
    }

    /// Both sides' figures come to agree.
    fn judge(&self, run: &Run) {
        let mut said = (KernelInfo::default(), TcpInfo::default(), Vec::new());
        let agree = || {
            let (ours, theirs) = (self.info(run), KernelInfo::of(&run.stream));
            let mut wrong = Vec::new();
            settled_alike(&theirs, &ours, &mut wrong);
            let exchange = Exchange {
                up: self.up,
                down: self.down,
                kernel_opened: self.kernel_opens,
                lost: self
                    .is_cut()
                    .then(|| self.lost(*run.faults.lock().unwrap())),
            };
            counted_alike(&theirs, &ours, &exchange, &mut wrong);
            said = (theirs, ours, wrong);
            said.2.is_empty()
        };
        if !eventually(agree) {
            let (theirs, ours, wrong) = said;
            panic!("{wrong:#?}\n{theirs:?}\n{ours:?}");
        }
        let (theirs, ours, _) = said;
        if self.mark_every > 0 {
            let heard = run.board.seen().ecn_reductions;
            assert!(self.up == 0 || heard > 0, "we never slowed down");
            assert!(
                self.down == 0 || theirs.delivered_ce > 0,
                "the kernel has heard nothing"
            );
        }
        eprintln!(
            "          RTT {} us (kernel), {} us (ours); smallest {} us, {} us",
            theirs.rtt, ours.tcpi_rtt, theirs.min_rtt, ours.tcpi_min_rtt
        );
        self.judge_repetitions(run, &ours);
        if self.ss {
            ss_agrees(&ours, self.up);
        }
    }

    /// What the kernel says to have got twice was sent twice.
    fn judge_repetitions(&self, run: &Run, ours: &TcpInfo) {
        let told = counter("TcpExt", "TCPDSACKOldSent") + counter("TcpExt", "TCPDSACKOfoSent");
        let (out, _) = *run.faults.lock().unwrap();
        // Where SYNs cross, the SYN of the answer is a repetition.
        let crossed = u64::from(self.both_open);
        let sent = u64::from(ours.tcpi_total_retrans) + out.duplicated + crossed;
        assert!(told <= sent, "{told} D-SACKs for {sent} repetitions");
    }

    /// Segments cross one in a frame.
    fn is_cut(&self) -> bool {
        !matches!(self.link, Link::TapOffload | Link::TunOffload)
    }

    /// What became of segments, by the faults and by the kernel's queue, which is short.
    fn lost(&self, (out, into): (FaultStats, FaultStats)) -> (Lost, Lost) {
        let lost = |stats: FaultStats, faults: &Faults| Lost {
            missing: stats.dropped,
            unsure: stats.corrupted,
            doubled: stats.duplicated,
            data_only: faults.rates.is_empty() || faults.min_len >= 1000,
        };
        let (out, mut into) = (lost(out, &self.out), lost(into, &self.into));
        into.unsure += dropped_frames();
        (out, into)
    }

    /// The kernel closes its socket, and we are to see that.
    fn finish_after(self, run: Run, why: CloseReason) -> Faulted {
        drop(run.stream);
        let seen = run
            .board
            .await_seen("it is told of the end", |seen| seen.closed.is_some());
        assert_eq!(seen.closed, Some(why));
        self.finish(run.driver)
    }

    /// When the kernel's close has come back, everything is here.
    fn finish_after_linger(self, run: Run) -> Faulted {
        drop(run.stream);
        self.all_here(&run.board, |seen| seen.peer_closed);
        self.finish(run.driver)
    }

    /// Stop our side, and look at what the kernel has counted.
    fn finish(self, driver: PollHandle<Transfer, LiveTcp, Wire>) -> Faulted {
        let ended = driver.stop();
        ended.outcome.unwrap();
        let stats = *ended.interface.stats();
        let (out, into) = ended.device.device.fault_stats();
        let counters = counters();
        let count = |name: &str| {
            let mut all = counters.iter();
            all.find(|(known, _)| known == name).map_or(0, |c| c.1)
        };
        let seen: Vec<_> = counters
            .iter()
            .filter(|(name, n)| *n > 0 && name.starts_with("Tcp"))
            .collect();
        if std::env::var("SHOW").is_ok() {
            eprintln!("{seen:?} {stats:?} {out:?} {into:?}");
        }
        let never: Vec<_> = NEVER.iter().filter(|n| count(n) > 0).collect();
        assert!(never.is_empty(), "{never:?} in {seen:?}");
        if self.is_clean() {
            let wrong: Vec<_> = UNLESS_BROKEN.iter().filter(|n| count(n) > 0).collect();
            assert!(wrong.is_empty(), "{wrong:?} in {seen:?}");
            assert_eq!((stats.bad_checksum, stats.malformed), (0, 0), "{stats:?}");
        }
        // Linux counts a D-SACK for what the wire repeated as one that makes no sense.
        let senseless = count("TcpExtTCPSACKDiscard");
        assert!(
            senseless <= count("TcpExtTCPDSACKIgnoredDubious"),
            "{seen:?}"
        );
        let faults =
            |f: FaultStats| f.dropped + f.reordered + f.duplicated + f.corrupted + f.delayed;
        let ways = [(&self.out, faults(out)), (&self.into, faults(into))];
        let asked_for = |(of, came): (&Faults, u64)| came == 0 || !of.rates.is_empty();
        assert!(ways.into_iter().all(asked_for), "{out:?} {into:?}");
        // What the kernel found to be damaged is what was, and the same with us.
        if self.is_cut() && !self.ipv6 {
            let found = count("TcpInErrs") + count("IpInHdrErrors");
            assert_eq!(
                found, out.corrupted,
                "damaged on the way to the kernel: {seen:?}"
            );
            let found = stats.bad_checksum + stats.malformed;
            assert_eq!(found, into.corrupted, "damaged on the way to us: {stats:?}");
        }
        if self.both_open {
            let opened = ["TcpActiveOpens", "TcpPassiveOpens"].map(count);
            assert_eq!(opened, [1, 0], "{seen:?}");
            let crossed = Syns {
                alone: 1,
                acknowledging: 1,
            };
            assert_eq!(ended.device.syns, [crossed; 2], "SYNs out and in");
        }
        if self.mark_every > 0 && self.up > 0 {
            assert!(count("IpExtInCEPkts") > 0, "nothing was marked");
        }
        let is_missing = |(of, came): (&Faults, u64)| came == 0 && !of.rates.is_empty();
        match ways.into_iter().any(is_missing) {
            true => Faulted::Never,
            false => Faulted::AsSaid,
        }
    }
}

/// What no well-behaved peer gives the kernel a reason for, whatever is lost.
const NEVER: [&str; 29] = [
    "TcpAttemptFails",
    "TcpExtBeyondWindow",
    "TcpExtEmbryonicRsts",
    "TcpExtListenDrops",
    "TcpExtListenOverflows",
    "TcpExtOutOfWindowIcmps",
    "TcpExtPAWSActive",
    "TcpExtSyncookiesFailed",
    "TcpExtSyncookiesSent",
    "TcpExtTCPACKSkippedChallenge",
    "TcpExtTCPACKSkippedSynRecv",
    "TcpExtTCPAbortFailed",
    "TcpExtTCPAbortOnLinger",
    "TcpExtTCPAbortOnMemory",
    "TcpExtTCPAbortOnTimeout",
    "TcpExtTCPBacklogDrop",
    "TcpExtTCPChallengeACK",
    "TcpExtTCPFastOpenPassiveFail",
    "TcpExtTCPMD5Unexpected",
    "TcpExtTCPMinTTLDrop",
    "TcpExtTCPOFODrop",
    "TcpExtTCPRcvQDrop",
    "TcpExtTCPReqQFullDoCookies",
    "TcpExtTCPReqQFullDrop",
    "TcpExtTCPSACKReneging",
    "TcpExtTCPSYNChallenge",
    "TcpExtTCPTimeWaitOverflow",
    "TcpExtTCPZeroWindowDrop",
    "TcpExtTSEcrRejected",
];

/// What there is no reason for where nothing is lost, late or damaged.
const UNLESS_BROKEN: [&str; 9] = [
    "Ip6InAddrErrors",
    "IpInAddrErrors",
    "IpInHdrErrors",
    "IpInTruncatedPkts",
    "TcpExtPAWSEstab",
    "TcpExtTCPACKSkippedPAWS",
    "TcpExtTCPACKSkippedSeq",
    "TcpInCsumErrors",
    "TcpInErrs",
];

/// The program `ss` prints of the connection what we say of it.
fn ss_agrees(ours: &TcpInfo, up: u64) {
    let said = match Command::new("ss")
        .args(["-tinoH", "state", "established"])
        .output()
    {
        Ok(output) => String::from_utf8(output.stdout).unwrap(),
        Err(e) => {
            let ci = std::env::var("CI").is_ok_and(|v| v == "true");
            assert!(!ci, "there is no `ss` command: {e}");
            return eprintln!("SKIPPED, there is no `ss` command: {e}");
        }
    };
    let words: Vec<_> = said.split_whitespace().collect();
    let scales = (ours.tcpi_rcv_wscale, ours.tcpi_snd_wscale);
    for wanted in [
        format!("wscale:{},{}", scales.0, scales.1),
        format!("mss:{}", ours.tcpi_snd_mss),
        format!("advmss:{}", ours.tcpi_advmss),
        format!("pmtu:{}", ours.tcpi_pmtu),
        format!("bytes_received:{up}"),
        format!("segs_in:{}", ours.tcpi_segs_out),
        format!("data_segs_in:{}", ours.tcpi_data_segs_out),
    ] {
        assert!(words.contains(&wanted.as_str()), "no {wanted} in {said}");
    }
    for (word, bit) in [
        ("ts", TCPI_OPT_TIMESTAMPS),
        ("sack", TCPI_OPT_SACK),
        ("ecn", TCPI_OPT_ECN),
    ] {
        let used = ours.tcpi_options & bit != 0;
        assert_eq!(words.contains(&word), used, "{word} in {said}");
    }
}

/// Read and compare what we have sent, to the end or up to `limit` bytes; how much it was.
fn read(mut stream: &TcpStream, limit: u64) -> io::Result<u64> {
    let (mut at, mut buf) = (0, vec![0; 1 << 18]);
    while at < limit {
        let n = read_some(&mut stream, &mut buf)?;
        if n == 0 {
            break;
        }
        let wrong = UP.first_wrong(at, &buf[..n]);
        assert_eq!(wrong, None, "a wrong byte went up");
        at += n as u64;
    }
    Ok(at)
}

/// A socket of the kernel's that is connecting from `from` to `to`.
fn connecting(from: SocketAddr, to: SocketAddr) -> TcpStream {
    let sockaddr = |address: SocketAddr| {
        let mut bytes = [0_u8; 28];
        let port = address.port().to_be_bytes();
        bytes[2..4].copy_from_slice(&port);
        let (family, len) = match address {
            SocketAddr::V4(v4) => {
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                (libc::AF_INET, 16)
            }
            SocketAddr::V6(v6) => {
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                (libc::AF_INET6, 28)
            }
        };
        bytes[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
        (family, bytes, len)
    };
    let (family, from, len) = sockaddr(from);
    let (_, to, _) = sockaddr(to);
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is handed over.
    let fd = unsafe { libc::socket(family, kind, 0) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: just opened, and owned by nobody else.
    let socket = unsafe { TcpStream::from_raw_fd(fd) };
    // SAFETY: the bytes are a `sockaddr_in` or a `sockaddr_in6` of this length.
    let bound = unsafe { libc::bind(fd, from.as_ptr().cast(), len) };
    assert!(bound == 0, "{}", io::Error::last_os_error());
    // SAFETY: as above.
    let result = unsafe { libc::connect(fd, to.as_ptr().cast(), len) };
    let error = io::Error::last_os_error();
    assert_eq!(
        (result, error.raw_os_error()),
        (-1, Some(libc::EINPROGRESS))
    );
    socket
}

/// Wait until it is connected.
fn connected(socket: TcpStream) -> TcpStream {
    until("the kernel is connected", || {
        let error = socket.take_error().unwrap();
        assert!(error.is_none(), "{error:?}");
        socket.peer_addr().is_ok()
    });
    socket.set_nonblocking(false).unwrap();
    socket
}

fn set<T>(socket: &impl AsRawFd, option: libc::c_int, value: &T) {
    // SAFETY: the kernel reads as many bytes of `value` as it is told.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    assert!(result == 0, "{}", io::Error::last_os_error());
}

/// SO_LINGER.
pub fn linger(socket: &impl AsRawFd, seconds: u16) {
    let value = libc::linger {
        l_onoff: 1,
        l_linger: seconds.into(),
    };
    set(socket, libc::SO_LINGER, &value);
}

fn patience(socket: &impl AsRawFd, option: libc::c_int) {
    let value = libc::timeval {
        tv_sec: PATIENCE.as_secs() as libc::time_t,
        tv_usec: 0,
    };
    set(socket, option, &value);
}

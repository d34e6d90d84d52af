//! The tokio driver against the kernel's TCP over TAP and AF_XDP, each test in a network namespace of
//! its own.
#![cfg(feature = "tokio")]

use crate::cable;
use crate::judge::KernelInfo;
use crate::live::{data, pattern};
use crate::netns::{PATIENCE, add_address, counter, in_own_namespace};
use narrows::buffer::synthetic::check_pattern;
use narrows::config::{Keepalive, Lifetimes, TcpConfig};
use narrows::congestion::rto::presets;
use narrows::conn::info::TcpInfo;
use narrows::device::Device;
use narrows::device::fault::{Fault, Faults, Faulty};
use narrows::device::tap::{Tap, TapConfig};
use narrows::device::xdp::AttachMode;
use narrows::driver::tokio::{Stack, TcpListener, TcpSocket, TcpStream};
use narrows::interface::InterfaceConfig;
use narrows::recovery::dup_thresh::Sack6675;
use narrows::wire::ethernet::MacAddr;
use std::future::Future;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

fn run(test: impl Future<Output = ()>) {
    // One thread, this one: others would be in another namespace.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { timeout(PATIENCE, test).await.unwrap() });
}

fn tap() -> Tap {
    let tap = Tap::open("nw%d", &TapConfig::default()).unwrap();
    add_address(tap.name(), "10.77.0.9".parse().unwrap(), 24);
    tap
}

fn interface() -> InterfaceConfig {
    let addresses = vec!["10.77.0.1/24".parse().unwrap()];
    InterfaceConfig::new(MacAddr([2, 0x77, 0, 0, 0, 1]), addresses)
}

/// Send `total` bytes on `stream`, expect them back.
async fn echo(stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite, total: u64) {
    let (mut read, mut write) = tokio::io::split(stream);
    let sending = async {
        let mut at = 0;
        while at < total {
            let n = (total - at).min(100_000) as usize;
            write.write_all(&data(at, n)).await.unwrap();
            at += n as u64;
        }
        write.shutdown().await.unwrap();
    };
    let receiving = async {
        let (mut at, mut buf) = (0, vec![0; 1 << 16]);
        loop {
            let n = read.read(&mut buf).await.unwrap();
            if n == 0 {
                return at;
            }
            let right = buf[..n].iter().zip(at..).all(|(&b, i)| b == pattern(i));
            assert!(right, "wrong bytes after {at}");
            at += n as u64;
        }
    };
    let ((), got) = tokio::join!(sending, receiving);
    assert_eq!(got, total);
}

/// Ours and the kernel's behind the same functions: the names are tokio's.
fn streams_of_both_kinds_speak_to_each_other(device: impl Device + 'static) {
    run(async {
        let stack = Stack::spawn(device, interface(), TcpConfig::default()).unwrap();
        let ours = TcpListener::bind(&stack, "10.77.0.1:7").await.unwrap();
        let theirs = tokio::net::TcpListener::bind("10.77.0.9:7").await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = ours.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await.unwrap();
                    write.shutdown().await.unwrap();
                });
            }
        });
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = theirs.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await.unwrap();
                    write.shutdown().await.unwrap();
                });
            }
        });
        let kernels = tokio::net::TcpStream::connect("10.77.0.1:7").await.unwrap();
        echo(kernels, 32 << 20).await;
        let ours = TcpStream::connect(&stack, "10.77.0.9:7").await.unwrap();
        echo(ours, 32 << 20).await;
        let many: Vec<_> = (0..50)
            .map(|_| async {
                let stream = TcpStream::connect(&stack, "10.77.0.9:7").await.unwrap();
                echo(stream, 100_000).await;
            })
            .map(Box::pin)
            .collect();
        for one in many {
            one.await;
        }
        stack.shutdown(PATIENCE).await.unwrap();
    });
}

#[test]
fn over_tap() {
    in_own_namespace(|| streams_of_both_kinds_speak_to_each_other(tap()));
}

#[test]
fn over_af_xdp() {
    for mode in [AttachMode::Native, AttachMode::Skb] {
        in_own_namespace(move || {
            if cable::lay(1500, 1, false) {
                streams_of_both_kinds_speak_to_each_other(cable::open(mode));
            }
        });
    }
}

/// RFC 7413 with the kernel as client, and then as server: a first connection fetches the cookie,
/// and the data of the second one's SYN is taken.
#[test]
fn rfc7413_fast_open_both_ways() {
    in_own_namespace(|| {
        std::fs::write("/proc/sys/net/ipv4/tcp_fastopen", "3").unwrap();
        run(async {
            let stack = Stack::spawn(tap(), interface(), TcpConfig::default()).unwrap();
            let mut socket = TcpSocket::new_v4(&stack).unwrap();
            socket.bind("10.77.0.1:7".parse().unwrap()).unwrap();
            socket.set_fast_open_backlog(5);
            let ours = socket.listen(5).unwrap();
            for round in 0..2 {
                let at = "10.77.0.1:7".parse().unwrap();
                let kernel = tokio::task::spawn_blocking(move || open_by_writing(at, b"question"));
                let (mut stream, _) = ours.accept().await.unwrap();
                let mut got = [0; 8];
                stream.read_exact(&mut got).await.unwrap();
                assert_eq!(&got, b"question", "{round}");
                stream.write_all(b"answer").await.unwrap();
                let mut kernel = kernel.await.unwrap();
                let mut answer = [0; 6];
                std::io::Read::read_exact(&mut kernel, &mut answer).unwrap();
                assert_eq!(&answer, b"answer");
                let taken = counter("TcpExt", "TCPFastOpenActive");
                assert_eq!(taken, round, "by the kernel's count");
            }

            let theirs = tokio::net::TcpListener::bind("10.77.0.9:7").await.unwrap();
            set_tcp_option(&theirs, libc::TCP_FASTOPEN, 5);
            for round in 0..2 {
                let mut socket = TcpSocket::new_v4(&stack).unwrap();
                socket.set_fast_open(true);
                let at = "10.77.0.9:7".parse().unwrap();
                let mut stream = socket.connect(at).await.unwrap();
                stream.write_all(b"question").await.unwrap();
                let (mut kernel, _) = theirs.accept().await.unwrap();
                let mut got = [0; 8];
                kernel.read_exact(&mut got).await.unwrap();
                assert_eq!(&got, b"question");
                kernel.write_all(b"answer").await.unwrap();
                let mut answer = [0; 6];
                stream.read_exact(&mut answer).await.unwrap();
                assert_eq!(&answer, b"answer");
                let taken = counter("TcpExt", "TCPFastOpenPassive");
                assert_eq!(taken, round, "by the kernel's count");
            }
            stack.shutdown(PATIENCE).await.unwrap();
        });
    });
}

fn set_tcp_option(socket: &impl AsRawFd, option: libc::c_int, value: libc::c_int) {
    // SAFETY: the value outlives the call, and its length is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// A connection of the kernel's whose SYN carries `data` if it can.
fn open_by_writing(to: std::net::SocketAddrV4, data: &[u8]) -> std::net::TcpStream {
    use std::os::fd::FromRawFd;
    let addr = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: to.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from(*to.ip()).to_be(),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: the descriptor is new and its only owner is the stream; data and address outlive the
    // call, and their lengths are given.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        let stream = std::net::TcpStream::from_raw_fd(fd);
        let sent = libc::sendto(
            fd,
            data.as_ptr().cast(),
            data.len(),
            libc::MSG_FASTOPEN,
            (&raw const addr).cast(),
            size_of_val(&addr) as libc::socklen_t,
        );
        assert_eq!(
            sent,
            data.len() as isize,
            "{}",
            std::io::Error::last_os_error()
        );
        stream
    }
}

/// Opened, used and closed, many at once, by us and by the kernel in turn.
#[test]
fn ten_thousand_connections() {
    in_own_namespace(|| {
        run(async {
            let tcp = TcpConfig {
                lifetimes: Lifetimes {
                    time_wait: narrows::Duration::from_millis(1),
                    ..Lifetimes::default()
                },
                ..TcpConfig::default()
            };
            let stack = Stack::spawn(tap(), interface(), tcp).unwrap();
            let ours = TcpListener::bind(&stack, "10.77.0.1:7").await.unwrap();
            let theirs = tokio::net::TcpSocket::new_v4().unwrap();
            theirs.bind("10.77.0.9:7".parse().unwrap()).unwrap();
            let theirs = theirs.listen(1024).unwrap();
            tokio::spawn(async move {
                loop {
                    let (mut stream, _) = ours.accept().await.unwrap();
                    tokio::spawn(async move {
                        let (mut read, mut write) = stream.split();
                        tokio::io::copy(&mut read, &mut write).await.unwrap();
                    });
                }
            });
            tokio::spawn(async move {
                loop {
                    let (mut stream, _) = theirs.accept().await.unwrap();
                    tokio::spawn(async move {
                        let (mut read, mut write) = stream.split();
                        tokio::io::copy(&mut read, &mut write).await.unwrap();
                    });
                }
            });
            let places = Arc::new(tokio::sync::Semaphore::new(400));
            let mut tasks = tokio::task::JoinSet::new();
            for n in 0..10_000_u64 {
                let place = places.clone().acquire_owned().await.unwrap();
                let stack = stack.clone();
                tasks.spawn(async move {
                    if n % 2 == 0 {
                        echo(
                            TcpStream::connect(&stack, "10.77.0.9:7").await.unwrap(),
                            100,
                        )
                        .await;
                    } else {
                        let stream = tokio::net::TcpStream::connect("10.77.0.1:7").await;
                        echo(stream.unwrap(), 100).await;
                    }
                    drop(place);
                });
                // Those that have ended make room.
                while let Some(done) = tasks.try_join_next() {
                    done.unwrap();
                }
            }
            tasks.join_all().await;
            stack.shutdown(PATIENCE).await.unwrap();
            let stats = stack.stats();
            assert_eq!(stats.endpoint.active_opens, 5_000);
            assert_eq!(stats.endpoint.passive_opens, 5_000);
            // A SYN or SYN-ACK sent again, because a queue overflowed, is answered so once the
            // other side is past it.
            let repeated = ["TCPSynRetrans", "TCPTimeouts", "TCPLossProbes"]
                .map(|name| counter("TcpExt", name))
                .iter()
                .sum();
            let challenges = counter("TcpExt", "TCPChallengeACK");
            assert!(challenges <= repeated, "{challenges} > {repeated}");
        });
    });
}

/// Write until there is no room for long, though nobody has read, and the window is shut; how much
/// it was.
async fn fill(
    is_shut: impl Fn() -> bool,
    try_write: impl Fn(&[u8]) -> std::io::Result<usize>,
    writable: impl AsyncFn() -> std::io::Result<()>,
) -> u64 {
    let mut at = 0;
    while at < TOTAL {
        match try_write(&data(at, 100_000)) {
            Ok(n) => at += n as u64,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::WouldBlock);
                let room = timeout(Duration::from_millis(200), writable()).await;
                match room {
                    Ok(room) => room.unwrap(),
                    Err(_) if is_shut() => return at,
                    // The machine has something else to do.
                    Err(_) => {}
                }
            }
        }
    }
    panic!("nobody holds the writer back");
}

/// Write the rest, from `at` on, while the other side reads at last.
async fn empty(
    mut write: impl tokio::io::AsyncWrite + Unpin,
    mut read: impl tokio::io::AsyncRead + Unpin,
    mut at: u64,
) {
    let writing = async {
        while at < TOTAL {
            let n = (TOTAL - at).min(100_000) as usize;
            write.write_all(&data(at, n)).await.unwrap();
            at += n as u64;
        }
        write.shutdown().await.unwrap();
    };
    let reading = async {
        let (mut at, mut buf) = (0, vec![0; 1 << 16]);
        loop {
            let n = read.read(&mut buf).await.unwrap();
            if n == 0 {
                break;
            }
            assert_eq!(check_pattern(at, &buf[..n]), None);
            at += n as u64;
        }
        assert_eq!(at, TOTAL);
    };
    tokio::join!(writing, reading);
}

/// More than all buffers hold.
const TOTAL: u64 = 32 << 20;

/// Whoever does not read holds the writer back by closing its window, and loses nothing.
#[test]
fn a_slow_reader_on_either_side() {
    in_own_namespace(|| {
        run(async {
            let stack = Stack::spawn(tap(), interface(), TcpConfig::default()).unwrap();
            let listener = TcpListener::bind(&stack, "10.77.0.1:7").await.unwrap();
            let (theirs, ours) = tokio::join!(
                tokio::net::TcpStream::connect("10.77.0.1:7"),
                listener.accept()
            );
            let (mut theirs, (mut ours, _)) = (theirs.unwrap(), ours.unwrap());
            let at = fill(
                || ours.info().unwrap().tcpi_snd_wnd < 100_000,
                |bytes| ours.try_write(bytes),
                async || ours.writable().await,
            )
            .await;
            empty(&mut ours, &mut theirs, at).await;
            let at = fill(
                || KernelInfo::of(&theirs).snd_wnd < 100_000,
                |bytes| theirs.try_write(bytes),
                async || theirs.writable().await,
            )
            .await;
            empty(&mut theirs, &mut ours, at).await;
            assert_eq!(counter("TcpExt", "TCPZeroWindowDrop"), 0);
            assert_eq!(counter("TcpExt", "BeyondWindow"), 0);
        });
    });
}

/// The host behind an open connection is there no more: its address is another's.
#[test]
fn a_peer_that_vanishes() {
    in_own_namespace(|| {
        run(async {
            let tap = tap();
            let name = tap.name().to_owned();
            let stack = Stack::spawn(tap, interface(), TcpConfig::default()).unwrap();
            let listener = tokio::net::TcpListener::bind("10.77.0.9:7").await.unwrap();
            let mut socket = TcpSocket::new_v4(&stack).unwrap();
            // The handshake has no more.
            socket.config_mut().lifetimes.user_timeout = Some(narrows::Duration::from_secs(3));
            let mut busy = socket
                .connect("10.77.0.9:7".parse().unwrap())
                .await
                .unwrap();
            let idle = TcpStream::connect(&stack, "10.77.0.9:7").await.unwrap();
            let theirs = (
                listener.accept().await.unwrap(),
                listener.accept().await.unwrap(),
            );
            add_address(&name, "10.77.0.8".parse().unwrap(), 24);
            // What is sent is not acknowledged for too long ...
            busy.write_all(b"anyone?").await.unwrap();
            let error = busy.read(&mut [0]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            // ... and probes of an idle connection are not answered.
            let keepalive = Keepalive {
                idle: narrows::Duration::from_millis(50),
                interval: narrows::Duration::from_millis(50),
                probes: 3,
            };
            idle.set_keepalive(Some(keepalive)).unwrap();
            let error = idle.peek(&mut [0]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            drop(theirs);
        });
    });
}

/// The peer has lost its memory: its kernel knows nothing of the connection.
#[test]
fn a_peer_that_has_forgotten() {
    in_own_namespace(|| {
        run(async {
            let stack = Stack::spawn(tap(), interface(), TcpConfig::default()).unwrap();
            let listener = tokio::net::TcpListener::bind("10.77.0.9:7").await.unwrap();
            let mut ours = TcpStream::connect(&stack, "10.77.0.9:7").await.unwrap();
            let (theirs, _) = listener.accept().await.unwrap();
            // A socket in repair mode is closed without a word.
            let on: libc::c_int = 1;
            // SAFETY: the kernel reads the int.
            let result = unsafe {
                libc::setsockopt(
                    theirs.as_raw_fd(),
                    libc::IPPROTO_TCP,
                    libc::TCP_REPAIR,
                    (&raw const on).cast(),
                    size_of_val(&on) as libc::socklen_t,
                )
            };
            assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
            drop(theirs);
            ours.write_all(b"remember me?").await.unwrap();
            let error = ours.read(&mut [0]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        });
    });
}

/// The device goes away: whoever waits for anything is told, and nothing hangs.
#[test]
fn a_removed_interface_ends_the_stack() {
    in_own_namespace(|| {
        run(async {
            let tap = tap();
            let name = tap.name().to_owned();
            let stack = Stack::spawn(tap, interface(), TcpConfig::default()).unwrap();
            let ours = TcpListener::bind(&stack, "10.77.0.1:7").await.unwrap();
            let theirs = tokio::net::TcpListener::bind("10.77.0.9:7").await.unwrap();
            let mut stream = TcpStream::connect(&stack, "10.77.0.9:7").await.unwrap();
            let _peer = theirs.accept().await.unwrap();
            let reading = tokio::spawn(async move { stream.read(&mut [0]).await });
            let accepting = tokio::spawn(async move { ours.accept().await.map(drop) });
            tokio::task::yield_now().await;
            cable::ip(&format!("link del {name}"));
            let read = reading.await.unwrap().unwrap_err();
            assert!(read.to_string().contains("gone"), "{read}");
            let accepted = accepting.await.unwrap().unwrap_err();
            assert!(accepted.to_string().contains("gone"), "{accepted}");
            assert!(TcpStream::connect(&stack, "10.77.0.9:7").await.is_err());
            assert!(stack.shutdown(PATIENCE).await.is_err());
        });
    });
}

/// The time to live of what we send is what the kernel sees.
#[test]
fn time_to_live() {
    in_own_namespace(|| {
        run(async {
            let stack = Stack::spawn(tap(), interface(), TcpConfig::default()).unwrap();
            let listener = tokio::net::TcpListener::bind("10.77.0.9:7").await.unwrap();
            let mut ours = TcpStream::connect(&stack, "10.77.0.9:7").await.unwrap();
            let (mut theirs, _) = listener.accept().await.unwrap();
            drop_below(&theirs, 100);
            assert_eq!(ours.ttl().unwrap(), 64);
            assert_eq!(ours.set_ttl(0).unwrap_err().kind(), ErrorKind::InvalidInput);
            assert_eq!(
                ours.set_ttl(256).unwrap_err().kind(),
                ErrorKind::InvalidInput
            );
            ours.write_all(b"near").await.unwrap();
            ours.set_ttl(100).unwrap();
            ours.write_all(b"far ").await.unwrap();
            theirs.read_exact(&mut [0; 8]).await.unwrap();
            assert!(counter("TcpExt", "TCPMinTTLDrop") > 0);
            assert_eq!(ours.ttl().unwrap(), 100);
        });
    });
}

/// Connections have the time to live of their listener, from their first answer on.
#[test]
fn time_to_live_of_a_listener() {
    in_own_namespace(|| {
        run(async {
            let stack = Stack::spawn(tap(), interface(), TcpConfig::default()).unwrap();
            let listener = TcpListener::bind(&stack, "10.77.0.1:7").await.unwrap();
            assert_eq!(listener.ttl().unwrap(), 64);
            for wrong in [0, 256, u32::MAX] {
                let kind = listener.set_ttl(wrong).unwrap_err().kind();
                assert_eq!(kind, ErrorKind::InvalidInput);
            }
            listener.set_ttl(100).unwrap();
            assert_eq!(listener.ttl().unwrap(), 100);
            let theirs = tokio::net::TcpSocket::new_v4().unwrap();
            drop_below(&theirs, 100);
            let at = "10.77.0.1:7".parse().unwrap();
            let (theirs, ours) = tokio::join!(theirs.connect(at), listener.accept());
            let (mut theirs, (mut ours, _)) = (theirs.unwrap(), ours.unwrap());
            assert_eq!(ours.ttl().unwrap(), 100);
            ours.write_all(b"far").await.unwrap();
            theirs.read_exact(&mut [0; 3]).await.unwrap();
            assert_eq!(counter("TcpExt", "TCPMinTTLDrop"), 0);
            // Those that are open already keep theirs.
            listener.set_ttl(64).unwrap();
            assert_eq!(ours.ttl().unwrap(), 100);
        });
    });
}

/// What has a smaller time to live is dropped by the socket.
fn drop_below(socket: &impl AsRawFd, at_least: libc::c_int) {
    // SAFETY: the kernel reads the int.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            IP_MINTTL,
            (&raw const at_least).cast(),
            size_of_val(&at_least) as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Not in `libc`.
const IP_MINTTL: libc::c_int = 21;

/// A connection whose own timers come too late to matter, and the kernel's end of it.
async fn patient(stack: &Stack, listener: &tokio::net::TcpListener) -> Both {
    let mut socket = TcpSocket::new_v4(stack).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_rto(|| presets::floor(narrows::Duration::from_secs(50)));
    socket.set_detector(Sack6675::new);
    let at = "10.77.0.9:7".parse().unwrap();
    let (ours, theirs) = tokio::join!(socket.connect(at), listener.accept());
    (ours.unwrap(), theirs.unwrap().0)
}

type Both = (TcpStream, tokio::net::TcpStream);

/// The kernel counts the segments that bring `total` bytes.
async fn segments_of(theirs: &mut tokio::net::TcpStream, total: usize) -> u32 {
    let mut got = vec![0; total];
    theirs.read_exact(&mut got).await.unwrap();
    assert!(got == data(0, total), "wrong bytes");
    KernelInfo::of(theirs).data_segs_in
}

/// `TCP_CORK` and `MSG_MORE` (Linux's tcp(7), send(2)): pieces of 100 bytes, each of which would
/// leave as it is written, make full segments.
#[test]
fn what_is_corked_or_has_more_to_come_makes_full_segments() {
    in_own_namespace(|| {
        run(async {
            let stack = Stack::spawn(tap(), interface(), TcpConfig::default()).unwrap();
            let listener = tokio::net::TcpListener::bind("10.77.0.9:7").await.unwrap();
            let sent = data(0, 3_000);
            let pieces = || sent.chunks(100);

            let (ours, mut theirs) = patient(&stack, &listener).await;
            for piece in pieces() {
                assert_eq!(ours.try_write(piece).unwrap(), 100);
            }
            assert_eq!(segments_of(&mut theirs, 3_000).await, 30, "plain");

            let (ours, mut theirs) = patient(&stack, &listener).await;
            ours.set_cork(true).unwrap();
            assert!(ours.cork().unwrap());
            for piece in pieces() {
                assert_eq!(ours.try_write(piece).unwrap(), 100);
            }
            // Two are full, and the rest waits, though all else is acknowledged.
            let full = 2 * usize::try_from(KernelInfo::of(&theirs).rcv_mss).unwrap();
            assert_eq!(full, 2 * 1_448);
            assert_eq!(segments_of(&mut theirs, full).await, 2, "corked");
            while ours.info().unwrap().tcpi_unacked > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(ours.info().unwrap().tcpi_notsent_bytes, 3_000 - full as u64);
            ours.set_cork(false).unwrap();
            assert!(!ours.cork().unwrap());
            theirs.read_exact(&mut vec![0; 3_000 - full]).await.unwrap();
            assert_eq!(KernelInfo::of(&theirs).data_segs_in, 3, "corked");

            // An acknowledgement would let it go: nothing is full before the last piece.
            let (ours, mut theirs) = patient(&stack, &listener).await;
            let (_, mut half) = ours.into_split();
            for piece in pieces().take(7) {
                assert_eq!(half.write_more(piece).await.unwrap(), 100);
            }
            for piece in pieces().skip(7).take(6) {
                assert_eq!(half.try_write_more(piece).unwrap(), 100);
            }
            half.write_all(&sent[1_300..1_400]).await.unwrap();
            assert_eq!(segments_of(&mut theirs, 1_400).await, 1, "more");
        });
    });
}

/// `TCP_NOTSENT_LOWAT` (Linux's tcp(7)): with a peer that reads nothing, no more is taken than its
/// window and the mark; without, the send buffer is the limit.
#[test]
fn unsent_data_stays_below_its_mark() {
    const MARK: u64 = 20_000;
    in_own_namespace(|| {
        run(async {
            let stack = Stack::spawn(tap(), interface(), TcpConfig::default()).unwrap();
            let listener = tokio::net::TcpListener::bind("10.77.0.9:7").await.unwrap();
            let mut socket = TcpSocket::new_v4(&stack).unwrap();
            socket.set_notsent_lowat(Some(MARK as u32)).unwrap();
            let at = "10.77.0.9:7".parse().unwrap();
            let (ours, theirs) = tokio::join!(socket.connect(at), listener.accept());
            let (ours, mut theirs) = (ours.unwrap(), theirs.unwrap().0);
            assert_eq!(ours.notsent_lowat().unwrap(), Some(MARK as u32));

            let unsent = || ours.info().unwrap().tcpi_notsent_bytes;
            let mut at = 0;
            // Until it has taken nothing since the peer's window closed.
            let mut closed_at = None;
            while closed_at != Some(at) {
                let closed = ours.info().unwrap().tcpi_snd_wnd == 0;
                closed_at = closed.then_some(at);
                while let Ok(n) = ours.try_write(&data(at, 3_000)) {
                    at += n as u64;
                    // A whole segment is taken where less would do.
                    assert!(unsent() < MARK + 1_448, "{}", unsent());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert!(unsent() > MARK - 3_000, "{}", unsent());

            // More room at once, as far as the send buffer goes.
            ours.set_notsent_lowat(None).unwrap();
            assert_eq!(ours.notsent_lowat().unwrap(), None);
            ours.writable().await.unwrap();
            while let Ok(n) = ours.try_write(&data(at, 3_000)) {
                at += n as u64;
            }
            assert!(unsent() > 10 * MARK, "{}", unsent());

            // The mark lies below what is unsent now: writable again when half of it is left.
            ours.set_notsent_lowat(Some(MARK as u32)).unwrap();
            let wait = async {
                ours.writable().await.unwrap();
                assert!(unsent() < MARK / 2, "{}", unsent());
            };
            let read = async {
                let mut got = vec![0; at as usize];
                theirs.read_exact(&mut got).await.unwrap();
                assert!(got == data(0, at as usize), "wrong bytes");
            };
            tokio::join!(wait, read);
        });
    });
}

/// Nobody is behind that address: the neighbour does not answer.
#[test]
fn no_listener_and_no_neighbour() {
    in_own_namespace(|| {
        run(async {
            let stack = Stack::spawn(tap(), interface(), TcpConfig::default()).unwrap();
            let refused = TcpStream::connect(&stack, "10.77.0.9:81").await;
            let kind = refused.unwrap_err().kind();
            assert_eq!(kind, std::io::ErrorKind::ConnectionRefused);
            // It is asked for three times, a second apart.
            let silent = TcpStream::connect(&stack, "10.77.0.8:81").await;
            let kind = silent.unwrap_err().kind();
            assert_eq!(kind, std::io::ErrorKind::HostUnreachable);
            let nowhere = TcpStream::connect(&stack, "1.1.1.1:81").await;
            let kind = nowhere.unwrap_err().kind();
            assert_eq!(kind, std::io::ErrorKind::NetworkUnreachable);
        });
    });
}

/// The last segment of a request is lost, and nothing but the timeout can find it: the longest that
/// the kernel waited for a request, and what the timeout was before it came.
async fn lost_tail(rto: impl narrows::congestion::RtoFactory + 'static) -> (Duration, TcpInfo) {
    // ARP, SYN and the ACK are short; ten requests, and the eleventh is lost.
    let faults = Faults {
        script: vec![(10, Fault::Drop)],
        min_len: 150,
        ..Faults::default()
    };
    let tap = Faulty::new(tap(), 1, faults, Faults::default());
    let stack = Stack::spawn(tap, interface(), TcpConfig::default()).unwrap();
    let listener = tokio::net::TcpListener::bind("10.77.0.9:7").await.unwrap();
    let mut socket = TcpSocket::new_v4(&stack).unwrap();
    socket.set_rto(rto);
    socket.set_detector(Sack6675::new);
    let mut stream = socket
        .connect("10.77.0.9:7".parse().unwrap())
        .await
        .unwrap();
    let (mut peer, _) = listener.accept().await.unwrap();
    let mut longest = Duration::ZERO;
    let mut info = stream.info().unwrap();
    for _ in 0..11 {
        let before = stack.clock().now();
        stream.write_all(&[1; 200]).await.unwrap();
        peer.read_exact(&mut [0; 200]).await.unwrap();
        peer.write_all(&[2; 100]).await.unwrap();
        stream.read_exact(&mut [0; 100]).await.unwrap();
        longest = longest.max(stack.clock().now().since(before).into());
        let after = stream.info().unwrap();
        if after.tcpi_total_rto == 0 {
            info = after;
        }
    }
    // More than one where the machine was so busy that others went off for nothing.
    assert!(stream.info().unwrap().tcpi_total_rto >= 1);
    (longest, info)
}

/// What is waited for is the timeout; how long that takes on a busy machine is not asserted.
#[test]
fn a_fine_timeout_recovers_a_lost_tail_long_before_200_ms() {
    in_own_namespace(|| {
        run(async {
            let (floor, info) = lost_tail(presets::floor_200ms).await;
            assert!(floor >= Duration::from_millis(200), "{floor:?}");
            assert!(info.tcpi_rto >= 200_000, "{info:?}");
        });
    });
    in_own_namespace(|| {
        run(async {
            // Less than 3 ms on an idle machine.
            let (fine, info) = lost_tail(presets::fine).await;
            eprintln!("recovered after {fine:?}");
            let measured = info.tcpi_rtt + 4 * info.tcpi_rttvar;
            assert!(info.tcpi_rto < 200_000.max(2 * measured), "{info:?}");
        });
    });
}

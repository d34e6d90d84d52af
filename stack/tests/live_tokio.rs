//! The tokio driver against the kernel's TCP over TAP, in a network namespace of its own.
#![cfg(feature = "tokio")]

mod live;
#[path = "live/netns.rs"]
mod netns;

use live::{data, pattern};
use narrows::config::TcpConfig;
use narrows::congestion::rto::presets;
use narrows::device::fault::{Fault, Faults, Faulty};
use narrows::device::tap::{Tap, TapConfig};
use narrows::driver::tokio::{Stack, TcpListener, TcpSocket, TcpStream};
use narrows::interface::InterfaceConfig;
use narrows::recovery::dup_thresh::Sack6675;
use narrows::wire::ethernet::MacAddr;
use netns::{add_address, in_own_namespace};
use std::future::Future;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(30);

fn run(test: impl Future<Output = ()>) {
    // One thread, this one: others would be in another namespace.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { timeout(LONG, test).await.unwrap() });
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
#[test]
fn streams_of_both_kinds_speak_to_each_other() {
    in_own_namespace(|| {
        run(async {
            let stack = Stack::spawn(tap(), interface(), TcpConfig::default()).unwrap();
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
            stack.shutdown(Duration::from_secs(5)).await.unwrap();
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

/// How long the kernel waits for the last segment of a request whose first transmission is lost.
async fn lost_tail(rto: impl narrows::congestion::RtoFactory + 'static) -> Duration {
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
    // Nothing but the timeout can find it.
    socket.set_detector(Sack6675::new);
    let mut stream = socket
        .connect("10.77.0.9:7".parse().unwrap())
        .await
        .unwrap();
    let (mut peer, _) = listener.accept().await.unwrap();
    let mut took = Duration::ZERO;
    for _ in 0..11 {
        let before = stack.clock().now();
        stream.write_all(&[1; 200]).await.unwrap();
        peer.read_exact(&mut [0; 200]).await.unwrap();
        peer.write_all(&[2; 100]).await.unwrap();
        stream.read_exact(&mut [0; 100]).await.unwrap();
        took = stack.clock().now().since(before).into();
    }
    assert_eq!(stream.info().unwrap().tcpi_total_rto, 1);
    took
}

#[test]
fn a_fine_timeout_recovers_a_lost_tail_long_before_200_ms() {
    in_own_namespace(|| {
        run(async {
            let floor = lost_tail(presets::floor_200ms).await;
            assert!(floor >= Duration::from_millis(200), "{floor:?}");
        });
    });
    in_own_namespace(|| {
        run(async {
            let fine = lost_tail(presets::fine).await;
            eprintln!("recovered after {fine:?}");
            // Less than 3 ms on an idle machine.
            assert!(fine < Duration::from_millis(200), "{fine:?}");
        });
    });
}

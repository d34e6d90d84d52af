//! The kernel's TCP as the other side. Every byte is compared.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

use super::live::{Client, Echo, data, host, pattern, read_some};
use super::netns::PATIENCE;
use narrows::config::TcpConfig;
use narrows::device::Device;
use narrows::driver::poll::{PollConfig, spawn};
use narrows::interface::InterfaceStats;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};

/// The kernel sends `total` bytes to `stream` and reads them back.
pub fn kernel_echoes(stream: TcpStream, total: u64) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let mut at = 0;
        while at < total {
            let n = (total - at).min(100_000) as usize;
            writer.write_all(&data(at, n)).unwrap();
            at += n as u64;
        }
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let (mut reader, mut at, mut buf) = (stream, 0, vec![0; 1 << 16]);
    loop {
        let n = read_some(&mut reader, &mut buf).unwrap();
        if n == 0 {
            break;
        }
        let right = buf[..n].iter().zip(at..).all(|(&b, i)| b == pattern(i));
        assert!(right, "wrong bytes after {at}");
        at += n as u64;
    }
    assert_eq!(at, total);
    sender.join().unwrap();
}

/// The kernel connects to our echo server.
pub fn kernel_to_us(device: impl Device + 'static, at: &str, total: u64) -> InterfaceStats {
    let server = host(1, TcpConfig::default(), device.capabilities());
    let server = spawn(PollConfig::default(), server, device, Echo::new(at)).unwrap();
    let at = at.parse().unwrap();
    let stream = TcpStream::connect_timeout(&at, PATIENCE).unwrap();
    kernel_echoes(stream, total);
    let ended = server.stop();
    ended.outcome.unwrap();
    assert_eq!(ended.app.accepted, 1);
    let stats = *ended.interface.stats();
    eprintln!("{stats:?}\n{:?}", ended.device.stats());
    stats
}

/// We connect to an echo server of the kernel.
pub fn us_to_kernel(device: impl Device + 'static, at: &str, total: u64) -> InterfaceStats {
    let listener = TcpListener::bind(at).unwrap();
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut buf, mut writer) = (vec![0; 1 << 16], stream.try_clone().unwrap());
        loop {
            let n = read_some(&mut stream, &mut buf).unwrap();
            if n == 0 {
                break;
            }
            writer.write_all(&buf[..n]).unwrap();
        }
    });
    let client = host(1, TcpConfig::default(), device.capabilities());
    let client = spawn(
        PollConfig::default(),
        client,
        device,
        Client::new(at, total),
    )
    .unwrap();
    let ended = client.join();
    ended.outcome.unwrap();
    assert_eq!(ended.app.outcome, Some(Ok(())));
    echo.join().unwrap();
    *ended.interface.stats()
}

//! The tokio driver over a loopback cable: streams and listeners behave as tokio's own.
#![cfg(feature = "tokio")]

use crate::live::{data, for_a_while, pattern, tries};
use narrows::Instant;
use narrows::buffer::Bytes;
use narrows::config::{Buffers, Keepalive, Lifetimes, TcpConfig};
use narrows::congestion::fixed::Fixed;
use narrows::congestion::flow::FlowStart;
use narrows::congestion::rto::presets;
use narrows::congestion::{dctcp::Dctcp, reno::Reno};
use narrows::device::fault::{Fault, Faults, Faulty};
use narrows::device::loopback::Loopback;
use narrows::device::rule::Ruled;
use narrows::device::{Device, DeviceStats, Refused};
use narrows::driver::tokio::{Stack, TcpListener, TcpSocket, TcpStream};
use narrows::driver::{Clock, LiveTcp};
use narrows::endpoint::EndpointConfig;
use narrows::interface::{Capabilities, Interface, InterfaceConfig, Medium, RxFrame, TxFrame};
use narrows::recovery::dup_thresh::Sack6675;
use narrows::trace::TraceEvent;
use narrows::wire::ethernet::MacAddr;
use std::collections::VecDeque;
use std::io::Write as _;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, Interest};
use tokio::time::timeout;

const PLAIN: Capabilities = Capabilities::plain(Medium::Ethernet, 1500);
const OFFLOAD: Capabilities = Capabilities::offload(Medium::Ethernet, 1500);
/// Longer than anything takes, on however busy a machine: only what hangs reaches it.
const LONG: Duration = Duration::from_secs(300);
const SERVER: &str = "10.77.0.2:7000";

fn config(n: u8) -> InterfaceConfig {
    let addresses = vec![
        format!("10.77.0.{n}/24").parse().unwrap(),
        format!("fd77::{n}/64").parse().unwrap(),
    ];
    InterfaceConfig::new(MacAddr([2, 0x77, 0, 0, 0, n]), addresses)
}

fn stacks_with(tcp: TcpConfig, capabilities: Capabilities) -> (Stack, Stack) {
    let (a, b) = Loopback::pair(capabilities, 1 << 20).unwrap();
    let client = Stack::spawn(a, config(1), tcp.clone()).unwrap();
    let server = Stack::spawn(b, config(2), tcp).unwrap();
    (client, server)
}

fn stacks() -> (Stack, Stack) {
    stacks_with(TcpConfig::default(), PLAIN)
}

async fn connected(client: &Stack, server: &Stack) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(server, "10.77.0.2:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (a, b) = tokio::join!(TcpStream::connect(client, at), listener.accept());
    (a.unwrap(), b.unwrap().0)
}

/// Echo everything of every connection.
fn echo_server(listener: TcpListener) {
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
        }
    });
}

/// Send `total` bytes and expect them back, at once.
async fn echo(stream: TcpStream, total: usize) {
    let (read, mut write) = stream.into_split();
    let writer = tokio::spawn(async move {
        let mut at = 0;
        while at < total {
            let n = (total - at).min(50_000);
            write.write_all(&data(at as u64, n)).await.unwrap();
            at += n;
        }
        // Dropping the half closes it.
    });
    expect_data(read, total).await;
    writer.await.unwrap();
}

async fn expect_data(mut read: impl AsyncRead + Unpin, total: usize) {
    let (mut got, mut buf) = (0, vec![0; 1 << 16]);
    loop {
        let n = read.read(&mut buf).await.unwrap();
        if n == 0 {
            break;
        }
        let right = buf[..n]
            .iter()
            .zip(got as u64..)
            .all(|(&b, at)| b == pattern(at));
        assert!(right, "wrong bytes after {got}");
        got += n;
    }
    assert_eq!(got, total);
}

async fn echo_over(client: Stack, server: Stack, to: &str, total: usize) {
    echo_server(TcpListener::bind(&server, to).await.unwrap());
    let stream = TcpStream::connect(&client, to).await.unwrap();
    timeout(LONG, echo(stream, total)).await.unwrap();
}

#[tokio::test]
async fn bytes_come_back_on_one_thread() {
    let (client, server) = stacks();
    echo_over(client, server, SERVER, 2_000_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_come_back_on_two_threads_with_super_frames() {
    let (client, server) = stacks_with(TcpConfig::default(), OFFLOAD);
    echo_over(client, server, "[fd77::2]:7000", 20_000_000).await;
}

#[tokio::test]
async fn faults_are_survived() {
    let faults = || Faults {
        rates: vec![(Fault::Drop, 10_000), (Fault::Reorder(3), 10_000)],
        ..Faults::default()
    };
    let (a, b) = Loopback::pair(PLAIN, 1 << 20).unwrap();
    let a = Faulty::new(a, 3, faults(), faults());
    let client = Stack::spawn(a, config(1), TcpConfig::default()).unwrap();
    let server = Stack::spawn(b, config(2), TcpConfig::default()).unwrap();
    echo_over(client, server, SERVER, 500_000).await;
}

/// A device whose other end is a host without a driver, which answers within the call: what it may
/// send is there at once.
struct Instantly {
    peer: Interface<LiveTcp>,
    queue: VecDeque<Vec<u8>>,
    /// One end has something to read, always.
    ends: (UnixStream, UnixStream),
}

impl Instantly {
    /// The peer connects to [`SERVER`] and sends `bytes`, without regard to congestion.
    fn sending(bytes: usize) -> Self {
        let tcp = TcpConfig {
            congestion: Arc::new(|start: &FlowStart| Fixed::segments(start, 1 << 20)),
            buffers: Buffers {
                send: bytes,
                ..Buffers::default()
            },
            ..TcpConfig::default()
        };
        let endpoint = EndpointConfig::new(Arc::new(tcp), [7; 16]);
        let mut peer = Interface::new(config(1), endpoint, PLAIN).unwrap();
        let at = SERVER.parse().unwrap();
        let now = Clock.now();
        let id = peer.connect(now, None, at, None).unwrap();
        let conn = peer.endpoint_mut().connection_mut(id).unwrap();
        assert_eq!(conn.send(data(0, bytes).as_slice(), bytes), Ok(bytes));
        let (mut a, b) = UnixStream::pair().unwrap();
        a.write_all(b"x").unwrap();
        Self {
            peer,
            queue: VecDeque::new(),
            ends: (b, a),
        }
    }

    fn collect(&mut self, now: Instant) {
        while let Some(frame) = self.peer.poll_frame(now) {
            let mut bytes = Vec::new();
            frame.append_to(&mut bytes);
            self.queue.push_back(bytes);
        }
    }
}

impl Device for Instantly {
    fn capabilities(&self) -> Capabilities {
        PLAIN
    }
    fn receive(
        &mut self,
        now: Instant,
        budget: usize,
        sink: &mut dyn FnMut(&RxFrame<'_>),
    ) -> std::io::Result<usize> {
        self.peer.handle_timeout(now);
        self.collect(now);
        let count = self.queue.len().min(budget);
        for frame in self.queue.drain(..count) {
            sink(&RxFrame::plain(&frame));
        }
        Ok(count)
    }
    fn transmit(&mut self, now: Instant, frame: &TxFrame<'_>) -> Result<(), Refused> {
        let mut bytes = Vec::new();
        frame.append_to(&mut bytes);
        self.peer.handle_frame(now, &RxFrame::plain(&bytes));
        self.collect(now);
        Ok(())
    }
    fn poll_timeout(&self) -> Option<Instant> {
        match self.queue.is_empty() {
            true => self.peer.poll_timeout(),
            false => Some(Instant::ZERO),
        }
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.ends.0.as_fd()
    }
    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
}

/// Who has been woken reads before more is received: a reader that keeps up never lets the window
/// fill, however much has arrived meanwhile.
#[tokio::test]
async fn a_reader_that_keeps_up_is_never_left_behind() {
    const TOTAL: usize = 20 << 20;
    const BATCH: usize = 64 * 1460;
    let server = Stack::spawn(
        Instantly::sending(TOTAL),
        config(2),
        TcpConfig {
            buffers: Buffers {
                recv: 4 << 20,
                ..Buffers::default()
            },
            ..TcpConfig::default()
        },
    )
    .unwrap();
    let listener = TcpListener::bind(&server, SERVER).await.unwrap();
    let (mut stream, _) = timeout(LONG, listener.accept()).await.unwrap().unwrap();
    let (mut total, mut most, mut buf) = (0, 0, vec![0; 8 << 20]);
    while total < TOTAL {
        let n = timeout(LONG, stream.read(&mut buf)).await.unwrap().unwrap();
        assert!(n > 0, "the end after {total}");
        total += n;
        most = most.max(n);
    }
    assert!(most <= 2 * BATCH, "{most} bytes waited");
}

/// The device has room for a few frames only: writers wait for it, and nobody is forgotten.
#[tokio::test]
async fn a_full_device_is_waited_for() {
    let (a, b) = Loopback::pair(PLAIN, 5_000).unwrap();
    let client = Stack::spawn(a, config(1), TcpConfig::default()).unwrap();
    let server = Stack::spawn(b, config(2), TcpConfig::default()).unwrap();
    echo_over(client.clone(), server, SERVER, 1_000_000).await;
    assert!(client.stats().interface.refused > 0);
}

/// Whichever frame is refused, once or several times, it is tried again without anything else
/// happening, though the device is writable all the time.
#[tokio::test]
async fn a_refused_frame_is_not_forgotten() {
    for (number, times) in (1..=6).flat_map(|number| [(number, 1), (number, 4)]) {
        // Without neighbours to ask for, which would wake the driver.
        let ip = Capabilities::plain(Medium::Ip, 1500);
        let (a, b) = Loopback::pair(ip, 1 << 20).unwrap();
        let a = Ruled::new(a, tries(number..number + times));
        // No timer of the TCP's that could help.
        let tcp = TcpConfig {
            rto: Arc::new(|| presets::floor(narrows::Duration::from_secs(60))),
            detector: Arc::new(Sack6675::new),
            ..TcpConfig::default()
        };
        let client = Stack::spawn(a, config(1), tcp).unwrap();
        let server = Stack::spawn(b, config(2), TcpConfig::default()).unwrap();
        // The drivers sleep, and nothing is under way that would wake them, each time.
        let calm = Duration::from_millis(80);
        tokio::time::sleep(calm).await;
        let (mut a, mut b) = timeout(LONG, connected(&client, &server)).await.unwrap();
        for _ in 0..4 {
            tokio::time::sleep(calm).await;
            a.write_all(b"ping").await.unwrap();
            let mut buf = [0; 4];
            let read = b.read_exact(&mut buf);
            timeout(LONG, read).await.unwrap().unwrap();
        }
        assert_eq!(client.stats().interface.refused, times);
        // Neither a timeout nor a probe has found it.
        assert_eq!(a.info().unwrap().tcpi_total_retrans, 0, "frame {number}");
    }
}

/// A device that refuses and is writable is tried again, neither never nor without a pause, and what
/// arrives meanwhile is taken.
#[tokio::test]
async fn a_refusing_device_is_tried_again_after_a_while() {
    let (a, b) = Loopback::pair(PLAIN, 1 << 20).unwrap();
    let a = Ruled::new(a, for_a_while(40, narrows::Duration::from_millis(300)));
    let client = Stack::spawn(a, config(1), TcpConfig::default()).unwrap();
    let server = Stack::spawn(b, config(2), TcpConfig::default()).unwrap();
    echo_over(client.clone(), server, SERVER, 1_000_000).await;
    let refused = client.stats().interface.refused;
    assert!((2..1_000).contains(&refused), "{refused}");
}

/// Nothing is tried again and again while there is no room.
#[tokio::test]
async fn a_full_device_is_waited_for_asleep() {
    let ip = Capabilities::plain(Medium::Ip, 1500);
    let (a, mut b) = Loopback::pair(ip, 5_000).unwrap();
    let client = Stack::spawn(a, config(1), TcpConfig::default()).unwrap();
    // The runtime has seen that the device has room, which then is not so any more.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let attempts: Vec<_> = (0..100)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { TcpStream::connect(&client, SERVER).await })
        })
        .collect();
    while client.stats().interface.refused == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let refused = client.stats().interface.refused;
    assert!(refused < 1_000, "{refused}");
    // Room again: the rest comes.
    let mut frames = 0;
    while frames < 100 {
        frames += b.receive(Instant::ZERO, 64, &mut |_| {}).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for attempt in attempts {
        attempt.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections() {
    let (client, server) = stacks_with(TcpConfig::default(), OFFLOAD);
    echo_server(TcpListener::bind(&server, SERVER).await.unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let client = client.clone();
        tasks.spawn(async move {
            let stream = TcpStream::connect(&client, SERVER).await.unwrap();
            timeout(LONG, echo(stream, 20_000)).await.unwrap();
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(client.stats().endpoint.active_opens, 200);
}

/// Opened, used and closed, many at once; none is left over but those that wait out old segments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_connections() {
    let tcp = TcpConfig {
        lifetimes: Lifetimes {
            time_wait: narrows::Duration::from_millis(1),
            ..Lifetimes::default()
        },
        ..TcpConfig::default()
    };
    let (client, server) = stacks_with(tcp, OFFLOAD);
    echo_server(TcpListener::bind(&server, SERVER).await.unwrap());
    let places = Arc::new(tokio::sync::Semaphore::new(1_000));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..10_000_u64 {
        let place = places.clone().acquire_owned().await.unwrap();
        let client = client.clone();
        tasks.spawn(async move {
            let mut stream = TcpStream::connect(&client, SERVER).await.unwrap();
            stream.write_all(&data(n, 100)).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut back = Vec::new();
            stream.read_to_end(&mut back).await.unwrap();
            assert!(back == data(n, 100), "connection {n}");
            drop(place);
        });
    }
    timeout(LONG, tasks.join_all()).await.unwrap();
    client.shutdown(LONG).await.unwrap();
    assert_eq!(client.stats().endpoint.active_opens, 10_000);
    assert_eq!(server.stats().endpoint.passive_opens, 10_000);
}

/// The user timeout ends a connection whose peer is not there any more.
#[tokio::test]
async fn a_peer_that_vanishes() {
    let (a, b) = Loopback::pair(PLAIN, 1 << 20).unwrap();
    let vanished = Faults {
        script: (20..10_000).map(|n| (n, Fault::Drop)).collect(),
        ..Faults::default()
    };
    let a = Faulty::new(a, 1, vanished, Faults::default());
    let client = Stack::spawn(a, config(1), TcpConfig::default()).unwrap();
    let server = Stack::spawn(b, config(2), TcpConfig::default()).unwrap();
    let listener = TcpListener::bind(&server, SERVER).await.unwrap();
    let mut socket = TcpSocket::new_v4(&client).unwrap();
    // The handshake has no more.
    socket.config_mut().lifetimes.user_timeout = Some(narrows::Duration::from_secs(3));
    let (stream, _peer) = tokio::join!(socket.connect(SERVER.parse().unwrap()), listener.accept());
    let mut stream = stream.unwrap();
    stream.write_all(&data(0, 200_000)).await.unwrap();
    let gone = timeout(LONG, stream.read(&mut [0; 1])).await.unwrap();
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::TimedOut);
}

// ---- What tokio's streams do.

#[tokio::test]
async fn peek_does_not_take() {
    let (client, server) = stacks();
    let (mut a, mut b) = connected(&client, &server).await;
    a.write_all(b"hello").await.unwrap();
    let mut buf = [0; 10];
    assert_eq!(b.peek(&mut buf[..3]).await.unwrap(), 3);
    assert_eq!(&buf[..3], b"hel");
    let mut five = [0; 5];
    b.read_exact(&mut five).await.unwrap();
    assert_eq!(&five, b"hello");
}

/// Operations that do not wait, and those made of them by the user.
#[tokio::test]
async fn what_cannot_be_done_at_once_would_block() {
    let (a, b) = stacks();
    let (mut a, b) = connected(&a, &b).await;
    let read = || {
        let (mut first, mut second) = ([0; 3], [0; 100]);
        let mut bufs = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        let n = b.try_read_vectored(&mut bufs)?;
        let all: Vec<_> = first.into_iter().chain(second).take(n).collect();
        std::io::Result::Ok(all)
    };
    let kind = |e: std::io::Error| e.kind();
    assert_eq!(read().map_err(kind), Err(ErrorKind::WouldBlock));
    let never = || -> std::io::Result<()> { panic!("it is not readable") };
    let refused = b.try_io(Interest::READABLE, never);
    assert_eq!(refused.map_err(kind), Err(ErrorKind::WouldBlock));
    let (got, ()) = tokio::join!(b.async_io(Interest::READABLE, read), async {
        a.write_all(b"several").await.unwrap();
    });
    assert_eq!(got.unwrap(), b"several");
    assert_eq!(b.try_io(Interest::WRITABLE, || Ok(1)).unwrap(), 1);
}

#[tokio::test]
async fn vectored_writes_keep_their_order() {
    let (client, server) = stacks();
    let (mut a, mut b) = connected(&client, &server).await;
    assert!(tokio::io::AsyncWrite::is_write_vectored(&a));
    let parts = [b"one ".as_slice(), b"", b"two ", b"three"].map(IoSlice::new);
    assert_eq!(a.write_vectored(&parts).await.unwrap(), 13);
    a.shutdown().await.unwrap();
    let mut text = String::new();
    b.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "one two three");
}

/// Chunks, shared and copied, and slices between them are one stream; a chunk that has to wait
/// waits as any write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_and_slices_are_one_stream() {
    let faults = || Faults {
        rates: vec![(Fault::Drop, 2_000), (Fault::Reorder(3), 2_000)],
        ..Faults::default()
    };
    let (a, b) = Loopback::pair(OFFLOAD, 1 << 20).unwrap();
    let client = Stack::spawn(
        Faulty::new(a, 5, faults(), faults()),
        config(1),
        TcpConfig::default(),
    );
    let server = Stack::spawn(b, config(2), TcpConfig::default());
    let (a, b) = connected(&client.unwrap(), &server.unwrap()).await;
    let lengths = [300, 500_000, 65_536, 65_535, 17, 200_000, 1 << 20];
    let total = 3 * lengths.iter().sum::<usize>();
    let reader = tokio::spawn(expect_data(b, total));
    let (_, mut write) = a.into_split();
    let mut at = 0;
    let (mut waited, mut shared) = (0, 0);
    for (i, len) in (0..).zip(lengths.repeat(3)) {
        let mut chunk = Bytes::from(data(at, len));
        at += len as u64;
        if i % 3 == 2 {
            timeout(LONG, write.write_all(&chunk))
                .await
                .unwrap()
                .unwrap();
            continue;
        }
        while !chunk.is_empty() {
            let before = chunk.len();
            let n = match write.try_write_chunk(&mut chunk) {
                Err(e) => {
                    assert_eq!((e.kind(), chunk.len()), (ErrorKind::WouldBlock, before));
                    waited += 1;
                    let written = write.write_chunk(&mut chunk);
                    timeout(LONG, written).await.unwrap().unwrap()
                }
                Ok(n) => n,
            };
            assert_eq!(n, before - chunk.len());
            shared += usize::from(n >= 65_536);
        }
    }
    assert_eq!(at as usize, total);
    // How many of each depends on when the reader runs.
    assert!(waited > 0 && shared > 0, "{waited} {shared}");
    drop(write);
    timeout(LONG, reader).await.unwrap().unwrap();
}

#[tokio::test]
async fn chunks_that_were_read_stay_as_they_are_while_others_arrive() {
    let (client, server) = stacks_with(TcpConfig::default(), OFFLOAD);
    let (a, b) = connected(&client, &server).await;
    let (read, _write) = b.into_split();
    let nothing = read.try_read_chunk(1).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    assert!(read.read_chunk(0).await.unwrap().is_empty());
    assert_eq!(read.read_chunks(&mut Vec::new(), 0).await.unwrap(), 0);
    let total = 5_000_000;
    let (_read, mut write) = a.into_split();
    let writer = tokio::spawn(async move {
        write.write_all(&data(0, total)).await.unwrap();
    });
    let mut chunks = Vec::new();
    let mut got = 0;
    loop {
        let before = chunks.len();
        let most = [usize::MAX, 10_000, 300_000][before % 3];
        let n = if most == 300_000 {
            let several = read.read_chunks(&mut chunks, most);
            timeout(LONG, several).await.unwrap().unwrap()
        } else {
            let chunk = timeout(LONG, read.read_chunk(most)).await.unwrap();
            let chunk = chunk.unwrap();
            let n = chunk.len();
            chunks.extend((n > 0).then_some(chunk));
            n
        };
        if n == 0 {
            break;
        }
        let new = chunks[before..].iter().map(|chunk| chunk.len());
        assert_eq!(new.sum::<usize>(), n);
        assert!(n <= most);
        got += n;
    }
    writer.await.unwrap();
    assert_eq!(got, total);
    let bytes = chunks.iter().flatten().zip(0..);
    let wrong = bytes.filter(|&(&byte, at)| byte != pattern(at)).count();
    assert_eq!(wrong, 0);
}

#[tokio::test]
async fn half_closed_streams_go_on_in_the_other_direction() {
    let (client, server) = stacks();
    let (mut a, mut b) = connected(&client, &server).await;
    a.shutdown().await.unwrap();
    let mut end = [0; 1];
    assert_eq!(b.read(&mut end).await.unwrap(), 0);
    b.write_all(b"still here").await.unwrap();
    let mut buf = [0; 10];
    a.read_exact(&mut buf).await.unwrap();
    assert_eq!(&buf, b"still here");
    let error = a.write(b"x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_slow_reader_holds_the_writer_back() {
    let (client, server) = stacks_with(TcpConfig::default(), OFFLOAD);
    let (mut a, mut b) = connected(&client, &server).await;
    let chunk = vec![7; 1 << 16];
    let mut written = 0;
    // Until it has taken nothing since the peer's window closed.
    let mut closed_at = None;
    while closed_at != Some(written) {
        let closed = a.info().unwrap().tcpi_snd_wnd == 0;
        closed_at = closed.then_some(written);
        loop {
            match a.try_write(&chunk) {
                Ok(n) => written += n,
                Err(e) => break assert_eq!(e.kind(), ErrorKind::WouldBlock),
            }
            assert!(written < 10 << 20, "nothing holds it back");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Two buffers full.
    assert!(written >= 1 << 20, "{written}");
    let reader = tokio::spawn(async move {
        let (mut total, mut buf) = (0, vec![0; 1 << 16]);
        loop {
            match b.read(&mut buf).await.unwrap() {
                0 => return total,
                n => total += n,
            }
        }
    });
    timeout(LONG, a.writable()).await.unwrap().unwrap();
    timeout(LONG, a.write_all(&chunk)).await.unwrap().unwrap();
    drop(a);
    let total = timeout(LONG, reader).await.unwrap().unwrap();
    assert_eq!(total, written + chunk.len());
}

#[tokio::test]
async fn errors_are_those_of_the_standard_library() {
    let (client, server) = stacks();
    let refused = TcpStream::connect(&client, SERVER).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let own = TcpListener::bind(&client, "10.99.0.1:80")
        .await
        .unwrap_err();
    assert_eq!(own.kind(), ErrorKind::AddrNotAvailable);
    let listener = TcpListener::bind(&server, SERVER).await.unwrap();
    let again = TcpListener::bind(&server, SERVER).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AddrInUse);
    drop(listener);
    TcpListener::bind(&server, SERVER).await.unwrap();

    let (mut a, b) = connected(&client, &server).await;
    b.set_linger(Some(Duration::ZERO)).unwrap();
    drop(b);
    let reset = a.read(&mut [0; 1]).await.unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    // Told once; then the stream is at its end.
    assert_eq!(a.read(&mut [0; 1]).await.unwrap(), 0);
    assert_eq!(
        a.write(b"x").await.unwrap_err().kind(),
        ErrorKind::BrokenPipe
    );
    assert!(a.take_error().unwrap().is_none());
}

/// The peer sends this, and nothing more.
async fn gets(stream: &mut TcpStream, sent: &[u8]) {
    let mut got = Vec::new();
    timeout(LONG, stream.read_to_end(&mut got))
        .await
        .unwrap()
        .unwrap();
    assert!(got == sent);
}

#[tokio::test]
async fn what_was_written_leaves_though_the_stream_is_dropped() {
    let (client, server) = stacks();
    let (mut a, mut b) = connected(&client, &server).await;
    let sent = data(0, 300_000);
    a.write_all(&sent).await.unwrap();
    drop(a);
    gets(&mut b, &sent).await;
}

/// A first connection fetches the cookie; the SYN of the next ones waits for what is written.
#[tokio::test]
async fn rfc7413_what_a_fast_open_writes_leaves_though_it_is_closed_at_once() {
    let (client, server) = stacks();
    let at = SERVER.parse().unwrap();
    let open = || async {
        let mut socket = TcpSocket::new_v4(&client).unwrap();
        socket.set_fast_open(true);
        socket.connect(at).await
    };
    let mut socket = TcpSocket::new_v4(&server).unwrap();
    socket.bind(at).unwrap();
    socket.set_fast_open_backlog(5);
    let listener = socket.listen(5).unwrap();
    drop(open().await.unwrap());
    drop(listener.accept().await.unwrap());
    let early = || server.stats().endpoint.fast_open_accepted;
    assert_eq!(early(), 0);

    // Dropped at once, with more than a SYN takes.
    let sent = data(0, 100_000);
    let mut a = open().await.unwrap();
    a.write_all(&sent).await.unwrap();
    drop(a);
    let (mut b, _) = listener.accept().await.unwrap();
    gets(&mut b, &sent).await;
    assert_eq!(early(), 1);

    // A question, all of it, and its answer.
    let mut a = open().await.unwrap();
    a.write_all(b"question").await.unwrap();
    a.shutdown().await.unwrap();
    let (mut b, _) = listener.accept().await.unwrap();
    let mut got = Vec::new();
    b.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, b"question");
    b.write_all(b"answer").await.unwrap();
    drop(b);
    got.clear();
    timeout(LONG, a.read_to_end(&mut got))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(got, b"answer");
    assert_eq!(early(), 2);

    // What connect cannot tell yet comes with what is called next.
    drop(listener);
    let mut a = open().await.unwrap();
    a.write_all(b"question").await.unwrap();
    let refused = a.read(&mut [0; 1]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn halves_are_reunited_with_their_own_kind_only() {
    let (client, server) = stacks();
    let (a, b) = connected(&client, &server).await;
    let (read, write) = a.into_split();
    let (other, other_write) = b.into_split();
    let error = other.reunite(write).unwrap_err();
    let mut a = read.reunite(error.1).unwrap();
    let mut b = error.0.reunite(other_write).unwrap();
    a.write_all(b"ok").await.unwrap();
    let mut buf = [0; 2];
    b.read_exact(&mut buf).await.unwrap();
}

/// A future that is dropped has taken nothing, and the next one is woken all the same.
#[tokio::test]
async fn cancelled_reads_and_accepts_lose_nothing() {
    let (client, server) = stacks();
    let listener = TcpListener::bind(&server, SERVER).await.unwrap();
    for _ in 0..3 {
        let short = Duration::from_millis(5);
        assert!(timeout(short, listener.accept()).await.is_err());
    }
    let (mut a, b) = tokio::join!(
        async { TcpStream::connect(&client, SERVER).await.unwrap() },
        listener.accept()
    );
    let mut b = b.unwrap().0;
    for _ in 0..3 {
        let mut buf = [0; 4];
        let short = Duration::from_millis(5);
        assert!(timeout(short, b.read(&mut buf)).await.is_err());
    }
    a.write_all(b"once").await.unwrap();
    let mut buf = [0; 4];
    timeout(LONG, b.read_exact(&mut buf))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&buf, b"once");
}

/// A stream that always has something to read leaves other tasks of its thread their turn.
#[tokio::test]
async fn a_busy_stream_does_not_starve_others() {
    let (client, server) = stacks_with(TcpConfig::default(), OFFLOAD);
    let (mut a, mut b) = connected(&client, &server).await;
    a.write_all(&data(0, 500_000)).await.unwrap();
    b.readable().await.unwrap();
    let turns = Arc::new(AtomicUsize::new(0));
    let other = turns.clone();
    tokio::spawn(async move {
        loop {
            other.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let mut byte = [0; 1];
    for _ in 0..10_000 {
        b.read_exact(&mut byte).await.unwrap();
    }
    assert!(turns.load(Ordering::Relaxed) > 10);
}

#[tokio::test]
async fn several_tasks_wait_for_one_stream() {
    let (client, server) = stacks();
    let (mut a, b) = connected(&client, &server).await;
    let (b, seen) = (Arc::new(b), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let (b, seen) = (b.clone(), seen.clone());
            tokio::spawn(async move {
                b.readable().await.unwrap();
                seen.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    tokio::task::yield_now().await;
    a.write_all(b"x").await.unwrap();
    for task in tasks {
        timeout(LONG, task).await.unwrap().unwrap();
    }
    assert_eq!(seen.load(Ordering::Relaxed), 5);
    let ready = b
        .ready(Interest::READABLE | Interest::WRITABLE)
        .await
        .unwrap();
    assert!(ready.is_readable() && ready.is_writable());
    let mut buf = [0; 4];
    assert_eq!(b.try_read(&mut buf).unwrap(), 1);
    let nothing = b.try_read(&mut buf).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
}

/// A backlog that nobody accepts from is full: more connections wait until there is room.
#[tokio::test]
async fn a_full_backlog_holds_peers_back() {
    let (client, server) = stacks();
    let mut socket = TcpSocket::new_v4(&server).unwrap();
    socket.bind(SERVER.parse().unwrap()).unwrap();
    let listener = socket.listen(2).unwrap();
    // One more may slip in while the last handshake is under way.
    let mut streams = Vec::new();
    loop {
        let mut next = Box::pin(TcpStream::connect(&client, SERVER));
        let patience = match streams.len() {
            ..2 => LONG,
            _ => Duration::from_millis(100),
        };
        match timeout(patience, &mut next).await {
            Ok(stream) => streams.push(stream.unwrap()),
            Err(_) => {
                for _ in 0..streams.len() {
                    listener.accept().await.unwrap();
                }
                // Its SYN comes again after a second.
                timeout(LONG, next).await.unwrap().unwrap();
                break;
            }
        }
        assert!(streams.len() <= 3);
    }
    assert!(streams.len() >= 2);
}

// ---- What only this stack has.

#[tokio::test]
async fn a_socket_has_algorithms_of_its_own() {
    let (client, server) = stacks();
    let listener = TcpListener::bind(&server, SERVER).await.unwrap();
    let mut socket = TcpSocket::new_v4(&client).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_congestion(Reno::new);
    socket.set_rto(presets::fine);
    let (a, b) = tokio::join!(socket.connect(SERVER.parse().unwrap()), listener.accept());
    let (mut a, mut b) = (a.unwrap(), b.unwrap().0);
    assert!(a.nodelay().unwrap());
    a.write_all(&data(0, 100_000)).await.unwrap();
    let mut buf = vec![0; 100_000];
    b.read_exact(&mut buf).await.unwrap();
    let info = a.info().unwrap();
    assert_eq!(info.tcpi_state, 1);
    assert_eq!(info.tcpi_snd_mss, 1448);
    assert!(info.tcpi_bytes_sent >= 100_000 && info.tcpi_rtt > 0);
    // The floor of Linux would be 200 ms.
    let measured = info.tcpi_rtt + 4 * info.tcpi_rttvar;
    assert!(info.tcpi_rto < 200_000.max(2 * measured), "{info:?}");
    assert_eq!(b.info().unwrap().tcpi_bytes_received, 100_000);
    a.set_keepalive(Some(Keepalive::default())).unwrap();
    let mut socket = TcpSocket::new_v4(&client).unwrap();
    socket.set_congestion(Dctcp::new);
    socket.config_mut().dup_thresh = 0;
    let bad = socket.connect(SERVER.parse().unwrap()).await.unwrap_err();
    assert_eq!(bad.kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn trace_events_are_a_stream() {
    let (client, server) = stacks();
    let (mut a, mut b) = connected(&client, &server).await;
    let mut trace = a.trace(4).unwrap();
    let mut few = a.trace(1).unwrap();
    assert!(trace.recv().await.is_none(), "replaced");
    a.write_all(&data(0, 200_000)).await.unwrap();
    b.read_exact(&mut vec![0; 200_000]).await.unwrap();
    let (at, event) = timeout(LONG, few.recv()).await.unwrap().unwrap();
    let expected = matches!(event, TraceEvent::Window { .. } | TraceEvent::TailLossProbe);
    assert!(expected, "{event:?}");
    assert!(at <= client.clock().now());
    assert!(few.lost() > 0);
}

#[tokio::test]
async fn a_listener_has_the_time_to_live_that_was_set() {
    let (_client, server) = stacks();
    let listener = TcpListener::bind(&server, SERVER).await.unwrap();
    assert_eq!(listener.ttl().unwrap(), 64);
    for ttl in [1, 9, 255] {
        listener.set_ttl(ttl).unwrap();
        assert_eq!(listener.ttl().unwrap(), ttl);
    }
    for ttl in [0, 256, u32::MAX] {
        let refused = listener.set_ttl(ttl).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert_eq!(listener.ttl().unwrap(), 255);
    }
}

// ---- Ends.

#[tokio::test]
async fn shutdown_waits_and_then_resets() {
    let (client, server) = stacks();
    let (mut a, mut b) = connected(&client, &server).await;
    let listener = TcpListener::bind(&client, "10.77.0.1:1").await.unwrap();
    a.write_all(b"bye").await.unwrap();
    let mut bye = [0; 3];
    b.read_exact(&mut bye).await.unwrap();
    let (ended, accepted) = tokio::join!(
        client.shutdown(Duration::from_millis(50)),
        listener.accept()
    );
    ended.unwrap();
    assert!(accepted.is_err());
    let reset = timeout(LONG, b.read(&mut bye)).await.unwrap().unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    assert!(a.write(b"x").await.is_err());
    assert!(TcpStream::connect(&client, SERVER).await.is_err());
    assert!(listener.ttl().is_err() && listener.set_ttl(9).is_err());
    // Its device is let go of, though streams are held: the other end of the cable is alone.
    let alone = TcpListener::bind(&server, SERVER).await;
    let gone = match alone {
        Ok(listener) => timeout(LONG, listener.accept()).await.unwrap().unwrap_err(),
        Err(e) => e,
    };
    assert_eq!(gone.kind(), ErrorKind::UnexpectedEof);
    drop((a, listener));
}

#[tokio::test]
async fn a_stack_ends_when_nobody_holds_it_and_all_is_sent() {
    let (client, server) = stacks();
    let (mut a, mut b) = connected(&client, &server).await;
    a.write_all(&data(0, 200_000)).await.unwrap();
    drop((client, a));
    let mut got = Vec::new();
    timeout(LONG, b.read_to_end(&mut got))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(got.len(), 200_000);
    drop(b);
    // Its end of the cable goes with it, and then the server has no device.
    let listener = TcpListener::bind(&server, SERVER).await.unwrap();
    let gone = timeout(LONG, listener.accept()).await.unwrap().unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::UnexpectedEof);
}

//! The protocol of iperf3, so that it can measure our stack, from either end.
//!
//! A control connection carries a cookie, then states of one byte, and twice a JSON text from each
//! end behind its length in four bytes: what is to be measured, and what was. Every data
//! connection begins with the cookie.

pub mod client;
pub mod server;
mod stream;

use super::LiveError;
use narrows::driver::tokio::TcpStream;
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Where servers listen.
pub const PORT: u16 = 5201;
/// 36 characters and a zero.
const COOKIE: usize = 37;
/// The longest JSON text that is taken.
const MAX_JSON: usize = 1 << 20;
/// Most data connections of a test, in each direction.
pub const MAX_PARALLEL: u32 = 128;
/// Largest block.
const MAX_BLOCK: u64 = 1 << 20;
/// How long the other end may take for a step of the protocol.
const PATIENCE: Duration = Duration::from_secs(10);

/// What opens a connection of a test.
type Cookie = [u8; COOKIE];

/// The states of a test, as they go over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
enum State {
    TestStart = 1,
    TestRunning = 2,
    TestEnd = 4,
    ParamExchange = 9,
    CreateStreams = 10,
    ServerTerminate = 11,
    ClientTerminate = 12,
    ExchangeResults = 13,
    DisplayResults = 14,
    IperfDone = 16,
    AccessDenied = -1,
    ServerError = -2,
}

impl State {
    const ALL: [Self; 12] = [
        Self::TestStart,
        Self::TestRunning,
        Self::TestEnd,
        Self::ParamExchange,
        Self::CreateStreams,
        Self::ServerTerminate,
        Self::ClientTerminate,
        Self::ExchangeResults,
        Self::DisplayResults,
        Self::IperfDone,
        Self::AccessDenied,
        Self::ServerError,
    ];
}

/// Why a test came to nothing.
#[derive(Debug)]
#[non_exhaustive]
pub enum IperfError {
    /// The other end is busy with another test.
    Busy,
    /// The other end has given up.
    Terminated,
    /// The other end says that something is wrong on its side.
    Remote(i32),
    /// What the other end wants cannot be done here.
    Unsupported(String),
    /// The other end does not keep to the protocol.
    Protocol(String),
    /// A connection failed.
    Io(io::Error),
}

impl fmt::Display for IperfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("the server is busy with another test; try again later"),
            Self::Terminated => f.write_str("the other end has given up"),
            Self::Remote(code) => write!(f, "the server reports error {code} of iperf3"),
            Self::Unsupported(what) => f.write_str(what),
            Self::Protocol(what) => write!(f, "the other end does not speak iperf3: {what}"),
            Self::Io(e) => write!(f, "the test's connection failed: {e}"),
        }
    }
}

impl std::error::Error for IperfError {}

impl From<io::Error> for IperfError {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

impl From<IperfError> for LiveError {
    fn from(e: IperfError) -> Self {
        Self::Io {
            doing: "measure".to_owned(),
            source: io::Error::other(e),
        }
    }
}

/// What is measured: the client's wishes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Params {
    tcp: bool,
    #[serde(skip_serializing_if = "is_false")]
    udp: bool,
    #[serde(skip_serializing_if = "is_false")]
    sctp: bool,
    omit: f64,
    time: f64,
    num: u64,
    blockcount: u64,
    parallel: u32,
    len: u64,
    #[serde(skip_serializing_if = "is_false")]
    reverse: bool,
    #[serde(skip_serializing_if = "is_false")]
    bidirectional: bool,
    #[serde(skip_serializing_if = "is_false")]
    nodelay: bool,
    #[serde(skip_serializing_if = "is_zero")]
    bandwidth: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion: Option<String>,
    client_version: String,
}

fn is_false(it: &bool) -> bool {
    !it
}

fn is_zero(it: &u64) -> bool {
    *it == 0
}

/// What an end has seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Results {
    cpu_util_total: f64,
    cpu_util_user: f64,
    cpu_util_system: f64,
    /// -1: it has not sent; otherwise whether retransmissions are known.
    #[serde(skip_deserializing)]
    sender_has_retransmits: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion_used: Option<String>,
    streams: Vec<StreamResults>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct StreamResults {
    id: u32,
    bytes: u64,
    // Of others these are of no use to us, and iperf3 writes -1 as 2^64 - 1.
    #[serde(skip_deserializing)]
    retransmits: i64,
    #[serde(skip_deserializing)]
    jitter: f64,
    #[serde(skip_deserializing)]
    errors: i64,
    #[serde(skip_deserializing)]
    omitted_errors: i64,
    #[serde(skip_deserializing)]
    packets: i64,
    #[serde(skip_deserializing)]
    omitted_packets: i64,
    #[serde(skip_deserializing)]
    start_time: f64,
    #[serde(skip_deserializing)]
    end_time: f64,
}

/// The number of the `n`th data connection, from 0: iperf3 leaves out 2.
fn stream_id(n: usize) -> u32 {
    if n == 0 { 1 } else { n as u32 + 2 }
}

async fn in_time<R>(step: impl Future<Output = Result<R, IperfError>>) -> Result<R, IperfError> {
    match timeout(PATIENCE, step).await {
        Ok(result) => result,
        Err(_) => Err(IperfError::Io(io::ErrorKind::TimedOut.into())),
    }
}

async fn write_state(control: &mut TcpStream, state: State) -> Result<(), IperfError> {
    Ok(control.write_all(&[state as i8 as u8]).await?)
}

/// The next state. Cancellation-safe.
async fn read_state(control: &mut TcpStream) -> Result<State, IperfError> {
    let mut byte = [0];
    if control.read(&mut byte).await? == 0 {
        return Err(IperfError::Terminated);
    }
    let byte = byte[0] as i8;
    let state = State::ALL.into_iter().find(|s| *s as i8 == byte);
    state.ok_or_else(|| IperfError::Protocol(format!("there is no state {byte}")))
}

async fn write_json(control: &mut TcpStream, value: &impl Serialize) -> Result<(), IperfError> {
    let text = serde_json::to_vec(value).map_err(io::Error::from)?;
    let mut message = (text.len() as u32).to_be_bytes().to_vec();
    message.extend(text);
    Ok(control.write_all(&message).await?)
}

async fn read_json<T: for<'a> Deserialize<'a>>(control: &mut TcpStream) -> Result<T, IperfError> {
    in_time(async {
        let mut len = [0; 4];
        control.read_exact(&mut len).await?;
        let len = u32::from_be_bytes(len) as usize;
        if len > MAX_JSON {
            return Err(IperfError::Protocol(format!("a text of {len} bytes")));
        }
        let mut text = vec![0; len];
        control.read_exact(&mut text).await?;
        serde_json::from_slice(&text).map_err(|e| IperfError::Protocol(e.to_string()))
    })
    .await
}

/// CPU time of this process, user and system, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    user: f64,
    system: f64,
}

impl Cpu {
    fn now() -> Self {
        let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
        // It fails only for a mistaken argument.
        getrusage(UsageWho::RUSAGE_SELF).map_or_else(
            |_| Self::default(),
            |usage| Self {
                user: seconds(usage.user_time()),
                system: seconds(usage.system_time()),
            },
        )
    }

    /// Percent of one core since `earlier`, during `seconds`: all, user, system.
    fn share_since(self, earlier: Self, seconds: f64) -> [f64; 3] {
        let percent = |t: f64| 100.0 * t / seconds.max(1e-9);
        let (user, system) = (self.user - earlier.user, self.system - earlier.system);
        [percent(user + system), percent(user), percent(system)]
    }
}

/// What came of a test, by directions as the client sees them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Seconds that it took.
    pub seconds: f64,
    /// Bytes that we sent.
    pub sent: u64,
    /// Bytes that we received.
    pub received: u64,
    /// Segments that we sent again.
    pub retransmits: u64,
    /// Bytes that the other end says it sent; `None`: it has not said.
    pub peer_sent: Option<u64>,
    /// Bytes that it says it received.
    pub peer_received: Option<u64>,
    /// Percent of one core, ours.
    pub cpu: f64,
    /// Data connections.
    pub streams: usize,
}

impl Summary {
    /// A line for people.
    pub fn sentence(&self) -> String {
        let rate = |bytes: u64| bytes as f64 * 8.0 / 1e9 / self.seconds.max(1e-9);
        let mut parts = Vec::new();
        if self.sent > 0 {
            let taken = self.peer_received.unwrap_or(self.sent);
            parts.push(format!(
                "sent {:.2} Gb/s ({} bytes, {} segments again)",
                rate(taken),
                self.sent,
                self.retransmits
            ));
        }
        if self.received > 0 {
            parts.push(format!(
                "received {:.2} Gb/s ({} bytes)",
                rate(self.received),
                self.received
            ));
        }
        if parts.is_empty() {
            parts.push("nothing was transferred".to_owned());
        }
        format!(
            "{}, {} streams, {:.2} s, {:.0} % of a core",
            parts.join(", "),
            self.streams,
            self.seconds,
            self.cpu
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_numbers_leave_out_two() {
        assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
    }

    /// As iperf3 3.12 writes them, with what we do not know of.
    #[test]
    fn parameters_of_iperf3() {
        let text = r#"{"tcp":true,"omit":0,"time":10,"num":0,"blockcount":0,"parallel":8,
            "reverse":true,"len":131072,"pacing_timer":1000,"client_version":"3.12"}"#;
        let params: Params = serde_json::from_str(text).unwrap();
        assert!(params.tcp && params.reverse && !params.udp && !params.bidirectional);
        assert_eq!(
            (params.parallel, params.len, params.time),
            (8, 131_072, 10.0)
        );
        let again: Params = serde_json::from_str(&serde_json::to_string(&params).unwrap()).unwrap();
        assert_eq!(again, params);
    }

    #[test]
    fn results_of_iperf3() {
        let text = r#"{"cpu_util_total":1.5,"sender_has_retransmits":18446744073709551615,
            "streams":[{"id":1,"bytes":7,"retransmits":18446744073709551615,"jitter":0}]}"#;
        let results: Results = serde_json::from_str(text).unwrap();
        assert_eq!((results.streams[0].id, results.streams[0].bytes), (1, 7));
    }
}

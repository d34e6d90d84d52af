//! The server: `iperf3 -c` of others measures our stack.

use super::stream::{Way, Work, Worker};
use super::{
    COOKIE, Cookie, Cpu, IperfError, MAX_BLOCK, MAX_PARALLEL, PATIENCE, Params, Results, State,
    Summary, in_time, read_json, read_state, write_json, write_state,
};
use narrows::driver::tokio::{Stack, TcpListener, TcpStream};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

/// The longest test.
const LONGEST: f64 = 86_400.0;
/// `IEUNIMP` of iperf3: an option that is not implemented.
const UNIMPLEMENTED: i32 = 13;

/// How long the last bytes of a given number may take after the client has said that it is done.
const LAST: Duration = Duration::from_secs(1);

/// A connection that has said which test it belongs to.
type Arrival = (Cookie, TcpStream);

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    stack: Stack,
    /// Name of the congestion control, for the client's report.
    congestion: String,
    arrivals: mpsc::Receiver<io::Result<Arrival>>,
}

impl Server {
    /// Serve what comes to `listeners`, on the runtime that runs. `congestion` is what the
    /// client is told about our congestion control.
    pub fn new(stack: Stack, listeners: Vec<TcpListener>, congestion: String) -> Self {
        let (sender, arrivals) = mpsc::channel(16);
        for listener in listeners {
            tokio::spawn(gate(listener, sender.clone()));
        }
        Self {
            stack,
            congestion,
            arrivals,
        }
    }

    /// Wait for a test, and run it.
    ///
    /// # Errors
    /// The outer one: the stack has ended. The inner one: the test came to nothing.
    pub async fn test(&mut self) -> io::Result<Result<Summary, IperfError>> {
        let (cookie, mut control) = self.arrival().await?;
        let test = self.run(&cookie, &mut control).await;
        if let Err(IperfError::Unsupported(_)) = test {
            // The client prints it in words of its own.
            let mut message = vec![State::ServerError as i8 as u8];
            message.extend(UNIMPLEMENTED.to_be_bytes());
            message.extend(0_i32.to_be_bytes());
            let told = timeout(PATIENCE, control.write_all(&message)).await;
            drop(told);
        }
        if let Err(IperfError::Io(e)) = &test {
            // Whose connection it was is not known: is it the stack?
            if e.kind() == io::ErrorKind::NotConnected {
                return Err(io::Error::new(e.kind(), e.to_string()));
            }
        }
        Ok(test)
    }

    async fn arrival(&mut self) -> io::Result<Arrival> {
        let ended = || Err(io::ErrorKind::NotConnected.into());
        self.arrivals.recv().await.unwrap_or_else(ended)
    }

    /// A connection that is not of the test that runs.
    fn turn_away(mut other: TcpStream) {
        tokio::spawn(async move {
            let told = timeout(PATIENCE, write_state(&mut other, State::AccessDenied)).await;
            drop(told);
        });
    }

    async fn run(
        &mut self,
        cookie: &Cookie,
        control: &mut TcpStream,
    ) -> Result<Summary, IperfError> {
        let _ = control.set_nodelay(true);
        write_state(control, State::ParamExchange).await?;
        let params: Params = read_json(control).await?;
        let ways = check(&params)?;
        write_state(control, State::CreateStreams).await?;
        let streams = in_time(self.streams(cookie, ways.len())).await?;

        write_state(control, State::TestStart).await?;
        let (stop, over) = watch::channel(false);
        let work = Work {
            stack: self.stack.clone(),
            block: params.len.clamp(1, MAX_BLOCK) as usize,
            rate: params.bandwidth,
            over,
            total: Arc::new(AtomicU64::new(0)),
            // The client counts what it gets, and ends the test.
            limit: None,
        };
        let mut workers: Vec<Worker> = streams
            .into_iter()
            .zip(ways)
            .enumerate()
            .map(|(n, (stream, way))| {
                let _ = params.nodelay.then(|| stream.set_nodelay(true));
                Worker::start(n, way, stream, work.clone())
            })
            .collect();
        write_state(control, State::TestRunning).await?;
        let (begin, cpu) = self.measure(control, &params, &mut workers).await?;
        let seconds = self.seconds_since(begin);
        let shares = Cpu::now().share_since(cpu, seconds);
        let _ = timeout(LAST, arrived(&params, &workers)).await;
        let _ = stop.send(true);
        for worker in &mut workers {
            worker.stop().await;
            worker.close_if_sender();
        }

        write_state(control, State::ExchangeResults).await?;
        let theirs: Results = read_json(control).await?;
        let sends = workers.iter().any(|w| w.way == Way::Send);
        let ours = Results {
            cpu_util_total: shares[0],
            cpu_util_user: shares[1],
            cpu_util_system: shares[2],
            sender_has_retransmits: if sends { 1 } else { -1 },
            congestion_used: Some(self.congestion.clone()),
            streams: workers.iter().map(|w| w.results(seconds)).collect(),
        };
        write_json(control, &ours).await?;
        write_state(control, State::DisplayResults).await?;
        // It says that it is done, or just goes.
        let _ = timeout(PATIENCE, read_state(control)).await;
        Ok(summary(&workers, &theirs, seconds, shares[0]))
    }

    fn seconds_since(&self, begin: narrows::Instant) -> f64 {
        self.stack.clock().now().since(begin).as_nanos() as f64 / 1e9
    }

    /// The test's data connections.
    async fn streams(
        &mut self,
        cookie: &Cookie,
        count: usize,
    ) -> Result<Vec<TcpStream>, IperfError> {
        let mut streams = Vec::with_capacity(count);
        while streams.len() < count {
            let (of, stream) = self.arrival().await?;
            if of == *cookie {
                streams.push(stream);
            } else {
                Self::turn_away(stream);
            }
        }
        Ok(streams)
    }

    /// Until the client ends it; when it began to count, and the CPU time then.
    async fn measure(
        &mut self,
        control: &mut TcpStream,
        params: &Params,
        workers: &mut [Worker],
    ) -> Result<(narrows::Instant, Cpu), IperfError> {
        let mut begin = (self.stack.clock().now(), Cpu::now());
        let mut omitting = params.omit > 0.0;
        let longest = sleep(Duration::from_secs_f64(
            params.omit
                + LONGEST.min(if params.time > 0.0 {
                    params.time
                } else {
                    LONGEST
                })
                + 30.0,
        ));
        let omit = sleep(Duration::from_secs_f64(params.omit));
        tokio::pin!(longest, omit);
        loop {
            tokio::select! {
                state = read_state(control) => match state? {
                    State::TestEnd => return Ok(begin),
                    State::ClientTerminate => return Err(IperfError::Terminated),
                    other => {
                        return Err(IperfError::Protocol(format!("{other:?} during the test")));
                    }
                },
                other = self.arrival() => Self::turn_away(other?.1),
                () = &mut omit, if omitting => {
                    omitting = false;
                    for worker in workers.iter_mut() {
                        worker.begin_to_count();
                    }
                    begin = (self.stack.clock().now(), Cpu::now());
                }
                () = &mut longest => {
                    let _ = write_state(control, State::ServerTerminate).await;
                    return Err(IperfError::Io(io::ErrorKind::TimedOut.into()));
                }
            }
        }
    }
}

/// Accept, and read the cookie of each.
async fn gate(listener: TcpListener, arrivals: mpsc::Sender<io::Result<Arrival>>) {
    loop {
        match listener.accept().await {
            Ok((mut stream, _)) => {
                let arrivals = arrivals.clone();
                tokio::spawn(async move {
                    let mut cookie = [0; COOKIE];
                    let read = timeout(PATIENCE, stream.read_exact(&mut cookie)).await;
                    if matches!(read, Ok(Ok(_))) {
                        let _ = arrivals.send(Ok((cookie, stream))).await;
                    }
                });
            }
            Err(e) => {
                let _ = arrivals.send(Err(e)).await;
                return;
            }
        }
    }
}

/// Until everything that the client was to send has arrived, if that is known: the control
/// connection is often faster than the data.
async fn arrived(params: &Params, workers: &[Worker]) {
    let receives = || workers.iter().filter(|w| w.way == Way::Receive);
    let due = params.num.max(params.blockcount.saturating_mul(params.len));
    while receives().next().is_some() && receives().map(Worker::bytes).sum::<u64>() < due {
        sleep(Duration::from_millis(1)).await;
    }
}

/// Which way each data connection goes, seen from here.
fn check(params: &Params) -> Result<Vec<Way>, IperfError> {
    let no = |what: String| Err(IperfError::Unsupported(what));
    if params.udp || params.sctp || !params.tcp {
        return no("a client wanted something else than TCP; that is all there is here".to_owned());
    }
    let n = params.parallel.max(1);
    if n > MAX_PARALLEL {
        return no(format!(
            "a client wanted {n} streams; {MAX_PARALLEL} is the most"
        ));
    }
    let times = [params.time, params.omit];
    if times.iter().any(|t| !(0.0..=LONGEST).contains(t)) {
        return no("a client wanted a test longer than a day".to_owned());
    }
    let n = n as usize;
    Ok(match (params.bidirectional, params.reverse) {
        (true, _) => [vec![Way::Receive; n], vec![Way::Send; n]].concat(),
        (false, true) => vec![Way::Send; n],
        (false, false) => vec![Way::Receive; n],
    })
}

/// What both ends say, for people here.
pub(super) fn summary(workers: &[Worker], theirs: &Results, seconds: f64, cpu: f64) -> Summary {
    let of = |way| workers.iter().filter(move |w| w.way == way);
    let sum = |way| of(way).map(Worker::bytes).sum();
    // Streams have the same numbers at both ends.
    let say = |way| {
        let stream = |w: &Worker| {
            let id = w.results(seconds).id;
            theirs.streams.iter().find(|s| s.id == id).map(|s| s.bytes)
        };
        let all: Option<Vec<u64>> = of(way).map(stream).collect();
        all.filter(|all| !all.is_empty())
            .map(|all| all.iter().sum())
    };
    Summary {
        seconds,
        sent: sum(Way::Send),
        received: sum(Way::Receive),
        retransmits: of(Way::Send).map(Worker::retransmits).sum(),
        peer_sent: say(Way::Receive),
        peer_received: say(Way::Send),
        cpu,
        streams: workers.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_that_cannot_be_met_are_refused() {
        let good = Params {
            tcp: true,
            parallel: 2,
            time: 1.0,
            ..Params::default()
        };
        assert_eq!(check(&good).unwrap(), [Way::Receive; 2]);
        let with = |change: fn(&mut Params)| {
            let mut params = good.clone();
            change(&mut params);
            check(&params)
        };
        assert_eq!(with(|p| p.reverse = true).unwrap(), [Way::Send; 2]);
        let both = with(|p| p.bidirectional = true).unwrap();
        assert_eq!(both, [Way::Receive, Way::Receive, Way::Send, Way::Send]);
        assert_eq!(with(|p| p.parallel = 0).unwrap().len(), 1);
        for bad in [
            with(|p| p.udp = true),
            with(|p| p.tcp = false),
            with(|p| p.parallel = 129),
            with(|p| p.time = f64::NAN),
            with(|p| p.time = 1e300),
            with(|p| p.omit = -1.0),
        ] {
            assert!(matches!(bad, Err(IperfError::Unsupported(_))), "{bad:?}");
        }
    }
}

//! The same with nodes of Erlang/OTP: the program that traffic `node-mesh` is a model of. The server and
//! its clients are each an emulator (`erl`) on a host of the kernel's, connected by Erlang's distribution
//! over TCP; what they do there is `node.erl`.

use super::{BusyPolicy, CHUNK, SERVER, StallRun, StallSpec, Star, failed};
use crate::lab::{self, KernelHost};
use crate::shaper::RouteRules;
use crate::{LOOK, LiveError};
use narrows::driver::Clock;
use std::collections::VecDeque;
use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// Debian's package with the emulator.
pub const PACKAGE: &str = "erlang-base";
const EMULATOR: &str = "erl";
/// Where nodes hear each other, each in a namespace of its own: no port mapper is asked.
const PORT: u16 = 4_370;
const SCRIPT: &str = include_str!("node.erl");
/// Has the emulator compile what is on its standard input, and call it with what follows.
const LOAD: &str = r#"{ok, Text} = file:read_file("/dev/stdin"),
    {ok, Tokens, _} = erl_scan:string(binary_to_list(Text)),
    Parse = fun
        F([], []) -> [];
        F([{dot, _} = T | Rest], Before) ->
            {ok, Form} = erl_parse:parse_form(lists:reverse([T | Before])), [Form | F(Rest, [])];
        F([T | Rest], Before) -> F(Rest, [T | Before])
    end,
    {ok, Module, Code} = compile:forms(Parse(Tokens, [])),
    {module, Module} = code:load_binary(Module, "node.erl", Code),
    Module:main"#;
/// What the emulator takes of its environment, and what whoever runs this may have set for others.
const VARIABLES: [&str; 4] = ["ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS", "ERL_LIBS"];
/// For an emulator to start and to be connected, on a busy machine; and to tell what it saw.
const PATIENCE: Duration = Duration::from_secs(30);
/// From when the server says when all begin until they do.
const LEAD: Duration = Duration::from_millis(200);

/// What was seen, and of which release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErlangRun {
    /// As of other nodes. What waits counts the queues of connections, of the drivers below them, and
    /// mailboxes of relays.
    pub run: StallRun,
    /// Replies that a busy connection refused ([`BusyPolicy::NoSuspend`]).
    pub dropped: u64,
    /// The release of Erlang/OTP: `25`.
    pub release: String,
}

/// Whether the emulator is on the path.
pub fn is_installed() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(EMULATOR).is_file())
}

/// Runs it in a lab of its own.
///
/// # Errors
/// See [`LiveError`].
pub fn run(spec: &StallSpec, cancel: &AtomicBool) -> Result<ErlangRun, LiveError> {
    let star = Star::new(spec)?;
    let server = star
        .lab
        .add_kernel_host(SERVER, &star.link, RouteRules::default())?;
    let (say, heard) = mpsc::channel();
    let mut nodes = vec![Emulator::start(
        spec,
        SERVER,
        &server,
        &server_role(spec)?,
        &say,
    )?];
    for (host, number) in star.clients.iter().zip(SERVER + 1..) {
        let role = format!(
            "[client, '{}', {}, {}]",
            name(SERVER),
            spec.every.as_micros(),
            spec.span.as_micros()
        );
        nodes.push(Emulator::start(spec, number, host, &role, &say)?);
    }
    drop(say);
    let mut said = Vec::new();
    let is_begin = |said: &Said| {
        said.number == SERVER && said.voice == Voice::Output && said.line.starts_with("begin ")
    };
    let mut patience = PATIENCE.as_millis() / LOOK.as_millis();
    while !said.last().is_some_and(is_begin) {
        match hear(&heard, cancel, LOOK)? {
            Heard::Line(line) => said.push(line),
            Heard::Nothing if patience > 0 => patience -= 1,
            Heard::Nothing | Heard::End => return Err(silent(&said)),
        }
    }
    let mut changes: VecDeque<_> = star.changes();
    let begin = Clock.now();
    let deadline = spec.span + PATIENCE;
    loop {
        let now = Duration::from_nanos(Clock.now().since(begin).as_nanos());
        if let Some((at, rate)) = changes.front().copied()
            && now >= LEAD + at
        {
            changes.pop_front();
            star.carry(rate)?;
        }
        let tick = Duration::from_millis(1);
        match hear(&heard, cancel, tick)? {
            Heard::Line(line) => said.push(line),
            Heard::Nothing if now < deadline => {}
            Heard::Nothing => return Err(silent(&said)),
            Heard::End => break,
        }
    }
    drop(nodes);
    seen(&said, spec.clients).ok_or_else(|| silent(&said))
}

fn server_role(spec: &StallSpec) -> Result<String, LiveError> {
    let writers = match spec.busy_policy {
        BusyPolicy::Suspend => "suspend",
        BusyPolicy::Relay => "relay",
        BusyPolicy::NoSuspend => "nosuspend",
        BusyPolicy::Async => {
            let why = "processes of Erlang/OTP are asynchronous (async_dist) from 25.3 on: relay does it in all";
            return Err(LiveError::Invalid(why.to_owned()));
        }
    };
    Ok(format!(
        "[server, {}, {}, {}, {}, {writers}]",
        spec.clients,
        LEAD.as_micros(),
        spec.span.as_micros(),
        spec.reply.get()
    ))
}

/// How nodes are called: by their addresses.
fn name(number: u8) -> String {
    let [address, _] = lab::addresses(number);
    format!("n{number}@{address}")
}

/// An emulator, which ends with this.
struct Emulator {
    child: Child,
}

impl Emulator {
    fn start(
        spec: &StallSpec,
        number: u8,
        host: &KernelHost,
        role: &str,
        say: &Sender<Said>,
    ) -> Result<Self, LiveError> {
        // In kilobytes of 1024.
        let limit = (spec.busy_limit.get() >> 10).clamp(1, 2_097_151);
        let buffer = format!("[{{sndbuf, {CHUNK}}}]");
        let port = PORT.to_string();
        // Ends by itself some time after it was to be heard to the end.
        let life = (spec.span + 3 * PATIENCE).as_millis();
        let mut command = Command::new(EMULATOR);
        VARIABLES.iter().for_each(|variable| {
            command.env_remove(variable);
        });
        command
            .args(["-noinput", "-name", &name(number), "-setcookie", "narrows"])
            .args(["-start_epmd", "false", "-erl_epmd_port", &port])
            .args(["-connect_all", "false", "-kernel"])
            .args(["inet_dist_listen_min", &port, "inet_dist_listen_max", &port])
            .args(["inet_dist_listen_options", &buffer])
            .args(["inet_dist_connect_options", &buffer])
            .args(["+zdbbl", &limit.to_string()])
            // One scheduler, which leaves the processor to others when it has nothing to do.
            .args(["+S", "1:1", "+sbwt", "none"])
            .args(["-eval", &format!("{LOAD}({life}, {role}).")])
            // Neither a cookie nor an init file of whoever runs it.
            .env("HOME", "/nonexistent")
            // What fails leaves no file.
            .env("ERL_CRASH_DUMP_SECONDS", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let spawned = host.namespace.run(|| command.spawn());
        let doing = || format!("start {EMULATOR} (Debian: {PACKAGE})");
        let started = spawned.and_then(|child| child);
        let mut child = started.map_err(|e| LiveError::io(doing(), e))?;
        let stdin = child.stdin.take();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let emulator = Self { child };
        if let Some(stdout) = stdout {
            listen(number, Voice::Output, stdout, say).map_err(failed)?;
        }
        if let Some(stderr) = stderr {
            listen(number, Voice::Error, stderr, say).map_err(failed)?;
        }
        if let Some(mut stdin) = stdin {
            match stdin.write_all(SCRIPT.as_bytes()) {
                // It has ended; what it said of that is heard.
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
                written => written.map_err(failed)?,
            }
        }
        Ok(emulator)
    }
}

/// Has a thread pass on what node `number` says with this voice.
fn listen(
    number: u8,
    voice: Voice,
    from: impl Read + Send + 'static,
    say: &Sender<Said>,
) -> io::Result<()> {
    let say = say.clone();
    let listen = move || {
        let lines = BufReader::new(from).lines().map_while(Result::ok);
        for line in lines {
            let said = Said {
                number,
                voice,
                line,
            };
            if say.send(said).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().spawn(listen).map(drop)
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a node says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    /// What `node.erl` tells.
    Output,
    /// What went wrong.
    Error,
}

/// A line that a node said.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    number: u8,
    voice: Voice,
    line: String,
}

enum Heard {
    Line(Said),
    /// Not for that long.
    Nothing,
    /// All nodes have ended.
    End,
}

fn hear(heard: &Receiver<Said>, cancel: &AtomicBool, wait: Duration) -> Result<Heard, LiveError> {
    if cancel.load(Ordering::Relaxed) {
        return Err(failed(io::ErrorKind::Interrupted.into()));
    }
    Ok(match heard.recv_timeout(wait) {
        Ok(said) => Heard::Line(said),
        Err(RecvTimeoutError::Timeout) => Heard::Nothing,
        Err(RecvTimeoutError::Disconnected) => Heard::End,
    })
}

fn silent(said: &[Said]) -> LiveError {
    let last = |voice| {
        let mut said = said.iter().rev().filter(|said| said.voice == voice);
        said.find(|said| !said.line.trim().is_empty())
            .map(|said| said.line.trim())
    };
    let output = last(Voice::Output).unwrap_or("nothing");
    let error = last(Voice::Error).map(|line| format!("; error: {line}"));
    let error = error.unwrap_or_default();
    let why = format!("a node said last: {output}{error} (release 25 can: {PACKAGE})");
    LiveError::io("ask nodes of Erlang/OTP", io::Error::other(why))
}

/// What the nodes said, if that is all that a server and so many clients say.
fn seen(said: &[Said], clients: u8) -> Option<ErlangRun> {
    let words = |of: u8, what: &str| {
        let lines = said.iter();
        let lines = lines.filter(move |said| said.number == of && said.voice == Voice::Output);
        let what = format!("{what} ");
        let found = lines.filter_map(move |said| Some(said.line.strip_prefix(&what)?.to_owned()));
        found.collect::<Vec<_>>()
    };
    let number = |of, what: &str| words(of, what).first()?.parse::<u64>().ok();
    // In nanoseconds.
    let span = |text: &String| {
        let (from, until) = text.split_once(' ')?;
        let time = |text: &str| Some(text.parse::<u64>().ok()? * 1_000);
        Some((time(from)?, time(until)?))
    };
    let stalls = words(SERVER, "stall");
    let stalls: Vec<_> = stalls.iter().map(span).collect::<Option<_>>()?;
    // The way to the first client was slow.
    let others = SERVER + 2..=SERVER + clients;
    let gaps = others
        .clone()
        .map(|of| span(words(of, "gap").first()?))
        .collect::<Option<Vec<_>>>()?;
    let replies = others
        .map(|of| number(of, "replies"))
        .sum::<Option<u64>>()?;
    let longest = gaps.into_iter().max_by_key(|(from, until)| until - from)?;
    Some(ErlangRun {
        run: StallRun::new(&stalls, longest, number(SERVER, "queued")?, replies),
        dropped: number(SERVER, "dropped")?,
        release: words(SERVER, "release").first()?.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nodes_say_is_what_was_seen() {
        let lines = [
            (1, "release 25"),
            (1, "begin 1000"),
            (1, "stall 5000 7000"),
            (1, "stall 9000 9500"),
            (1, "dropped 3"),
            (1, "queued 150000"),
            (2, "gap 1000 90000"),
            (2, "replies 400"),
            (3, "gap 4900 7400"),
            (3, "replies 500"),
            (4, "gap 2000 2100"),
            (4, "replies 501"),
        ];
        let said = lines.map(|(number, line)| Said {
            number,
            voice: Voice::Output,
            line: line.to_owned(),
        });
        let us = Duration::from_micros;
        let expected = ErlangRun {
            run: StallRun {
                suspended: vec![us(2_000), us(500)],
                longest_gap: us(2_500),
                suspended_in_it: us(2_000),
                most_queued: 150_000,
                replies: 1_001,
            },
            dropped: 3,
            release: "25".to_owned(),
        };
        assert_eq!(seen(&said, 3), Some(expected));
        for missing in [4, 5, 8, 9] {
            let mut some = said.to_vec();
            some.remove(missing);
            assert_eq!(seen(&some, 3), None, "{}", said[missing].line);
        }
        for dead in [3, 4] {
            let mut others = said.to_vec();
            others.retain(|said| said.number != dead);
            assert_eq!(seen(&others, 3), None, "without {dead}");
        }
        let mut all = said.to_vec();
        let why = silent(&all).to_string();
        assert!(why.contains("said last: replies 501 ("), "{why}");
        // An error is no word of the script's.
        for line in ["replies 7", "no compiler", ""] {
            all.push(Said {
                number: 2,
                voice: Voice::Error,
                line: line.to_owned(),
            });
        }
        assert_eq!(seen(&all, 3), seen(&said, 3));
        let why = silent(&all).to_string();
        assert!(why.contains("replies 501; error: no compiler ("), "{why}");
    }
}

//! Runs a script: its steps against an endpoint in virtual time.
//!
//! Time goes from step to step, and from timer to timer in between. What happens at the same
//! instant as a timer comes before it, as in the simulator. Packets that leave wait until the
//! script speaks of them.

mod arrive;
mod calls;
mod depart;
mod info;
mod sockets;

use super::ast::{Action, Call, Direction, Event, Packet, Span, When};
use super::code::{self, Value};
use super::diagnostic::Diagnostic;
use super::flow::Flow;
use super::parse;
use super::profile::Profile;
use super::segment;
use super::settings::{Options, Settings};
use super::setup;
use narrows::buffer::{RecvRing, SendRing};
use narrows::config::TcpConfig;
use narrows::conn::Boxed;
use narrows::endpoint::{ConnId, Endpoint, EndpointConfig, EndpointEvent, ListenerId};
use narrows::wire::{Flags, IpHeader, TcpHeader};
use narrows::{ByteCount, Duration, Instant};
use sockets::{Progress, Reply, Socket};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub(super) type Host = Endpoint<Boxed<SendRing, RecvRing>>;

/// When a script begins. Not zero, which stands for "never" in places.
const BEGIN: Instant = Instant::from_nanos(1_000_000_000);
/// Timers that may fire while nothing leaves: a stack that spins is caught here.
const MAX_TIMERS: usize = 1_000_000;
/// Packets that may wait to be spoken of.
const MAX_WAITING: usize = 100_000;

/// What came of a script.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) result: Result<(), Diagnostic>,
    pub(super) transcript: Vec<String>,
    pub(super) printed: Vec<String>,
    pub(super) steps: usize,
    pub(super) time: Duration,
}

/// Run `source`.
pub(super) fn run(source: &str, options: &Options) -> Ran {
    let mut ran = Ran {
        result: Ok(()),
        transcript: Vec::new(),
        printed: Vec::new(),
        steps: 0,
        time: Duration::ZERO,
    };
    let script = match parse::parse(source, &options.names()) {
        Ok(script) => script,
        Err(e) => {
            ran.result = Err(e);
            return ran;
        }
    };
    ran.steps = script.events.len();
    let settings = match Settings::new(options, &script) {
        Ok(settings) => settings,
        Err(e) => {
            ran.result = Err(e);
            return ran;
        }
    };
    let mut machine = match Machine::new(settings) {
        Ok(machine) => machine,
        Err(e) => {
            ran.result = Err(e);
            return ran;
        }
    };
    ran.result = machine.play(&script.events);
    ran.time = machine.now.since(BEGIN);
    ran.transcript = machine.transcript();
    ran.printed = machine.printed;
    ran
}

/// A packet that left.
#[derive(Clone, Debug)]
struct Sent {
    at: Instant,
    ip: IpHeader,
    tcp: TcpHeader,
    payload: Vec<u8>,
}

/// A call that has not returned.
struct Pending<'s> {
    call: &'s Call,
    until: Instant,
    progress: Progress,
}

struct Machine<'s> {
    settings: Settings,
    /// What new sockets get.
    tcp: TcpConfig,
    host: Host,
    now: Instant,
    /// When the step before happened.
    last: Instant,
    flows: Vec<Flow>,
    /// The flow that packets without ports belong to.
    current: Option<usize>,
    sockets: BTreeMap<i32, Socket>,
    /// Established and not accepted.
    arrived: BTreeMap<ListenerId, VecDeque<ConnId>>,
    outbox: VecDeque<Sent>,
    log: Vec<(Instant, String)>,
    variables: BTreeMap<String, Value>,
    printed: Vec<String>,
    pending: Option<Pending<'s>>,
    /// The connection that assertions are about.
    focus: Option<ConnId>,
    fired: usize,
}

impl<'s> Machine<'s> {
    fn new(settings: Settings) -> Result<Self, Diagnostic> {
        let mut tcp = settings.profile.tcp();
        tcp.mss = settings.mss;
        if settings.profile == Profile::Freebsd {
            // Its receive buffer holds whole segments.
            let whole = 65_536u64.next_multiple_of(u64::from(tcp.mss));
            tcp.window_clamp = Some(ByteCount::new(whole));
        }
        let config = EndpointConfig::new(Arc::new(tcp.clone()), *b"narrows script 1");
        let host = Host::new(config)
            .map_err(|e| Diagnostic::syntax(Span::default(), format!("the TCP: {e}")))?;
        Ok(Self {
            settings,
            tcp,
            host,
            now: BEGIN,
            last: BEGIN,
            flows: Vec::new(),
            current: None,
            sockets: BTreeMap::new(),
            arrived: BTreeMap::new(),
            outbox: VecDeque::new(),
            log: Vec::new(),
            variables: BTreeMap::new(),
            printed: Vec::new(),
            pending: None,
            focus: None,
            fired: 0,
        })
    }

    fn play(&mut self, events: &'s [Event]) -> Result<(), Diagnostic> {
        let clean_up = self.clean_up(events);
        for (index, event) in events.iter().enumerate() {
            if index == clean_up {
                self.check_surplus(event.span)?;
            }
            let (from, to) = self.window(event.at);
            if let Action::Packet(packet) = &event.action
                && packet.direction == Direction::Out
            {
                let left = self.expect(packet, from, to)?;
                self.last = left.max(self.last);
                continue;
            }
            if let Action::Call(_) = &event.action
                && self.pending.is_some()
            {
                self.finish_pending()?;
            }
            let before = self.last;
            self.advance_to(from, event.span)?;
            self.last = self.now;
            match &event.action {
                Action::Packet(packet) => self.arrive(packet)?,
                Action::Call(call) => self.call(call, event, before)?,
                Action::Command(line) => setup::apply(line, &mut self.tcp)
                    .map_err(|why| Diagnostic::unsupported(event.span, why))?,
                Action::Code(code) => self.code(code, event.span)?,
            }
        }
        self.finish_pending()?;
        if clean_up < events.len() {
            self.outbox.clear();
            return Ok(());
        }
        // What is due at the last instant belongs to it.
        while let Some(at) = self.next_timer().filter(|at| *at <= self.now) {
            self.fire(at)?;
        }
        self.check_surplus(events.last().map(|e| e.span).unwrap_or_default())
    }

    /// From which step on a script only tidies up. Those of other stacks close what they opened
    /// and do not look at what that sends; ours do.
    fn clean_up(&self, events: &[Event]) -> usize {
        if self.settings.profile == Profile::Rfc {
            return events.len();
        }
        let tidies = |e: &Event| match &e.action {
            Action::Call(call) => call.name == "close",
            Action::Command(_) => true,
            _ => false,
        };
        let kept = events.iter().rposition(|e| !tidies(e));
        kept.map_or(0, |last| last + 1)
    }

    fn check_surplus(&mut self, span: Span) -> Result<(), Diagnostic> {
        match self.outbox.pop_front() {
            Some(sent) => Err(self.surplus(&sent, span)),
            None => Ok(()),
        }
    }

    /// From when to when a step may happen; without tolerance.
    fn window(&self, at: When) -> (Instant, Instant) {
        match at {
            When::Absolute(t) => (BEGIN + t, BEGIN + t),
            When::AbsoluteRange(a, b) => (BEGIN + a, BEGIN + b),
            When::Relative(t) => (self.last + t, self.last + t),
            When::RelativeRange(a, b) => (self.last + a, self.last + b),
            When::Any => (BEGIN, self.now + Duration::from_secs(100_000)),
        }
    }

    /// How far from `at` is still right.
    fn tolerance(&self, at: Instant) -> Duration {
        let since = at.since(self.last);
        let relative = since.mul_ratio(self.settings.per_mille, 1_000);
        self.settings.tolerance.max(relative)
    }

    /// A time as the script counts it.
    fn clock(at: Instant) -> String {
        let nanos = at.since(BEGIN).as_nanos();
        let (whole, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        if fraction % 1_000 == 0 {
            format!("{whole}.{:06}", fraction / 1_000)
        } else {
            format!("{whole}.{fraction:09}")
        }
    }

    // ---- Time.

    /// Let time go on to `to`. What happens at `to` itself is still to come.
    fn advance_to(&mut self, to: Instant, span: Span) -> Result<(), Diagnostic> {
        if to < self.now {
            if self.now.since(to) <= self.tolerance(to) {
                return Ok(());
            }
            return Err(Diagnostic::syntax(
                span,
                format!(
                    "time does not run backwards: it is {} already",
                    Self::clock(self.now)
                ),
            ));
        }
        while let Some(at) = self.next_timer().filter(|at| *at < to) {
            self.fire(at)?;
        }
        self.now = to;
        Ok(())
    }

    fn next_timer(&self) -> Option<Instant> {
        let wake = self.pending.as_ref().and_then(|p| p.progress.wake);
        [self.host.poll_timeout(), wake].into_iter().flatten().min()
    }

    /// Timers are due at `at`.
    fn fire(&mut self, at: Instant) -> Result<(), Diagnostic> {
        self.fired += 1;
        if self.fired > MAX_TIMERS {
            return Err(Diagnostic::mismatch(
                Span::default(),
                "a million timers fired: the script waits for what never comes",
            ));
        }
        self.now = self.now.max(at);
        self.host.handle_timeout(self.now);
        self.settle()
    }

    /// Something happened: what leaves, who is told, who can go on.
    fn settle(&mut self) -> Result<(), Diagnostic> {
        loop {
            self.drain()?;
            if !self.try_pending()? {
                return Ok(());
            }
        }
    }

    fn drain(&mut self) -> Result<(), Diagnostic> {
        loop {
            let mut idle = true;
            while let Some((ip, tcp, payload)) = self.host.poll_transmit(self.now) {
                idle = false;
                let payload: Vec<u8> = payload.iter().collect();
                let sent = Sent {
                    at: self.now,
                    ip,
                    tcp,
                    payload,
                };
                self.on_departure(&sent);
                if self.outbox.len() == MAX_WAITING {
                    return Err(Diagnostic::mismatch(
                        Span::default(),
                        "100000 packets left that the script does not speak of",
                    ));
                }
                self.outbox.push_back(sent);
            }
            while let Some(event) = self.host.poll_event() {
                idle = false;
                if let EndpointEvent::Accepted { listener, conn } = event {
                    self.arrived.entry(listener).or_default().push_back(conn);
                }
            }
            if idle {
                return Ok(());
            }
        }
    }

    fn on_departure(&mut self, sent: &Sent) {
        let flow = self.flow_of(sent.tcp.src_port, sent.tcp.dst_port);
        let flow = &mut self.flows[flow];
        if sent.tcp.flags.contains(Flags::SYN) {
            flow.on_live_syn(sent.tcp.seq.0);
            flow.own.clone_from(&sent.tcp.options);
        }
        if !sent.payload.is_empty() {
            flow.data_out += 1;
        }
    }

    /// The flow between these ports; a new one if there is none.
    fn flow_of(&mut self, local: u16, remote: u16) -> usize {
        let found = self
            .flows
            .iter()
            .position(|f| f.local == local && f.remote == remote);
        found.unwrap_or_else(|| {
            self.flows.push(Flow::new(local, remote));
            self.flows.len() - 1
        })
    }

    // ---- Calls that take their time.

    /// `before`: when the step before happened, from where relative times count.
    fn call(&mut self, call: &'s Call, event: &Event, before: Instant) -> Result<(), Diagnostic> {
        let mut progress = Progress::at(self.now);
        let reply = self.attempt(call, &mut progress)?;
        let until = call.until.map(|t| match event.at {
            When::Absolute(_) => BEGIN + t,
            _ => before + t,
        });
        match (reply, until) {
            (Reply::Block, None) => {
                return Err(Diagnostic::mismatch(
                    call.span,
                    format!(
                        "{}() blocks, the script expects it to return at once",
                        call.name
                    ),
                )
                .note("a call that blocks says until when: `+0...0.5`; O_NONBLOCK forbids it to"));
            }
            (Reply::Block, Some(until)) => {
                self.pending = Some(Pending {
                    call,
                    until,
                    progress,
                });
            }
            (reply, until) => {
                let early = until.is_some_and(|u| u.since(self.now) > self.tolerance(u));
                self.returned(call, reply, early.then_some(until).flatten())?;
            }
        }
        self.settle()
    }

    /// Whether something changed.
    fn try_pending(&mut self) -> Result<bool, Diagnostic> {
        let Some(mut pending) = self.pending.take() else {
            return Ok(false);
        };
        let reply = self.attempt(pending.call, &mut pending.progress)?;
        if reply == Reply::Block {
            let changed = std::mem::take(&mut pending.progress.moved);
            self.pending = Some(pending);
            return Ok(changed);
        }
        let late = self
            .now
            .since(pending.until)
            .max(pending.until.since(self.now));
        let wrong = late > self.tolerance(pending.until);
        self.returned(pending.call, reply, wrong.then_some(pending.until))?;
        Ok(true)
    }

    fn finish_pending(&mut self) -> Result<(), Diagnostic> {
        while let Some(pending) = &self.pending {
            let limit = pending.until + self.tolerance(pending.until);
            let call = pending.call;
            match self.next_timer().filter(|at| *at <= limit) {
                Some(at) => self.fire(at)?,
                None => {
                    return Err(Diagnostic::mismatch(
                        call.span,
                        format!("{}() still blocks at {}", call.name, Self::clock(limit)),
                    ));
                }
            }
        }
        Ok(())
    }

    /// A call returned: rightly? `wrong_time`: when it should have.
    fn returned(
        &mut self,
        call: &Call,
        reply: Reply,
        wrong_time: Option<Instant>,
    ) -> Result<(), Diagnostic> {
        let got = match reply {
            Reply::Failed(errno) => format!("-1 {errno}"),
            Reply::Returned(n) => n.to_string(),
            Reply::Block => "nothing".to_owned(),
        };
        self.log
            .push((self.now, format!("{}() = {got}", call.name)));
        if let Some(right) = wrong_time {
            return Err(Diagnostic::mismatch(
                call.span,
                format!("{}() returned at the wrong time", call.name),
            )
            .comparing(
                format!("at {}", Self::clock(right)),
                format!("{got} at {}", Self::clock(self.now)),
            ));
        }
        let (matches, wanted) = sockets::result_matches(call, reply)?;
        if matches {
            return Ok(());
        }
        Err(Diagnostic::mismatch(
            call.span,
            format!("{}() returned something else", call.name),
        )
        .comparing(wanted, got))
    }

    // ---- Assertions.

    fn code(&mut self, text: &str, span: Span) -> Result<(), Diagnostic> {
        let conn = self.focus.and_then(|id| self.host.connection(id));
        let facts = info::Facts {
            conn,
            flow: self.current.and_then(|f| self.flows.get(f)),
            profile: self.settings.profile,
            now: self.now,
        };
        let known = |name: &str| facts.value(name);
        match code::run(text, &mut self.variables, &known) {
            Ok(lines) => {
                for line in lines {
                    self.log.push((self.now, format!("print: {line}")));
                    self.printed.push(line);
                }
                Ok(())
            }
            Err(code::Stop::Bad(why)) => {
                let mut d = Diagnostic::unsupported(span, format!("assertion: {why}"));
                if facts.conn.is_none() {
                    d = d.note("no connection is open: tcpi_* values are those of the last one accepted or connected");
                }
                Err(d)
            }
            Err(code::Stop::Failed {
                assertion,
                values,
                message,
                at,
            }) => {
                let start = span.end.saturating_sub(text.len() + 2) + at;
                let end = start + assertion.len();
                let mut d = Diagnostic::mismatch(
                    Span { start, end },
                    message.map_or_else(
                        || "an assertion does not hold".to_owned(),
                        |m| format!("an assertion does not hold: {m}"),
                    ),
                );
                d = d.comparing(assertion, values);
                Err(d)
            }
        }
    }

    // ---- For people.

    fn surplus(&mut self, sent: &Sent, span: Span) -> Diagnostic {
        let left = self.shown(sent);
        let at = Self::clock(sent.at);
        let more = self.outbox.len();
        let mut d = Diagnostic::mismatch(
            span,
            "the script ends, and packets have left that it does not speak of",
        )
        .comparing("nothing more", format!("{left} at {at}"));
        if more > 0 {
            d = d.note(format!("and {more} more"));
        }
        self.outbox.push_front(sent.clone());
        d
    }

    fn transcript(&mut self) -> Vec<String> {
        let waiting: Vec<Sent> = self.outbox.iter().cloned().collect();
        for sent in waiting {
            let line = format!("{}   (not expected yet)", self.shown(&sent));
            self.log.push((sent.at, line));
        }
        self.log.sort_by_key(|(at, _)| *at);
        let lines = self.log.iter();
        lines
            .map(|(at, line)| format!("{} {line}", Self::clock(*at)))
            .collect()
    }

    fn note_packet(&mut self, at: Instant, packet: &Packet) {
        self.log.push((at, segment::describe(packet)));
    }
}

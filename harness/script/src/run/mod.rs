//! Runs a script: its steps against a stack with a clock of its own.
//!
//! Time goes from step to step. What happens at the same instant as a timer comes before it, as in
//! the simulator. Packets that leave wait until the script speaks of them.

mod arguments;
mod arrive;
mod calls;
mod depart;
mod facts;
mod words;

use super::ast::{self, Action, Direction, Event, Packet, Span, When};
use super::code::{self, Value};
use super::diagnostic::Diagnostic;
use super::flow::{Flow, Stream};
use super::parse;
use super::profile::Profile;
use super::segment;
use super::settings::{Options, Settings};
use super::sockets::{Answer, BEGIN, Call, CallId, Errno, Fd, MAX_WAITING, Outcome, Stuck};
use super::stack::{Departed, Stack, Takes, Wanted};
use calls::{Descriptor, result_matches, result_words};
use narrows::wire::Flags;
use narrows::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};

/// How far in the future a step at any time may be.
const ANY_TIME: Duration = Duration::from_secs(100_000);

/// What came of a script.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) result: Result<(), Diagnostic>,
    pub(super) transcript: Vec<String>,
    pub(super) printed: Vec<String>,
    pub(super) steps: usize,
    pub(super) time: Duration,
}

/// Makes the stack that a script wants.
pub type Make<'m> = dyn FnMut(&Wanted) -> Result<Box<dyn Stack>, Stuck> + 'm;

/// Run `source` against what `make` makes.
pub(super) fn run(source: &str, options: &Options, make: &mut Make<'_>) -> Ran {
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
    let stack = match make(&settings.wanted(&script.events)) {
        Ok(stack) => stack,
        Err(why) => {
            ran.result = Err(Diagnostic::syntax(Span::default(), why.to_string()));
            return ran;
        }
    };
    let mut machine = Machine::new(settings, stack);
    ran.result = machine.play(&script.events);
    ran.time = machine.now.since(BEGIN);
    ran.transcript = machine.transcript();
    ran.printed = machine.printed;
    ran
}

/// A call that has not returned.
struct Pending<'s> {
    id: CallId,
    call: &'s ast::Call,
    asked: Call,
    until: Instant,
}

struct Machine<'s> {
    settings: Settings,
    stack: Box<dyn Stack>,
    now: Instant,
    /// When the step before happened.
    last: Instant,
    flows: Vec<Flow>,
    /// The flow that packets without ports belong to.
    current: Option<usize>,
    /// By the script's numbers.
    descriptors: BTreeMap<i32, Descriptor>,
    streams: Vec<Stream>,
    outbox: VecDeque<Departed>,
    log: Vec<(Instant, String)>,
    variables: BTreeMap<String, Value>,
    printed: Vec<String>,
    pending: Option<Pending<'s>>,
    /// The descriptor, by the stack's number, that assertions are about: the one accepted or
    /// connected last.
    focus: Option<Fd>,
}

impl<'s> Machine<'s> {
    fn new(settings: Settings, stack: Box<dyn Stack>) -> Self {
        Self {
            settings,
            stack,
            now: BEGIN,
            last: BEGIN,
            flows: Vec::new(),
            current: None,
            descriptors: BTreeMap::new(),
            streams: Vec::new(),
            outbox: VecDeque::new(),
            log: Vec::new(),
            variables: BTreeMap::new(),
            printed: Vec::new(),
            pending: None,
            focus: None,
        }
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
                Action::Command(line) => self
                    .stack
                    .setup(line)
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
        let end = self.now;
        while let Some(sent) = self.stack.wait_for_packet(end).map_err(Self::stuck)? {
            self.on_departure(&sent);
            if sent.at <= end {
                self.outbox.push_back(sent);
            } else {
                break;
            }
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
            When::Any => (BEGIN, self.now + ANY_TIME),
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
        self.now = self.stack.wait_until(to).map_err(Self::stuck)?;
        self.after()
    }

    fn stuck(why: Stuck) -> Diagnostic {
        Diagnostic::mismatch(Span::default(), why.to_string())
    }

    /// Something happened: what left, and who has returned.
    fn after(&mut self) -> Result<(), Diagnostic> {
        while let Some(sent) = self.stack.departed() {
            self.on_departure(&sent);
            if self.outbox.len() == MAX_WAITING {
                return Err(Self::stuck(Stuck::Packets));
            }
            self.outbox.push_back(sent);
        }
        while let Some(finished) = self.stack.finished() {
            let Some(pending) = self.pending.take_if(|p| p.id == finished.id) else {
                continue;
            };
            let late = finished.at.since(pending.until);
            let late = late.max(pending.until.since(finished.at));
            let wrong = late > self.tolerance(pending.until);
            let wrong = wrong.then_some(pending.until);
            let Pending { call, asked, .. } = pending;
            self.returned(call, &asked, &finished.answer, finished.at, wrong)?;
        }
        Ok(())
    }

    fn on_departure(&mut self, sent: &Departed) {
        let (local, remote) = (sent.tcp.src_port, sent.tcp.dst_port);
        let flow = self.flow_of(local, remote);
        if !sent.tcp.flags.contains(Flags::SYN) {
            return;
        }
        let known = &mut self.flows[flow];
        known.on_live_syn(sent.tcp.seq.0);
        known.own.clone_from(&sent.tcp.options);
        if sent.tcp.flags.contains(Flags::ACK) {
            return;
        }
        // The SYN of a socket that connects tells its port.
        let streams = &mut self.streams;
        let taken = self.descriptors.values();
        if taken
            .into_iter()
            .any(|d| streams[d.stream].flow == Some(flow))
        {
            return;
        }
        let mut connecting = self.descriptors.values_mut();
        if let Some(d) = connecting.find(|d| d.connecting == Some(remote)) {
            d.connecting = None;
            streams[d.stream].flow = Some(flow);
            self.current = Some(flow);
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
    fn call(
        &mut self,
        call: &'s ast::Call,
        event: &Event,
        before: Instant,
    ) -> Result<(), Diagnostic> {
        let until = call.until.map(|t| match event.at {
            When::Absolute(_) => BEGIN + t,
            _ => before + t,
        });
        let refused = |why| match why {
            Stuck::Refused(why) => call.unsupported(why),
            other => Self::stuck(other),
        };
        if let Some(bind) = self.bind_first(call) {
            self.stack.call(bind, Takes::NoTime).map_err(refused)?;
        }
        let asked = self.asked(call)?;
        let takes = match until {
            Some(_) => Takes::Time,
            None => Takes::NoTime,
        };
        match self.stack.call(asked.clone(), takes).map_err(refused)? {
            Outcome::Done(answer) => {
                let failed = answer.result.is_err_and(|e| e != Errno::EINPROGRESS);
                self.begun(call, &asked, failed);
                let early = until.is_some_and(|u| u.since(self.now) > self.tolerance(u));
                let wrong = early.then_some(until).flatten();
                self.returned(call, &asked, &answer, self.now, wrong)?;
            }
            Outcome::Blocks(id) => {
                self.begun(call, &asked, false);
                let Some(until) = until else {
                    return Err(Diagnostic::mismatch(
                        call.span,
                        format!(
                            "{}() blocks, the script expects it to return at once",
                            call.name
                        ),
                    )
                    .note(
                        "a call that blocks says until when: `+0...0.5`; O_NONBLOCK forbids it to",
                    ));
                };
                self.pending = Some(Pending {
                    id,
                    call,
                    asked,
                    until,
                });
            }
        }
        self.after()
    }

    fn finish_pending(&mut self) -> Result<(), Diagnostic> {
        let Some(pending) = &self.pending else {
            return Ok(());
        };
        let limit = pending.until + self.tolerance(pending.until);
        let call = pending.call;
        let now = self.stack.wait_for_return(limit).map_err(Self::stuck)?;
        self.now = self.now.max(now);
        self.after()?;
        if self.pending.is_none() {
            return Ok(());
        }
        Err(Diagnostic::mismatch(
            call.span,
            format!("{}() still blocks at {}", call.name, Self::clock(limit)),
        ))
    }

    /// A call returned at `at`: rightly? `wrong_time`: when it should have.
    fn returned(
        &mut self,
        call: &ast::Call,
        asked: &Call,
        answer: &Answer,
        at: Instant,
        wrong_time: Option<Instant>,
    ) -> Result<(), Diagnostic> {
        let got = result_words(call, asked, answer);
        self.answered(call, asked, answer)?;
        self.log.push((at, format!("{}() = {got}", call.name)));
        if let Some(right) = wrong_time {
            return Err(Diagnostic::mismatch(
                call.span,
                format!("{}() returned at the wrong time", call.name),
            )
            .comparing(
                format!("at {}", Self::clock(right)),
                format!("{got} at {}", Self::clock(at)),
            ));
        }
        let (matches, wanted) = result_matches(call, asked, answer)?;
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
        let facts = facts::Facts {
            stack: &*self.stack,
            focus: self.focus,
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
                if !facts.has_connection() {
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

    fn surplus(&mut self, sent: &Departed, span: Span) -> Diagnostic {
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
        let waiting: Vec<Departed> = self.outbox.iter().cloned().collect();
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

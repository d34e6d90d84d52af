//! One run, from its parts to its outcome.

use crate::context::RunContext;
use crate::ended::{Outcome, Recording, Unrecorded};
use crate::error::RunError;
use crate::host::trace::TraceLog;
use crate::host::{SimPacket, TcpHost};
use crate::net::packet::HostId;
use crate::outcome::RunOutcome;
use crate::parts::Parts;
use crate::probe::{Hears, Listener};
use crate::sim::tap::{NoTap, PauseEvent, Tap, TapEvent};
use crate::sim::time::SimTime;
use crate::sim::world::{Halt, World};
use crate::traffic::{Broken, HostApp, Log};
use crate::watch::{Next, Watch};
use crate::{trace, tracers};
use narrows::Duration;
use narrows::endpoint::metrics::MetricsConfig;
use std::cell::RefCell;
use std::rc::Rc;

/// How often the cancellation flag is looked at, in host events.
const CANCEL_INTERVAL: u32 = 4_096;

/// A tap of any type, so that the simulation is compiled once for all of them.
pub(crate) trait AnyTap {
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket);
    fn pause(&mut self, at: SimTime, event: PauseEvent);
}

impl<T: Tap<SimPacket>> AnyTap for T {
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        Tap::event(self, at, event, packet);
    }

    fn pause(&mut self, at: SimTime, event: PauseEvent) {
        Tap::pause(self, at, event);
    }
}

/// All that hears of packets: a tap, and what listens for instruments and the trace.
pub(crate) struct Ears<'a> {
    tap: Option<&'a mut dyn AnyTap>,
    listeners: Vec<Listener>,
    /// Those of them who hear of what ports take.
    of_ports: Vec<Listener>,
    /// Whether anything hears of packets, the tap included.
    hears: bool,
    /// Whether anything does of what ports take.
    hears_ports: bool,
}

impl<'a> Ears<'a> {
    fn new(tap: Option<&'a mut dyn AnyTap>, listeners: Vec<Listener>) -> Self {
        let hears_all = |listener: &&Listener| listener.borrow().hears() == Hears::All;
        let of_ports: Vec<Listener> = listeners.iter().filter(hears_all).cloned().collect();
        Self {
            hears: tap.is_some() || !listeners.is_empty(),
            hears_ports: tap.is_some() || !of_ports.is_empty(),
            tap,
            listeners,
            of_ports,
        }
    }

    #[inline(never)]
    fn tell(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        if let Some(tap) = &mut self.tap {
            tap.event(at, event, packet);
        }
        let listeners = match event {
            TapEvent::PortQueued { .. } => &self.of_ports,
            _ => &self.listeners,
        };
        for listener in listeners {
            listener.borrow_mut().packet(at, event, packet);
        }
    }
}

impl Tap<SimPacket> for Ears<'_> {
    #[inline(always)]
    fn hears_ports(&self) -> bool {
        self.hears_ports
    }

    #[inline(always)]
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        self.tell(at, event, packet);
    }

    fn pause(&mut self, at: SimTime, event: PauseEvent) {
        if let Some(tap) = &mut self.tap {
            tap.pause(at, event);
        }
        for listener in &self.listeners {
            listener.borrow_mut().pause(at, event);
        }
    }
}

/// Simulates it, with whatever hears of packets, if anything does.
pub(crate) fn simulate_heard(
    parts: Parts,
    mut ctx: RunContext<'_>,
    tap: Option<&mut dyn AnyTap>,
) -> Result<RunOutcome, RunError> {
    let (trace, listeners) = listening(&parts, &mut ctx);
    simulate(parts, ctx, trace, Ears::new(tap, listeners))
}

/// The trace of a run, if one is wanted, and what hears of its packets.
fn listening<'a>(parts: &Parts, ctx: &mut RunContext<'a>) -> (Option<TraceLog<'a>>, Vec<Listener>) {
    let all = parts.instruments.iter();
    let mut listeners: Vec<Listener> = all.filter_map(|(_, i)| i.listener()).collect();
    let (version, commit) = parts.version;
    let out = ctx.trace.take();
    let trace = out.map(|out| TraceLog::new(out, version, commit));
    if let Some(trace) = &trace {
        let ports = trace::Ports::new(trace.lines(), &parts.graph);
        listeners.push(Rc::new(RefCell::new(ports)));
        trace::listen(
            &parts.log,
            trace.lines(),
            parts.traffic.clone(),
            &parts.graph,
        );
    }
    (trace, listeners)
}

/// What is asked after each event of a host: whether the run goes on.
struct GoingOn<'a, 'c> {
    ctx: RunContext<'c>,
    trace: Option<TraceLog<'c>>,
    log: &'a Log,
    duration: Duration,
    countdown: u32,
    cancelled: bool,
}

impl GoingOn<'_, '_> {
    /// Until `time` at the latest, or the first packet if the run waits for that. Compiled for whom
    /// nobody hears, too: what nearly all runs do for each packet.
    #[inline(always)] // A function of its own executes .3 % more for a packet.
    fn run<T: Tap<SimPacket>>(
        &mut self,
        world: &mut World<TcpHost<HostApp>, T>,
        time: SimTime,
        waits: bool,
    ) -> Halt {
        let (log, mut countdown) = (self.log, self.countdown);
        let halt = world.run(time, |world| {
            countdown -= 1;
            if countdown == 0 {
                countdown = CANCEL_INTERVAL;
                if self.look_up(world.now()) {
                    return false;
                }
            }
            log.goes_on() && !(waits && log.first_send().is_some())
        });
        self.countdown = countdown;
        halt
    }

    /// What few events do: out of the way of the others. Whether the run was cancelled.
    #[cold]
    #[inline(never)]
    fn look_up(&mut self, now: SimTime) -> bool {
        self.cancelled = self.ctx.cancelled();
        if let Some(trace) = &mut self.trace {
            trace.drain();
        }
        let span = (now.to_duration().as_nanos(), self.duration.as_nanos());
        let (done, all) = further(span, self.log.progress());
        self.ctx.report(done, all);
        self.cancelled
    }
}

fn simulate<'c>(
    parts: Parts,
    ctx: RunContext<'c>,
    trace: Option<TraceLog<'c>>,
    tap: Ears<'_>,
) -> Result<RunOutcome, RunError> {
    let Parts {
        graph,
        network,
        hosts: apps,
        instruments,
        mut changes,
        log,
        traffic,
        time,
        seed,
        wire,
        ..
    } = parts;
    if let Some(trace) = &trace {
        changes.trace(trace.lines());
    }
    let mut hosts = Vec::with_capacity(apps.len());
    for (n, (app, tcp, remembers)) in apps.into_iter().enumerate() {
        let id = HostId(n as u32);
        let mut host = TcpHost::new(id, tcp, app, seed, wire)
            .map_err(|e| RunError::Internal(e.to_string()))?;
        if let Some(max_age) = remembers {
            let metrics = MetricsConfig {
                max_age,
                ..MetricsConfig::default()
            };
            host.parts_mut().0.remember_peers(Some(metrics));
        }
        let told = instruments.iter().filter_map(|(_, i)| i.tracer());
        let tracers = trace.iter().map(|trace| trace.tracer(id)).chain(told);
        host.parts_mut()
            .0
            .set_tracer(tracers::all(tracers.collect()));
        let egress = graph.host_egress(id);
        host.set_segmentation(egress.map_or(0, |egress| egress.nic.segmentation));
        hosts.push(host);
    }
    let count = hosts.len() as u32;
    let hears = tap.hears;
    let mut world = World::with_tap(network, hosts, tap);
    let mut watch = Watch::new(time, traffic, &graph, instruments, changes);
    watch.prepare(&mut world);
    // All listen before the first SYN can arrive, which is at the earliest at the same instant
    // but after all starts.
    for host in 0..count {
        world.start_at(HostId(host), SimTime::ZERO);
    }
    let mut going_on = GoingOn {
        ctx,
        trace,
        log: &log,
        duration: time.duration,
        countdown: CANCEL_INTERVAL,
        cancelled: false,
    };
    let ended = loop {
        let waits = watch.waits();
        let outcome = if hears {
            going_on.run(&mut world, watch.next(), waits)
        } else {
            let (mut unheard, ears) = world.heard_by(NoTap);
            let outcome = going_on.run(&mut unheard, watch.next(), waits);
            (world, _) = unheard.heard_by(ears);
            outcome
        };
        let cancelled = &mut going_on.cancelled;
        // A run with short spans may never count down.
        *cancelled |= going_on.ctx.cancelled();
        // Nothing is left to happen but what changes: a link may come up again.
        if outcome == Halt::Stopped && waits && !*cancelled && log.goes_on() {
            watch.start(world.now());
            continue;
        } else if outcome == Halt::Idle
            && log.goes_on()
            && watch.next() < watch.end()
            // Who has not sent in all that time never will.
            && !(waits && world.now().to_duration() >= time.duration)
        {
            world.pass(watch.next());
        } else if *cancelled || outcome != Halt::Reached {
            break outcome;
        }
        if watch.look(&mut world, &log)? == Next::End {
            break Halt::Reached;
        }
    };
    let traced = going_on.trace.map_or(Ok(()), TraceLog::finish);
    if going_on.cancelled {
        return Err(RunError::Cancelled);
    }
    let outcome = match (broken_at(world.hosts()), ended) {
        (Some(Broken::Corrupt), _) => Outcome::CorruptData,
        (Some(Broken::Lost), _) => Outcome::ConnectionLost,
        (None, Halt::Reached) if log.is_endless() || !log.goes_on() => Outcome::Completed,
        (None, Halt::Reached) => Outcome::TimeLimit,
        (None, Halt::Stopped | Halt::Idle) if !log.goes_on() => Outcome::Completed,
        (None, Halt::Idle) => Outcome::Stalled,
        (None, other) => {
            return Err(RunError::Internal(format!(
                "the world ended with {other:?}"
            )));
        }
    };
    let mut result = watch.finish(world, outcome, &log);
    let failed = traced.err();
    let failed = failed.map(|e| Unrecorded::new(Recording::Trace, &e));
    result.unrecorded.extend(failed);
    Ok(result)
}

/// The share that is the larger of two: a run is over when its time is, or all it has to do.
fn further(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    let larger = u128::from(a.0) * u128::from(b.1) >= u128::from(b.0) * u128::from(a.1);
    if larger { a } else { b }
}

/// What went wrong at one of the hosts; a wrong byte before anything else.
fn broken_at(hosts: &[TcpHost<HostApp>]) -> Option<Broken> {
    let mut all = hosts.iter().filter_map(|host| host.app.broken());
    let first = all.next()?;
    Some(if all.any(|b| b == Broken::Corrupt) {
        Broken::Corrupt
    } else {
        first
    })
}

//! The lab as a place where experiments run.

use super::blocks::Read;
use super::{Capture, LiveContext, MAX_SERVERS, Senders, check, echoes_each_mark, ecn, run};
use crate::lab::{Owned, Plug};
use narrows::{ByteCount, Duration};
use narrows_congestion::EcnNeed;
use narrows_experiment::knob::{Quantity, Section};
use narrows_experiment::model::queue::Discipline;
use narrows_experiment::model::{self, Device, Experiment, Invalid, Link, Members, Network, Pause};
use narrows_experiment::registry::Registry;
use narrows_experiment::run::{Live, RunError, RunOutcome};
use narrows_experiment::scenario::spec::{BlockSize, RequestOrder};
use narrows_experiment::scenario::{Recording, RunContext, Unrecorded, tcp};
use narrows_experiment::traffic::SynchronisedRead;
use narrows_experiment::values;
use narrows_experiment::version::{COMMIT, VERSION};
use narrows_net::host::trace::TraceLog;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// Percent of a run for which our hosts may stand still without a word.
const MUCH: u64 = 5;

/// A lab for the runs of one command, made with the first.
#[derive(Debug)]
pub struct LivePlace {
    /// The lab's name.
    pub name: String,
    /// Where frames of a run are captured, and how much of each is kept.
    pub capture: Option<(PathBuf, Option<ByteCount>)>,
    /// Where what connections of our hosts decide in a run is written.
    pub trace: Option<PathBuf>,
    /// With the MTU of its links.
    lab: Mutex<Option<(Owned, u32)>>,
    seen: Mutex<Seen>,
}

/// Where live runs were not what was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Runs in which hosts of ours stood still for want of time.
    pub late: usize,
    /// For how much of the worst, in percent, and with how many servers.
    pub worst: (u64, u32),
    /// A kernel's client could not echo each mark.
    pub latched: bool,
}

impl LivePlace {
    /// One whose lab is to have this name.
    pub fn new(name: String) -> Self {
        Self {
            name,
            capture: None,
            trace: None,
            lab: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// What there is to say of the runs.
    pub fn seen(&self) -> Seen {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Live for LivePlace {
    fn check(&self, experiment: &Experiment) -> Result<(), Invalid> {
        possible(experiment)
    }

    fn run(
        &self,
        experiment: &Experiment,
        registry: &Registry,
        ctx: RunContext<'_>,
    ) -> Result<RunOutcome, RunError> {
        let read = read(experiment)?;
        let senders = senders(experiment)?;
        let failed = |e: crate::LiveError| RunError::Live(e.to_string());
        let mtu = experiment.network.common.mtu;
        check(&experiment.host.tcp.congestion, senders).map_err(failed)?;
        let tcp = tcp::config(&experiment.host.tcp, mtu, registry);
        let tcp = tcp.map_err(|e| RunError::Live(e.to_string()))?;
        let plug = match experiment.run.device {
            Device::Tap => Plug::Tap { offload: false },
            Device::Xdp => Plug::Xdp,
        };
        let mut lab = self.lab.lock().unwrap_or_else(PoisonError::into_inner);
        if lab.as_ref().is_none_or(|(_, of)| *of != mtu) {
            *lab = None;
            crate::lab::sweep().map_err(failed)?;
            *lab = Some((Owned::new(&self.name, Some(mtu)).map_err(failed)?, mtu));
        }
        let Some((lab, _)) = &*lab else {
            return Err(RunError::Live("there is no lab".to_owned()));
        };
        let mut file = match &self.trace {
            Some(path) => {
                let file = File::create(path).map_err(|e| {
                    RunError::Live(format!("cannot create the trace {}: {e}", path.display()))
                })?;
                Some(BufWriter::new(file))
            }
            None => None,
        };
        let trace = file.as_mut().map(|out| TraceLog::new(out, VERSION, COMMIT));
        let trace = Mutex::new(trace);
        let log = || trace.lock().unwrap_or_else(PoisonError::into_inner);
        let tracer = |host| log().as_ref().map(|trace| trace.tracer(host));
        let never = AtomicBool::new(false);
        let told = ctx.progress;
        let progress = |done, all| {
            if let Some(trace) = &mut *log() {
                trace.drain();
            }
            if let Some(told) = told {
                told(done, all);
            }
        };
        let capture = self.capture.as_ref();
        let live = LiveContext {
            capture: capture.map(|(path, snap_length)| Capture {
                path,
                snap_length: *snap_length,
            }),
            tracer: &tracer,
            cancel: ctx.cancel.unwrap_or(&never),
            progress: &progress,
        };
        let ran = run(lab, (experiment, &read), &tcp, senders, plug, live).map_err(failed)?;
        let traced = log().take().map_or(Ok(()), TraceLog::finish);
        let mut ran = ran.ok_or(RunError::Cancelled)?;
        let failed = traced.err();
        let failed = failed.map(|e| Unrecorded::new(Recording::Trace, &e));
        ran.outcome.unrecorded.extend(failed);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let percent = ran.still_percent();
        if percent >= MUCH {
            seen.late += 1;
            seen.worst = seen.worst.max((percent, read.servers));
        }
        seen.latched |=
            senders == Senders::Ours && ecn(&tcp) == Some(EcnNeed::Dctcp) && !echoes_each_mark();
        Ok(ran.outcome)
    }
}

/// The read that the lab is asked for.
///
/// # Errors
/// The key of what a live place does not have, and why.
fn read(experiment: &Experiment) -> Result<Read, Invalid> {
    refuse(experiment)?;
    let [traffic] = &experiment.traffic[..] else {
        let why = "a live place has one traffic, a synchronised read";
        return Err(Invalid::new("traffic", why));
    };
    let at = |key: &str| format!("traffic.{}.{key}", traffic.name);
    if traffic.kind != "synchronised-read" {
        let why = "a live place has synchronised reads alone";
        return Err(Invalid::new(at("kind"), why));
    }
    let get = |key: &str| traffic.spec.get(key);
    let plain = SynchronisedRead::default();
    for key in ["batch", "stagger", "barrier"] {
        let usual = Section::get(&plain, key);
        if get(key) != usual {
            let usual = usual.unwrap_or_else(|| "off".to_owned());
            let why = format!("a live read has {usual} alone");
            return Err(Invalid::new(at(key), why));
        }
    }
    if !traffic.start.is_zero() || !traffic.tcp.is_empty() {
        let why = "a live read begins at once, with the TCP of its hosts";
        return Err(Invalid::new(at("start"), why));
    }
    let wrong = |key: &'static str| move |why: String| Invalid::new(at(key), why);
    let size = |key| {
        let size = get(key).map(|text| values::size(&text));
        size.transpose().map_err(wrong(key))
    };
    let block = match (size("sru")?, size("block")?) {
        (_, Some(block)) => BlockSize::Fixed(block),
        (Some(sru), None) => BlockSize::Sru(sru),
        (None, None) => return Err(wrong("sru")("expected a size".to_owned())),
    };
    let duration = experiment.run.duration;
    let blocks = get("blocks").and_then(|text| text.parse().ok());
    let jitter = get("jitter").map(|text| values::duration(&text));
    let order = get("order").map(|text| RequestOrder::read(&text));
    Ok(Read {
        servers: servers(experiment)?,
        knobs: SynchronisedRead {
            block,
            blocks,
            request: size("request")?.unwrap_or(plain.request),
            order: order
                .transpose()
                .map_err(wrong("order"))?
                .unwrap_or(plain.order),
            jitter: jitter
                .transpose()
                .map_err(wrong("jitter"))?
                .unwrap_or_default(),
            ..plain
        },
        time: duration,
        seed: experiment.run.seed,
    })
}

/// How many servers there are.
fn servers(experiment: &Experiment) -> Result<u32, Invalid> {
    let others = experiment.groups.iter().find(|g| g.name == "servers");
    let Some(Members::Count(n)) = others.map(|g| &g.members) else {
        let why = "a live place has a client and a group `servers` of so many";
        return Err(Invalid::new("group.servers.size", why));
    };
    if *n > MAX_SERVERS {
        let why = format!("a live incast has up to {MAX_SERVERS} servers");
        return Err(Invalid::new("group.servers.size", why));
    }
    Ok(*n)
}

/// Refuses what a live place does not have.
fn refuse(experiment: &Experiment) -> Result<(), Invalid> {
    let network = &experiment.network;
    let plain = Link {
        rate: network.link.rate,
        delay: network.link.delay,
        ..Link::default()
    };
    let (down, up) = (network.port("s0->h0"), network.port("h0->s0"));
    let link = "the links of a live place are all alike, Ethernet, and lose nothing";
    let usual = Network::default().common;
    let alone = [
        (
            network.common.topology != "star",
            "network.topology",
            "a live place is a star",
        ),
        (
            network.common.ip != usual.ip,
            "network.ip",
            "a live place has IPv4",
        ),
        (
            network.common.shared_buffer.is_some(),
            "network.shared_buffer",
            "ports of a live place have their own memory",
        ),
        (
            network.pause != Pause::default(),
            "network.pause",
            "a live switch sends no pauses",
        ),
        (network.link != plain, "network.link", link),
        (down.link != plain, r#"network.port."s0->h0".link"#, link),
        (up.link != plain, r#"network.port."h0->s0".link"#, link),
        (
            !matches!(
                down.queue.discipline,
                Discipline::DropTail | Discipline::EcnStep
            ),
            r#"network.port."s0->h0".queue.discipline"#,
            "a live port is drop-tail or marks from a threshold on (ecn-step)",
        ),
        (
            experiment.host.cpu != model::Cpu::default(),
            "host.cpu",
            "in a live place the machine's processor does the work",
        ),
        (
            !experiment.probes.is_empty(),
            "probe",
            "a live place has no probes",
        ),
        (
            !experiment.changes.is_empty(),
            "change",
            "nothing changes in a live place",
        ),
        (
            experiment.run.warm_up > Duration::ZERO,
            "run.warm_up",
            "a live read is counted from its first request on",
        ),
    ];
    match alone.into_iter().find(|(wrong, ..)| *wrong) {
        Some((_, key, why)) => Err(Invalid::new(key, why)),
        None => Ok(()),
    }
}

/// Whose TCP sends.
///
/// # Errors
/// What the kernel's cannot be.
fn senders(experiment: &Experiment) -> Result<Senders, Invalid> {
    let tcp = &experiment.host.tcp;
    if experiment.run.senders == model::Senders::Ours {
        return Ok(Senders::Ours);
    }
    if tcp.loss_detector != "rack" {
        let why = "with run.senders = kernel it is the kernel's, which is rack";
        return Err(Invalid::new("host.tcp.loss_detection", why));
    }
    if tcp.rto == "linux" {
        return Ok(Senders::Kernel { rto_min: None });
    }
    let time = values::duration(&tcp.rto).ok();
    let ms = time.filter(|t| t.as_nanos().is_multiple_of(1_000_000));
    let ms = ms.and_then(|t| u32::try_from(t.as_nanos() / 1_000_000).ok());
    match ms.filter(|ms| *ms > 0) {
        Some(ms) => Ok(Senders::Kernel { rto_min: Some(ms) }),
        None => {
            let why = "with run.senders = kernel it is the kernel's: linux, or a floor of whole \
                       milliseconds such as 5ms";
            Err(Invalid::new("host.tcp.rto", why))
        }
    }
}

/// Whether a live place can do it.
///
/// # Errors
/// Which key it cannot, and why.
pub fn possible(experiment: &Experiment) -> Result<(), Invalid> {
    read(experiment).and(senders(experiment)).map(drop)
}

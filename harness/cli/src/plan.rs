//! From options to a sweep.

use super::args::{CountingArg, FramingArg, IdleArg, IncastArgs, OrderArg, TiesArg};
use super::catalog::{Catalog, Kind};
use super::values::List;
use narrows::config::IdleRestart;
use narrows_experiment::scenario::spec::{
    BlockSize, Framing, Length, QueueCounting, QueueLimit, RequestOrder, Ties,
};
use narrows_experiment::scenario::tcp::check_ecn;
use narrows_experiment::scenario::{
    Axis, IncastSpec, PlannedRun, ScenarioError, Setting, SweepSpec,
};

/// What runs when no option says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Server counts.
    pub servers: Vec<u32>,
    /// Congestion controls.
    pub congestion: Vec<String>,
    /// RTO policies, coarse to fine.
    pub rto: Vec<String>,
    /// Runs of each point, since one incast can mislead by a factor of three.
    pub repetitions: u32,
}

impl Default for Defaults {
    fn default() -> Self {
        let names = |list: [&str; 3]| list.map(str::to_owned).to_vec();
        Self {
            servers: vec![1, 2, 4, 8, 12, 16, 24, 32, 48, 64],
            congestion: names(["reno", "cubic", "dctcp"]),
            rto: names(["linux", "1ms", "fine"]),
            repetitions: 3,
        }
    }
}

/// The preset that none need name.
pub const DEFAULT_PRESET: &str = "default";
/// The preset of [`IncastSpec::fast08`].
pub const FAST08_PRESET: &str = "fast08";

/// A value that cannot be, with the option it was given for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadValue {
    pub(super) option: &'static str,
    pub(super) given: String,
    pub(super) why: String,
}

/// The sweep that `args` ask for. Names are checked here, combinations when it is expanded.
pub(super) fn plan(
    args: &IncastArgs,
    catalog: &Catalog,
    defaults: &Defaults,
) -> Result<SweepSpec, BadValue> {
    known(
        catalog,
        Kind::Preset,
        "preset",
        std::slice::from_ref(&args.preset),
    )?;
    let preset = args.preset.as_str();
    let (mut base, mut cc, mut rto) = match preset {
        FAST08_PRESET => {
            let base = IncastSpec::fast08();
            let (cc, rto) = (
                vec![base.tcp.congestion.clone()],
                vec![base.tcp.rto.clone()],
            );
            (base, cc, rto)
        }
        _ => (
            IncastSpec::default(),
            defaults.congestion.clone(),
            defaults.rto.clone(),
        ),
    };
    if let (Length::Time(t), Some(limit), None, None) =
        (base.length, args.time_limit, args.blocks, args.duration)
    {
        return Err(BadValue {
            option: "time-limit",
            given: limit.to_string(),
            why: format!(
                "--preset {preset} runs for {t} and not for a number of blocks: give --duration \
                 {limit}, or --blocks, too"
            ),
        });
    }
    single_values(args, &mut base);
    if let Some(List(names)) = &args.cc {
        cc.clone_from(names);
    }
    if let Some(List(names)) = &args.rto {
        rto.clone_from(names);
    }
    known(catalog, Kind::Congestion, "cc", &cc)?;
    known(catalog, Kind::Rto, "rto", &rto)?;
    if let Some(List(names)) = &args.loss {
        known(catalog, Kind::LossDetector, "loss", names)?;
    }

    let mut axes = Vec::new();
    let mut vary = |values: Vec<Setting>| match values.as_slice() {
        [] => {}
        [one] => one.apply(&mut base),
        _ => axes.push(Axis::new(values)),
    };
    vary(cc.into_iter().map(Setting::Congestion).collect());
    vary(rto.into_iter().map(Setting::Rto).collect());
    vary(each(&args.loss, Setting::LossDetector));
    vary(each(&args.buffer, Setting::PortBuffer));
    vary(each(&args.ecn_threshold, Setting::Aqm));
    vary(args.red.into_iter().map(Setting::Aqm).collect());
    vary(args.codel.into_iter().map(Setting::Aqm).collect());
    vary(each(&args.ecn, Setting::Ecn));
    vary(each(&args.sru, |s| Setting::Block(BlockSize::Sru(s))));
    vary(each(&args.block, |s| Setting::Block(BlockSize::Fixed(s))));
    vary(each(&args.delayed_ack, Setting::DelayedAck));
    vary(each(&args.initial_window, Setting::InitialWindow));
    vary(each(&args.rwnd, Setting::ReceiveWindow));
    vary(each(&args.tick, Setting::TimerTick));
    vary(each(&args.rate, Setting::LinkRate));
    vary(each(&args.delay, Setting::LinkDelay));
    vary(each(&args.jitter, Setting::StartJitter));
    vary(each(&args.sack, Setting::Sack));
    vary(each(&args.prr, Setting::Prr));
    vary(each(&args.limited_transmit, Setting::LimitedTransmit));
    vary(each(&args.timestamps, Setting::Timestamps));

    let servers = args
        .servers
        .as_ref()
        .map_or_else(|| defaults.servers.clone(), |l| l.0.clone());
    Ok(SweepSpec {
        base,
        servers,
        axes,
        repetitions: match args.repetitions {
            Some(given) => given.max(1),
            None if args.record.is_any() => 1,
            None => defaults.repetitions,
        },
    })
}

/// The runs of `sweep`, which `args` asked for. Whatever cannot be is told before anything runs.
pub(super) fn expand(
    args: &IncastArgs,
    catalog: &Catalog,
    sweep: &SweepSpec,
) -> Result<Vec<PlannedRun>, BadValue> {
    let told = |e| match e {
        ScenarioError::Invalid {
            option,
            given,
            allowed,
        } => BadValue {
            option,
            given,
            why: allowed + &origin(args, option),
        },
        other => BadValue {
            option: "servers",
            given: String::new(),
            why: other.to_string(),
        },
    };
    let planned = sweep.expand().map_err(told)?;
    for variant in sweep.variants() {
        let tcp = sweep.variant_spec(&variant).tcp;
        // Names were looked up when the sweep was planned.
        if let Ok(congestion) = catalog.registry.congestion.get(&tcp.congestion) {
            check_ecn(&tcp, &*congestion).map_err(told)?;
        }
        let detector = catalog.registry.detectors.get(&tcp.loss_detector);
        if let (true, true, Ok(detector)) = (args.sack.is_some(), tcp.sack, detector)
            && !detector.build().uses_sack()
        {
            let name = &tcp.loss_detector;
            return Err(BadValue {
                option: "sack",
                given: format!("on with --loss {name}"),
                why: format!(
                    "{name} works without SACK, which is not negotiated then: choose --loss sack \
                     or rack, or leave --sack out"
                ),
            });
        }
    }
    Ok(planned)
}

/// Where the value of `option` comes from, if not from the command line.
fn origin(args: &IncastArgs, option: &str) -> String {
    let given = match option {
        "buffer" => args.buffer.is_some(),
        "server-nic" => args.server_nic.is_some(),
        "client-nic" => args.client_nic.is_some(),
        "mss" => args.mss.is_some(),
        "rwnd" => args.rwnd.is_some(),
        "sack" => args.sack.is_some(),
        _ => true,
    };
    match (given, args.preset.as_str()) {
        (true, _) => String::new(),
        (false, DEFAULT_PRESET) => format!("; it is the default: give --{option}, too"),
        (false, preset) => format!("; it comes from --preset {preset}: give --{option}, too"),
    }
}

fn each<T: Clone>(list: &Option<List<T>>, make: impl Fn(T) -> Setting) -> Vec<Setting> {
    match list {
        Some(list) => list.0.iter().cloned().map(make).collect(),
        None => Vec::new(),
    }
}

/// Options that take one value.
fn single_values(args: &IncastArgs, spec: &mut IncastSpec) {
    if let Some(t) = args.duration {
        spec.length = Length::Time(t);
    }
    if args.blocks.is_some() || args.time_limit.is_some() {
        let Length::Blocks { blocks, time_limit } = (match spec.length {
            Length::Time(_) => IncastSpec::default().length,
            given => given,
        }) else {
            return;
        };
        spec.length = Length::Blocks {
            blocks: args.blocks.unwrap_or(blocks),
            time_limit: args.time_limit.unwrap_or(time_limit),
        };
    }
    set(&mut spec.request.size, args.request);
    set(
        &mut spec.request.order,
        args.order.map(|o| match o {
            OrderArg::Shuffled => RequestOrder::Shuffled,
            OrderArg::Fixed => RequestOrder::Fixed,
        }),
    );
    let net = &mut spec.net;
    set(
        &mut net.queue_counting,
        args.queue_counting.map(|c| match c {
            CountingArg::Waiting => QueueCounting::Waiting,
            CountingArg::WithInService => QueueCounting::WithInService,
            CountingArg::Ns2 => QueueCounting::Ns2,
        }),
    );
    set(
        &mut net.ties,
        args.ties.map(|t| match t {
            TiesArg::Shuffled => Ties::Shuffled,
            TiesArg::WaitedLast => Ties::WaitedLast,
        }),
    );
    set(
        &mut net.framing,
        args.framing.map(|f| match f {
            FramingArg::Ethernet => Framing::Ethernet,
            FramingArg::None => Framing::None,
        }),
    );
    set(&mut net.server_nic, args.server_nic);
    set(&mut net.client_nic, args.client_nic);
    set(&mut net.nic_overhead, args.nic_overhead);
    set(&mut net.mtu, args.mtu);
    set(&mut net.impair, args.impair);
    if let Some(shared) = args.shared_buffer {
        net.shared_buffer = Some(shared);
        // The pool is the limit, unless --buffer gives a narrower one.
        net.port_buffer = QueueLimit::Bytes(shared.size);
    }
    set(&mut spec.tcp.mss, args.mss.map(Some));
    set(&mut spec.tcp.undo_spurious, args.undo);
    set(
        &mut spec.tcp.idle_restart,
        args.idle_restart.map(|rule| match rule {
            IdleArg::Keep => IdleRestart::Keep,
            IdleArg::Rfc5681 => IdleRestart::Rfc5681,
            IdleArg::Rfc2861 => IdleRestart::Rfc2861,
            IdleArg::Rfc7661 => IdleRestart::Rfc7661,
        }),
    );
    set(&mut spec.seed, args.seed);
    spec.wire = args.wire;
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn known(
    catalog: &Catalog,
    kind: Kind,
    option: &'static str,
    names: &[String],
) -> Result<(), BadValue> {
    names.iter().try_for_each(|name| {
        catalog.check(kind, name).map_err(|e| BadValue {
            option,
            given: name.clone(),
            why: e,
        })
    })
}

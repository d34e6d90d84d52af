//! Many runs: the product of what is varied, in a fixed order, with derived seeds.

use super::ScenarioError;
use super::spec::{Aqm, BlockSize, DelayedAck, EcnUse, IncastSpec, QueueLimit, Size};
use narrows::{ByteCount, Duration, Rate};

/// What a sweep runs: a base, and for each thing varied the list of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepSpec {
    /// Whatever no list says.
    pub base: IncastSpec,
    /// The server counts, ascending: the x axis.
    pub servers: Vec<u32>,
    /// What else is varied; their product are the [`Variant`]s, the lines of the plot. The first
    /// axis varies slowest.
    pub axes: Vec<Axis>,
    /// Runs of each point, each with a seed of its own.
    pub repetitions: u32,
}

/// One thing that is varied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Its name for people: `"congestion control"`.
    pub title: &'static str,
    /// Its values, in the order given.
    pub values: Vec<Setting>,
}

impl Axis {
    /// An axis over `values`; its title is that of the first of them.
    ///
    /// # Panics
    /// If there is no value.
    pub fn new(values: Vec<Setting>) -> Self {
        let title = values.first().expect("an axis has a value").title();
        Self { title, values }
    }
}

/// One value for one field of the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "each is the field of the spec with the same name"
)]
pub enum Setting {
    Congestion(String),
    Rto(String),
    LossDetector(String),
    Block(BlockSize),
    PortBuffer(QueueLimit),
    Aqm(Aqm),
    Ecn(EcnUse),
    DelayedAck(DelayedAck),
    InitialWindow(u32),
    ReceiveWindow(Option<ByteCount>),
    TimerTick(Duration),
    LinkRate(Rate),
    LinkDelay(Duration),
    StartJitter(Duration),
    Sack(bool),
    Prr(bool),
    LimitedTransmit(bool),
    Timestamps(bool),
}

impl Setting {
    /// What is set, for people.
    pub const fn title(&self) -> &'static str {
        match self {
            Self::Congestion(_) => "congestion control",
            Self::Rto(_) => "RTO policy",
            Self::LossDetector(_) => "loss detector",
            Self::Block(BlockSize::Sru(_)) => "SRU",
            Self::Block(BlockSize::Fixed(_)) => "block",
            Self::PortBuffer(_) => "port buffer",
            Self::Aqm(_) => "queue management",
            Self::Ecn(_) => "ECN",
            Self::DelayedAck(_) => "delayed ACK",
            Self::InitialWindow(_) => "initial window",
            Self::ReceiveWindow(_) => "receive window",
            Self::TimerTick(_) => "timer tick",
            Self::LinkRate(_) => "link rate",
            Self::LinkDelay(_) => "link delay",
            Self::StartJitter(_) => "start jitter",
            Self::Sack(_) => "SACK",
            Self::Prr(_) => "PRR",
            Self::LimitedTransmit(_) => "limited transmit",
            Self::Timestamps(_) => "timestamps",
        }
    }

    /// The value, short enough for a legend.
    pub fn label(&self) -> String {
        let switch = |name: &str, on: bool| format!("{name} {}", if on { "on" } else { "off" });
        match self {
            Self::Congestion(n) | Self::Rto(n) | Self::LossDetector(n) => n.clone(),
            Self::Block(BlockSize::Sru(s)) => format!("SRU {}", Size(*s)),
            Self::Block(BlockSize::Fixed(s)) => format!("block {}", Size(*s)),
            Self::PortBuffer(q) => format!("buffer {q}"),
            Self::Aqm(a) => a.to_string(),
            Self::Ecn(e) => format!("ECN {}", e.name()),
            Self::DelayedAck(d) => format!("delack {d}"),
            Self::InitialWindow(n) => format!("IW {n}"),
            Self::ReceiveWindow(Some(w)) => format!("rwnd {}", Size(*w)),
            Self::ReceiveWindow(None) => "rwnd free".to_owned(),
            Self::TimerTick(d) if d.is_zero() => "exact timers".to_owned(),
            Self::TimerTick(d) => format!("tick {d}"),
            Self::LinkRate(r) => r.to_string(),
            Self::LinkDelay(d) => format!("delay {d}"),
            Self::StartJitter(d) => format!("jitter {d}"),
            Self::Sack(on) => switch("SACK", *on),
            Self::Prr(on) => switch("PRR", *on),
            Self::LimitedTransmit(on) => switch("LT", *on),
            Self::Timestamps(on) => switch("TS", *on),
        }
    }

    /// Put the value into `spec`.
    pub fn apply(&self, spec: &mut IncastSpec) {
        let (net, tcp) = (&mut spec.net, &mut spec.tcp);
        match self.clone() {
            Self::Congestion(n) => tcp.congestion = n,
            Self::Rto(n) => tcp.rto = n,
            Self::LossDetector(n) => tcp.loss_detector = n,
            Self::Block(b) => spec.block = b,
            Self::PortBuffer(q) => net.port_buffer = q,
            Self::Aqm(a) => net.aqm = a,
            Self::Ecn(e) => tcp.ecn = e,
            Self::DelayedAck(d) => tcp.delayed_ack = d,
            Self::InitialWindow(n) => tcp.initial_window = n,
            Self::ReceiveWindow(w) => tcp.receive_window = w,
            Self::TimerTick(d) => tcp.timer_tick = d,
            Self::LinkRate(r) => net.link_rate = r,
            Self::LinkDelay(d) => net.link_delay = d,
            Self::StartJitter(d) => spec.start_jitter = d,
            Self::Sack(on) => tcp.sack = on,
            Self::Prr(on) => tcp.prr = on,
            Self::LimitedTransmit(on) => tcp.limited_transmit = on,
            Self::Timestamps(on) => tcp.timestamps = on,
        }
    }
}

/// One line of the plot: a value from each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// For each axis, which of its values.
    pub picks: Vec<usize>,
    /// Congestion control, RTO policy, and the labels of what else is varied: `"reno / linux"`.
    pub label: String,
}

/// One run of a sweep, and where its result belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    /// Index into [`SweepSpec::variants`].
    pub variant: usize,
    /// What to run; server count, repetition and seed are in it.
    pub spec: IncastSpec,
}

impl SweepSpec {
    /// The product of the axes; without axes the one variant that the base is.
    pub fn variants(&self) -> Vec<Variant> {
        let mut picks: Vec<Vec<usize>> = vec![Vec::new()];
        for axis in &self.axes {
            picks = picks
                .iter()
                .flat_map(|p| {
                    (0..axis.values.len()).map(|i| p.iter().copied().chain([i]).collect())
                })
                .collect();
        }
        picks
            .into_iter()
            .map(|picks| {
                let mut variant = Variant {
                    picks,
                    label: String::new(),
                };
                let spec = self.variant_spec(&variant);
                let mut parts = vec![spec.tcp.congestion, spec.tcp.rto];
                for (&i, axis) in variant.picks.iter().zip(&self.axes) {
                    match &axis.values[i] {
                        Setting::Congestion(_) | Setting::Rto(_) => {}
                        other => parts.push(other.label()),
                    }
                }
                variant.label = parts.join(" / ");
                variant
            })
            .collect()
    }

    /// The spec of one variant, before server count and seed are put in.
    pub fn variant_spec(&self, variant: &Variant) -> IncastSpec {
        let mut spec = self.base.clone();
        for (&i, axis) in variant.picks.iter().zip(&self.axes) {
            axis.values[i].apply(&mut spec);
        }
        spec
    }

    /// How many runs it is; more than 128 bits can say is the most that they can.
    pub fn count(&self) -> u128 {
        let axes = self.axes.iter().map(|axis| axis.values.len() as u128);
        axes.chain([self.servers.len() as u128, u128::from(self.repetitions)])
            .fold(1, u128::saturating_mul)
    }

    /// A sweep of more than [`MAX_RUNS`] is refused before it takes the memory.
    fn check_count(&self) -> Result<(), ScenarioError> {
        let count = self.count();
        if count <= u128::from(MAX_RUNS) {
            return Ok(());
        }
        let (servers, repetitions) = (self.servers.len(), self.repetitions);
        let (option, given) = match repetitions as usize >= servers {
            true => ("repetitions", repetitions.to_string()),
            false => ("servers", format!("{servers} server counts")),
        };
        let others = count / (servers as u128 * u128::from(repetitions)).max(1);
        Err(ScenarioError::Invalid {
            option,
            given,
            allowed: format!(
                "with {servers} server counts, {repetitions} repetitions and {others} \
                 combinations of what else is varied these are {count} runs, and a sweep has at \
                 most {MAX_RUNS}: give fewer --servers, --repetitions or values in the other lists"
            ),
        })
    }

    /// Every run: by variant, then servers, then repetition. The order, and with it every
    /// seed, depends on nothing but the sweep itself.
    ///
    /// # Errors
    /// When a combination is impossible, see [`IncastSpec::validate`], or there are more than
    /// [`MAX_RUNS`].
    pub fn expand(&self) -> Result<Vec<PlannedRun>, ScenarioError> {
        self.check_count()?;
        let mut runs = Vec::new();
        for (index, variant) in self.variants().iter().enumerate() {
            let spec = self.variant_spec(variant);
            for &servers in &self.servers {
                for repetition in 0..self.repetitions {
                    let seed = derive_seed(self.base.seed, repetition);
                    let spec = IncastSpec {
                        servers,
                        repetition,
                        seed,
                        ..spec.clone()
                    };
                    spec.validate()?;
                    runs.push(PlannedRun {
                        variant: index,
                        spec,
                    });
                }
            }
        }
        Ok(runs)
    }
}

/// Most runs of a sweep: their plan takes some hundred bytes each.
pub const MAX_RUNS: u32 = 1_000_000;

/// The seed of a repetition.
///
/// The first has the sweep's own seed, so that one run can be had again by its seed alone. All
/// variants and server counts share the seed of a repetition: what differs between two lines
/// of a plot is then the variant and not the dice.
pub const fn derive_seed(base: u64, repetition: u32) -> u64 {
    if repetition == 0 {
        return base;
    }
    // SplitMix64 (Steele, Lea and Flood 2014): consecutive inputs give unrelated outputs.
    let mut z = base.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(repetition as u64));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str], make: fn(String) -> Setting) -> Axis {
        Axis::new(list.iter().map(|n| make((*n).to_owned())).collect())
    }

    fn sweep() -> SweepSpec {
        SweepSpec {
            base: IncastSpec::default(),
            servers: vec![1, 8],
            axes: vec![
                names(&["reno", "cubic"], Setting::Congestion),
                names(&["linux", "1ms", "fine"], Setting::Rto),
            ],
            repetitions: 2,
        }
    }

    #[test]
    fn expands_in_a_fixed_order() {
        let s = sweep();
        let labels: Vec<String> = s.variants().into_iter().map(|v| v.label).collect();
        assert_eq!(
            labels,
            [
                "reno / linux",
                "reno / 1ms",
                "reno / fine",
                "cubic / linux",
                "cubic / 1ms",
                "cubic / fine"
            ]
        );
        let runs = s.expand().unwrap();
        assert_eq!(runs.len(), 2 * 3 * 2 * 2);
        let key = |r: &PlannedRun| (r.variant, r.spec.servers, r.spec.repetition);
        assert!(runs.windows(2).all(|w| key(&w[0]) < key(&w[1])));
        assert_eq!(runs[5].spec.tcp.rto, "1ms");
        assert_eq!(runs[23].spec.tcp.congestion, "cubic");
        assert_eq!(runs, s.expand().unwrap());
    }

    #[test]
    fn repetitions_have_seeds_of_their_own_shared_by_variants() {
        let mut s = sweep();
        s.repetitions = 50;
        s.base.seed = 7;
        let runs = s.expand().unwrap();
        let mut seeds: Vec<u64> = runs.iter().map(|r| r.spec.seed).collect();
        assert_eq!(seeds[0], 7);
        assert_eq!(seeds[0..50], seeds[50..100]);
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 50);
    }

    /// Pinned: a published seed must mean the same run in every version.
    #[test]
    fn derived_seeds_are_pinned() {
        assert_eq!(derive_seed(1, 0), 1);
        assert_eq!(derive_seed(1, 1), 0x910a_2dec_8902_5cc1);
        assert_ne!(derive_seed(1, 2), derive_seed(2, 1));
    }

    #[test]
    fn without_axes_there_is_one_variant() {
        let s = SweepSpec {
            axes: vec![],
            ..sweep()
        };
        assert_eq!(s.variants().len(), 1);
        assert_eq!(s.variants()[0].label, "reno / linux");
        assert_eq!(s.expand().unwrap().len(), 4);
    }

    #[test]
    fn too_many_runs_are_counted_and_not_expanded() {
        let mut s = sweep();
        assert_eq!(s.count(), s.expand().unwrap().len() as u128);
        s.servers = (1..=10_000).collect();
        s.repetitions = 10_000;
        match s.expand() {
            Err(ScenarioError::Invalid {
                option, allowed, ..
            }) => {
                assert_eq!(option, "repetitions");
                assert!(allowed.contains("600000000 runs") && allowed.contains("1000000"));
            }
            other => panic!("{:?}", other.map(|runs| runs.len())),
        }
        s.axes = vec![Axis::new(vec![Setting::Sack(true); 16]); 40];
        assert_eq!(s.count(), u128::MAX);
        assert!(s.expand().is_err());
    }

    #[test]
    fn an_impossible_combination_is_refused() {
        let mut s = sweep();
        s.axes
            .push(Axis::new(vec![Setting::Sack(true), Setting::Sack(false)]));
        assert!(matches!(
            s.expand(),
            Err(ScenarioError::Invalid { option: "sack", .. })
        ));
    }
}

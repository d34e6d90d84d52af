//! `queue`: the buffer of a switch port, and its discipline.

use super::link::Link;
use crate::knob;
use crate::knob::{Choice, Kind, Knob, KnobError, Knobs, Quantity, Section};
use crate::net::discipline::codel::CodelSpec;
use crate::net::discipline::drr::DrrSpec;
use crate::net::discipline::fq_codel::FqCodelSpec;
use crate::net::discipline::red::{AboveMax, RedSpec};
use crate::net::discipline::split::{SplitSpec, Turns};
use crate::net::discipline::strict_priority::StrictPrioritySpec;
use crate::net::discipline::tail::{NotCapable, Threshold};
use crate::net::discipline::trimming::TrimmingSpec;
use crate::net::discipline::{DisciplineRegistry, DisciplineSpec, OwnDiscipline};
use crate::net::link;
use crate::net::port::{PoolId, PortSpec};
use crate::scenario::network::{capacity, in_service, port_capacity};
use crate::scenario::spec::{QueueCounting, QueueLimit, Share, Size};
use crate::sim::rng::Probability;
use crate::sim::time::SimTime;
use narrows::{ByteCount, Duration, Rate};

/// The queue of a switch port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// What it holds.
    pub limit: QueueLimit,
    /// Whether the packet being transmitted takes buffer space.
    pub counting: QueueCounting,
    /// Which packet goes next, and which are marked or dropped.
    pub discipline: Discipline,
    /// ECN step: packets that find this much are marked.
    pub threshold: Option<QueueLimit>,
    /// RED: the average from which it marks or drops.
    pub min: Option<QueueLimit>,
    /// RED: the average from which it does so with every packet.
    pub max: Option<QueueLimit>,
    /// RED: the probability at the maximum.
    pub probability: Option<Share>,
    /// RED: the average moves by 2^-weight.
    pub weight: Option<u32>,
    /// CoDel, FQ-CoDel: the waiting time that may stand.
    pub target: Option<Duration>,
    /// CoDel, FQ-CoDel: for how long it may stand above.
    pub interval: Option<Duration>,
    /// CoDel, FQ-CoDel: packets that waited longer are marked at once.
    pub ce_threshold: Option<Duration>,
    /// FQ-CoDel, DRR: what a flow may send in its turn.
    pub quantum: Option<ByteCount>,
    /// FQ-CoDel, DRR: number of flow queues.
    pub flows: Option<u32>,
    /// Trimming: what the queue of headers holds.
    pub headers: Option<QueueLimit>,
    /// Drop-tail, ECN step: queues by ingress that the buffer is split into.
    pub split: Option<u32>,
    /// How they take turns.
    pub split_turns: Option<SplitTurns>,
}

/// How the queues of a split buffer take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitTurns {
    /// A packet each.
    Packet,
    /// Deficit round robin by bytes, a full packet in a turn.
    Byte,
}

impl Choice for SplitTurns {
    const ALL: &'static [(Self, &'static str)] = &[(Self::Packet, "packet"), (Self::Byte, "byte")];
}

/// The queue disciplines by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// First in, first out; what does not fit is dropped.
    #[default]
    DropTail,
    /// Marks above a threshold (RFC 8257 section 3.1).
    EcnStep,
    /// Random early detection.
    Red,
    /// Controlled delay (RFC 8289).
    Codel,
    /// Flow queues with controlled delay (RFC 8290).
    FqCodel,
    /// Deficit round robin.
    Drr,
    /// The highest traffic class first.
    StrictPriority,
    /// Payloads are cut where there is no room, headers go first (NDP).
    Trimming,
    /// One of the registry's, or one of those above with some of its keys: `mine`, `mine:bands=4`,
    /// `red:min=20p,max=60p`.
    Named(String),
}

impl Discipline {
    /// Those that narrows brings along, each with its name and a line that says what it is.
    pub const STANDARD: [(Self, &'static str, &'static str); 8] = [
        (
            Self::DropTail,
            "drop-tail",
            "first in, first out; what does not fit is dropped",
        ),
        (
            Self::EcnStep,
            "ecn-step",
            "marks what finds more than a threshold (RFC 8257 section 3.1)",
        ),
        (
            Self::Red,
            "red",
            "random early detection by the average queue (Floyd and Jacobson 1993)",
        ),
        (
            Self::Codel,
            "codel",
            "controlled delay: drops or marks by waiting time (RFC 8289)",
        ),
        (
            Self::FqCodel,
            "fq-codel",
            "a queue for each flow with controlled delay (RFC 8290)",
        ),
        (
            Self::Drr,
            "drr",
            "a queue for each flow, deficit round robin (SIGCOMM 1995)",
        ),
        (
            Self::StrictPriority,
            "strict-priority",
            "the highest traffic class first, by DSCP",
        ),
        (
            Self::Trimming,
            "trimming",
            "cuts payloads where there is no room, headers first (NDP, SIGCOMM 2017)",
        ),
    ];

    /// The one that narrows brings along by this name.
    pub(crate) fn standard(name: &str) -> Option<Self> {
        let mut standard = Self::STANDARD.into_iter();
        let found = standard.find(|(_, known, _)| *known == name);
        found.map(|(discipline, ..)| discipline)
    }

    /// The keys of `queue` that only it and some others have; nothing for one of the registry's.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> + Clone {
        let own = ONLY.iter().filter(|(_, of)| of.contains(self));
        own.map(|(key, _)| *key)
    }
}

impl Quantity for Discipline {
    /// Whether the registry has what is not of the standard ones is asked where a key is set.
    fn read(text: &str) -> Result<Self, String> {
        Ok(Self::standard(text).unwrap_or_else(|| Self::Named(text.to_owned())))
    }

    fn show(&self) -> Option<String> {
        if let Self::Named(text) = self {
            return Some(text.clone());
        }
        let mut standard = Self::STANDARD.into_iter();
        let (_, name, _) = standard.find(|(known, ..)| known == self)?;
        Some(name.to_owned())
    }
}

impl Default for Queue {
    /// 64 KiB, drop-tail, waiting packets count.
    fn default() -> Self {
        Self {
            limit: QueueLimit::Bytes(ByteCount::new(64 << 10)),
            counting: QueueCounting::Waiting,
            discipline: Discipline::DropTail,
            threshold: None,
            min: None,
            max: None,
            probability: None,
            weight: None,
            target: None,
            interval: None,
            ce_threshold: None,
            quantum: None,
            flows: None,
            headers: None,
            split: None,
            split_turns: None,
        }
    }
}

impl Knobs for Queue {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { limit: "limit", "port buffer", Kind::Queue { least: 1 },
        "What the queue holds, in bytes or packets." },
        knob! { counting: "counting", "queue counting", Kind::Choice(&["waiting", "with-in-service", "ns-2"]),
        "Whether the packet being transmitted takes buffer space; ns-2: it does not, and one packet less than the limit is kept." },
        knob! { discipline: "discipline", "queue discipline", Kind::Name("queue discipline"),
        "Which packet goes next, and which are marked or dropped; may carry parameters, which are its keys here: red:min=20p,max=60p.", "RFC 7567" },
        knob! { threshold: "threshold", "marking threshold", Kind::Or("off", &Kind::Queue { least: 0 }),
        "Of ecn-step: K, from which ECN-capable packets are marked. Others pass [30kB].", "RFC 8257 section 3.1" },
        knob! { min: "min", "RED minimum", Kind::Or("off", &Kind::Queue { least: 0 }),
        "Of red: the average from which packets are marked or dropped at random [20p]." },
        knob! { max: "max", "RED maximum", Kind::Or("off", &Kind::Queue { least: 1 }),
        "Of red: the average from which every packet is [60p]." },
        knob! { probability: "probability", "RED probability", Kind::Or("off", &Kind::Share),
        "Of red: the probability at the maximum [10%]." },
        knob! { weight: "weight", "RED weight", Kind::Or("off", &Kind::Whole { least: 0, most: 20 }),
        "Of red: the average moves by 2^-weight of the difference at each arrival [9]." },
        knob! { target: "target", "CoDel target", Kind::Or("off", &Kind::Time { least: 100, most: 100_000_000_000 }),
        "Of codel, fq-codel: the waiting time that may stand [5ms].", "RFC 8289 section 4.3" },
        knob! { interval: "interval", "CoDel interval", Kind::Or("off", &Kind::Time { least: 100, most: 100_000_000_000 }),
        "Of codel, fq-codel: for how long it may stand above [100ms].", "RFC 8289 section 4.4" },
        knob! { ce_threshold: "ce_threshold", "CE threshold", Kind::Or("off", &Kind::Time { least: 100, most: 100_000_000_000 }),
        "Of codel, fq-codel: ECN-capable packets that waited longer are marked at once." },
        knob! { quantum: "quantum", "quantum", Kind::Or("off", &Kind::Size { least: 256, most: 1 << 20 }),
        "Of fq-codel, drr: what a flow may send in its turn [1514B].", "RFC 8290 section 5.2.4" },
        knob! { flows: "flows", "flow queues", Kind::Or("off", &Kind::Whole { least: 1, most: 65_536 }),
        "Of fq-codel, drr: number of flow queues [1024].", "RFC 8290 section 5.2.6" },
        knob! { headers: "headers", "header queue", Kind::Or("off", &Kind::Queue { least: 1 }),
        "Of trimming: what the queue of headers holds [as much as the limit]." },
        knob! { split: "split", "split output", Kind::Or("off", &Kind::Whole { least: 1, most: 64 }),
        "Of drop-tail, ecn-step: queues that the buffer is split into evenly; a packet goes to that of its ingress port modulo their number, and they are served in turn. A threshold is each queue's. Left out: how switches map ports to buffers, queues of unequal size, and room that an idle queue lends to a busy one." },
        knob! { split_turns: "split_turns", "turns of the split", Kind::Or("off", &Kind::Choice(&["packet", "byte"])),
        "Of split: what a queue sends in its turn, a packet, or by deficit round robin a full packet's bytes [packet]." },
    ];
}

/// The keys that only some disciplines have, with those.
const ONLY: [(&str, &[Discipline]); 13] = [
    ("threshold", &[Discipline::EcnStep]),
    ("min", &[Discipline::Red]),
    ("max", &[Discipline::Red]),
    ("probability", &[Discipline::Red]),
    ("weight", &[Discipline::Red]),
    ("target", &[Discipline::Codel, Discipline::FqCodel]),
    ("interval", &[Discipline::Codel, Discipline::FqCodel]),
    ("ce_threshold", &[Discipline::Codel, Discipline::FqCodel]),
    ("quantum", &[Discipline::FqCodel, Discipline::Drr]),
    ("flows", &[Discipline::FqCodel, Discipline::Drr]),
    ("headers", &[Discipline::Trimming]),
    ("split", &[Discipline::DropTail, Discipline::EcnStep]),
    ("split_turns", &[Discipline::DropTail, Discipline::EcnStep]),
];

impl Queue {
    /// Whether the values go together.
    ///
    /// # Errors
    /// The key that does not, and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        self.taken_apart()?.check_keys()
    }

    /// The parameters of a discipline that narrows brings along as the keys that they are.
    fn taken_apart(&self) -> Result<Self, (&'static str, String)> {
        let named = match &self.discipline {
            Discipline::Named(text) => text.split_once(':'),
            _ => None,
        };
        let standard = named.and_then(|(name, with)| Some((Discipline::standard(name)?, with)));
        let Some((discipline, parameters)) = standard else {
            return Ok(self.clone());
        };
        let wrong = |why: String| ("discipline", why);
        let mut queue = self.clone();
        for item in parameters.split(',') {
            let pair = item.split_once('=').map(|(k, v)| (k.trim(), v.trim()));
            let Some((key, value)) = pair else {
                return Err(wrong(format!("'{item}' is not of the form key=value")));
            };
            if !discipline.keys().any(|known| known == key) {
                return Err(wrong(
                    KnobError::unknown(key, discipline.keys()).to_string(),
                ));
            }
            if queue.get(key).is_some() {
                let why = format!("'{key}' is given twice: leave out one of the two");
                return Err(wrong(why));
            }
            let set = queue.set(key, value);
            set.map_err(|e| wrong(format!("{key}: {e}")))?;
        }
        Ok(Self {
            discipline,
            ..queue
        })
    }

    fn check_keys(&self) -> Result<(), (&'static str, String)> {
        for (key, of) in ONLY {
            if self.get(key).is_some() && !of.contains(&self.discipline) {
                let has = self.discipline.show().unwrap_or_default();
                let of: Vec<String> = of.iter().filter_map(Quantity::show).collect();
                let of = of.join(" and ");
                return Err((key, format!("{has} has none: it is a value of {of}")));
            }
        }
        if self.split_turns.is_some() && self.split.is_none() {
            let why = "there are no queues to take turns: set split, too".to_owned();
            return Err(("split_turns", why));
        }
        let times = [self.target, self.interval].into_iter().flatten().count();
        let (target, interval) = (
            self.target.unwrap_or(Duration::from_millis(5)),
            self.interval.unwrap_or(Duration::from_millis(100)),
        );
        if times > 0 && target >= interval {
            let why = format!("{target} is not below the interval of {interval}");
            return Err(("target", why));
        }
        Ok(())
    }

    /// As the network takes it, before `link` with packets of `mtu`.
    ///
    /// # Errors
    /// The key that names what `own` does not have, or a limit that holds no packet, and why.
    pub fn spec(
        &self,
        link: &Link,
        mtu: u32,
        pool: Option<PoolId>,
        own: &DisciplineRegistry,
    ) -> Result<PortSpec, (&'static str, String)> {
        self.taken_apart()?.plain_spec(link, mtu, pool, own)
    }

    fn plain_spec(
        &self,
        link: &Link,
        mtu: u32,
        pool: Option<PoolId>,
        own: &DisciplineRegistry,
    ) -> Result<PortSpec, (&'static str, String)> {
        let packet = ByteCount::from(link.spec().framing.buffer_len(mtu));
        if let QueueLimit::Bytes(limit) = self.limit
            && limit < packet
        {
            let (limit, packet) = (Size(limit), Size(packet));
            let why = format!(
                "{limit} holds no packet: allowed is {packet} and more with network.mtu {mtu}"
            );
            return Err(("limit", why));
        }
        let discipline = self.discipline_spec(link.rate, mtu, own);
        Ok(PortSpec {
            discipline: self.split(discipline.map_err(|why| ("discipline", why))?, mtu),
            in_service: in_service(self.counting),
            pool,
            ..PortSpec::new(port_capacity(self.limit, self.counting))
        })
    }

    /// A first-in, first-out discipline in each queue of the split, if there is one.
    fn split(&self, discipline: DisciplineSpec, mtu: u32) -> DisciplineSpec {
        let Some(queues) = self.split else {
            return discipline;
        };
        let step = match discipline {
            DisciplineSpec::EcnStep {
                threshold,
                not_capable,
            } => Some((threshold, not_capable)),
            _ => None,
        };
        DisciplineSpec::Split(SplitSpec {
            turns: match self.split_turns {
                Some(SplitTurns::Byte) => Turns::Byte {
                    quantum: link::Framing::Ethernet.buffer_len(mtu).max(256),
                },
                Some(SplitTurns::Packet) | None => Turns::Packet,
            },
            step,
            ..SplitSpec::new(queues)
        })
    }

    fn discipline_spec(
        &self,
        rate: Rate,
        mtu: u32,
        own: &DisciplineRegistry,
    ) -> Result<DisciplineSpec, String> {
        let threshold = |limit| match limit {
            QueueLimit::Bytes(b) => Threshold::Bytes(b.get()),
            QueueLimit::Packets(p) => Threshold::Packets(p),
        };
        let time = |given: Option<Duration>, else_ms| {
            SimTime::from_duration(given.unwrap_or(Duration::from_millis(else_ms)))
        };
        let codel = CodelSpec {
            target: time(self.target, 5),
            interval: time(self.interval, 100),
            // With or without framing: one packet.
            max_packet: link::Framing::Ethernet.buffer_len(mtu).into(),
            ce_threshold: self.ce_threshold.map(SimTime::from_duration),
        };
        let quantum = self.quantum.map(|q| q.get() as u32);
        Ok(match &self.discipline {
            Discipline::DropTail => DisciplineSpec::DropTail,
            Discipline::EcnStep => DisciplineSpec::EcnStep {
                threshold: threshold(
                    self.threshold
                        .unwrap_or(QueueLimit::Bytes(ByteCount::new(30_000))),
                ),
                not_capable: NotCapable::Pass,
            },
            Discipline::Red => {
                let share = self.probability.unwrap_or(Share(Share::ALL.0 / 10));
                DisciplineSpec::Red(RedSpec {
                    min: threshold(self.min.unwrap_or(QueueLimit::Packets(20))),
                    max: threshold(self.max.unwrap_or(QueueLimit::Packets(60))),
                    max_p: Probability::ratio(share.0.into(), Share::ALL.0.into()),
                    weight_log2: self.weight.unwrap_or(9),
                    gentle: false,
                    idle_step: SimTime::from_duration(rate.time_for(ByteCount::from(mtu))),
                    above_max: AboveMax::Drop,
                    not_capable: NotCapable::Drop,
                })
            }
            Discipline::Codel => DisciplineSpec::Codel(codel),
            Discipline::FqCodel => {
                let of_rfc = FqCodelSpec::new(codel);
                DisciplineSpec::FqCodel(FqCodelSpec {
                    quantum: quantum.unwrap_or(of_rfc.quantum),
                    queues: self.flows.unwrap_or(of_rfc.queues),
                    ..of_rfc
                })
            }
            Discipline::Drr => DisciplineSpec::Drr(DrrSpec::Flows {
                quantum: quantum.unwrap_or(1_514),
                queues: self.flows.unwrap_or(1_024),
            }),
            Discipline::StrictPriority => {
                DisciplineSpec::StrictPriority(StrictPrioritySpec::default())
            }
            Discipline::Trimming => DisciplineSpec::Trimming(TrimmingSpec::new(capacity(
                self.headers.unwrap_or(self.limit),
            ))),
            Discipline::Named(text) => {
                let factory = own.get(text).map_err(|e| e.to_string())?;
                DisciplineSpec::Own(OwnDiscipline::new(text, factory))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(keys: &[(&str, &str)]) -> Queue {
        let mut queue = Queue::default();
        for (key, value) in keys {
            queue.set(key, value).unwrap();
        }
        queue
    }

    /// One notation for all disciplines, those of one's own among them.
    #[test]
    fn parameters_of_a_discipline_are_its_keys() {
        let own = DisciplineRegistry::empty("queue discipline");
        let spec = |queue: &Queue| queue.spec(&Link::default(), 1_500, None, &own).unwrap();
        let parameters: [(&str, &[(&str, &str)]); 4] = [
            ("red", &[("min", "5p"), ("max", "15p")]),
            ("codel", &[("target", "1ms"), ("interval", "20ms")]),
            ("fq-codel", &[("flows", "16")]),
            ("ecn-step", &[("threshold", "20p"), ("split", "2")]),
        ];
        for (name, keys) in parameters {
            let pairs: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
            let short = format!("{name}:{}", pairs.join(","));
            let with = queue(&[("discipline", &short)]);
            let long = queue(&[&[("discipline", name)], keys].concat());
            assert_eq!(spec(&with), spec(&long), "{short}");
            assert_ne!(
                spec(&with),
                spec(&queue(&[("discipline", name)])),
                "{short}"
            );
            assert_eq!(with.get("discipline").as_deref(), Some(&*short));
        }
        for (text, why) in [
            ("red:mni=5p", "did you mean 'min'?"),
            ("red:min=5x", "there is no unit"),
            ("red:min", "not of the form"),
            ("red:threshold=5p", "there is no 'threshold' here"),
            ("trimming:", "not of the form"),
            ("strict-priority:flows=3", "nothing can be set here"),
            ("codel:target=1s,interval=1ms", "not below the interval"),
            ("red:min=5p,min=6p", "twice"),
        ] {
            let (_, e) = queue(&[("discipline", text)]).check().unwrap_err();
            assert!(e.contains(why), "{text}: {e}");
        }
        let twice = queue(&[("discipline", "red:min=5p"), ("min", "6p")]);
        assert!(twice.check().unwrap_err().1.contains("twice"));
    }
}

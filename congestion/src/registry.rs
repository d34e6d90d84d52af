//! Congestion controls and RTO policies by name, for command lines and sweeps; users add theirs.
//!
//! ```
//! use narrows_congestion::{FlowStart, Reno, registry::CongestionRegistry};
//!
//! let mut registry = CongestionRegistry::standard();
//! registry.register("mine", "Reno under another name", |start: &FlowStart| Reno::new(start));
//! assert!(registry.get("mine").is_ok());
//! assert!(registry.get("dctcp:g=1/32,floor=1").is_ok());
//! let error = registry.get("cubik").err().unwrap();
//! assert!(error.to_string().starts_with("no congestion control 'cubik'; did you mean 'cubic'?"));
//! ```

use crate::cubic::{Cubic, CubicConfig};
use crate::dctcp::{Dctcp, DctcpConfig};
use crate::factory::{CongestionFactory, RtoFactory};
use crate::fixed::Fixed;
use crate::flow::FlowStart;
use crate::near_match::nearest;
use crate::reno::{RecoveryEnd, Reno};
use crate::rto::{Floor, Randomization, StandardRto, presets};
use crate::slow_start::SlowStart;
use crate::units::Duration;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Congestion controls by name.
pub type CongestionRegistry = Registry<dyn CongestionFactory>;

/// RTO policies by name.
pub type RtoRegistry = Registry<dyn RtoFactory>;

/// Makes a factory from a name that is a duration, given as text.
type ByDuration<F> = fn(&str) -> Result<Arc<F>, String>;

/// Makes a factory from the text after `name:`, or says what is wrong with that text.
type Make<F> = Arc<dyn Fn(Option<&str>) -> Result<Arc<F>, String> + Send + Sync>;

/// Factories by name. A name may carry parameters: `fixed:20`, `dctcp:g=1/32,floor=1`.
pub struct Registry<F: ?Sized> {
    kind: &'static str,
    entries: Vec<Entry<F>>,
    /// How a name that is a duration is read.
    by_duration: Option<ByDuration<F>>,
}

/// One entry of a [`Registry`].
pub struct Entry<F: ?Sized> {
    name: String,
    usage: String,
    about: String,
    make: Make<F>,
}

impl<F: ?Sized> Clone for Registry<F> {
    fn clone(&self) -> Self {
        Self {
            kind: self.kind,
            entries: self.entries.clone(),
            by_duration: self.by_duration,
        }
    }
}

impl<F: ?Sized> Clone for Entry<F> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            usage: self.usage.clone(),
            about: self.about.clone(),
            make: Arc::clone(&self.make),
        }
    }
}

impl<F: ?Sized> Entry<F> {
    /// The name, lower case.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The name with its parameters, as a user types it: `fixed[:SEGMENTS]`.
    pub fn usage(&self) -> &str {
        &self.usage
    }
    /// One line that says what it is.
    pub fn about(&self) -> &str {
        &self.about
    }
}

/// Why a name gave no factory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LookupError {
    /// No entry has that name.
    Unknown {
        /// What was looked for: `congestion control`, `RTO policy`.
        kind: &'static str,
        /// The name asked for.
        asked: String,
        /// The entry whose name is nearest, if one is near.
        near: Option<String>,
        /// All names, as [`Entry::usage`].
        known: Vec<String>,
    },
    /// The entry exists, its parameters make no sense.
    Parameter {
        /// How the entry is written.
        usage: String,
        /// What is wrong.
        message: String,
    },
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown {
                kind,
                asked,
                near,
                known,
            } => {
                write!(f, "no {kind} '{asked}'")?;
                if let Some(near) = near {
                    return write!(f, "; did you mean '{near}'?");
                }
                let names: Vec<&str> = known
                    .iter()
                    .map(|k| k.split([':', '[']).next().unwrap_or(k))
                    .collect();
                write!(f, "; known are {}", names.join(", "))
            }
            Self::Parameter { usage, message } => write!(f, "{message} (usage: {usage})"),
        }
    }
}

impl core::error::Error for LookupError {}

impl<F: ?Sized> Registry<F> {
    /// A registry without entries; `kind` names in errors what it holds.
    pub fn empty(kind: &'static str) -> Self {
        Self {
            kind,
            entries: Vec::new(),
            by_duration: None,
        }
    }

    /// All entries, in the order of registration.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry<F>> {
        self.entries.iter()
    }

    /// The factory for `spec`, a name or `name:parameters`, in either case of letters.
    ///
    /// # Errors
    /// [`LookupError::Unknown`] with the near match and all names, or
    /// [`LookupError::Parameter`].
    pub fn get(&self, spec: &str) -> Result<Arc<F>, LookupError> {
        let spec = spec.trim().to_lowercase();
        let (name, parameters) = match spec.split_once(':') {
            Some((name, parameters)) => (name.trim_end(), Some(parameters.trim())),
            None => (spec.as_str(), None),
        };
        if let Some(entry) = self.entries.iter().find(|e| e.name == name) {
            return (entry.make)(parameters).map_err(|message| LookupError::Parameter {
                usage: entry.usage.clone(),
                message: format!("{} '{}': {message}", self.kind, entry.name),
            });
        }
        if let (Some(make), Ok(value)) = (self.by_duration, Duration::from_str(&spec))
            && !value.is_zero()
        {
            return make(&spec).map_err(|message| LookupError::Parameter {
                usage: "TIME".to_owned(),
                message: format!("{} '{spec}': {message}", self.kind),
            });
        }
        Err(LookupError::Unknown {
            kind: self.kind,
            asked: spec.clone(),
            near: nearest(name, self.entries.iter().map(|e| &*e.name)).map(ToOwned::to_owned),
            known: self.entries.iter().map(|e| e.usage.clone()).collect(),
        })
    }

    /// Add an entry that reads parameters: `make` gets the text after `name:`. An entry of the
    /// same name is replaced.
    pub fn register_with(
        &mut self,
        name: &str,
        usage: &str,
        about: &str,
        make: impl Fn(Option<&str>) -> Result<Arc<F>, String> + Send + Sync + 'static,
    ) {
        let entry = Entry {
            name: name.to_lowercase(),
            usage: usage.to_owned(),
            about: about.to_owned(),
            make: Arc::new(make),
        };
        match self.entries.iter_mut().find(|e| e.name == entry.name) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    /// Add an entry without parameters. An entry of the same name is replaced.
    pub fn register_arc(&mut self, name: &str, about: &str, factory: Arc<F>)
    where
        F: Send + Sync + 'static,
    {
        self.register_with(name, name, about, move |parameters| match parameters {
            None => Ok(Arc::clone(&factory)),
            Some(_) => Err("takes no parameters".to_owned()),
        });
    }
}

impl Registry<dyn CongestionFactory> {
    /// Reno, CUBIC, DCTCP and the fixed window.
    pub fn standard() -> Self {
        let mut r = Self::empty("congestion control");
        r.register_with(
            "reno",
            "reno[:slow-start=standard|hystart|hystart-paced|hybrid,l=SEGMENTS,end=deflate|ssthresh]",
            "RFC 5681 with byte counting; NewReno or SACK with the loss detector of that name",
            |p| {
                let mut slow_start = SlowStart::STANDARD;
                let mut end = RecoveryEnd::default();
                for (key, value) in pairs(p)? {
                    match (key, value) {
                        ("end", "deflate") => end = RecoveryEnd::Deflate,
                        ("end", "ssthresh") => end = RecoveryEnd::Ssthresh,
                        ("end", _) => {
                            return Err(format!("end is deflate or ssthresh, not '{value}'"));
                        }
                        _ => parse_slow_start(&mut slow_start, key, value)?,
                    }
                }
                Ok(Arc::new(move |s: &FlowStart| {
                    Reno::with_slow_start(s, slow_start).with_recovery_end(end)
                }))
            },
        );
        r.register_with(
            "cubic",
            "cubic[:slow-start=...,l=SEGMENTS,fast-convergence=on|off]",
            "RFC 9438, with hybrid slow start unless told otherwise",
            |p| {
                let mut config = CubicConfig::default();
                for (key, value) in pairs(p)? {
                    match key {
                        "fast-convergence" => config.fast_convergence = parse_switch(value)?,
                        _ => parse_slow_start(&mut config.slow_start, key, value)?,
                    }
                }
                Ok(Arc::new(move |s: &FlowStart| Cubic::with_config(s, config)))
            },
        );
        r.register_with(
            "dctcp",
            "dctcp[:g=1/16,floor=SEGMENTS,slow-start=...,l=SEGMENTS]",
            "RFC 8257: cuts in proportion to the fraction of marked bytes; wants ECN",
            |p| {
                let mut config = DctcpConfig::default();
                for (key, value) in pairs(p)? {
                    match key {
                        "g" => config.g = parse_gain(value)?,
                        "floor" => config.floor_segments = parse_count(value)?,
                        _ => parse_slow_start(&mut config.slow_start, key, value)?,
                    }
                }
                Ok(Arc::new(move |s: &FlowStart| Dctcp::with_config(s, config)))
            },
        );
        r.register_with(
            "fixed",
            "fixed[:SEGMENTS]",
            "a constant window (the initial one by default) that reacts to nothing",
            |p| match p {
                None => Ok(Arc::new(|s: &FlowStart| Fixed::new(s))),
                Some(n) => {
                    let segments = u64::from(parse_count(n)?);
                    Ok(Arc::new(move |s: &FlowStart| Fixed::segments(s, segments)))
                }
            },
        );
        r
    }

    /// Add an algorithm; a closure is a factory. An entry of the same name is replaced.
    pub fn register(&mut self, name: &str, about: &str, factory: impl CongestionFactory + 'static) {
        self.register_arc(name, about, Arc::new(factory));
    }
}

impl Registry<dyn RtoFactory> {
    /// The presets of [`crate::rto::presets`]. A bare duration (`200ms`, `50us`) is RFC 6298
    /// with that floor.
    pub fn standard() -> Self {
        let mut r = Self::empty("RTO policy");
        r.by_duration = Some(floor);
        for (preset, about) in [
            (presets::rfc6298(), "RFC 6298: floor 1 s"),
            (
                presets::linux(),
                "like Linux: SRTT + max(200 ms, 4 RTTVAR), cap 120 s",
            ),
            (
                presets::bsd(),
                "like FreeBSD: floor 30 ms, 200 ms of slop, cap 64 s",
            ),
            (presets::floor_200ms(), "RFC 6298 with a floor of 200 ms"),
            (presets::one_ms(), "RFC 6298 with a floor of 1 ms"),
            (presets::fine(), "no floor, granularity 1 us"),
            (
                presets::fine_randomized(),
                "no floor, stretched at random by up to a half, then doubled per timeout",
            ),
        ] {
            let usage = format!("{}[:initial=TIME,max=TIME,...]", preset.name);
            r.register_with(preset.name, &usage, about, move |p| {
                preset_with(preset, None, p)
            });
        }
        r.register_with(
            "floor",
            "floor:TIME[,initial=TIME,max=TIME,granularity=TIME,randomized=on|off]",
            "RFC 6298 with any floor; a bare TIME means the same",
            |p| floor(p.ok_or("needs a time")?),
        );
        r.register_with(
            "fixed",
            "fixed:TIME",
            "always the same: no measurement, no backoff",
            |p| preset_with(presets::fixed(Duration::ZERO), Some(presets::fixed), p),
        );
        r
    }

    /// Add a policy; a closure is a factory. An entry of the same name is replaced.
    pub fn register(&mut self, name: &str, about: &str, factory: impl RtoFactory + 'static) {
        self.register_arc(name, about, Arc::new(factory));
    }
}

impl<F: ?Sized> fmt::Debug for Registry<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.entries.iter().map(|e| &e.usage))
            .finish()
    }
}

/// A preset, changed by `parameters`; `by_value` makes it from the first of them.
fn preset_with(
    preset: StandardRto,
    by_value: Option<fn(Duration) -> StandardRto>,
    parameters: Option<&str>,
) -> Result<Arc<dyn RtoFactory>, String> {
    let mut policy = preset;
    let mut rest = parameters;
    if let Some(by_value) = by_value {
        let text = parameters.ok_or("needs a time")?;
        let (value, others) = match text.split_once(',') {
            Some((value, others)) => (value, Some(others)),
            None => (text, None),
        };
        policy = by_value(parse_time(value)?);
        rest = others;
    }
    for (key, value) in pairs(rest)? {
        match key {
            "initial" => policy.initial = parse_time(value)?,
            "max" => policy.max = parse_time(value)?,
            "granularity" => policy.granularity = parse_time(value)?,
            "randomized" if parse_switch(value)? => policy.randomization = Randomization::HALF,
            "randomized" => policy.randomization = Randomization::None,
            _ => return Err(unknown_key(key)),
        }
    }
    if let Floor::Rto(min) = policy.floor
        && min > policy.max
    {
        let max = policy.max;
        return Err(format!(
            "the floor {min} is above the cap {max}; allowed is up to {max}, or a greater cap as \
             in floor:{min},max={min}"
        ));
    }
    if policy.max < SHORTEST_CAP {
        return Err(format!(
            "max={} is too short: at least {SHORTEST_CAP}",
            policy.max
        ));
    }
    Ok(policy.shared())
}

/// RFC 6298 with the floor that `text` begins with.
fn floor(text: &str) -> Result<Arc<dyn RtoFactory>, String> {
    let none = presets::floor(Duration::ZERO);
    preset_with(none, Some(presets::floor), Some(text))
}

/// With a cap below this the timer does nothing but fire.
const SHORTEST_CAP: Duration = Duration::from_micros(1);

/// `a=1,b=2` taken apart.
fn pairs(parameters: Option<&str>) -> Result<Vec<(&str, &str)>, String> {
    let items = parameters.into_iter().flat_map(|p| p.split(','));
    items
        .map(|item| match item.split_once('=') {
            Some((key, value)) => Ok((key.trim(), value.trim())),
            None => Err(format!("'{item}' is not of the form key=value")),
        })
        .collect()
}

fn parse_slow_start(slow_start: &mut SlowStart, key: &str, value: &str) -> Result<(), String> {
    *slow_start = match (key, value) {
        ("slow-start", "standard") => SlowStart::STANDARD,
        ("slow-start", "hystart" | "hystart++") => SlowStart::HYSTART,
        ("slow-start", "hystart-paced") => SlowStart::HYSTART_PACED,
        ("slow-start", "hybrid") => SlowStart::HYBRID,
        ("slow-start", _) => {
            return Err(format!(
                "slow-start is standard, hystart, hystart-paced or hybrid, not '{value}'"
            ));
        }
        ("l", _) => SlowStart::Standard {
            limit: parse_count(value)?,
        },
        _ => return Err(unknown_key(key)),
    };
    Ok(())
}

fn unknown_key(key: &str) -> String {
    format!("no parameter '{key}'")
}

fn parse_count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n @ 1..=1_000_000) => Ok(n),
        _ => Err(format!(
            "'{text}' is not a number of segments from 1 to 1000000"
        )),
    }
}

fn parse_gain(text: &str) -> Result<(u32, u32), String> {
    let parsed = text
        .split_once('/')
        .and_then(|(n, d)| Some((n.trim().parse::<u32>().ok()?, d.trim().parse::<u32>().ok()?)));
    match parsed {
        Some((n, d)) if n >= 1 && n <= d => Ok((n, d)),
        _ => Err(format!(
            "'{text}' is not a fraction between 0 and 1, such as 1/16"
        )),
    }
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("'{text}' is neither on nor off")),
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    match Duration::from_str(text) {
        Ok(d) if !d.is_zero() => Ok(d),
        Ok(_) => Err("the time must not be zero".to_owned()),
        Err(e) => Err(format!("'{text}': {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::ByteCount;
    use crate::{RtoContext, RttEstimator};
    use alloc::string::ToString;

    fn start() -> FlowStart {
        FlowStart::new(ByteCount::new(1_000), ByteCount::new(10_000))
    }

    #[test]
    fn every_standard_entry_builds_under_its_own_name() {
        for entry in CongestionRegistry::standard().entries() {
            let factory = CongestionRegistry::standard().get(entry.name()).unwrap();
            assert_eq!(factory.build(&start()).name(), entry.name());
            assert!(!entry.about().is_empty() && entry.usage().starts_with(entry.name()));
        }
        for preset in presets::all() {
            let factory = RtoRegistry::standard().get(preset.name).unwrap();
            assert_eq!(factory.build().name(), preset.name);
        }
    }

    #[test]
    fn parameters() {
        let cc = CongestionRegistry::standard();
        assert_eq!(
            cc.get("fixed:20").unwrap().build(&start()).cwnd(),
            ByteCount::new(20_000)
        );
        assert_eq!(
            cc.get(" FIXED ").unwrap().build(&start()).cwnd(),
            ByteCount::new(10_000)
        );
        for good in [
            "reno:slow-start=hystart",
            "cubic:slow-start=hybrid",
            "reno:l=1",
            "reno:end=ssthresh,slow-start=hystart",
            "cubic:fast-convergence=off,slow-start=standard",
            "dctcp:g=1/32,floor=1",
        ] {
            assert!(cc.get(good).is_ok(), "{good}");
        }
        for bad in [
            "fixed:0",
            "fixed:x",
            "reno:",
            "reno:x=1",
            "reno:slow-start=no",
            "reno:end=burst",
            "cubic:fast-convergence=maybe",
            "dctcp:g=2/1",
            "dctcp:g=0.5",
            "dctcp:floor=0",
            "dctcp:floor",
        ] {
            let error = cc.get(bad).err().expect(bad);
            assert!(
                matches!(error, LookupError::Parameter { .. }),
                "{bad}: {error}"
            );
        }
    }

    #[test]
    fn rto_by_value() {
        let mut e = RttEstimator::new();
        e.on_sample(Duration::from_micros(100), crate::Instant::ZERO);
        let r = RtoRegistry::standard();
        for (spec, us) in [
            ("200ms", 200_000),
            ("1ms", 1_000),
            ("50us", 300),
            ("floor:5ms", 5_000),
            ("fixed:200us", 200),
            ("fine:granularity=1ms", 1_100),
            ("linux:max=150ms", 150_000),
        ] {
            let policy = r.get(spec).unwrap().build();
            assert_eq!(
                policy.rto(&e, &RtoContext::default()).as_micros(),
                us,
                "{spec}"
            );
        }
        let policy = r.get("floor:200ms,initial=3s").unwrap().build();
        let fresh = RttEstimator::new();
        assert_eq!(
            policy.rto(&fresh, &RtoContext::default()),
            Duration::from_secs(3)
        );
        for bad in [
            "floor",
            "floor:0s",
            "fixed:abc",
            "floor:90s",
            "90s",
            "linux:min=1s",
            "0ms",
            "5h",
        ] {
            assert!(r.get(bad).is_err(), "{bad}");
        }
    }

    /// A bare time is held to the range that the same floor by name is held to.
    #[test]
    fn a_bare_time_is_the_floor_of_that_name() {
        let r = RtoRegistry::standard();
        let build = |spec: &str| r.get(spec).map(|f| f.build()).map_err(|e| e.to_string());
        for time in ["1us", "60s"] {
            let (bare, named) = (
                build(time).unwrap(),
                build(&format!("floor:{time}")).unwrap(),
            );
            let mut e = RttEstimator::new();
            e.on_sample(Duration::from_micros(100), crate::Instant::ZERO);
            let rto = |p: &dyn crate::RtoPolicy| p.rto(&e, &RtoContext::default());
            assert_eq!(rto(&*bare), rto(&*named), "{time}");
        }
        for time in ["60001ms", "100s"] {
            for spec in [time.to_owned(), format!("floor:{time}")] {
                let Err(error) = build(&spec) else {
                    panic!("{spec} is taken");
                };
                assert!(
                    error.contains("above the cap 60s; allowed is up to 60s"),
                    "{error}"
                );
            }
            assert!(build(&format!("floor:{time},max={time}")).is_ok());
        }
    }

    #[test]
    fn unknown_names_get_the_near_match_and_the_list() {
        let cc = CongestionRegistry::standard();
        for (asked, expected) in [
            ("cubik", Some("cubic")),
            ("dctp", Some("dctcp")),
            ("rneo", Some("reno")),
            ("cubci", Some("cubic")),
            ("ren", Some("reno")),
            ("fix", Some("fixed")),
            ("vegas", None),
        ] {
            match cc.get(asked).err() {
                Some(LookupError::Unknown { near, known, .. }) => {
                    assert_eq!(near.as_deref(), expected, "{asked}");
                    assert_eq!(known.len(), 4);
                }
                other => panic!("{asked}: {other:?}"),
            }
        }
        let error = RtoRegistry::standard()
            .get("finee")
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.starts_with("no RTO policy 'finee'; did you mean 'fine'?"),
            "{error}"
        );
    }

    #[test]
    fn users_register_and_replace() {
        let mut r = CongestionRegistry::standard();
        let n = r.entries().len();
        r.register("Mine", "a test", |s: &FlowStart| Fixed::segments(s, 3));
        r.register("reno", "replaced", |s: &FlowStart| Fixed::segments(s, 7));
        assert_eq!(r.entries().len(), n + 1);
        assert_eq!(
            r.get("mine").unwrap().build(&start()).cwnd(),
            ByteCount::new(3_000)
        );
        assert_eq!(
            r.get("reno").unwrap().build(&start()).cwnd(),
            ByteCount::new(7_000)
        );
        assert!(r.get("mine:1").is_err());
        let mut r = RtoRegistry::standard();
        r.register("mine", "a test", || presets::fixed(Duration::from_secs(7)));
        assert!(r.get("mine").is_ok());
    }
}

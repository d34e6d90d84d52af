//! Values as people write them.
//!
//! Sizes: `kB`, `KB`, `MB`, `GB` and `TB` are powers of 1000, `KiB` to `TiB` of 1024, as in IEC
//! 80000-13. Papers that write "256KB" for a power of two mean `256KiB`; the defaults of the
//! scenarios do, too.

use crate::spec::{Codel, DelayedAck, Impair, ImpairedWay, QueueLimit, Red, Share, SharedBuffer};
use narrows::{ByteCount, Duration, Rate};
use narrows_net::near_match::nearest;

/// One or more values of an option, separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

/// `parse`, whose errors end with what is allowed: the range that the scenario has for the option.
pub fn allowed<T>(
    range: &'static str,
    parse: impl Fn(&str) -> Result<T, String> + Clone,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| parse(text).map_err(|why| format!("{why}; allowed is {range}"))
}

/// How many bytes of a packet a capture keeps. libpcap reads up to 262,144.
pub fn snap_length(text: &str) -> Result<ByteCount, String> {
    const RANGE: &str = "allowed is 40B to 256KiB";
    match size(text) {
        Ok(n) if (40..=256 << 10).contains(&n.get()) => Ok(n),
        Ok(_) => Err(RANGE.to_owned()),
        Err(why) => Err(format!("{why}; {RANGE}")),
    }
}

/// Names, lower case; which ones exist is checked against the catalog later. A name may carry
/// parameters with commas of their own: `reno,dctcp:g=1/32,floor=1` is two names. They are dealt out
/// in turn, so that one may come again.
pub fn names_in_turn(text: &str) -> Result<List<String>, String> {
    let mut names: Vec<String> = Vec::new();
    for item in text.split(',') {
        let item = item.trim().to_lowercase();
        let parameter = item.contains('=') && !item.contains(':');
        match names
            .last_mut()
            .filter(|last| parameter && last.contains(':'))
        {
            Some(last) => *last = format!("{last},{item}"),
            None if item.is_empty() => return Err("a name is missing".to_owned()),
            None => names.push(item),
        }
    }
    Ok(List(names))
}

/// `on` or `off`.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" | "yes" | "true" => Ok(true),
        "off" | "no" | "false" => Ok(false),
        _ => Err("expected 'on' or 'off'".to_owned()),
    }
}

/// The least and the greatest rate, in bits per second.
const RATES: (u64, u64) = (1_000, 1_000_000_000_000);
/// The same for people.
#[doc(hidden)]
pub const RATES_IN_WORDS: &str = "1kb/s to 1Tb/s";

/// `1Gb/s`, `10G`, `100Mbit/s`, `2.5Gbps`.
pub fn rate(text: &str) -> Result<Rate, String> {
    const HELP: &str =
        "expected a rate with its unit, from 1kb/s to 1Tb/s, such as 1Gb/s, 10G or 100Mbit/s";
    let (number, unit) = split(text);
    if unit.contains('B') && !unit.eq_ignore_ascii_case("bps") {
        return Err(format!(
            "{HELP}; '{unit}' with a large B would be bytes, rates are in bits"
        ));
    }
    let unit = unit.to_ascii_lowercase();
    let unit = ["bits/s", "bit/s", "b/s", "bps", "bit", "b"]
        .iter()
        .find_map(|tail| unit.strip_suffix(tail))
        .unwrap_or(&unit);
    let factor = match unit {
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "t" => 1_000_000_000_000,
        "" if text.ends_with(|c: char| c.is_ascii_alphabetic()) => 1,
        _ => return Err(HELP.to_owned()),
    };
    let bps = scaled(number, factor).ok_or(HELP)?;
    if !(RATES.0..=RATES.1).contains(&bps) {
        return Err(HELP.to_owned());
    }
    Ok(Rate::from_bits_per_sec(bps))
}

/// `25us`, `1.5ms`, `200ms`, `3s`, or `0`.
pub fn duration(text: &str) -> Result<Duration, String> {
    const HELP: &str = "expected a time with its unit, such as 25us, 1.5ms, 200ms or 3s";
    let (number, unit) = split(text);
    let factor = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "" if number == "0" => 1,
        "" => return Err(format!("{HELP}: the unit is missing")),
        other => return Err(no_unit(HELP, number, other)),
    };
    scaled(number, factor)
        .map(Duration::from_nanos)
        .ok_or_else(|| HELP.to_owned())
}

/// A time longer than none.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        d if d.is_zero() => Err("it must be longer than zero".to_owned()),
        d => Ok(d),
    }
}

/// `256KiB`, `64KB`, `1500B`, or a bare number of bytes.
pub fn size(text: &str) -> Result<ByteCount, String> {
    const HELP: &str = "expected a size such as 256KiB (1024s), 64KB (1000s), 1MB or 1500B";
    let (number, unit) = split(text);
    let factor = size_factor(unit).ok_or_else(|| no_unit(HELP, number, unit))?;
    scaled(number, factor)
        .map(ByteCount::new)
        .ok_or_else(|| HELP.to_owned())
}

fn size_factor(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        "t" | "tb" => 1_000_000_000_000,
        "ti" | "tib" => 1 << 40,
        _ => return None,
    })
}

/// `64p` or `64packets`, or a size with its unit.
pub fn queue(text: &str) -> Result<QueueLimit, String> {
    const HELP: &str = "expected packets or bytes, such as 64p, 64packets, 64KiB or 100KB";
    let (number, unit) = split(text);
    match unit {
        "" => Err(format!(
            "{HELP}: is '{text}' packets ({text}p) or bytes ({text}B)?"
        )),
        "p" | "pkt" | "pkts" | "packet" | "packets" => number
            .parse()
            .map(QueueLimit::Packets)
            .map_err(|_| format!("{HELP}; at most 4 billion packets")),
        unit => {
            let factor = size_factor(unit).ok_or_else(|| no_unit(HELP, number, unit))?;
            scaled(number, factor)
                .map(|b| QueueLimit::Bytes(ByteCount::new(b)))
                .ok_or_else(|| HELP.to_owned())
        }
    }
}

/// The step threshold of ECN: a queue; `None` of `off`.
pub fn ecn_threshold(text: &str) -> Result<Option<QueueLimit>, String> {
    match text {
        "off" | "none" => Ok(None),
        _ => queue(text)
            .map(Some)
            .map_err(|e| e.replacen("expected ", "expected off, ", 1)),
    }
}

/// RED: `MIN:MAX:PERCENT`.
pub fn red(text: &str) -> Result<Red, String> {
    const HELP: &str = "expected MIN:MAX:PERCENT, such as 20p:60p:10 or 30KB:90KB:2.5";
    let parts: Vec<&str> = text.split(':').collect();
    let [min, max, percent] = parts[..] else {
        return Err(HELP.to_owned());
    };
    let (min, max) = (queue(min)?, queue(max)?);
    let percent = percent.strip_suffix('%').unwrap_or(percent);
    let max_permille = scaled(percent, 10)
        .and_then(|p| u32::try_from(p).ok())
        .ok_or(HELP)?;
    if !(1..=1_000).contains(&max_permille) {
        return Err("the probability must be 0.1 to 100 percent".to_owned());
    }
    Ok(Red {
        min,
        max,
        max_permille,
    })
}

/// CoDel: `TARGET:INTERVAL`, or `TARGET:INTERVAL:CE` to mark what waited longer than CE.
pub fn codel(text: &str) -> Result<Codel, String> {
    const HELP: &str =
        "expected TARGET:INTERVAL[:CE], such as 5ms:100ms, or 50us:1ms:20us to mark above 20us";
    let times: Vec<Duration> = text
        .split(':')
        .map(duration)
        .collect::<Result<_, _>>()
        .map_err(|why| format!("{HELP}: {why}"))?;
    let (target, interval, ce_threshold) = match times[..] {
        [target, interval] => (target, interval, None),
        [target, interval, ce] => (target, interval, Some(ce)),
        _ => return Err(HELP.to_owned()),
    };
    Ok(Codel {
        target,
        interval,
        ce_threshold,
    })
}

/// `SIZE[:ALPHA]`: a pool of memory and the share of what is free that a port may hold, a whole
/// number, a fraction or a decimal.
pub fn shared_buffer(text: &str) -> Result<SharedBuffer, String> {
    const HELP: &str = "expected SIZE or SIZE:ALPHA, such as 4MB, 4MB:1/4 or 4MB:0.5";
    let (bytes, alpha) = text.split_once(':').unwrap_or((text, "1"));
    let part = |t: &str| {
        let n = t.trim().parse::<u32>().ok().filter(|n| *n > 0);
        n.ok_or_else(|| format!("{HELP}; alpha is above zero"))
    };
    let alpha = match (alpha.split_once('/'), alpha.split_once('.')) {
        (Some((num, den)), _) => (part(num)?, part(den)?),
        (None, Some((_, digits))) => {
            let den = u32::try_from(digits.len())
                .ok()
                .and_then(|d| 10_u32.checked_pow(d));
            let den = den.filter(|d| *d <= 1_000_000).ok_or(HELP)?;
            let num = scaled(alpha, u64::from(den)).and_then(|n| u32::try_from(n).ok());
            (num.filter(|n| *n > 0).ok_or(HELP)?, den)
        }
        (None, None) => (part(alpha)?, 1),
    };
    if alpha.0.max(alpha.1) > 1 << 20 {
        return Err(format!("{HELP}; alpha's parts are 1 to 1048576"));
    }
    let size = size(bytes)?;
    Ok(SharedBuffer { size, alpha })
}

/// `loss=0.1%,reorder=1%,hold=20us-80us,duplicate=1/1000,corrupt=0.01,on=data`.
pub fn impair(text: &str) -> Result<Impair, String> {
    const KEYS: [&str; 6] = ["loss", "corrupt", "duplicate", "reorder", "hold", "on"];
    let mut impair = Impair::default();
    let mut seen: Vec<&str> = Vec::new();
    for item in text.split(',') {
        let (key, value) = item.trim().split_once('=').ok_or_else(|| {
            format!(
                "expected KIND=SHARE, such as loss=0.1%, and not '{}'",
                item.trim()
            )
        })?;
        match key {
            "loss" => impair.loss = share(value)?,
            "corrupt" => impair.corrupt = share(value)?,
            "duplicate" => impair.duplicate = share(value)?,
            "reorder" => impair.reorder = share(value)?,
            "hold" => {
                let (least, most) = value.split_once('-').unwrap_or((value, value));
                impair.hold = (duration(least)?, duration(most)?);
            }
            "on" => {
                let way = ImpairedWay::EACH.into_iter().find(|w| w.name() == value);
                impair.on = way.ok_or("on is data (to the client), acks (from it) or both")?;
            }
            _ => {
                return Err(match nearest(key, KEYS.into_iter()) {
                    Some(near) => format!("there is no '{key}'; did you mean '{near}'?"),
                    None => format!("there is no '{key}'; known are {}", KEYS.join(", ")),
                });
            }
        }
        if seen.contains(&key) {
            return Err(format!("'{key}' is there twice"));
        }
        seen.push(key);
    }
    if seen.contains(&"hold") && impair.reorder.0 == 0 {
        return Err("hold says how long reordered packets wait: give reorder, too".to_owned());
    }
    if impair.is_clean() {
        return Err(format!(
            "nothing goes wrong: give one of {}",
            KEYS[..4].join(", ")
        ));
    }
    Ok(impair)
}

/// A share of all packets: `0.1%`, `1/1000` or `0.001`.
pub fn share(text: &str) -> Result<Share, String> {
    const HELP: &str = "expected a share such as 0.1%, 1/1000 or 0.001, at most 100%";
    let parts = match (text.strip_suffix('%'), text.split_once('/')) {
        (Some(percent), _) => scaled(percent.trim(), 10_000_000),
        (None, Some((num, den))) => {
            let (num, den) = (num.parse::<u64>().ok(), den.parse::<u64>().ok());
            let den = den.filter(|d| *d > 0);
            num.zip(den)
                .and_then(|(n, d)| n.checked_mul(u64::from(Share::ALL.0)).map(|n| n / d))
        }
        (None, None) => scaled(text, u64::from(Share::ALL.0)),
    };
    let share = parts.and_then(|p| u32::try_from(p).ok()).map(Share);
    share
        .filter(|s| *s <= Share::ALL)
        .ok_or_else(|| HELP.to_owned())
}

/// `off`, a time (two segments), or `SEGMENTS/TIME`.
pub fn delayed_ack(text: &str) -> Result<DelayedAck, String> {
    const HELP: &str = "expected off, a time such as 40ms, or SEGMENTS/TIME such as 2/40ms";
    if matches!(text, "off" | "none") {
        return Ok(DelayedAck::Off);
    }
    let (segments, time) = text.split_once('/').unwrap_or(("2", text));
    let segments = segments.parse().map_err(|_| HELP.to_owned())?;
    let timeout = duration(time).map_err(|e| {
        let what = e.rsplit(": ").next().unwrap_or_default();
        format!("{HELP}: {what}")
    })?;
    Ok(DelayedAck::On { segments, timeout })
}

/// A timer tick, or `exact`.
pub fn tick(text: &str) -> Result<Duration, String> {
    match text {
        "exact" => Ok(Duration::ZERO),
        _ => duration(text).map_err(|e| e.replacen("expected ", "expected exact or ", 1)),
    }
}

/// A seed: any number of 64 bits.
pub fn seed(text: &str) -> Result<u64, String> {
    at_least(0)(text)
}

/// A whole number of 64 bits, at least `min`.
pub fn at_least(min: u64) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| {
        let n = text.replace('_', "").parse().ok().filter(|n| *n >= min);
        n.ok_or_else(|| format!("expected a whole number from {min} to {}", u64::MAX))
    }
}

/// A whole number from `min` to `max`.
pub fn whole(min: u32, max: u32) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let n = text
            .replace('_', "")
            .parse::<u32>()
            .ok()
            .filter(|n| (min..=max).contains(n));
        n.ok_or_else(|| format!("expected a whole number from {min} to {max}"))
    }
}

/// What is wrong with a quantity whose unit is none.
fn no_unit(help: &str, number: &str, unit: &str) -> String {
    let why = match (number, unit.strip_prefix('-')) {
        ("", Some(_)) => format!("'{unit}' is below zero"),
        ("", None) => format!("'{unit}' does not begin with a number"),
        _ => format!("there is no unit '{unit}'"),
    };
    format!("{help}: {why}")
}

/// Number and unit, split where the digits end.
fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

/// `number * factor` without rounding; `None` if it is no number, no whole multiple, or too
/// large for 64 bits.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.len() > 18 {
        return None;
    }
    let digits = |t: &str| {
        if t.is_empty() {
            Some(0)
        } else {
            t.parse::<u64>().ok()
        }
    };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let value = u128::from(digits(whole)?) * scale + u128::from(digits(fraction)?);
    let product = value.checked_mul(u128::from(factor))?;
    if product % scale != 0 {
        return None;
    }
    u64::try_from(product / scale).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(text: &str) -> Option<u64> {
        rate(text).ok().map(Rate::bits_per_sec)
    }

    #[test]
    fn rates() {
        for (text, bps) in [
            ("1Gb/s", 1_000_000_000),
            ("10G", 10_000_000_000),
            ("1gbps", 1_000_000_000),
            ("100Mbit/s", 100_000_000),
            ("2.5Gb/s", 2_500_000_000),
            ("1 Gb/s", 1_000_000_000),
            ("64kb/s", 64_000),
            ("5000b/s", 5_000),
            ("1T", 1_000_000_000_000),
        ] {
            assert_eq!(bits(text), Some(bps), "{text}");
        }
        for text in [
            "", "1", "G", "1GB/s", "1GB", "fast", "-1G", "1Gx", "2T", "1b/s", "1..2G",
        ] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert!(rate("1GB/s").unwrap_err().contains("bytes"));
        let (least, most) = RATES_IN_WORDS.split_once(" to ").unwrap();
        let [least, most] = [least, most].map(|text| rate(text).unwrap().bits_per_sec());
        assert_eq!((least, most), RATES);
        assert!(rate("2T").unwrap_err().contains(RATES_IN_WORDS));
    }

    #[test]
    fn durations() {
        for (text, ns) in [
            ("25us", 25_000),
            ("1.5ms", 1_500_000),
            ("200 ms", 200_000_000),
            ("3s", 3_000_000_000),
            ("0", 0),
            ("0ms", 0),
            ("8.32us", 8_320),
            ("2min", 120_000_000_000),
            ("10µs", 10_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for text in [
            "",
            "5",
            "ms",
            "1.5",
            "1h",
            "-1ms",
            "0.5ns",
            "99999999999999999999s",
            "1e3ms",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(duration("5").unwrap_err().contains("unit is missing"));
        assert!(duration("1h").unwrap_err().contains("no unit 'h'"));
        assert!(positive_duration("0").is_err());
    }

    #[test]
    fn sizes_and_queues() {
        for (text, bytes) in [
            ("256KiB", 262_144),
            ("256KB", 256_000),
            ("256kB", 256_000),
            ("1.5MiB", 1_572_864),
            ("1MB", 1_000_000),
            ("1500", 1_500),
            ("1500B", 1_500),
            ("1_000", 1_000),
            ("64K", 64_000),
            ("64Ki", 65_536),
            ("1TiB", 1 << 40),
            ("2TB", 2_000_000_000_000),
            ("0.5Ti", 1 << 39),
        ] {
            assert_eq!(size(text), Ok(ByteCount::new(bytes)), "{text}");
        }
        for text in ["", "x", "12XB", "1.0001B", "-4", "64p", "20000000000GiB"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(queue("64p"), Ok(QueueLimit::Packets(64)));
        assert_eq!(queue("64 packets"), Ok(QueueLimit::Packets(64)));
        assert_eq!(
            queue("64KiB"),
            Ok(QueueLimit::Bytes(ByteCount::new(65_536)))
        );
        assert!(
            queue("64")
                .unwrap_err()
                .contains("packets (64p) or bytes (64B)")
        );
        for text in ["", "p", "1.5p", "99999999999p", "64q"] {
            assert!(queue(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        use crate::spec::Size;
        for n in [
            0,
            1,
            1_000,
            1_024,
            30_000,
            65_536,
            262_144,
            1_000_000,
            1 << 20,
            123_456_789,
            1 << 30,
            5_000_000_000,
            1 << 40,
            3_000_000_000_000,
        ] {
            let b = ByteCount::new(n);
            assert_eq!(size(&Size(b).to_string()), Ok(b));
            let q = QueueLimit::Bytes(b);
            assert_eq!(queue(&q.to_string()), Ok(q));
        }
        for ns in [
            1,
            1_500,
            25_000,
            499_000_000,
            1_000_000_000,
            1_000_000_000_000_000,
        ] {
            let d = Duration::from_nanos(ns);
            assert_eq!(duration(&d.to_string()), Ok(d));
        }
        for bps in [1_000, 64_500, 1_000_000, 2_500_000_000, 1_000_000_000_000] {
            let r = Rate::from_bits_per_sec(bps);
            assert_eq!(rate(&r.to_string()), Ok(r), "{r}");
        }
        for d in [DelayedAck::Off, delayed_ack("40ms").unwrap()] {
            assert_eq!(delayed_ack(&d.to_string()), Ok(d));
        }
    }

    #[test]
    fn policies() {
        assert_eq!(ecn_threshold("off"), Ok(None));
        assert_eq!(ecn_threshold("20p"), Ok(Some(QueueLimit::Packets(20))));
        assert_eq!(red("20p:60p:10").unwrap().max_permille, 100);
        for text in [
            "",
            "20p:60p",
            "20p:60p:0",
            "20p:60p:101",
            "20p:60p:x",
            "1p:2p:3:4",
        ] {
            assert!(super::red(text).is_err(), "{text}");
        }
        let on = DelayedAck::On {
            segments: 4,
            timeout: Duration::from_millis(200),
        };
        assert_eq!(delayed_ack("4/200ms"), Ok(on));
        assert!(delayed_ack("two/40ms").is_err());
        assert_eq!(tick("exact"), Ok(Duration::ZERO));
        assert_eq!(switch("on"), Ok(true));
        assert!(switch("maybe").is_err());
        assert_eq!(whole(1, 10)("10"), Ok(10));
        assert!(whole(1, 10)("11").unwrap_err().contains("1 to 10"));
        assert_eq!(at_least(3)("3"), Ok(3));
        assert!(at_least(3)("2").unwrap_err().contains("from 3 to"));
        let early = allowed("0s to 10s", duration)("-1us").unwrap_err();
        assert!(early.ends_with("; allowed is 0s to 10s"), "{early}");
    }

    #[test]
    fn controlled_delay() {
        let of = |target, interval, ce: Option<u64>| {
            Ok(Codel {
                target: Duration::from_micros(target),
                interval: Duration::from_micros(interval),
                ce_threshold: ce.map(Duration::from_micros),
            })
        };
        assert_eq!(codel("5ms:100ms"), of(5_000, 100_000, None));
        assert_eq!(codel("50us:1ms:20us"), of(50, 1_000, Some(20)));
        for text in ["", "5ms", "5:100ms", "5ms:100ms:", "1ms:2ms:3ms:4ms", "x:y"] {
            assert!(
                codel(text).unwrap_err().contains("TARGET:INTERVAL"),
                "{text}"
            );
        }
    }

    #[test]
    fn names_keep_their_parameters() {
        let list = |text| names_in_turn(text).map(|l| l.0);
        assert_eq!(
            list("Reno, cubic"),
            Ok(vec!["reno".to_owned(), "cubic".to_owned()])
        );
        let expected = ["reno", "dctcp:g=1/32,floor=1", "cubic:l=2", "200ms"];
        assert_eq!(
            list("reno,dctcp:g=1/32,floor=1,cubic:l=2,200ms"),
            Ok(expected.map(str::to_owned).to_vec())
        );
        assert_eq!(list("floor:200ms,initial=3s").map(|l| l.len()), Ok(1));
    }

    #[test]
    fn what_is_no_quantity_is_told_for_what_it_is() {
        for (text, why) in [
            ("-5p", "'-5p' is below zero"),
            ("-3KiB", "'-3KiB' is below zero"),
            ("xyz", "'xyz' does not begin with a number"),
            ("5x", "there is no unit 'x'"),
        ] {
            assert!(queue(text).unwrap_err().ends_with(why), "{text}");
        }
        let told = duration("-1ms").unwrap_err();
        assert!(told.ends_with("'-1ms' is below zero"), "{told}");
        let told = size("many").unwrap_err();
        assert!(
            told.ends_with("'many' does not begin with a number"),
            "{told}"
        );
    }

    #[test]
    fn lists_of_names_have_no_gaps() {
        for text in ["reno,,cubic", ""] {
            assert!(names_in_turn(text).is_err(), "{text}");
        }
        let twice = names_in_turn("reno,Reno").map(|l| l.0.len());
        assert_eq!(twice, Ok(2));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(256))]
        #[test]
        fn no_text_panics(text in "[0-9a-zA-Zµ.,:/+_x -]{0,24}|\\PC{0,12}") {
            let _ = (rate(&text), duration(&text), size(&text), queue(&text));
            let _ = (red(&text), delayed_ack(&text), ecn_threshold(&text), tick(&text));
        }
    }

    #[test]
    fn shared_buffers() {
        let of = |text: &str| {
            shared_buffer(text)
                .map(|s| (s.size.get(), s.alpha))
                .map_err(drop)
        };
        for (text, expected) in [
            ("4MB", (4_000_000, (1, 1))),
            ("4MB:8", (4_000_000, (8, 1))),
            ("4MiB:1/4", (4 << 20, (1, 4))),
            ("100kB:0.25", (100_000, (25, 100))),
        ] {
            assert_eq!(of(text), Ok(expected), "{text}");
        }
        for text in [
            "", ":1", "4MB:", "4MB:0", "4MB:1/0", "4MB:0.0", "4MB:x", "4MB:-1", "4XB",
        ] {
            assert_eq!(of(text), Err(()), "{text}");
        }
    }

    #[test]
    fn impairments() {
        let i = impair("loss=0.1%,reorder=1/100,hold=20us-80us,duplicate=0.5,on=data").unwrap();
        assert_eq!(
            i.to_string(),
            "loss=0.1%,duplicate=50%,reorder=1%,hold=20us-80us,on=data"
        );
        assert_eq!(impair(&i.to_string()), Ok(i), "what is shown reads back");
        assert_eq!(impair("corrupt=100%").unwrap().corrupt, Share::ALL);
        for (text, part) in [
            ("los=1%", "did you mean 'loss'?"),
            ("loss", "KIND=SHARE"),
            ("loss=2", "at most 100%"),
            ("loss=101%", "at most 100%"),
            ("loss=-1%", "expected a share"),
            ("loss=1/0", "expected a share"),
            ("loss=1%,loss=2%", "twice"),
            ("loss=1%,hold=5us", "give reorder"),
            ("loss=1%,on=up", "data"),
            ("loss=0", "nothing goes wrong"),
            ("reorder=1%,hold=5", "unit is missing"),
        ] {
            let e = impair(text).unwrap_err();
            assert!(e.contains(part), "{text}: {e}");
        }
    }
}

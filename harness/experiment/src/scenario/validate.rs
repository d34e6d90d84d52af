//! Whether a spec can be run: every value in its range, none against another.

use super::ScenarioError;
use super::spec::{
    Aqm, BlockSize, Codel, DelayedAck, Framing, IP_TCP_HEADERS, Impair, IncastSpec, Length,
    QueueLimit, Red, Share, Size, TcpSpec,
};
use narrows::config::InitialWindow;
use narrows::{ByteCount, Duration, Rate};

impl IncastSpec {
    /// Whether every value is in its range and none contradicts another.
    ///
    /// Names are not looked up here: the runner does, in its registry.
    ///
    /// # Errors
    /// [`ScenarioError::Invalid`] names the option of the command line and what it allows.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        let (net, tcp) = (&self.net, &self.tcp);
        within("servers", u64::from(self.servers), 1, MAX_SERVERS, |n| {
            n.to_string()
        })?;
        let (option, size) = match self.block {
            BlockSize::Sru(s) => ("sru", s),
            BlockSize::Fixed(s) => ("block", s),
        };
        within(option, size.get(), 1, MAX_BLOCK, size_text)?;
        if size.get() < u64::from(self.servers) && matches!(self.block, BlockSize::Fixed(_)) {
            return invalid(
                option,
                size_text(size.get()),
                "each server needs at least a byte",
            );
        }
        match self.length {
            Length::Blocks { blocks, time_limit } => {
                within("blocks", u64::from(blocks), 1, 1_000_000_000, |n| {
                    n.to_string()
                })?;
                within(
                    "time-limit",
                    time_limit.as_nanos(),
                    1_000,
                    MAX_TIME,
                    time_text,
                )?;
            }
            Length::Time(t) => within("duration", t.as_nanos(), 1_000, MAX_TIME, time_text)?,
        }
        within("request", self.request.size.get(), 1, 1 << 20, size_text)?;
        within(
            "jitter",
            self.start_jitter.as_nanos(),
            0,
            10_000_000_000,
            time_text,
        )?;
        within(
            "rate",
            net.link_rate.bits_per_sec(),
            1_000,
            1_000_000_000_000,
            |n| Rate::from_bits_per_sec(n).to_string(),
        )?;
        within(
            "delay",
            net.link_delay.as_nanos(),
            0,
            10_000_000_000,
            time_text,
        )?;
        within(
            "nic-overhead",
            net.nic_overhead.as_nanos(),
            0,
            10_000_000_000,
            time_text,
        )?;
        within("mtu", u64::from(net.mtu), 104, 65_535, |n| n.to_string())?;
        if let Some(shared) = net.shared_buffer {
            let size = QueueLimit::Bytes(shared.size);
            check_queue("shared-buffer", size, net.mtu, net.framing)?;
            for part in [shared.alpha.0, shared.alpha.1] {
                let text = |n: u64| format!("alpha {n}");
                within("shared-buffer", u64::from(part), 1, 1 << 20, text)?;
            }
        }
        for (option, limit) in [
            ("buffer", net.port_buffer),
            ("server-nic", net.server_nic),
            ("client-nic", net.client_nic),
        ] {
            check_queue(option, limit, net.mtu, net.framing)?;
        }
        check_aqm(net.aqm)?;
        check_impair(net.impair)?;
        check_tcp(tcp, net.mtu)
    }
}

pub(super) fn check_impair(impair: Impair) -> Result<(), ScenarioError> {
    for (kind, share) in impair.shares() {
        if share > Share::ALL {
            return invalid("impair", format!("{kind}={share}"), "at most 100%");
        }
    }
    let (least, most) = impair.hold;
    if least > most || (most.is_zero() && impair.reorder.0 > 0) {
        return invalid(
            "impair",
            format!("hold={least}-{most}"),
            "packets are held back for a time longer than zero, the shorter first",
        );
    }
    within("impair", most.as_nanos(), 0, 10_000_000_000, |n| {
        format!("hold={}", time_text(n))
    })
}

/// A queue must hold at least one full packet, or no full segment ever passes.
pub(crate) fn check_queue(
    option: &'static str,
    limit: QueueLimit,
    mtu: u32,
    framing: Framing,
) -> Result<(), ScenarioError> {
    match limit {
        QueueLimit::Packets(p) => within(option, u64::from(p), 1, MAX_PACKETS, |n| format!("{n}p")),
        QueueLimit::Bytes(b) => {
            let frame = match framing {
                Framing::None => 0,
                Framing::Ethernet => 18,
            };
            let least = u64::from(mtu) + frame;
            if (least..=MAX_QUEUE).contains(&b.get()) {
                return Ok(());
            }
            let (least, most) = (size_text(least), size_text(MAX_QUEUE));
            let allowed = format!("allowed is {least} to {most}: a packet of --mtu {mtu} must fit");
            invalid(option, size_text(b.get()), &allowed)
        }
    }
}

pub(super) fn check_aqm(aqm: Aqm) -> Result<(), ScenarioError> {
    match aqm {
        Aqm::None => Ok(()),
        Aqm::EcnStep(QueueLimit::Packets(p)) => {
            within("ecn-threshold", u64::from(p), 0, MAX_PACKETS, |n| {
                format!("{n}p")
            })
        }
        Aqm::EcnStep(QueueLimit::Bytes(b)) => {
            within("ecn-threshold", b.get(), 0, MAX_QUEUE, size_text)
        }
        Aqm::Red(red) => check_red(red),
        Aqm::Codel(codel) => check_codel(codel),
    }
}

/// TCP on a path with `mtu`, which is in its range.
pub(crate) fn check_tcp(tcp: &TcpSpec, mtu: u32) -> Result<(), ScenarioError> {
    let mss_max = u64::from(mtu - IP_TCP_HEADERS);
    if let Some(mss) = tcp.mss.filter(|n| !(64..=mss_max).contains(&u64::from(*n))) {
        let allowed = format!("allowed is 64 to {mss_max} with --mtu {mtu}");
        return invalid("mss", mss.to_string(), &allowed);
    }
    within(
        "initial-window",
        u64::from(tcp.initial_window),
        1,
        u64::from(InitialWindow::MAX_SEGMENTS),
        |n| n.to_string(),
    )?;
    if let Some(rwnd) = tcp.receive_window {
        let least = u64::from(tcp.effective_mss(mtu));
        if !(least..=MAX_WINDOW).contains(&rwnd.get()) {
            let (least, most) = (size_text(least), size_text(MAX_WINDOW));
            let allowed = format!("allowed is {least} to {most}: a segment must fit");
            return invalid("rwnd", size_text(rwnd.get()), &allowed);
        }
    }
    within(
        "tick",
        tcp.timer_tick.as_nanos(),
        0,
        1_000_000_000,
        time_text,
    )?;
    if let DelayedAck::On { segments, timeout } = tcp.delayed_ack {
        within("delayed-ack", u64::from(segments), 1, 64, |n| n.to_string())?;
        within(
            "delayed-ack",
            timeout.as_nanos(),
            1_000,
            499_000_000,
            time_text,
        )?;
    }
    if !tcp.sack && tcp.loss_detector == "sack" {
        return invalid(
            "sack",
            "off with --loss sack".to_owned(),
            "choose --loss newreno or reno, or --sack on",
        );
    }
    Ok(())
}

/// Bytes for a message.
pub(super) fn size_text(n: u64) -> String {
    Size(ByteCount::new(n)).to_string()
}

/// Nanoseconds for a message.
pub(super) fn time_text(n: u64) -> String {
    Duration::from_nanos(n).to_string()
}

/// Most servers in one run.
pub const MAX_SERVERS: u64 = 60_000;
pub(super) const MAX_BLOCK: u64 = 1 << 40;
const MAX_QUEUE: u64 = 1 << 40;
const MAX_PACKETS: u64 = 1 << 30;
const MAX_WINDOW: u64 = 1 << 30;
pub(super) const MAX_TIME: u64 = 1_000_000_000_000_000;

fn check_red(red: Red) -> Result<(), ScenarioError> {
    let ordered = match (red.min, red.max) {
        (QueueLimit::Bytes(a), QueueLimit::Bytes(b)) => a < b,
        (QueueLimit::Packets(a), QueueLimit::Packets(b)) => a < b,
        _ => false,
    };
    if !ordered {
        return invalid(
            "red",
            format!("{}:{}", red.min, red.max),
            "the minimum must be below the maximum, both in packets or both in bytes",
        );
    }
    match red.max {
        QueueLimit::Packets(p) => within("red", u64::from(p), 1, MAX_PACKETS, |n| format!("{n}p"))?,
        QueueLimit::Bytes(b) => within("red", b.get(), 1, MAX_QUEUE, size_text)?,
    }
    within("red", u64::from(red.max_permille), 1, 1_000, |n| {
        format!("{}%", n as f64 / 10.0)
    })?;
    within("red", u64::from(red.weight_shift), 0, 20, |n| n.to_string())
}

fn check_codel(codel: Codel) -> Result<(), ScenarioError> {
    let ce = codel.ce_threshold.unwrap_or(codel.target);
    for time in [codel.target, codel.interval, ce] {
        within("codel", time.as_nanos(), 100, 100_000_000_000, time_text)?;
    }
    if codel.target >= codel.interval {
        return invalid(
            "codel",
            format!("{}:{}", codel.target, codel.interval),
            "the target must be below the interval, best at 5 to 10 % of it",
        );
    }
    Ok(())
}

pub(super) fn within(
    option: &'static str,
    value: u64,
    min: u64,
    max: u64,
    text: impl Fn(u64) -> String,
) -> Result<(), ScenarioError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    let allowed = format!("allowed is {} to {}", text(min), text(max));
    Err(ScenarioError::Invalid {
        option,
        given: text(value),
        allowed,
    })
}

pub(super) fn invalid(option: &'static str, given: String, why: &str) -> Result<(), ScenarioError> {
    Err(ScenarioError::Invalid {
        option,
        given,
        allowed: why.to_owned(),
    })
}

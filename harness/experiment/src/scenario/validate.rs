//! Whether TCP can be what it is to be.

use super::error::ScenarioError;
use super::spec::{DelayedAck, IP_TCP_HEADERS, Size, TcpSpec};
use narrows::config::InitialWindow;
use narrows::{ByteCount, Duration};

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
    Ok(())
}

/// Bytes for a message.
fn size_text(n: u64) -> String {
    Size(ByteCount::new(n)).to_string()
}

/// Nanoseconds for a message.
fn time_text(n: u64) -> String {
    Duration::from_nanos(n).to_string()
}

const MAX_WINDOW: u64 = 1 << 30;

fn within(
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

fn invalid(option: &'static str, given: String, why: &str) -> Result<(), ScenarioError> {
    Err(ScenarioError::Invalid {
        option,
        given,
        allowed: why.to_owned(),
    })
}

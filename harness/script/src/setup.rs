//! Set-up lines: what a shell would be told before a test, turned into values of the TCP.
//!
//! `sysctl` with the names of Linux and FreeBSD as far as this TCP has the knob, and with
//! `narrows.NAME` for the rest. Anything else is refused by name: a test that silently runs with
//! other settings than it asked for is worse than none.

use super::sockets::fast_open::AS_BACKLOG;
use narrows::config::{
    EcnMode, IdleRestart, InitialWindow, Keepalive, PacingMode, RecoverySending, TcpConfig,
    TimestampMode, WindowCount,
};
use narrows::congestion::registry::Registry;
use narrows::congestion::{CongestionFactory, LocalDropRegistry, RtoFactory};
use narrows::conn::ecn::{LinuxDctcp, LinuxDctcp2015};
use narrows::conn::mtu_probing::MtuProbingMode;
use narrows::endpoint::challenge::ChallengeLimit;
use narrows::fast_open::{FastOpenClient, FastOpenKeys};
use narrows::recovery::detector;
use narrows::{ByteCount, Duration};
use std::sync::Arc;

/// Settings that change nothing here: this TCP has no such thing, and the value asks for none or
/// only for how it would be done.
const WITHOUT_EFFECT: &[&str] = &[
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_fack",
    "net.ipv4.tcp_fastopen_blackhole_timeout_sec",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_min_tso_segs",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_pacing_ca_ratio",
    "net.ipv4.tcp_pacing_ss_ratio",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tso_win_divisor",
    "net.inet.tcp.hostcache.purge",
    "net.inet.tcp.hostcache.purgenow",
    "net.inet.tcp.recvbuf_auto",
    "net.inet.tcp.sendbuf_auto",
    "net.inet.tcp.tso",
    "net.inet.tcp.sendspace",
    "kern.timecounter.alloweddeviation",
];

/// Apply one set-up line, which may hold several commands.
///
/// # Errors
/// What is not known, by name, or the value that makes no sense.
pub fn apply(line: &str, tcp: &mut TcpConfig) -> Result<(), String> {
    for command in line.split(['\n', ';']).flat_map(|c| c.split("&&")) {
        let command = command.split('#').next().unwrap_or_default();
        let words = words(command);
        let Some((program, arguments)) = words.split_first() else {
            continue;
        };
        let name = program.rsplit('/').next().unwrap_or(program);
        match name {
            "true" | ":" | "sync" | "kldload" => {}
            "sysctl" => sysctl(arguments, tcp)?,
            "set_sysctls.py" => {
                for argument in arguments {
                    let dotted = argument.trim_start_matches("/proc/sys/").to_owned();
                    let (path, value) = dotted.split_once('=').ok_or_else(|| no_value(argument))?;
                    set(&path.replace('/', "."), value, tcp)?;
                }
            }
            "defaults.sh" | "set_sysctls.sh" => linux_test_defaults(tcp),
            _ if name.starts_with("sysctl_restore") => {}
            "ip" if arguments.first().is_some_and(|a| a == "tcp_metrics") => {}
            "tc" if arguments.last().is_some_and(|a| a == "pfifo") => {}
            _ => {
                return Err(format!(
                    "set-up command `{name}` is not known; there are sysctl, defaults.sh and \
                     set_sysctls.py"
                ));
            }
        }
    }
    Ok(())
}

/// What the set-up script of the Linux tests sets differently from Linux itself.
fn linux_test_defaults(tcp: &mut TcpConfig) {
    tcp.idle_restart = IdleRestart::Keep;
    tcp.ecn = EcnMode::Off;
    tcp.lifetimes.syn_retries = 5;
    fast_open(0x403, tcp);
    tcp.fast_open.keys = fast_open_keys("a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4").ok();
}

/// Split as a shell does, with double and single quotes; redirections are left out.
fn words(command: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for c in command.chars().chain([' ']) {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => word.push(c),
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c.is_whitespace() => {
                if !word.is_empty() {
                    out.push(std::mem::take(&mut word));
                }
            }
            None => word.push(c),
        }
    }
    let end = out
        .iter()
        .position(|w| w.contains('>'))
        .unwrap_or(out.len());
    out.truncate(end);
    out
}

fn no_value(argument: &str) -> String {
    format!("`{argument}` sets nothing: write NAME=VALUE")
}

fn sysctl(arguments: &[String], tcp: &mut TcpConfig) -> Result<(), String> {
    let settings = arguments.iter().filter(|a| !a.starts_with('-'));
    for setting in settings {
        let (name, value) = setting.split_once('=').ok_or_else(|| no_value(setting))?;
        set(name, value, tcp)?;
    }
    Ok(())
}

/// Set one value by its name.
///
/// # Errors
/// The name is not known, or the value out of range.
pub fn set(name: &str, value: &str, tcp: &mut TcpConfig) -> Result<(), String> {
    if WITHOUT_EFFECT.contains(&name) {
        return Ok(());
    }
    let known = if let Some(knob) = name.strip_prefix("narrows.") {
        own(knob, value, tcp)
    } else if let Some(knob) = name.strip_prefix("net.ipv4.tcp_") {
        linux(knob, value, tcp)
    } else if let Some(knob) = name.strip_prefix("net.inet.tcp.") {
        freebsd(knob, value, tcp)
    } else if name == "kern.ipc.maxsockbuf" {
        // What the window scale is derived from.
        number(value).map(|n| {
            tcp.buffers.recv = n as usize;
            true
        })
    } else {
        Ok(false)
    };
    match known {
        Ok(true) => tcp.validate().map_err(|e| format!("`{name}={value}`: {e}")),
        Ok(false) => Err(format!(
            "setting `{name}` is not known to this TCP; docs/SCRIPTS.md lists those that are"
        )),
        Err(why) => Err(format!("`{name}={value}`: {why}")),
    }
}

type Known = Result<bool, String>;

fn number(value: &str) -> Result<u64, String> {
    let value = value.trim();
    let parsed = match value.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => value.parse(),
    };
    parsed
        .ok()
        .filter(|n| *n <= 1 << 40)
        .ok_or_else(|| format!("`{value}` is no number from 0 to 2^40"))
}

fn count(value: &str) -> Result<u32, String> {
    u32::try_from(number(value)?).map_err(|_| format!("`{value}` is too large"))
}

fn switch(value: &str) -> Result<bool, String> {
    match value.trim() {
        "0" | "off" => Ok(false),
        "1" | "on" => Ok(true),
        _ => Err("wants 0 or 1".to_owned()),
    }
}

fn millis(value: &str) -> Result<Duration, String> {
    Ok(Duration::from_millis(number(value)?))
}

fn one_of<T: Copy>(value: &str, names: &[(&str, T)]) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == value.trim());
    found.map(|(_, v)| *v).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        format!("wants one of {}", names.join(", "))
    })
}

fn algorithm(value: &str) -> Result<Arc<dyn CongestionFactory>, String> {
    let name = match value.trim() {
        "newreno" => "reno",
        other => other,
    };
    let registry = Registry::<dyn CongestionFactory>::standard();
    registry.get(name).map_err(|e| e.to_string())
}

fn loss_detector(name: &str, tcp: &mut TcpConfig) -> Result<(), String> {
    tcp.detector = (detector::standard().get(name)).map_err(|e| e.to_string())?;
    Ok(())
}

/// The largest of the three numbers of `tcp_rmem` and `tcp_wmem`.
fn largest(value: &str) -> Result<usize, String> {
    let last = value.split_whitespace().last().unwrap_or_default();
    Ok(number(last)? as usize)
}

/// Linux's numbers.
const MTU_PROBING: [(&str, MtuProbingMode); 3] = [
    ("0", MtuProbingMode::Off),
    ("1", MtuProbingMode::AfterBlackHole),
    ("2", MtuProbingMode::Always),
];

fn size(value: &str) -> Result<u16, String> {
    u16::try_from(number(value)?).map_err(|_| "at most 65535".to_owned())
}

/// `TCP_NOTSENT_LOWAT`: all that 32 bits can say is no limit.
fn lowat(value: &str) -> Result<Option<ByteCount>, String> {
    let none = value.trim() == "-1";
    let bytes = if none { u32::MAX } else { count(value)? };
    Ok(Some(ByteCount::from(bytes)).filter(|_| bytes != u32::MAX))
}

fn keepalive(tcp: &mut TcpConfig) -> &mut Keepalive {
    tcp.lifetimes
        .keepalive
        .get_or_insert_with(Keepalive::default)
}

fn timestamps(on: bool) -> TimestampMode {
    match on {
        true => TimestampMode::Millis,
        false => TimestampMode::Off,
    }
}

fn linux(knob: &str, value: &str, tcp: &mut TcpConfig) -> Known {
    match knob {
        "timestamps" => tcp.timestamps = timestamps(number(value)? != 0),
        "sack" => tcp.sack = switch(value)?,
        "dsack" if switch(value)? => {}
        "window_scaling" => tcp.window_scaling = switch(value)?,
        "ecn" => {
            let modes = [
                ("0", EcnMode::Off),
                ("1", EcnMode::Classic),
                ("2", EcnMode::Accept),
            ];
            tcp.ecn = one_of(value, &modes)?;
        }
        "congestion_control" | "available_congestion_control" => {
            tcp.congestion = algorithm(value)?;
        }
        "slow_start_after_idle" => {
            tcp.idle_restart = match switch(value)? {
                true => IdleRestart::Rfc2861,
                false => IdleRestart::Keep,
            };
        }
        "frto" => tcp.spurious.frto = number(value)? != 0,
        "reordering" => tcp.dup_thresh = count(value)?,
        "early_retrans" | "recovery" => {
            let on = number(value)? != 0;
            match (knob, on) {
                ("recovery", false) => loss_detector("sack", tcp)?,
                ("early_retrans", false) => loss_detector("rack-notlp", tcp)?,
                _ => loss_detector("rack", tcp)?,
            }
        }
        "rmem" => tcp.buffers.recv = largest(value)?,
        "wmem" => tcp.buffers.send = largest(value)?,
        "syn_retries" | "synack_retries" => tcp.lifetimes.syn_retries = count(value)?,
        "retries2" => tcp.lifetimes.data_retries = count(value)?,
        "keepalive_time" => keepalive(tcp).idle = Duration::from_secs(number(value)?),
        "keepalive_intvl" => keepalive(tcp).interval = Duration::from_secs(number(value)?),
        "keepalive_probes" => keepalive(tcp).probes = count(value)?,
        "notsent_lowat" => tcp.buffers.notsent_lowat = lowat(value)?,
        "mtu_probing" => tcp.mtu_probing.mode = one_of(value, &MTU_PROBING)?,
        "base_mss" => tcp.mtu_probing.base_mss = size(value)?,
        "mtu_probe_floor" => tcp.mtu_probing.floor_mss = size(value)?.max(64),
        "probe_threshold" => tcp.mtu_probing.threshold = size(value)?,
        "probe_interval" => tcp.mtu_probing.interval = Duration::from_secs(number(value)?),
        "retries1" => tcp.lifetimes.retries_before_report = count(value)?,
        "fin_timeout" => tcp.lifetimes.fin_wait_2 = Some(Duration::from_secs(number(value)?)),
        "fastopen" => fast_open(number(value)?, tcp),
        "fastopen_key" => tcp.fast_open.keys = Some(fast_open_keys(value)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// The bits of `net.ipv4.tcp_fastopen`.
fn fast_open(bits: u64, tcp: &mut TcpConfig) {
    tcp.fast_open.client = match (bits & 1, bits & 4) {
        (0, _) => FastOpenClient::Off,
        (_, 0) => FastOpenClient::Cookie,
        _ => FastOpenClient::WithoutCookie,
    };
    let all_listeners = bits & 0x402 == 0x402;
    tcp.fast_open.pending = if all_listeners { AS_BACKLOG } else { 0 };
    tcp.fast_open.without_cookie = bits & 0x202 == 0x202;
}

/// `a0bf63f7-ed803d81-cd641d30-cebc4a90`: four numbers, which lie in memory low byte first. After a
/// comma the key before.
fn fast_open_keys(value: &str) -> Result<FastOpenKeys, String> {
    let key = |text: &str| -> Option<[u8; 16]> {
        let mut key = [0; 16];
        let mut parts = text.trim().split('-');
        for at in key.chunks_exact_mut(4) {
            let part = u32::from_str_radix(parts.next()?, 16).ok()?;
            at.copy_from_slice(&part.to_le_bytes());
        }
        parts.next().is_none().then_some(key)
    };
    let (current, before) = match value.split_once(',') {
        Some((current, before)) => (current, Some(before)),
        None => (value, None),
    };
    let keys = match (key(current), before.map(key)) {
        (Some(current), None) => Some(FastOpenKeys::new(&current)),
        (Some(current), Some(Some(before))) => Some(FastOpenKeys::new(&before).rotate(&current)),
        _ => None,
    };
    keys.ok_or_else(|| "a key is XXXXXXXX-XXXXXXXX-XXXXXXXX-XXXXXXXX".to_owned())
}

fn freebsd(knob: &str, value: &str, tcp: &mut TcpConfig) -> Known {
    match knob {
        "rfc1323" => {
            let mode = number(value)?;
            tcp.timestamps = timestamps(mode == 1 || mode == 3);
            tcp.window_scaling = mode == 1 || mode == 2;
        }
        "sack.enable" => tcp.sack = switch(value)?,
        "ecn.enable" => {
            let modes = [
                ("0", EcnMode::Off),
                ("1", EcnMode::Classic),
                ("2", EcnMode::Accept),
            ];
            tcp.ecn = one_of(value, &modes)?;
        }
        "cc.algorithm" => tcp.congestion = algorithm(value)?,
        "initcwnd_segments" => {
            tcp.initial_window = match count(value)? {
                0 => InitialWindow::Rfc5681,
                n => InitialWindow::Segments(n),
            };
        }
        "functions_default" => {
            let detectors = [("freebsd", "sack"), ("rack", "rack")];
            loss_detector(one_of(value, &detectors)?, tcp)?;
        }
        "rfc3042" => tcp.limited_transmit = switch(value)?,
        "delayed_ack" => tcp.ack.every = if switch(value)? { 2 } else { 1 },
        "delacktime" => tcp.ack.delay = millis(value)?,
        "do_prr" => {
            tcp.recovery = match switch(value)? {
                true => RecoverySending::Prr,
                false => RecoverySending::Pipe,
            };
        }
        "recvspace" => {
            let whole = number(value)?.next_multiple_of(u64::from(tcp.mss));
            tcp.buffers.window_clamp = Some(ByteCount::new(whole));
        }
        "blackhole" | "rexmit_slop" | "drop_synfin" if number(value)? == 0 => {}
        "rexmit_initial" if number(value)? == 1_000 => {}
        // TIME-WAIT lasts two of them.
        "msl" => tcp.lifetimes.time_wait = millis(value)? * 2,
        "keepidle" => keepalive(tcp).idle = millis(value)?,
        "keepintvl" => keepalive(tcp).interval = millis(value)?,
        "keepcnt" => keepalive(tcp).probes = count(value)?,
        "finwait2_timeout" => tcp.lifetimes.fin_wait_2 = Some(millis(value)?),
        "mssdflt" if number(value)? == 536 => {}
        _ => return Ok(false),
    }
    Ok(true)
}

fn own(knob: &str, value: &str, tcp: &mut TcpConfig) -> Known {
    match knob {
        "congestion" => tcp.congestion = algorithm(value)?,
        "rto" => {
            let registry = Registry::<dyn RtoFactory>::standard();
            tcp.rto = registry.get(value.trim()).map_err(|e| e.to_string())?;
        }
        "local_drop" => {
            let registry = LocalDropRegistry::standard();
            tcp.local_drop = registry.get(value.trim()).map_err(|e| e.to_string())?;
        }
        "detector" => loss_detector(value.trim(), tcp)?,
        "recovery" => {
            let ways = [
                ("prr", RecoverySending::Prr),
                ("prr-linux-4.3", RecoverySending::PrrLinux43),
                ("pipe", RecoverySending::Pipe),
            ];
            tcp.recovery = one_of(value, &ways)?;
        }
        "dup_thresh" => tcp.dup_thresh = count(value)?,
        "limited_transmit" => tcp.limited_transmit = switch(value)?,
        "frto" => tcp.spurious.frto = switch(value)?,
        "eifel" => tcp.spurious.eifel = switch(value)?,
        "dsack" => tcp.spurious.dsack = switch(value)?,
        "mss" => {
            tcp.mss = size(value)?;
        }
        "sack" => tcp.sack = switch(value)?,
        "timestamps" => {
            let modes = [
                ("off", TimestampMode::Off),
                ("ms", TimestampMode::Millis),
                ("us", TimestampMode::Micros),
            ];
            tcp.timestamps = one_of(value, &modes)?;
        }
        "window_scaling" => tcp.window_scaling = switch(value)?,
        "ecn" => {
            let modes = [
                ("off", EcnMode::Off),
                ("accept", EcnMode::Accept),
                ("classic", EcnMode::Classic),
                ("dctcp", EcnMode::Dctcp),
            ];
            tcp.ecn = one_of(value, &modes)?;
        }
        "initial_window" => {
            tcp.initial_window = match value.trim() {
                "rfc6928" => InitialWindow::Rfc6928,
                "rfc5681" => InitialWindow::Rfc5681,
                _ => InitialWindow::Segments(count(value)?),
            };
        }
        "window_count" => {
            let counts = [
                ("bytes", WindowCount::Bytes),
                ("packets", WindowCount::Packets),
            ];
            tcp.window_count = one_of(value, &counts)?;
        }
        "dctcp_receiver" => {
            tcp.ecn_feedback = match value.trim() {
                "rfc8257" => None,
                "linux" => Some(Arc::new(|| Box::new(LinuxDctcp::default()))),
                "linux-2015" => Some(Arc::new(|| Box::new(LinuxDctcp2015::default()))),
                _ => return Err("wants one of rfc8257, linux, linux-2015".to_owned()),
            };
        }
        "idle_restart" => {
            let rules = [
                ("keep", IdleRestart::Keep),
                ("rfc5681", IdleRestart::Rfc5681),
                ("rfc2861", IdleRestart::Rfc2861),
                ("rfc7661", IdleRestart::Rfc7661),
            ];
            tcp.idle_restart = one_of(value, &rules)?;
        }
        "nagle" => tcp.nagle = switch(value)?,
        "cork" => tcp.cork = switch(value)?,
        "notsent_lowat" => tcp.buffers.notsent_lowat = lowat(value)?,
        "mtu_probing" => {
            let modes = [
                ("off", MtuProbingMode::Off),
                ("black-hole", MtuProbingMode::AfterBlackHole),
                ("always", MtuProbingMode::Always),
            ];
            tcp.mtu_probing.mode = one_of(value, &modes)?;
        }
        "mtu_probe_base_mss" => tcp.mtu_probing.base_mss = size(value)?,
        "mtu_probe_floor_mss" => tcp.mtu_probing.floor_mss = size(value)?,
        "mtu_probe_threshold" => tcp.mtu_probing.threshold = size(value)?,
        "mtu_probe_interval_ms" => tcp.mtu_probing.interval = millis(value)?,
        "ack_delay_ms" => tcp.ack.delay = millis(value)?,
        "ack_every" => tcp.ack.every = count(value)?,
        "quick_acks" => tcp.ack.quick_acks = count(value)?,
        "send_buffer" => tcp.buffers.send = number(value)? as usize,
        "recv_buffer" => tcp.buffers.recv = number(value)? as usize,
        "window_clamp" => tcp.buffers.window_clamp = Some(ByteCount::new(number(value)?)),
        "max_out_of_order_ranges" => {
            tcp.buffers.max_out_of_order_ranges = Some(number(value)? as usize)
        }
        "syn_retries" => tcp.lifetimes.syn_retries = count(value)?,
        "syn_retry_time_ms" => tcp.lifetimes.syn_retry_time = millis(value)?,
        "data_retries" => tcp.lifetimes.data_retries = count(value)?,
        "data_retry_time_ms" => tcp.lifetimes.data_retry_time = millis(value)?,
        "rto_after_syn_timeout_ms" => tcp.rto_after_syn_timeout = millis(value)?,
        "user_timeout_ms" => {
            tcp.lifetimes.user_timeout = Some(millis(value)?).filter(|t| !t.is_zero());
        }
        "keepalive" => tcp.lifetimes.keepalive = switch(value)?.then(Keepalive::default),
        "keepalive_idle_ms" => keepalive(tcp).idle = millis(value)?,
        "keepalive_interval_ms" => keepalive(tcp).interval = millis(value)?,
        "keepalive_probes" => keepalive(tcp).probes = count(value)?,
        "time_wait_ms" => tcp.lifetimes.time_wait = millis(value)?,
        "fin_wait_2_ms" => tcp.lifetimes.fin_wait_2 = Some(millis(value)?),
        "orphan_stall_ms" => tcp.lifetimes.orphan_stall = Some(millis(value)?),
        "pacing" => {
            tcp.pacing = match switch(value)? {
                false => PacingMode::Off,
                true => PacingMode::On {
                    slow_start_gain: 200,
                    avoidance_gain: 120,
                },
            };
        }
        "challenge_acks" => {
            tcp.challenge_acks = ChallengeLimit {
                count: count(value)?,
                ..ChallengeLimit::RFC5961
            };
        }
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str) -> Result<TcpConfig, String> {
        let mut tcp = TcpConfig::default();
        apply(line, &mut tcp).map(|()| tcp)
    }

    #[test]
    fn sysctls_of_both_stacks_and_our_own() {
        let tcp = after(
            "sysctl -q -w net.ipv4.tcp_timestamps=0 net.ipv4.tcp_ecn=1 > /dev/null 2>&1\n\
             sysctl net.inet.tcp.msl=1000; sysctl narrows.recovery=pipe # why\n",
        )
        .unwrap();
        assert_eq!(tcp.timestamps, TimestampMode::Off);
        assert_eq!(tcp.ecn, EcnMode::Classic);
        assert_eq!(tcp.lifetimes.time_wait, Duration::from_secs(2));
        assert_eq!(tcp.recovery, RecoverySending::Pipe);
        let tcp = after(
            "./defaults.sh\n./set_sysctls.py /proc/sys/net/ipv4/tcp_sack=0 \
             /proc/sys/net/ipv4/tcp_min_tso_segs=4\n/tmp/sysctl_restore_${PPID}.sh",
        )
        .unwrap();
        assert!(!tcp.sack);
        assert_eq!(tcp.idle_restart, IdleRestart::Keep);
        assert_eq!(
            after("sysctl net.ipv4.tcp_rmem=\"1 2 70000\"")
                .unwrap()
                .buffers
                .recv,
            70_000
        );
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        for (line, named) in [
            ("tc qdisc add dev tun0 root fq", "`tc`"),
            (
                "sysctl net.ipv4.tcp_thin_dupack=1",
                "`net.ipv4.tcp_thin_dupack`",
            ),
            ("sysctl narrows.frobnicate=1", "`narrows.frobnicate`"),
            ("sysctl narrows.sack=2", "wants 0 or 1"),
            ("sysctl narrows.dup_thresh=0", "dup_thresh"),
            ("sysctl narrows.detector=fack", "did you mean 'sack'"),
            ("sysctl net.ipv4.tcp_fastopen_key=1-2-3", "a key is"),
            ("sysctl narrows.sack", "NAME=VALUE"),
            ("sysctl narrows.congestion=vegas", "vegas"),
        ] {
            let why = after(line).map(|_| ()).unwrap_err();
            assert!(why.contains(named), "{line}: {why}");
        }
    }
}

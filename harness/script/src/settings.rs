//! What a run hangs on besides the script's steps: addresses, ports, tolerances.

use super::ast::{Action, Event, Script, ScriptOption};
use super::diagnostic::Diagnostic;
use super::matcher::Rules;
use super::parse::Defines;
use super::profile::Profile;
use super::sockets::{Config, local_address};
use super::stack::Wanted;
use narrows::Duration;
use std::net::IpAddr;

/// How to run scripts; what a script says of itself goes before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whose choices hold where the RFCs leave one.
    pub profile: Profile,
    /// Compare options in order, and segments one by one.
    pub exact: bool,
    /// How far a packet may be from its time.
    pub tolerance: Option<Duration>,
    /// `-D NAME=VALUE`.
    pub defines: Defines,
}

impl Options {
    /// The names that a script's conditions and words know.
    pub(super) fn names(&self) -> Defines {
        let mut names = self.defines.clone();
        for name in ["NARROWS", self.profile.define()] {
            names
                .entry(name.to_owned())
                .or_insert_with(|| "1".to_owned());
        }
        names
    }
}

/// Everything settled.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) profile: Profile,
    pub(super) rules: Rules,
    pub(super) tolerance: Duration,
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
    pub(super) bind_port: u16,
    pub(super) connect_port: u16,
    /// How far a packet may be from its time, in thousandths of the time since the step before.
    pub(super) per_mille: u64,
    pub(super) mtu: u16,
    pub(super) mss: u16,
    /// The tick of TSval, where it is to be checked.
    pub(super) timestamp_tick: Option<Duration>,
}

impl Settings {
    pub(super) fn new(options: &Options, script: &Script) -> Result<Self, Diagnostic> {
        let mut s = Self {
            profile: options.profile,
            rules: Rules {
                exact: options.exact,
                push: options.profile.compares_push() || options.exact,
                window_slack: 0,
            },
            tolerance: options.profile.tolerance(),
            per_mille: options.profile.tolerance_per_mille(),
            local: local_address(false),
            remote: IpAddr::from([192, 0, 2, 1]),
            bind_port: 8080,
            connect_port: 8080,
            mtu: 1500,
            mss: 1460,
            timestamp_tick: None,
        };
        if script
            .options
            .iter()
            .any(|o| o.name == "ip_version" && o.value.as_deref() == Some("ipv6"))
        {
            s.local = local_address(true);
            s.remote = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]);
        }
        for option in &script.options {
            match option.name.as_str() {
                "ip_version" => {
                    let known = ["ipv4", "ipv6", "ipv4-mapped-ipv6"];
                    let value = option.value.as_deref().unwrap_or_default();
                    if !known.contains(&value) {
                        return Err(bad(option, "wants ipv4, ipv6 or ipv4-mapped-ipv6"));
                    }
                }
                "tolerance_usecs" => {
                    s.tolerance = Duration::from_micros(number(option, 1_000_000_000)?);
                }
                "tcp_ts_tick_usecs" => {
                    let tick = Duration::from_micros(number(option, 1_000_000)?);
                    s.timestamp_tick = Some(tick).filter(|t| !t.is_zero());
                }
                "mtu" => s.mtu = number(option, 65_535)? as u16,
                "bind_port" => s.bind_port = number(option, 65_535)?.max(1) as u16,
                "connect_port" => s.connect_port = number(option, 65_535)?.max(1) as u16,
                "local_ip" => s.local = address(option, s.local)?,
                "remote_ip" => s.remote = address(option, s.remote)?,
                "strict_segments" => s.rules.exact |= switch(option)?,
                // Of a network that is not there, and of how it cuts large packets.
                "mss" | "gateway_ip" | "netmask_ip" | "speed" | "define" | "verbose" | "debug"
                | "tcp_ts_ecr_scaled" | "is_anyip" | "send_omit_free" | "code_command"
                | "code_format" | "code_sockopt" => {}
                "tolerance_percent" => s.per_mille = per_mille(option)?,
                other => {
                    return Err(Diagnostic::unsupported(
                        option.span,
                        format!("option `--{other}` is not known to this runner"),
                    ));
                }
            }
        }
        if let Some(tolerance) = options.tolerance {
            s.tolerance = tolerance;
        }
        let wanted = s.wanted(&[]);
        s.mss = Config::from(&wanted).mss();
        if options.profile == Profile::Freebsd && !options.exact {
            s.rules.window_slack = u32::from(s.mss) - 1;
        }
        Ok(s)
    }
}

impl Settings {
    /// The stack to run against. `events` may begin with set-up.
    pub(super) fn wanted(&self, events: &[Event]) -> Wanted {
        let head = events.iter().map_while(|e| match &e.action {
            Action::Command(line) => Some(line.clone()),
            _ => None,
        });
        Wanted {
            profile: self.profile,
            local: self.local,
            mtu: self.mtu,
            setup: head.collect(),
        }
    }
}

fn bad(option: &ScriptOption, why: &str) -> Diagnostic {
    Diagnostic::syntax(option.span, format!("`--{}` {why}", option.name))
}

fn number(option: &ScriptOption, max: u64) -> Result<u64, Diagnostic> {
    let value = option.value.as_deref().and_then(|v| v.parse().ok());
    value
        .filter(|n| *n <= max)
        .ok_or_else(|| bad(option, &format!("wants a number from 0 to {max}")))
}

/// `12.5` percent are 125 thousandths.
fn per_mille(option: &ScriptOption) -> Result<u64, Diagnostic> {
    let value = option.value.as_deref().unwrap_or_default();
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let digits: Option<(u64, u64)> = whole
        .parse()
        .ok()
        .zip(fraction.get(..1).and_then(|f| f.parse().ok()));
    match digits {
        Some((whole @ ..=100, tenth)) => Ok(whole * 10 + tenth),
        _ => Err(bad(option, "wants percent from 0 to 100")),
    }
}

fn switch(option: &ScriptOption) -> Result<bool, Diagnostic> {
    match option.value.as_deref() {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(_) => Err(bad(option, "wants 0 or 1")),
    }
}

fn address(option: &ScriptOption, like: IpAddr) -> Result<IpAddr, Diagnostic> {
    let text = option.value.as_deref().unwrap_or_default();
    let text = text.split('/').next().unwrap_or_default();
    text.parse()
        .ok()
        .filter(|ip: &IpAddr| ip.is_ipv4() == like.is_ipv4())
        .ok_or_else(|| bad(option, "wants an address of the script's IP version"))
}

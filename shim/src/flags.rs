//! What `--so_flags` says: items between semicolons.
//!
//! ```text
//! profile=linux; mtu=9000; local=192.168.0.1; sysctl -q narrows.detector=rack; narrows.ecn=off
//! ```

use narrows_script::Profile;
use narrows_script::sockets::{Config, local_address};
use narrows_script::stack::Wanted;
use std::time::Duration;

/// Everything that the flags set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// `profile=rfc|linux|freebsd`, `mtu=N`, `local=ADDRESS`.
    pub config: Config,
    /// `idle_ms=N`: when a call blocks and nobody else has called or was busy for so long, in real
    /// time, time goes on by itself. 0: never.
    pub idle: Duration,
    /// `give_up_ms=N`: when a call blocks, nobody else has called or was busy for so long, and no
    /// timer is armed, it fails.
    pub give_up: Duration,
    /// `quiet=1`: what goes wrong in a script is not told on standard error.
    pub quiet: bool,
    /// Set-up lines, and settings as `NAME=VALUE`; those of docs/SCRIPTS.md.
    pub setup: Vec<String>,
}

/// packetdrill waits for a second, and ends with an error then: short of that by as much as a busy
/// machine takes to wake a thread a few times.
const DEFAULT_IDLE: Duration = Duration::from_millis(100);

/// Longer than a thread that has something to do is kept from it.
const DEFAULT_GIVE_UP: Duration = Duration::from_secs(5);

impl Default for Flags {
    fn default() -> Self {
        Self {
            config: Config::new(Profile::Rfc, local_address(false)),
            idle: DEFAULT_IDLE,
            give_up: DEFAULT_GIVE_UP,
            quiet: false,
            setup: Vec::new(),
        }
    }
}

impl Flags {
    /// Read the flags.
    ///
    /// # Errors
    /// The item that is not understood, and what there is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut flags = Self::default();
        let items = text.split([';', '\n']).map(str::trim);
        for item in items.filter(|i| !i.is_empty()) {
            let (name, value) = item.split_once('=').unwrap_or((item, ""));
            let (name, value) = (name.trim(), value.trim());
            let bad = |wants: &str| format!("`{item}`: {name} wants {wants}");
            match name {
                "profile" => flags.config.profile = value.parse()?,
                "mtu" => {
                    let mtu = value.parse().ok().filter(|n| *n >= 68);
                    flags.config.mtu = mtu.ok_or_else(|| bad("a number from 68 to 65535"))?;
                }
                "local" => {
                    flags.config.local = value.parse().map_err(|_| bad("an IP address"))?;
                }
                "idle_ms" | "give_up_ms" => {
                    let ms = value.parse().ok().filter(|n| *n <= 60_000);
                    let ms = ms.ok_or_else(|| bad("a number from 0 to 60000"))?;
                    let time = Duration::from_millis(ms);
                    match name {
                        "idle_ms" => flags.idle = time,
                        _ => flags.give_up = time,
                    }
                }
                "quiet" => {
                    flags.quiet = match value {
                        "0" => false,
                        "1" => true,
                        _ => return Err(bad("0 or 1")),
                    };
                }
                // A setting has a dot in its name, a set-up line has words.
                _ if name.contains(' ') || !item.contains('=') => flags.setup.push(item.to_owned()),
                _ if name.contains('.') => flags.setup.push(format!("sysctl '{name}={value}'")),
                _ => {
                    return Err(format!(
                        "no flag `{name}`; there are profile, mtu, local, idle_ms, give_up_ms, quiet, settings with a \
                         dot such as narrows.detector=rack, and set-up lines such as sysctl"
                    ));
                }
            }
        }
        Ok(flags)
    }
}

/// The flags for the stack that a script wants.
pub fn wanted(wanted: &Wanted) -> String {
    let mut out = format!(
        "profile={}; mtu={}; local={}",
        wanted.profile, wanted.mtu, wanted.local
    );
    for line in &wanted.setup {
        out.push_str("; ");
        // A line break ends an item, unless the shell would not see it either.
        out.push_str(&line.replace("\\\n", " "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn flags_are_read() {
        let flags = Flags::parse(
            "profile=linux; mtu=9000;local=10.0.0.1;; idle_ms=0; give_up_ms=7; sysctl -q narrows.ecn=off;\n\
             narrows.detector=rack; net.ipv4.tcp_rmem=4096 1 2; defaults.sh",
        );
        let flags = flags.unwrap();
        assert_eq!(flags.config.profile, Profile::Linux);
        assert_eq!(flags.config.mtu, 9_000);
        assert_eq!(flags.config.local, IpAddr::from([10, 0, 0, 1]));
        assert_eq!(flags.idle, Duration::ZERO);
        assert_eq!(flags.give_up, Duration::from_millis(7));
        let setup = [
            "sysctl -q narrows.ecn=off",
            "sysctl 'narrows.detector=rack'",
            "sysctl 'net.ipv4.tcp_rmem=4096 1 2'",
            "defaults.sh",
        ];
        assert_eq!(flags.setup, setup);
        assert_eq!(Flags::parse(""), Ok(Flags::default()));
    }

    #[test]
    fn what_is_wrong_is_said_by_name() {
        for (text, part) in [
            ("profil=linux", "no flag `profil`"),
            ("profile=windows", "no profile 'windows'"),
            ("mtu=20", "mtu wants a number from 68"),
            ("local=here", "local wants an IP address"),
            ("idle_ms=-1", "idle_ms wants a number"),
            ("quiet", "quiet wants 0 or 1"),
        ] {
            let why = Flags::parse(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn what_a_script_wants_is_read_back() {
        let script = Wanted {
            profile: Profile::Freebsd,
            local: IpAddr::from([0xfd3d, 0, 0, 0, 0, 0, 0, 1]),
            mtu: 1_280,
            setup: vec![
                "sysctl -q narrows.detector=rack".to_owned(),
                "defaults.sh\nset_sysctls.py /proc/sys/net/ipv4/tcp_sack=0 \\\n  /proc/sys/net/ipv4/tcp_ecn=1"
                    .to_owned(),
            ],
        };
        let flags = Flags::parse(&wanted(&script)).unwrap();
        assert_eq!(flags.config, Config::from(&script));
        let lines = [
            "sysctl -q narrows.detector=rack",
            "defaults.sh",
            "set_sysctls.py /proc/sys/net/ipv4/tcp_sack=0    /proc/sys/net/ipv4/tcp_ecn=1",
        ];
        assert_eq!(flags.setup, lines);
    }
}

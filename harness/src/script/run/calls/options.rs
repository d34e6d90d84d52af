//! `setsockopt` and `getsockopt`.

use super::Tried;
use crate::script::ast::{Call, Expr};
use crate::script::diagnostic::Diagnostic;
use crate::script::profile::Profile;
use crate::script::run::Machine;
use crate::script::run::sockets::{Reply, Role, Socket, errno_number, number};
use crate::script::setup;
use narrows::config::Keepalive;
use narrows::{ByteCount, Duration};

/// Options that change nothing here; they can be read back.
const WITHOUT_EFFECT: &[&str] = &[
    "SO_REUSEADDR",
    "SO_REUSEPORT",
    "SO_PRIORITY",
    "SO_DEBUG",
    "SO_SNDLOWAT",
    "SO_RCVLOWAT",
    "IP_MTU_DISCOVER",
    "IPV6_MTU_DISCOVER",
    "IP_RECVERR",
    "IPV6_RECVERR",
    "IPV6_V6ONLY",
    "TCP_INFO",
];

/// What a socket has where nothing was set.
const KNOWN: &str = "SO_ERROR, SO_KEEPALIVE, SO_LINGER, SO_RCVBUF, SO_SNDBUF, TCP_CONGESTION, \
                     TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_LINGER2, TCP_MAXSEG, \
                     TCP_NODELAY, TCP_SYNCNT, TCP_USER_TIMEOUT, TCP_WINDOW_CLAMP, IP_TOS, IP_TTL";

/// The value in `[1]`, `{onoff=1, linger=0}` or `"reno"`.
fn value(call: &Call) -> Result<&Expr, Diagnostic> {
    match call.arg(3)? {
        Expr::List(items) => items
            .first()
            .ok_or_else(|| call.unsupported("the value is missing: [1]")),
        other => Ok(other),
    }
}

impl Machine<'_> {
    pub(super) fn setsockopt(&mut self, call: &Call) -> Tried {
        let fd = self.descriptor(call)?;
        let name = call.name(2)?.to_owned();
        let value = value(call)?;
        let word = match value {
            Expr::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        };
        if name == "SO_LINGER" {
            let field = |f| value.field(f).and_then(number).unwrap_or(0);
            let linger = (field("onoff") != 0).then(|| field("linger").max(0) as u64);
            if let Some(socket) = self.sockets.get_mut(&fd) {
                socket.linger = linger;
            }
            return Ok(Reply::Returned(0));
        }
        let n = match (name.as_str(), number(value)) {
            ("TCP_CONGESTION", _) => 0,
            (_, Some(n)) if (0..1 << 31).contains(&n) => n,
            _ => return Err(call.unsupported(format!("no value for {name}: a number in brackets"))),
        };
        let open = matches!(self.socket(fd).role, Role::Conn(_));
        self.set_option(call, fd, &name, n, word.as_deref(), open)?;
        if let Some(socket) = self.sockets.get_mut(&fd) {
            socket.options.insert(name, n);
            let valid = socket.tcp.validate();
            valid.map_err(|e| call.unsupported(e))?;
        }
        Ok(Reply::Returned(0))
    }

    /// `open`: the connection exists, so most of its configuration is settled.
    fn set_option(
        &mut self,
        call: &Call,
        fd: i32,
        name: &str,
        n: i64,
        word: Option<&str>,
        open: bool,
    ) -> Result<(), Diagnostic> {
        if WITHOUT_EFFECT.contains(&name) {
            return Ok(());
        }
        let role = self.socket(fd).role;
        // Linux takes twice what is asked for, for its own book-keeping.
        let doubled = u32::from(self.settings.profile == Profile::Linux);
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(());
        };
        let keepalive = |s: &Socket, name: &str, default: Duration| {
            s.options
                .get(name)
                .map_or(default, |v| Duration::from_secs(*v as u64))
        };
        let mut late = true;
        match name {
            "TCP_NODELAY" => {
                socket.tcp.nagle = n == 0;
                if let Role::Conn(id) = role
                    && let Some(conn) = self.host.connection_mut(id)
                {
                    conn.set_nodelay(n != 0);
                }
                late = false;
            }
            "SO_KEEPALIVE" | "TCP_KEEPIDLE" | "TCP_KEEPINTVL" | "TCP_KEEPCNT" => {
                socket.options.insert(name.to_owned(), n);
                let d = Keepalive::default();
                let on = socket.options.get("SO_KEEPALIVE").is_some_and(|v| *v != 0);
                let probes = socket.options.get("TCP_KEEPCNT");
                let values = Keepalive {
                    idle: keepalive(socket, "TCP_KEEPIDLE", d.idle),
                    interval: keepalive(socket, "TCP_KEEPINTVL", d.interval),
                    probes: probes.map_or(d.probes, |v| *v as u32),
                };
                socket.tcp.keepalive = on.then_some(values);
                let (values, now) = (socket.tcp.keepalive, self.now);
                if let Role::Conn(id) = role
                    && let Some(conn) = self.host.connection_mut(id)
                {
                    conn.set_keepalive(values, now);
                }
                late = false;
            }
            "TCP_USER_TIMEOUT" => {
                let limit = Duration::from_millis(n as u64);
                socket.tcp.user_timeout = Some(limit).filter(|t| !t.is_zero());
                let (limit, now) = (socket.tcp.user_timeout, self.now);
                if let Role::Conn(id) = role
                    && let Some(conn) = self.host.connection_mut(id)
                {
                    conn.set_user_timeout(limit, now);
                }
                late = false;
            }
            "IP_TOS" | "IPV6_TCLASS" => {
                socket.tcp.dscp = (n >> 2) as u8 & 0x3f;
                let dscp = socket.tcp.dscp;
                if let Role::Conn(id) = role
                    && let Some(conn) = self.host.connection_mut(id)
                {
                    conn.set_dscp(dscp);
                }
                late = false;
            }
            "IP_TTL" | "IPV6_UNICAST_HOPS" => socket.tcp.hop_limit = n.clamp(1, 255) as u8,
            "SO_SNDBUF" => {
                let bytes = (n as usize).max(1) << doubled;
                socket.tcp.send_buffer = bytes;
                if let Role::Conn(id) = role
                    && let Some(conn) = self.host.connection_mut(id)
                {
                    conn.set_send_buffer(bytes);
                }
                late = false;
            }
            "SO_RCVBUF" => socket.tcp.recv_buffer = (n as usize).max(1) << doubled,
            "TCP_MAXSEG" => socket.tcp.mss = (n.clamp(64, 65_495) as u16).min(self.settings.mss),
            "TCP_SYNCNT" => socket.tcp.syn_retries = n as u32,
            "TCP_LINGER2" => socket.tcp.fin_wait_2 = Some(Duration::from_secs(n as u64)),
            "TCP_WINDOW_CLAMP" => socket.tcp.window_clamp = Some(ByteCount::new((n as u64).max(1))),
            "TCP_CONGESTION" => {
                let name = word.unwrap_or_default();
                setup::set("narrows.congestion", name, &mut socket.tcp)
                    .map_err(|why| call.unsupported(why))?;
            }
            other => {
                return Err(call.unsupported(format!(
                    "no option `{other}`; there are {KNOWN}, and without effect {}",
                    WITHOUT_EFFECT.join(", ")
                )));
            }
        }
        if late && open {
            return Err(call.unsupported(format!(
                "{name} must be set before connect() or on the listening socket: an open \
                 connection keeps what it began with"
            )));
        }
        Ok(())
    }

    pub(super) fn getsockopt(&mut self, call: &Call) -> Tried {
        let fd = self.descriptor(call)?;
        let name = call.name(2)?;
        let socket = self.socket(fd);
        let conn = socket.conn(&self.host);
        let tcp = &socket.tcp;
        let wanted = value(call)?;
        if name == "TCP_CONGESTION" {
            let got = conn.map_or("", |c| c.congestion_name());
            return match wanted {
                Expr::Text(text) if text != got.as_bytes() => Err(Diagnostic::mismatch(
                    call.span,
                    "getsockopt(TCP_CONGESTION) gives something else",
                )
                .comparing(String::from_utf8_lossy(text), got)),
                _ => Ok(Reply::Returned(0)),
            };
        }
        let got = match name {
            "SO_ERROR" => {
                let error = socket.error(&self.host);
                if let Some(socket) = self.sockets.get_mut(&fd) {
                    socket.error_told |= error.is_some();
                }
                error.map_or(0, errno_number)
            }
            "TCP_MAXSEG" => conn.map_or(i64::from(tcp.mss), |c| c.sender().mss().get() as i64),
            "TCP_NODELAY" => i64::from(!tcp.nagle),
            "SO_SNDBUF" => tcp.send_buffer as i64,
            "SO_RCVBUF" if self.settings.profile == Profile::Freebsd => {
                let whole = tcp.window_clamp.map_or(65_536, |c| c.get() as i64);
                let open = conn.is_some_and(|c| c.was_established());
                if open { whole } else { whole.min(65_536) }
            }
            "SO_RCVBUF" => tcp.recv_buffer as i64,
            "SO_TYPE" => 1,
            "SO_LINGER" => return Ok(Reply::Returned(0)),
            "IP_MTU" => {
                i64::from(tcp.mss)
                    + if self.settings.local.is_ipv4() {
                        40
                    } else {
                        60
                    }
            }
            other => match socket.options.get(other) {
                Some(n) => *n,
                None if WITHOUT_EFFECT.contains(&other) => 0,
                None => return Err(call.unsupported(format!("no option `{other}` to ask for"))),
            },
        };
        match number(wanted) {
            Some(n) if n != got && name != "TCP_INFO" => Err(Diagnostic::mismatch(
                call.span,
                format!("getsockopt({name}) gives something else"),
            )
            .comparing(n.to_string(), got.to_string())),
            _ => Ok(Reply::Returned(0)),
        }
    }
}

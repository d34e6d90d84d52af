//! `setsockopt` and `getsockopt`.

use super::call::{Answer, Fd, Gave, OptionValue};
use super::errno::Errno;
use super::socket::{Reply, Role, Socket};
use super::{Sockets, Stuck, refused};
use crate::profile::Profile;
use crate::setup;
use narrows::config::Keepalive;
use narrows::congestion::CongestionControl;
use narrows::{ByteCount, Duration};

type Tried = Result<Reply, Stuck>;

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
                     TCP_CORK, TCP_FASTOPEN, TCP_FASTOPEN_CONNECT, TCP_FASTOPEN_KEY, \
                     TCP_FASTOPEN_NO_COOKIE, TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL, \
                     TCP_LINGER2, TCP_MAXSEG, TCP_NODELAY, TCP_NOTSENT_LOWAT, TCP_SYNCNT, \
                     TCP_USER_TIMEOUT, TCP_WINDOW_CLAMP, IP_TOS, IP_TTL";

impl Sockets {
    pub(super) fn set_option(&mut self, fd: Fd, name: &str, value: &OptionValue) -> Tried {
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        let before = socket.tcp.clone();
        let n = match (name, value) {
            ("SO_LINGER", OptionValue::Linger(seconds)) => {
                socket.linger = *seconds;
                return Ok(Reply::of(0));
            }
            ("TCP_FASTOPEN_KEY", OptionValue::Bytes(key)) => {
                return self.set_fast_open_key(fd, key);
            }
            ("TCP_CONGESTION", OptionValue::Word(_)) => 0,
            (_, OptionValue::Number(n)) if (0..1 << 31).contains(n) => *n,
            _ => return refused(format!("no value for {name}: a number in brackets")),
        };
        let set = match value {
            OptionValue::Word(word) => self.set_congestion(fd, word),
            _ => self.set_number(fd, name, n),
        };
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        if let Err(e) = set.and_then(|()| socket.tcp.validate().or_else(refused)) {
            socket.tcp = before;
            return Err(e);
        }
        socket.options.insert(name.to_owned(), n);
        Ok(Reply::of(0))
    }

    fn set_congestion(&mut self, fd: Fd, name: &str) -> Result<(), Stuck> {
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(());
        };
        setup::set("narrows.congestion", name, &mut socket.tcp).or_else(refused)?;
        match socket.role {
            Role::Conn(_) => too_late("TCP_CONGESTION"),
            _ => Ok(()),
        }
    }

    fn set_number(&mut self, fd: Fd, name: &str, n: i64) -> Result<(), Stuck> {
        if WITHOUT_EFFECT.contains(&name) {
            return Ok(());
        }
        if name.starts_with("TCP_FASTOPEN") {
            return self.set_fast_open(fd, name, n);
        }
        // Linux takes twice what is asked for, for its own book-keeping.
        let doubled = u32::from(self.config.profile == Profile::Linux);
        let mss = self.config.mss();
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(());
        };
        let mut open = match socket.role {
            Role::Conn(id) => self.host.connection_mut(id),
            _ => None,
        };
        let seconds = |s: &Socket, name: &str, default: Duration| {
            s.options
                .get(name)
                .map_or(default, |v| Duration::from_secs(*v as u64))
        };
        match name {
            "TCP_NODELAY" => {
                socket.tcp.nagle = n == 0;
                if let Some(conn) = &mut open {
                    conn.set_nodelay(n != 0);
                }
                return Ok(());
            }
            "TCP_CORK" => {
                socket.tcp.cork = n != 0;
                if let Some(conn) = &mut open {
                    conn.set_cork(n != 0);
                }
                return Ok(());
            }
            "TCP_NOTSENT_LOWAT" => {
                let lowat = match n {
                    0 => self.tcp.buffers.notsent_lowat,
                    n => Some(ByteCount::new(n as u64)),
                };
                socket.tcp.buffers.notsent_lowat = lowat;
                if let Some(conn) = &mut open {
                    conn.set_notsent_lowat(lowat);
                }
                return Ok(());
            }
            "SO_KEEPALIVE" | "TCP_KEEPIDLE" | "TCP_KEEPINTVL" | "TCP_KEEPCNT" => {
                socket.options.insert(name.to_owned(), n);
                let d = Keepalive::default();
                let on = socket.options.get("SO_KEEPALIVE").is_some_and(|v| *v != 0);
                let probes = socket.options.get("TCP_KEEPCNT");
                let values = Keepalive {
                    idle: seconds(socket, "TCP_KEEPIDLE", d.idle),
                    interval: seconds(socket, "TCP_KEEPINTVL", d.interval),
                    probes: probes.map_or(d.probes, |v| *v as u32),
                };
                socket.tcp.lifetimes.keepalive = on.then_some(values);
                if let Some(conn) = &mut open {
                    conn.set_keepalive(socket.tcp.lifetimes.keepalive, now);
                }
                return Ok(());
            }
            "TCP_USER_TIMEOUT" => {
                let limit = Duration::from_millis(n as u64);
                socket.tcp.lifetimes.user_timeout = Some(limit).filter(|t| !t.is_zero());
                if let Some(conn) = &mut open {
                    conn.set_user_timeout(socket.tcp.lifetimes.user_timeout, now);
                }
                return Ok(());
            }
            "IP_TOS" | "IPV6_TCLASS" => {
                socket.tcp.dscp = (n >> 2) as u8 & 0x3f;
                if let Some(conn) = &mut open {
                    conn.set_dscp(socket.tcp.dscp);
                }
                return Ok(());
            }
            "SO_SNDBUF" => {
                let bytes = (n as usize).max(1) << doubled;
                socket.tcp.buffers.send = bytes;
                if let Some(conn) = &mut open {
                    conn.set_send_buffer(bytes);
                }
                return Ok(());
            }
            "IP_TTL" | "IPV6_UNICAST_HOPS" => socket.tcp.hop_limit = n.clamp(1, 255) as u8,
            "SO_RCVBUF" => socket.tcp.buffers.recv = (n as usize).max(1) << doubled,
            "TCP_MAXSEG" => socket.tcp.mss = (n.clamp(64, 65_495) as u16).min(mss),
            "TCP_SYNCNT" => socket.tcp.lifetimes.syn_retries = n as u32,
            "TCP_LINGER2" => socket.tcp.lifetimes.fin_wait_2 = Some(Duration::from_secs(n as u64)),
            "TCP_WINDOW_CLAMP" => {
                socket.tcp.buffers.window_clamp = Some(ByteCount::new((n as u64).max(1)))
            }
            other => {
                return refused(format!(
                    "no option `{other}`; there are {KNOWN}, and without effect {}",
                    WITHOUT_EFFECT.join(", ")
                ));
            }
        }
        match socket.role {
            Role::Conn(_) => too_late(name),
            _ => Ok(()),
        }
    }

    pub(super) fn get_option(&mut self, fd: Fd, name: &str) -> Tried {
        let profile = self.config.profile;
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        let conn = socket.conn(&self.host);
        let tcp = &socket.tcp;
        let n = match name {
            "TCP_CONGESTION" => {
                let word = conn
                    .map_or("", |c| c.sender().congestion().name())
                    .to_owned();
                return Ok(Reply::Answer(Answer::giving(0, Gave::Word(word))));
            }
            "SO_ERROR" => {
                let error = socket.error(&self.host);
                socket.error_told |= error.is_some();
                error.map_or(0, |e| i64::from(e.number()))
            }
            "TCP_MAXSEG" => conn.map_or(i64::from(tcp.mss), |c| c.sender().mss().get() as i64),
            "TCP_NODELAY" => i64::from(!tcp.nagle),
            "TCP_CORK" => i64::from(tcp.cork),
            "SO_SNDBUF" => tcp.buffers.send as i64,
            "SO_RCVBUF" if profile == Profile::Freebsd => {
                let whole = tcp.buffers.window_clamp.map_or(65_536, |c| c.get() as i64);
                let open = conn.is_some_and(|c| c.was_established());
                if open { whole } else { whole.min(65_536) }
            }
            "SO_RCVBUF" => tcp.buffers.recv as i64,
            "SO_TYPE" => 1,
            "SO_LINGER" => {
                let gave = Gave::Linger(socket.linger);
                return Ok(Reply::Answer(Answer::giving(0, gave)));
            }
            "IP_MTU" => {
                let headers = if self.config.local.is_ipv4() { 40 } else { 60 };
                i64::from(tcp.mss) + headers
            }
            other => match socket.options.get(other) {
                Some(n) => *n,
                None if WITHOUT_EFFECT.contains(&other) => 0,
                None => return refused(format!("no option `{other}` to ask for")),
            },
        };
        Ok(Reply::Answer(Answer::giving(0, Gave::Number(n))))
    }
}

fn too_late<T>(name: &str) -> Result<T, Stuck> {
    refused(format!(
        "{name} must be set before connect() or on the listening socket: an open connection keeps \
         what it began with"
    ))
}

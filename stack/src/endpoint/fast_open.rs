//! Fast Open of a host (RFC 7413): what clients remember of servers, and what a listener makes of
//! a SYN.

use super::Endpoint;
use super::clock::Clock;
use super::demux::FourTuple;
use super::listen::ListenerId;
use super::strangers::Knock;
use crate::buffer::Payload;
use crate::config::TcpConfig;
use crate::conn::{Connection, TcpTypes, default_mss};
use crate::fast_open::{
    CookieCheck, FastOpenClient, FastOpenKeys, FastOpenReport, FastOpenStart, Finding,
};
use crate::wire::{FastOpenCookie, FastOpenForm, FastOpenOption};
use narrows_congestion::{Duration, Instant};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Without a cached MSS: what every host takes (RFC 7413 section 4.1.3). With one, no more than
/// this, lest the SYN be cut to pieces or dropped on its way.
const fn largest_mss(remote: IpAddr) -> u16 {
    match remote {
        IpAddr::V4(_) => 1_460,
        IpAddr::V6(_) => 1_440,
    }
}

/// One negative response in a row may be chance; after the second Fast Open rests for four of
/// these, and twice as long after each further one, as Linux has it.
const REST: Duration = Duration::from_secs(60);
const MOST_DOUBLINGS: u8 = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Server {
    cookie: Option<(FastOpenForm, FastOpenCookie)>,
    mss: Option<u16>,
    /// How to ask next time.
    form: FastOpenForm,
    /// The other form has been tried.
    tried: bool,
}

#[derive(Clone, Copy, Debug)]
enum Known {
    Server(Server),
    Failing { in_a_row: u8, last: Instant },
}

/// Cookies by address pair, failures by address pair and port.
pub(super) struct Memory(Clock<FourTuple, Known>);

impl Memory {
    pub(super) fn new(capacity: u32) -> Self {
        Self(Clock::new(capacity))
    }

    /// Remember `known`, if need be in place of something else.
    fn put(&mut self, key: FourTuple, known: Known) {
        if let Some(place) = self.0.get_or_insert(key, known, |_| false) {
            *place = known;
        }
    }

    /// How an active open is to begin; `None`: without Fast Open. `largest`: the MSS that we and
    /// the path take.
    pub(super) fn start<T: TcpTypes>(
        &mut self,
        tuple: &FourTuple,
        client: FastOpenClient,
        largest: u16,
        now: Instant,
    ) -> Option<FastOpenStart> {
        let (path, service) = keys(tuple);
        if let Some(Known::Failing { in_a_row, last }) = self.0.get(&service)
            && *in_a_row > 1
            && now.since(*last) < REST * (1 << (*in_a_row).min(MOST_DOUBLINGS))
        {
            return None;
        }
        let known = self.server(&path);
        let remote = tuple.remote.ip();
        let mss = known.mss.unwrap_or(default_mss(remote));
        let room = Connection::<T>::syn_payload(mss.min(largest_mss(remote)).min(largest));
        let cached = known.cookie;
        let (form, cookie) = cached.map_or((known.form, None), |(form, c)| (form, Some(c)));
        let asks = client == FastOpenClient::Cookie;
        let option = asks.then_some(FastOpenOption { form, cookie });
        Some(FastOpenStart { option, room })
    }

    /// What is known of a server, by its path.
    fn server(&mut self, path: &FourTuple) -> Server {
        match self.0.get(path) {
            Some(Known::Server(server)) => *server,
            _ => Server::default(),
        }
    }

    /// An active open has been answered, or has failed.
    pub(super) fn learn(&mut self, tuple: &FourTuple, report: &FastOpenReport) {
        let (path, service) = keys(tuple);
        match report.finding {
            Finding::Passes => {
                if let Some(Known::Failing { in_a_row, .. }) = self.0.get(&service) {
                    *in_a_row = 0;
                }
            }
            Finding::Fails => {
                let before = match self.0.get(&service) {
                    Some(Known::Failing { in_a_row, .. }) => *in_a_row,
                    _ => 0,
                };
                let in_a_row = before.saturating_add(1);
                let last = report.at;
                self.put(service, Known::Failing { in_a_row, last });
            }
            Finding::Nothing => {}
        }
        let old = self.server(&path);
        // Asked and not given one: the next time in the other form, once.
        let unanswered = report.requested.is_some()
            && report.cookie.is_none()
            && report.finding == Finding::Nothing
            && report.mss.is_some();
        let (form, tried) = match report.requested {
            Some(FastOpenForm::Standard) if unanswered && !old.tried => {
                (FastOpenForm::Experimental, true)
            }
            Some(FastOpenForm::Experimental) if unanswered => (FastOpenForm::Standard, true),
            _ => (old.form, old.tried),
        };
        let server = Server {
            cookie: report.cookie.or(old.cookie),
            mss: report.mss.or(old.mss),
            form,
            tried,
        };
        if server.cookie.is_some() || server.mss.is_some() {
            self.put(path, Known::Server(server));
        }
    }
}

/// Those of a path and of a service on it (RFC 7413 section 4.1.3.1): without the ports that they do
/// not name.
fn keys(tuple: &FourTuple) -> (FourTuple, FourTuple) {
    let at = |ip| SocketAddr::new(ip, 0);
    let (local, remote) = (at(tuple.local.ip()), tuple.remote);
    let path = FourTuple::new(local, at(remote.ip()));
    (path, FourTuple { local, remote })
}

/// What is to become of a SYN.
pub(super) enum Opening {
    /// An ordinary handshake, perhaps with a cookie in the SYN-ACK.
    Ordinary(Option<FastOpenOption>),
    /// Its data is taken; perhaps there is a new cookie.
    Early(Option<FastOpenOption>),
}

impl<T: TcpTypes> Endpoint<T> {
    /// RFC 7413 section 4.2.2, of a SYN that was admitted.
    pub(super) fn judge_fast_open(
        &mut self,
        syn: &Knock<'_, '_, T>,
        config: &TcpConfig,
    ) -> Opening {
        let policy = config.fast_open;
        let option = syn.tcp.options.fast_open();
        if policy.pending == 0 || (option.is_none() && !policy.without_cookie) {
            return Opening::Ordinary(None);
        }
        let own = || FastOpenKeys::of(self.cold.secrets.fast_open());
        let keys = policy.keys.unwrap_or_else(own);
        let (client, server) = (syn.tuple.remote.ip(), syn.tuple.local.ip());
        let fresh = |form| FastOpenOption {
            form,
            cookie: Some(keys.cookie(client, server)),
        };
        let came = option.and_then(|o| o.cookie.map(|c| (o.form, c)));
        let (good, answer) = match (option, came) {
            _ if policy.without_cookie && syn.payload.len() > 0 => (true, None),
            (_, Some((form, cookie))) => match keys.check(client, server, &cookie) {
                CookieCheck::Current => (true, None),
                CookieCheck::Previous => (true, Some(fresh(form))),
                CookieCheck::Bad => {
                    self.cold.stats.change().fast_open_bad_cookies += 1;
                    (false, Some(fresh(form)))
                }
            },
            (Some(request), None) => (false, Some(fresh(request.form))),
            (None, None) => (false, None),
        };
        if !good {
            self.cold.stats.change().fast_open_cookies_sent += u64::from(answer.is_some());
            return Opening::Ordinary(answer);
        }
        let listener = self.cold.listeners.get_mut(&syn.listener);
        if !listener.is_some_and(|l| l.take_fast_open(policy.pending, syn.now)) {
            self.cold.stats.change().fast_open_overflows += 1;
            return Opening::Ordinary(None);
        }
        self.cold.stats.change().fast_open_accepted += 1;
        Opening::Early(answer)
    }

    /// The keys of a listener's Fast Open cookies from now on, and how many connections may be
    /// pending ([`FastOpen::pending`](crate::fast_open::FastOpen::pending)).
    pub fn set_listener_fast_open(
        &mut self,
        listener: ListenerId,
        change: impl FnOnce(&mut crate::fast_open::FastOpen),
    ) {
        if let Some(listener) = self.cold.listeners.get_mut(&listener) {
            change(&mut Arc::make_mut(&mut listener.tcp).fast_open);
        }
    }

    /// Cookies of servers, and what is known of paths that do not let Fast Open pass, are
    /// forgotten.
    pub fn forget_fast_open(&mut self) {
        self.cold.fast_open = None;
    }
}

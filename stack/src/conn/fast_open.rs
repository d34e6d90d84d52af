//! Fast Open in a connection (RFC 7413 section 4.2): what rides on the SYN and the SYN-ACK, and
//! what their answers say. All of it is over with the handshake.

use super::state::{CloseReason, Origin, State};
use super::user::Kind as EventKind;
use super::{Connection, TcpTypes, Text};
use crate::buffer::{Payload, RecvBuffer, SendBuffer};
use crate::fast_open::{FastOpenReport, FastOpenStart, FastOpenStatus, Finding};
use crate::wire::options::MAX_OPTIONS_LEN;
use crate::wire::{FastOpenOption, Seq, TcpHeader};
use core::ops::Range;
use narrows_congestion::{Duration, Instant};

/// Whose Fast Open it is.
#[derive(Clone, Debug)]
pub(super) enum Side {
    /// Nobody's: an ordinary handshake.
    Neither,
    Client(Box<Client>),
    Server(Box<Server>),
}

/// Fast Open of an active open.
#[derive(Clone, Debug)]
pub(super) struct Client {
    start: FastOpenStart,
    /// Bytes of data that have left on a SYN.
    sent: u64,
    /// A router said that such a SYN is too big.
    too_big: bool,
    report: Option<FastOpenReport>,
}

/// Fast Open of a passive open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    /// The option of the SYN-ACK.
    answer: Option<FastOpenOption>,
    stage: Stage,
    /// The user has been told of it.
    told: bool,
    /// When the SYN came.
    since: Instant,
}

/// How far a passive open has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It waits for the handshake like any other.
    Ordinary,
    /// The user has it, and it counts as pending.
    Pending,
    /// It counts no more.
    Settled,
}

/// How a connection that was given to its user early goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Early {
    /// The handshake is complete.
    Confirmed,
    /// It ended before, by a RST of the peer; when its SYN came.
    Reset { since: Instant },
    /// It ended before.
    Failed,
}

impl Client {
    /// What an active open has found, at that time and without an answer.
    fn report_of(&self, finding: Finding, at: Instant) -> FastOpenReport {
        let option = self.start.option;
        FastOpenReport {
            at,
            requested: option.filter(|o| o.cookie.is_none()).map(|o| o.form),
            cookie: None,
            mss: None,
            finding,
        }
    }
}

impl<T: TcpTypes> Connection<T> {
    /// Use Fast Open for this active open; to be said before anything else.
    pub fn use_fast_open(&mut self, start: FastOpenStart) {
        self.handshake.fast_open = if start.takes_data() {
            // The SYN waits for data.
            self.handshake.due = false;
            FastOpenStatus::Waiting
        } else {
            FastOpenStatus::Requested
        };
        self.handshake.side = Side::Client(Box::new(Client {
            start,
            sent: 0,
            too_big: false,
            report: None,
        }));
    }

    /// How far Fast Open has come.
    pub fn fast_open(&self) -> FastOpenStatus {
        self.handshake.fast_open
    }

    /// What is known of an active open, where it is used; asking makes no box.
    fn client_mut(&mut self) -> Option<(&mut FastOpenStatus, &mut Client)> {
        let handshake = self.handshake.changed()?;
        match &mut handshake.side {
            Side::Client(client) => Some((&mut handshake.fast_open, client)),
            Side::Neither | Side::Server(_) => None,
        }
    }

    /// The same of a passive open.
    fn server_mut(&mut self) -> Option<&mut Server> {
        match &mut self.handshake.changed()?.side {
            Side::Server(server) => Some(server),
            Side::Neither | Side::Client(_) => None,
        }
    }

    /// Bytes of data that the SYN can still take along.
    pub fn syn_room(&self) -> u64 {
        match &self.handshake.side {
            Side::Client(client) if self.fast_open() == FastOpenStatus::Waiting => {
                u64::from(client.start.room).saturating_sub(self.send_buf.end())
            }
            _ => 0,
        }
    }

    /// The user has called `send` in SYN-SENT: a SYN that waits for data leaves now.
    pub(super) fn stop_waiting_for_data(&mut self) {
        if self.fast_open() == FastOpenStatus::Waiting {
            self.handshake.due = true;
        }
    }

    /// There is data that our SYN takes along, or took, though the peer may not have it yet.
    pub(super) fn syn_takes_data_along(&self) -> bool {
        let status = self.fast_open();
        matches!(status, FastOpenStatus::Waiting | FastOpenStatus::Sent) && self.send_buf.end() > 0
    }

    /// The option of our SYN or SYN-ACK, and the data that rides on it. Neither is sent again when
    /// the timer has fired (RFC 7413 section 4.2.2).
    pub(super) fn ride_on_syn(&mut self, tcp: &mut TcpHeader, payload: &mut Range<u64>) {
        let queued = self.send_buf.end();
        *payload = queued..queued;
        if self.handshake.retries > 0 {
            return;
        }
        let handshake = &mut *self.handshake;
        let option = match (self.state, &handshake.side) {
            (State::SynSent, Side::Client(client)) if !client.too_big => client.start.option,
            (State::SynReceived(Origin::Passive), Side::Server(server)) => server.answer,
            _ => return,
        };
        if let Some(option) = option {
            tcp.options.set_fast_open(option);
            if tcp.options.wire_len() > MAX_OPTIONS_LEN {
                // No room: an ordinary handshake.
                tcp.options.unknown = None;
                if let Side::Client(_) = handshake.side {
                    handshake.fast_open = FastOpenStatus::Unused;
                }
                return;
            }
        }
        if let Side::Client(client) = &mut handshake.side
            && client.start.takes_data()
        {
            let len = queued.min(u64::from(client.start.room));
            client.sent = client.sent.max(len);
            handshake.fast_open = match len {
                0 => FastOpenStatus::Requested,
                _ => FastOpenStatus::Sent,
            };
            *payload = 0..len;
        }
    }

    /// SEG.ACK acknowledges our SYN, and nothing that was not sent with or after it.
    pub(super) fn acknowledges_syn(&self, ack: Seq) -> bool {
        let sent = match &self.handshake.side {
            Side::Client(client) => client.sent,
            Side::Server(_) => self.snd.nxt().saturating_sub(1),
            Side::Neither => 0,
        };
        u64::from(ack.since(self.iss + 1)) <= sent
    }

    /// The SYN of an active open is acknowledged, by `tcp`, with as much of its data as the peer
    /// has taken. What is left counts as never sent: it leaves with the first ACK.
    pub(super) fn on_syn_acknowledged(&mut self, tcp: &TcpHeader, now: Instant) {
        let taken = u64::from(tcp.ack.since(self.iss + 1));
        let retried = self.handshake.retries > 0;
        let Some((status, client)) = self.client_mut() else {
            return;
        };
        let brought = tcp.options.fast_open();
        let cookie = brought.and_then(|o| o.cookie.map(|c| (o.form, c)));
        let lost = retried && taken == 0 && cookie.is_none();
        let finding = if taken > 0 || (retried && cookie.is_some()) {
            Finding::Passes
        } else if lost || client.too_big || (client.sent > 0 && cookie.is_none()) {
            Finding::Fails
        } else {
            Finding::Nothing
        };
        *status = match *status {
            FastOpenStatus::Sent if taken == client.sent => FastOpenStatus::Accepted,
            FastOpenStatus::Sent | FastOpenStatus::Requested if lost => FastOpenStatus::Lost,
            FastOpenStatus::Sent => FastOpenStatus::Refused,
            other => other,
        };
        client.report = Some(FastOpenReport {
            // One that was not asked for is not kept (RFC 7413 section 7.3).
            cookie: cookie.filter(|_| client.start.option.is_some()),
            mss: tcp.options.mss,
            ..client.report_of(finding, now)
        });
        if taken > 0 {
            self.snd.start_at(1 + taken);
            self.send_buf.release(taken);
            self.look_for_room();
        }
    }

    /// A router says that a packet was too big while our SYN is outstanding: one with data goes
    /// again at once, without.
    pub(super) fn on_syn_too_big(&mut self) {
        if let Some((_, client)) = self.client_mut()
            && client.sent > 0
            && !std::mem::replace(&mut client.too_big, true)
        {
            self.handshake.due = true;
        }
    }

    /// What an active open has found out, once.
    pub(crate) fn take_fast_open_report(&mut self) -> Option<FastOpenReport> {
        let failed = matches!(self.state, State::Closed(_)) && !self.established;
        // A refusal is an answer: it came.
        let refused = self.state == State::Closed(CloseReason::Refused);
        let over_at = self.handshake.over_at;
        let (status, client) = self.client_mut()?;
        let told = client.report.take();
        let tried = matches!(*status, FastOpenStatus::Sent | FastOpenStatus::Requested);
        if told.is_some() || !failed || !tried {
            return told;
        }
        // No answer at all, or an error in its stead (RFC 7413 section 4.1.3.1).
        *status = FastOpenStatus::Lost;
        let finding = match refused {
            true => Finding::Nothing,
            false => Finding::Fails,
        };
        Some(client.report_of(finding, over_at))
    }

    // ---- The server.

    /// The SYN-ACK of a passive open is to carry `answer`.
    pub(crate) fn answer_fast_open(&mut self, answer: FastOpenOption, now: Instant) {
        self.serve_fast_open(Some(answer), Stage::Ordinary, now);
    }

    fn serve_fast_open(&mut self, answer: Option<FastOpenOption>, stage: Stage, since: Instant) {
        self.handshake.side = Side::Server(Box::new(Server {
            answer,
            stage,
            told: false,
            since,
        }));
    }

    /// The SYN of a passive open is vouched for: its data is the user's, who may answer before the
    /// handshake is complete (RFC 7413 section 4.2.2). `answer`: a new cookie.
    pub(crate) fn accept_early(
        &mut self,
        syn: &TcpHeader,
        text: Text<'_, T>,
        answer: Option<FastOpenOption>,
        now: Instant,
    ) {
        self.serve_fast_open(answer, Stage::Pending, now);
        let room = self.syn_text_room().min(self.offered.clamp);
        let kept = text.len().min(room.min(u64::from(u16::MAX)) as usize);
        if kept > 0 {
            self.recv_buf.write(0, text.slice(0..kept));
            self.rcv_nxt = kept as u64;
            self.on_new_text(kept as u64, now);
            self.handshake.fast_open = FastOpenStatus::Accepted;
        }
        self.begin_sending(None, now);
        self.window.init(syn.window, false, syn.seq, 1);
        self.events.set(EventKind::Connected);
    }

    /// The user has this connection, though its handshake may not be complete.
    pub(crate) fn is_early(&self) -> bool {
        matches!(&self.handshake.side, Side::Server(server) if server.stage != Stage::Ordinary)
    }

    /// Whether the user has been told of an early connection; it has from now on.
    pub(crate) fn was_handed_over(&mut self) -> bool {
        (self.server_mut()).is_some_and(|server| std::mem::replace(&mut server.told, true))
    }

    /// How an early connection goes on; told once.
    pub(crate) fn take_early(&mut self) -> Option<Early> {
        let (state, established) = (self.state, self.established);
        let server = self.server_mut()?;
        let news = match state {
            _ if established => Early::Confirmed,
            State::Closed(CloseReason::Reset) => Early::Reset {
                since: server.since,
            },
            State::Closed(_) => Early::Failed,
            _ => return None,
        };
        (server.stage == Stage::Pending).then(|| {
            server.stage = Stage::Settled;
            news
        })
    }

    /// The handshake of an early connection is complete: what the sender was not told then.
    pub(super) fn confirm_early(&mut self, rtt: Option<Duration>, floor: Duration, now: Instant) {
        let restart = self.config.lost_syn.resets(self.handshake.retries);
        let mss = self.snd.mss();
        let cc = restart.then(|| self.congestion_from(mss, mss));
        self.snd.confirm(cc, rtt, floor, now);
    }

    /// The largest payload of a SYN to a peer with this MSS: what options of it, or of middleboxes,
    /// may take is left.
    pub(crate) fn syn_payload(mss: u16) -> u16 {
        mss.saturating_sub(MAX_OPTIONS_LEN as u16)
    }
}

//! Packets that the TCP under test sends, against those that the script expects.

use super::Machine;
use crate::ast::{Body, Direction, EcnField, IpFields, Options, Packet, Segment, TcpOption};
use crate::diagnostic::Diagnostic;
use crate::flow::tsval;
use crate::matcher::{Left, Match, compare};
use crate::segment;
use crate::stack::{Departed, NextTimer};
use narrows::Instant;
use narrows::wire::{Ecn, Flags};

impl Machine<'_> {
    /// Wait for `want` until `to`; when it left.
    pub(super) fn expect(
        &mut self,
        want: &Packet,
        from: Instant,
        to: Instant,
    ) -> Result<Instant, Diagnostic> {
        let Body::Tcp(wanted) = &want.body else {
            return Err(Diagnostic::unsupported(want.span, "this TCP sends no ICMP"));
        };
        let latest = to + self.tolerance(to);
        let earliest = Instant::from_nanos(
            from.as_nanos()
                .saturating_sub(self.tolerance(from).as_nanos()),
        );
        let mut taken = 0;
        loop {
            let sent = self.next_packet(want, latest)?;
            let flow = self.flow_of(sent.tcp.src_port, sent.tcp.dst_port);
            let live = sent.tcp.options.timestamps.map(|t| t.val);
            if let Options::List(list) = &wanted.options
                && let (Some(script), Some(live)) = (tsval(list), live)
            {
                self.check_timestamp(want, flow, script, live)?;
                self.flows[flow].learn_timestamp(script, live, sent.at);
            }
            if sent.tcp.flags.contains(Flags::SYN) && wanted.flags.contains(Flags::SYN) {
                let acked = sent
                    .tcp
                    .flags
                    .contains(Flags::ACK)
                    .then_some(sent.tcp.ack.0);
                self.flows[flow].on_syn(sent.tcp.seq.0, wanted.seq, acked);
            } else {
                self.flows[flow].on_end_of_opening();
            }
            let left = self.as_script(&sent);
            let other = want.ports.is_none() && self.current.is_some_and(|c| c != flow);
            let mut verdict = compare(want, taken, &left, self.settings.rules);
            if other {
                verdict = Match::Differs(vec!["connection (its ports)"]);
            }
            if let Match::Differs(wrong) = verdict {
                self.outbox.push_front(sent.clone());
                return Err(Diagnostic::mismatch(
                    want.span,
                    format!("another packet left: {}", wrong.join(", ")),
                )
                .comparing(
                    segment::describe(want),
                    format!("{} at {}", self.shown(&sent), Self::clock(sent.at)),
                ));
            }
            if sent.at < earliest || sent.at > latest {
                self.note_departure(&sent);
                let how = if sent.at < earliest { "early" } else { "late" };
                return Err(
                    Diagnostic::mismatch(want.span, format!("the packet left too {how}"))
                        .comparing(
                            self.span_of_time(from, to),
                            format!("at {}", Self::clock(sent.at)),
                        )
                        .note(format!(
                            "allowed from {} to {}",
                            Self::clock(earliest),
                            Self::clock(latest)
                        )),
                );
            }
            self.check_text(want, flow, &sent)?;
            self.note_departure(&sent);
            match verdict {
                Match::Part(so_far) => taken = so_far,
                _ => return Ok(sent.at),
            }
        }
    }

    fn span_of_time(&self, from: Instant, to: Instant) -> String {
        if from == to {
            format!("at {}", Self::clock(from))
        } else {
            format!("from {} to {}", Self::clock(from), Self::clock(to))
        }
    }

    fn next_packet(&mut self, want: &Packet, latest: Instant) -> Result<Departed, Diagnostic> {
        if let Some(sent) = self.outbox.pop_front() {
            return Ok(sent);
        }
        let sent = self.stack.wait_for_packet(latest).map_err(Self::stuck)?;
        self.now = self.stack.now();
        if let Some(sent) = &sent {
            self.on_departure(sent);
        }
        self.after()?;
        if let Some(sent) = sent {
            return Ok(sent);
        }
        let d = Diagnostic::mismatch(want.span, "no packet left").comparing(
            segment::describe(want),
            format!("nothing until {}", Self::clock(latest)),
        );
        let timer = match self.focus {
            Some(fd) => self.stack.next_timer_of(fd),
            None => NextTimer::None,
        };
        Err(match timer {
            NextTimer::At(at) => d.note(format!(
                "the connection's next timer is at {}",
                Self::clock(at)
            )),
            NextTimer::None => d.note("the connection has no timer running"),
            NextTimer::Unknown => d,
        })
    }

    /// What left in words, without what goes without saying: the ports of the script's
    /// connection, and that ECN is not used.
    pub(super) fn shown(&mut self, sent: &Departed) -> String {
        let flow = self.flow_of(sent.tcp.src_port, sent.tcp.dst_port);
        let mut packet = self.as_script(sent).packet;
        if self.current.is_none_or(|c| c == flow) {
            packet.ports = None;
        }
        if packet.ip.ecn == Some(EcnField::Is(Ecn::NotEct)) {
            packet.ip.ecn = None;
        }
        segment::describe(&packet)
    }

    fn note_departure(&mut self, sent: &Departed) {
        let line = self.shown(sent);
        self.log.push((sent.at, line));
    }

    /// What left, in the script's numbering.
    pub(super) fn as_script(&mut self, sent: &Departed) -> Left {
        let flow = self.flow_of(sent.tcp.src_port, sent.tcp.dst_port);
        let flow = &self.flows[flow];
        let flags = sent.tcp.flags;
        let peer = |live: u32| live.wrapping_sub(flow.peer_shift(flags));
        let options = segment::decoded(&sent.options)
            .into_iter()
            .map(|o| match o {
                TcpOption::Timestamps { val, ecr } => TcpOption::Timestamps {
                    val: flow.script_timestamp(val),
                    ecr,
                },
                TcpOption::Sack(blocks) => {
                    TcpOption::Sack(blocks.iter().map(|(a, b)| (peer(*a), peer(*b))).collect())
                }
                other => other,
            })
            .collect();
        let tos = sent.ip.dscp << 2 | sent.ip.ecn.bits();
        Left {
            packet: Packet {
                direction: Direction::Out,
                ip: IpFields {
                    ecn: Some(EcnField::Is(sent.ip.ecn)),
                    tos: None,
                    ttl: None,
                },
                ports: Some((sent.tcp.src_port, sent.tcp.dst_port)),
                body: Body::Tcp(Segment {
                    flags,
                    seq: flow.script(sent.tcp.seq.0, flags),
                    len: sent.payload.len(),
                    ack: flags.contains(Flags::ACK).then_some(peer(sent.tcp.ack.0)),
                    window: Some(sent.tcp.window),
                    urgent: flags.contains(Flags::URG).then_some(sent.tcp.urgent),
                    options: Options::List(options),
                }),
                span: crate::ast::Span::default(),
            },
            tos,
            ttl: sent.ip.hop_limit,
            shift: match (flow.own.window_scale, flow.peer.window_scale) {
                (Some(shift), Some(_)) if !flags.contains(Flags::SYN) => shift.min(14),
                _ => 0,
            },
        }
    }

    fn check_timestamp(
        &self,
        want: &Packet,
        flow: usize,
        script: u32,
        live: u32,
    ) -> Result<(), Diagnostic> {
        let Some(tick) = self.settings.timestamp_tick else {
            return Ok(());
        };
        let flow = &self.flows[flow];
        if flow.timestamp_fits(script, live, tick, self.settings.tolerance) {
            return Ok(());
        }
        Err(Diagnostic::mismatch(want.span, "another TSval").comparing(
            format!("TS val {script}"),
            format!("TS val {}", flow.script_timestamp(live)),
        ))
    }

    /// The bytes are those that the user wrote.
    fn check_text(&self, want: &Packet, flow: usize, sent: &Departed) -> Result<(), Diagnostic> {
        if sent.payload.is_empty() {
            return Ok(());
        }
        // The SYN takes a number, and the text stands behind it.
        let syn = u32::from(sent.tcp.flags.contains(Flags::SYN));
        let offset = self.flows[flow].offset(sent.tcp.seq.0.wrapping_add(syn));
        let stream = self.streams.iter().rfind(|s| s.flow == Some(flow));
        if let (Some(offset), Some(stream)) = (offset, stream)
            && stream.holds(offset, &sent.payload)
        {
            return Ok(());
        }
        Err(Diagnostic::mismatch(
            want.span,
            "the segment's text is not what the user wrote",
        ))
    }
}

//! Hosts that pause who sends to them: a NIC whose receive ring fills up, because its interrupts or
//! its processor are slow.

use super::books::{Due, Frame, HostPause, PausingHost};
use super::{Network, PAUSE_TO_ALL, half_pause};
use crate::net::packet::{HostId, Packet};
use crate::net::pause::PauseSignal;
use crate::sim::tap::Tap;
use crate::sim::time::SimTime;

impl<P: Packet> Network<P> {
    fn host_pause(&mut self, host: HostId) -> Option<&mut HostPause> {
        self.pausing.as_mut()?.hosts.get_mut(&host.0)
    }

    /// The fullest ring of a host holds so many frames now.
    #[cold]
    pub(in crate::net::network) fn ring_holds<T: Tap<P>>(
        &mut self,
        host: HostId,
        frames: usize,
        now: SimTime,
        tap: &mut T,
    ) {
        let Some(pause) = self.host_pause(host) else {
            return;
        };
        let signal = match pause.again {
            None if frames >= pause.parts.xoff as usize => PauseSignal::Xoff,
            Some(_) if frames <= pause.parts.xon as usize => PauseSignal::Xon,
            _ => return,
        };
        self.host_signals(host, signal, now, tap);
        self.arm_pauses();
    }

    /// Half of a pause is over.
    pub(super) fn host_tells_again<T: Tap<P>>(&mut self, host: HostId, now: SimTime, tap: &mut T) {
        let frames = self.ring_frames(host).unwrap_or_default();
        let Some(pause) = self.host_pause(host).filter(|p| p.again == Some(now)) else {
            return;
        };
        // A ring may have been lost as well.
        let signal = match frames <= pause.parts.xon as usize {
            true => PauseSignal::Xon,
            false => PauseSignal::Xoff,
        };
        self.host_signals(host, signal, now, tap);
    }

    fn host_signals<T: Tap<P>>(
        &mut self,
        host: HostId,
        signal: PauseSignal,
        now: SimTime,
        tap: &mut T,
    ) {
        let nic = host.0;
        let Some(PausingHost { from, quanta, .. }) = self.host_pause(host).map(|p| p.parts) else {
            return;
        };
        let quanta = signal.quanta(quanta);
        // Ahead of what waits in the NIC, behind what it sends.
        self.settle(nic, now);
        let sent = self.ports[nic].ahead_of_all(now, &self.slab);
        let half = half_pause(&self.ports[from], quanta);
        let Some(pause) = self.host_pause(host) else {
            return;
        };
        pause.again = match signal {
            PauseSignal::Xoff => Some(now + half),
            PauseSignal::Xon => None,
        };
        let again = pause.again;
        let frame = Frame {
            to: from,
            classes: PAUSE_TO_ALL,
            quanta,
        };
        if self.frame_leaves(nic, signal, frame, sent, now, tap)
            && let Some(pause) = self.host_pause(host)
        {
            *pause.sent.of(signal) += 1;
        }
        if let (Some(pausing), Some(again)) = (&mut self.pausing, again) {
            pausing.due.put(again, Due::HostAgain { host });
        }
    }
}

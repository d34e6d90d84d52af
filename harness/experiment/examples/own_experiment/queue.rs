//! `drop-front`: first in, first out; where there is no room the oldest packet goes, so that its
//! sender hears of it a queue sooner (Lakshman, Neidhardt and Ott, INFOCOM 1996).

use narrows_experiment::net::buffer::Depth;
use narrows_experiment::net::discipline::{
    Discipline, DisciplineRegistry, Effects, PacketQueue, Queued, Room, Verdict,
};
use narrows_experiment::net::stats::DropReason;
use narrows_experiment::sim::rng::Stream;
use narrows_experiment::sim::time::SimTime;
use std::sync::Arc;

pub(crate) fn register(disciplines: &mut DisciplineRegistry) {
    let about = "first in, first out; what is full drops its oldest packet";
    let new = |_: Stream| DropFront::default();
    disciplines.register_arc("drop-front", about, Arc::new(new));
}

#[derive(Debug, Default)]
struct DropFront(PacketQueue);

impl Discipline for DropFront {
    fn enqueue(&mut self, packet: Queued, room: &Room<'_>, effects: &mut Effects) -> Verdict {
        let mut freed = Depth::default();
        while let Err(reason) = room.check(packet.len, freed) {
            let Some(oldest) = self.0.pop_head() else {
                return Verdict::Drop(reason);
            };
            freed.packets += 1;
            freed.bytes += u64::from(oldest.len);
            effects.drop(oldest, DropReason::PushOut);
        }
        self.0.push(packet);
        Verdict::Queue
    }

    fn dequeue(&mut self, _: SimTime, _: &mut Effects) -> Option<Queued> {
        self.0.pop_head()
    }

    fn depth(&self) -> Depth {
        self.0.depth()
    }
}

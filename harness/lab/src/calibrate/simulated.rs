//! The same writes simulated, with the costs that were measured: how far the model is.
//!
//! A write's segments arrive at once, as over a veth, whose receiver polls when all were handed over; so the
//! simulated one interrupts when all of them wait. The time of a write is what the processors of both hosts
//! worked for it, since one thread does the work of both live.

use super::{Costs, Gro, WriteCost};
use crate::LiveError;
use crate::round::{MANY, SEGMENT};

/// A write of 32 segments at a time with these costs.
///
/// # Errors
/// If a cost is none that `[host.cpu]` can have; [`LiveError::Internal`] if the simulated hosts count nothing.
pub fn simulated(costs: &Costs, gro: Gro) -> Result<WriteCost, LiveError> {
    // What is handed over needs no interrupt.
    let (gro, interrupt) = match gro {
        Gro::On => ("64KiB", costs.interrupt),
        Gro::Off => ("off", Some(0.0)),
    };
    let costs = Costs {
        interrupt,
        ..*costs
    };
    let size = MANY * SEGMENT;
    let text = format!(
        "title = \"Writes of {MANY} segments\"\n\
         [network]\ntopology = \"star\"\nhosts = 2\n\
         link = {{ rate = \"400Gb/s\", delay = \"1us\", framing = \"ethernet\" }}\n\
         queue = {{ limit = \"4MB\" }}\n\
         [host.tcp]\ncongestion = \"fixed\"\ninitial_window = 1000\nreceive_window = \"4MiB\"\n\
         delayed_ack = \"2/40ms\"\n\
         {}\
         [group.h1.cpu]\ninterrupt = \"0ns\"\n\
         [group.h0.nic]\ngro = \"{gro}\"\nrx_frames = {MANY}\nrx_usecs = \"50us\"\n\
         [[traffic]]\nname = \"write\"\nkind = \"on-off\"\nfrom = \"h1\"\nto = \"h0\"\n\
         size = \"{size}B\"\nidle = \"500us\"\n\
         [run]\nduration = \"60ms\"\nwarm_up = \"10ms\"\n",
        costs.section()
    );
    let ran = crate::simulate("receiver", &text)?;
    let work: Vec<_> = ran.hosts.iter().filter_map(|host| host.work).collect();
    let [to, from] = work[..] else {
        let why = "the hosts of the simulated write count no work".to_owned();
        return Err(LiveError::Internal(why));
    };
    let frames = to.data_frames.max(1) as f64;
    let writes = frames / MANY as f64;
    Ok(WriteCost {
        segments_per_packet: frames / to.aggregates.max(1) as f64,
        acks: from.acks as f64 / writes,
        ns: (to.busy + from.busy).as_nanos() as f64 / writes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        interrupt: Some(700.0),
        packet: 500.0,
        kilobyte: 30.0,
        ack: 600.0,
        call: 400.0,
    };

    /// Each end handles 32 packets, or the receiver one, and the bytes; the receiver reads once.
    #[test]
    fn a_simulated_write_costs_what_its_packets_cost() {
        let bytes = 2.0 * 46.336 * COSTS.kilobyte;
        let merged = simulated(&COSTS, Gro::On).unwrap();
        assert_eq!((merged.segments_per_packet, merged.acks), (32.0, 1.0));
        let packets = 33.0 * COSTS.packet + 2.0 * COSTS.ack;
        let all = 700.0 + packets + bytes + COSTS.call;
        assert!((merged.ns / all - 1.0).abs() < 0.01, "{merged:?} {all}");
        let unmerged = simulated(&COSTS, Gro::Off).unwrap();
        assert_eq!((unmerged.segments_per_packet, unmerged.acks), (1.0, 16.0));
        let packets = 64.0 * COSTS.packet + 32.0 * COSTS.ack;
        let all = packets + bytes + COSTS.call;
        assert!((unmerged.ns / all - 1.0).abs() < 0.01, "{unmerged:?} {all}");
    }
}

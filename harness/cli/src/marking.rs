//! Whether who asks for ECN can get it.

use narrows::ByteCount;
use narrows::congestion::{CongestionFactory, EcnNeed, FlowStart};
use narrows_experiment::scenario::spec::{Aqm, EcnUse, QueueLimit};

/// Whether connections with this congestion control negotiate ECN.
pub(super) fn asks_for_ecn(congestion: &dyn CongestionFactory, ecn: EcnUse) -> bool {
    let segment = ByteCount::new(1_460);
    let need = congestion.build(&FlowStart::new(segment, segment)).needs();
    ecn == EcnUse::Classic || need.ecn != EcnNeed::Configured
}

/// Why a port with `aqm` and its own `buffer` cannot mark a packet, if so.
pub(super) fn never_marks(aqm: Aqm, buffer: Option<QueueLimit>) -> Option<String> {
    let Aqm::EcnStep(threshold) = aqm else {
        return (aqm == Aqm::None).then(|| "the port's queue management is drop-tail".to_owned());
    };
    let buffer = buffer?;
    let beyond = match (threshold, buffer) {
        (QueueLimit::Bytes(k), QueueLimit::Bytes(b)) => k >= b,
        (QueueLimit::Packets(k), QueueLimit::Packets(b)) => k >= b,
        _ => false,
    };
    beyond.then(|| format!("the threshold of {threshold} is not below the buffer of {buffer}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_marks_if_its_queue_can_pass_the_threshold() {
        let p = QueueLimit::Packets;
        let b = |n| QueueLimit::Bytes(ByteCount::new(n));
        assert!(never_marks(Aqm::None, None).is_some());
        for (threshold, buffer, marks) in [
            (p(5), p(6), true),
            (p(6), p(6), false),
            (b(30_000), b(64_000), true),
            (b(64_000), b(64_000), false),
            // A packet has no fixed size.
            (p(60), b(64_000), true),
        ] {
            let never = never_marks(Aqm::EcnStep(threshold), Some(buffer));
            assert_eq!(never.is_none(), marks, "{threshold} of {buffer}: {never:?}");
        }
        assert!(never_marks(Aqm::EcnStep(p(9)), None).is_none());
        let codel = Aqm::Codel(narrows_experiment::scenario::spec::Codel::default());
        assert!(never_marks(codel, Some(p(1))).is_none());
    }
}

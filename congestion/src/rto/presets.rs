//! The retransmission timeouts that papers and systems use, by name.

use super::randomized::Randomization;
use super::standard::{Backoff, Floor, StandardRto};
use crate::units::Duration;

/// RFC 6298 as written: floor 1 s, cap 60 s, initially 1 s. G is 1 us, finer than any floor.
pub fn rfc6298() -> StandardRto {
    StandardRto {
        name: "rfc6298",
        ..floor(Duration::from_secs(1))
    }
}

/// Like Linux: `SRTT + max(200 ms, 4 RTTVAR)`, cap 120 s.
pub fn linux() -> StandardRto {
    StandardRto {
        name: "linux",
        floor: Floor::Variation(Duration::from_millis(200)),
        max: Duration::from_secs(120),
        ..rfc6298()
    }
}

/// Like FreeBSD: at least 30 ms, and 200 ms of slop added last; backoff to a factor of 512,
/// cap 64 s.
pub fn bsd() -> StandardRto {
    StandardRto {
        name: "bsd",
        floor: Floor::Slop {
            min: Duration::from_millis(30),
            slop: Duration::from_millis(200),
        },
        max: Duration::from_secs(64),
        backoff: Backoff {
            factor: 2,
            limit: 9,
        },
        ..rfc6298()
    }
}

/// RFC 6298 with another floor.
pub fn floor(min: Duration) -> StandardRto {
    StandardRto {
        name: "floor",
        initial: Duration::from_secs(1),
        floor: Floor::Rto(min),
        max: Duration::from_secs(60),
        granularity: Duration::from_micros(1),
        backoff: Backoff::DOUBLING,
        randomization: Randomization::None,
    }
}

/// RFC 6298 with a floor of 200 ms: RTOmin of the FAST 2008 incast paper.
pub fn floor_200ms() -> StandardRto {
    StandardRto {
        name: "floor-200ms",
        ..floor(Duration::from_millis(200))
    }
}

/// RFC 6298 with a floor of 1 ms.
pub fn one_ms() -> StandardRto {
    StandardRto {
        name: "1ms",
        ..floor(Duration::from_millis(1))
    }
}

/// No floor, microsecond granularity (Vasudevan et al., SIGCOMM 2009).
pub fn fine() -> StandardRto {
    StandardRto {
        name: "fine",
        floor: Floor::None,
        ..floor(Duration::ZERO)
    }
}

/// [`fine`] with the randomised timeout `(RTO + rand(0.5) x RTO) x 2^backoff` of the same paper.
pub fn fine_randomized() -> StandardRto {
    StandardRto {
        name: "fine-randomized",
        randomization: Randomization::HALF,
        ..fine()
    }
}

/// Always `value`: no measurement, no backoff (floor = cap). A value below the queueing delay
/// makes every timeout spurious.
pub fn fixed(value: Duration) -> StandardRto {
    StandardRto {
        name: "fixed",
        initial: value,
        floor: Floor::Rto(value),
        max: value,
        backoff: Backoff::NONE,
        ..rfc6298()
    }
}

/// Every preset that takes no value.
pub fn all() -> [StandardRto; 7] {
    [
        rfc6298(),
        linux(),
        bsd(),
        floor_200ms(),
        one_ms(),
        fine(),
        fine_randomized(),
    ]
}

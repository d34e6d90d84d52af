//! Other TCPs and other simulators beside ours.

mod ns3;
mod simulators;
mod smoltcp;
mod transfers;

use super::Check;

/// The checks of this module.
pub(super) const CHECKS: [Check; 4] = [
    Check {
        name: "peers/smoltcp/transfer",
        what: "2 MB between smoltcp's TCP and ours, clean and with losses",
        seconds: 2,
        run: transfers::transfers,
    },
    Check {
        name: "peers/smoltcp/incast",
        what: "one block of an incast whose servers, or client, are smoltcp's",
        seconds: 2,
        run: transfers::incast,
    },
    Check {
        name: "peers/simulators",
        what: "the incast grid beside what ns-3 and htsim gave",
        seconds: 10,
        run: simulators::recorded,
    },
    Check {
        name: "peers/ns-3",
        what: "the incast grid beside ns-3's, where ns-3 is installed",
        seconds: 35,
        run: simulators::live,
    },
];

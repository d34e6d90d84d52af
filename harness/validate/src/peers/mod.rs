//! Other TCPs and other simulators beside ours.

mod grid;
mod habits;
mod htsim;
mod live;
mod ns3;
mod simulators;
mod smoltcp;
mod transfers;

use super::Check;

/// The checks of this module.
pub(super) const CHECKS: [Check; 6] = [
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
        what: "the incast grid beside what ns-3 and htsim gave, one seed each",
        seconds: 20,
        run: simulators::recorded,
    },
    Check {
        name: "peers/ns-3",
        what: "the incast grid beside ns-3.37 with several seeds",
        seconds: 15,
        run: simulators::ns3,
    },
    Check {
        name: "peers/ns-3-delayed-acks",
        what: "the incast beside ns-3.37 with delayed ACKs and a timeout of a millisecond",
        seconds: 3,
        run: simulators::ns3_delayed_acks,
    },
    Check {
        name: "peers/htsim-rules",
        what: "the rules of htsim's TCP without a stack, beside what htsim gave",
        seconds: 10,
        run: simulators::htsim_rules,
    },
];

/// ns-3 as it is installed here.
pub(super) const LOCAL: Check = Check {
    name: "peers/ns-3-here",
    what: "ns-3 on this machine beside what was recorded of it, and beside ours",
    seconds: 25,
    run: live::some,
};

/// The same with all that was recorded.
pub(super) const LOCAL_FULL: Check = Check {
    name: "peers/ns-3-here/whole-grid",
    what: "all cells and seeds of ns-3 on this machine",
    seconds: 600,
    run: live::all,
};

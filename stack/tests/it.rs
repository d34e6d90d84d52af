//! What is tried on a virtual clock: a file of tests is a module here.

mod hosts;
mod lab;
mod pair;

mod acks;
mod adversary;
mod attacks;
mod burst;
mod close;
mod ecn;
mod endpoint;
mod fast_open;
mod fast_recovery;
mod flood;
mod found_by_mutation;
mod found_by_smoltcp;
mod handshake;
mod hostile;
mod interface;
mod late_options;
mod liveness;
mod local_drop;
mod memory;
mod mtu_probing;
mod never_there;
mod next_window;
mod options;
mod packets;
mod prr;
mod rack_tlp;
mod reset;
mod rfc8504;
mod rfc9293_close;
mod rfc9293_data;
mod rfc9293_failure;
mod rfc9293_header;
mod rfc9293_icmp;
mod rfc9293_neighbours;
mod rfc9293_open;
mod rto;
mod seams;
mod second_looks;
mod sharing;
mod smoke;
mod spurious;
mod streams;
mod syn_cookies;
mod texts;
mod window;
mod window_validation;

/// A file that no crate of tests names is not run.
#[test]
fn every_file_of_tests_is_a_module() {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    let roots = [include_str!("it.rs"), include_str!("devices.rs")];
    let named: Vec<&str> = (roots.iter().flat_map(|root| root.lines()))
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    for file in std::fs::read_dir(here).unwrap() {
        let path = file.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        if path.extension().is_some_and(|e| e == "rs") && !["it", "devices"].contains(&stem) {
            assert!(
                named.contains(&stem),
                "{stem}.rs is named by neither it.rs nor devices.rs"
            );
        }
    }
}

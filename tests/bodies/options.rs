//! TCP options: what is read can be written, and reads the same again.

use narrows::wire::{EmitError, OptionPolicy, SackBlocks, TcpOptions};

pub(super) fn run(data: &[u8]) {
    let options = TcpOptions::parse(data, OptionPolicy::KeepValid).expect("refuses nothing");
    if let Ok(strict) = TcpOptions::parse(data, OptionPolicy::Reject) {
        assert_eq!(strict, options, "the policies read valid options alike");
    }
    round_trip(&options);
}

/// Write `options` and read them back.
pub(super) fn round_trip(options: &TcpOptions) {
    let mut wire = [0xff; 64];
    let len = match options.emit(&mut wire) {
        Ok(len) => len,
        Err(EmitError::OptionsTooLong(len)) => {
            assert!(len > 40 && len == options.wire_len());
            return;
        }
        Err(other) => panic!("{other:?} for {options:?}"),
    };
    assert_eq!(len, options.wire_len());
    assert!(len <= 40 && len % 4 == 0);
    assert!(wire[len..].iter().all(|b| *b == 0xff), "wrote beyond");
    let again = TcpOptions::parse(&wire[..len], OptionPolicy::Reject).expect("our own are valid");
    assert_eq!(again, fitting(options));
}

/// `options` with as many SACK blocks as fit on the wire.
pub(super) fn fitting(options: &TcpOptions) -> TcpOptions {
    let mut fitting = options.clone();
    fitting.sack = SackBlocks::EMPTY;
    for block in options
        .sack
        .as_slice()
        .iter()
        .take(options.max_sack_blocks())
    {
        fitting.sack.push(*block);
    }
    fitting
}

//! The ledger of a capture: `cargo run -p narrows-explain --example ledger -- FILE`.

use narrows_explain::{Analyzer, Config, Finding, Ledger, capture};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("which capture?")?;
    let mut analyzer = Analyzer::new(Config::default());
    let mut ledger = Ledger::new(10_000);
    let contents = capture::read(std::fs::File::open(path)?, |frame, _| {
        analyzer.handle_packet(frame);
        while let Some(finding) = analyzer.poll_finding() {
            if let Finding::Gap(gap) = finding {
                ledger.add(&gap);
            }
        }
    })?;
    analyzer.finish();
    while let Some(finding) = analyzer.poll_finding() {
        if let Finding::Gap(gap) = finding {
            ledger.add(&gap);
        }
    }
    println!("{contents}");
    for sentence in ledger.story() {
        println!("{sentence}");
    }
    for gap in ledger.gaps() {
        println!(
            "#{} {} packets {}-{}: {} {} ({}): {}",
            gap.connection,
            gap.side.name(),
            gap.start.packet,
            gap.end.packet,
            gap.length(),
            gap.cause,
            gap.confidence,
            gap.because()
        );
    }
    Ok(())
}

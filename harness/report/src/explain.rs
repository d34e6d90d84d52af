//! What captures explain, as text, figures, a page, and files for other tools.

mod beside;
mod ends;
mod figures;
mod numbers;
mod page;
mod records;
mod text;
mod xplot;

pub use beside::{Ledgers, beside, beside_csv};
pub use figures::{delays, flight, round_trips, sequence, timeline};
pub use page::page;
pub use records::{connections_csv, csv, events, json, rounds_csv};
pub use text::{line, rounds, text};
pub use xplot::xplot;

//! The stories that narrows exists for: what five texts claim, as experiments that run.
//!
//! A [`Story`] is data: the scenes it runs (experiments that ship, with some keys set), the tables
//! of its variants, its [`Row`]s (a claim of [`claims`] with a function that judges it), its figures,
//! and what to do next. [`stage`] runs the scenes, [`played`] is what they gave, [`report`] judges
//! the rows, [`text`] and [`docs`] write what came out.
//!
//! # To add a story
//!
//! 1. Its claims stand in `claims.tsv` already: id, story, what the text says, what to show, what
//!    has to be built. A claim that no story judges is open, and the report says what it needs.
//! 2. The experiment is a file in `harness/experiment/shipped/`, its name in `shipped.rs` there.
//!    Give it the sweep and the probes that the story reads; `narrows run NAME` must make sense.
//! 3. The story is a file in `stories/`; [`stories::incast`] is a short one. Its parts:
//!
//! ```
//! use narrows_story::grid::Column;
//! use narrows_story::judge::Finding;
//! use narrows_story::played::{Answer, Played};
//! use narrows_story::scene::Scene;
//! use narrows_story::story::{Live, Next, Row, Story, Table};
//!
//! /// Two senders share a port, each with its congestion control.
//! const STORY: Story = Story {
//!     name: "sharing",
//!     about: "Two senders share one port.",
//!     // A scene runs a shipped experiment. `with` sets a key, or varies it where commas are;
//!     // `usually` does so unless all rows are asked for (`--full`), so that a story stays below
//!     // 60 s; `in_full` is for scenes that only then are run at all.
//!     scenes: &[Scene::new("share", "two-senders")
//!         .with(&[("network.queue.limit", "64KiB"), ("run.duration", "300ms")])
//!         .usually(&[("run.repetitions", "1")])],
//!     tables: &[Table::points("Each congestion control", "share", &[
//!         Column::new("goodput", "goodput"),
//!         Column::new("drops", "drops"),
//!     ])],
//!     // One sentence with numbers that were measured.
//!     phenomenon: |played| {
//!         let dctcp = played.scene("share")?.value(&[("host.tcp.congestion", "dctcp")], "drops")?;
//!         Ok(format!("With DCTCP {dctcp:.0} packets are dropped."))
//!     },
//!     rows: &[Row::new("D3", marks_keep_the_queue).because("why, if it does not hold")],
//!     figures: &[],
//!     next: &[Next::new("narrows run two-senders", "the experiment")],
//!     live: Live::Cannot("nothing of it is live"),
//! };
//!
//! fn marks_keep_the_queue(played: &Played) -> Answer<Finding> {
//!     let at = [("host.tcp.congestion", "dctcp")];
//!     let queue = played.scene("share")?.value(&at, "port.s0->h0.mean_bytes")?;
//!     Ok(Finding::between("mean queue", queue, (20e3, 40e3), "bytes"))
//! }
//! # use narrows_story::report::Report;
//! # use narrows_story::stage::Stage;
//! # let registry = narrows_experiment::registry::Registry::default();
//! # let report = Report::told(&STORY, &Stage::new(&registry)).unwrap();
//! # assert_eq!(report.rows[0].verdict.word(), "holds");
//! ```
//!
//! 4. Register it: `mod` and a line in [`stories::ALL`].
//! 5. `narrows story NAME` shows it; `narrows story NAME --docs docs` writes its section of
//!    `docs/STORIES.md` and its figures. Look at them.
//!
//! A row that misses its tolerance is a finding: say why with [`Row::because`](story::Row::because).
//! It then *differs*; without a reason the command fails. One that only more runs decide than fit into
//! a minute says so with [`Row::in_full`](story::Row::in_full).

pub mod claims;
pub mod docs;
pub mod grid;
pub mod judge;
pub mod played;
pub mod report;
pub mod scene;
pub mod stage;
pub mod stories;
pub mod story;
pub mod text;
pub mod twin;

pub use story::{Row, Story};

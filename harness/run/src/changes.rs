//! The changes of a run: when each comes and is undone.

use crate::host::trace::Lines;
use crate::net::change::Change;
use crate::sim::time::SimTime;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The changes of a run, by time.
#[derive(Debug, Default)]
pub struct Changes {
    planned: Vec<Planned>,
    /// When something comes, whether it is undone then, and which of them; the next one on top.
    due: BinaryHeap<Reverse<(SimTime, Way, usize)>>,
    made: Vec<(SimTime, String)>,
    told: Option<Lines>,
}

/// Whether a change comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    // A change that ends when another begins ends first.
    Undo,
    Make,
}

/// A change that will come.
#[derive(Debug)]
pub struct Planned {
    /// When.
    pub at: SimTime,
    /// What becomes another.
    pub make: Vec<Change>,
    /// ... and when its time is over.
    pub undo: Vec<Change>,
    /// For how long; `None` is for good.
    pub during: Option<SimTime>,
    /// After what time it comes again.
    pub every: Option<SimTime>,
    /// What it is, in words.
    pub what: String,
    /// The way back, if it goes there and back.
    pub toggle: Option<Toggle>,
}

/// What a change that goes there and back has beside the way that is next.
#[derive(Debug)]
pub struct Toggle {
    /// The other way.
    pub back: Vec<Change>,
    /// ... in words.
    pub back_is: String,
    /// What ends when it ends: not what it makes.
    pub ends: String,
}

impl Changes {
    /// One more.
    pub fn add(&mut self, planned: Planned) {
        let first = (planned.at, Way::Make, self.planned.len());
        self.due.push(Reverse(first));
        self.planned.push(planned);
    }

    /// Has a trace told of each.
    pub(crate) fn trace(&mut self, lines: Lines) {
        self.told = Some(lines);
    }

    /// When the next one comes.
    pub(crate) fn next(&self) -> Option<SimTime> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// What is to be changed now.
    pub(crate) fn take_due(&mut self, now: SimTime) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Some(&Reverse((at, way, n))) = self.due.peek()
            && at <= now
        {
            self.due.pop();
            let planned = &mut self.planned[n];
            match way {
                Way::Undo => {
                    changes.extend(planned.undo.iter().cloned());
                    let ends = planned.toggle.as_ref().map(|toggle| &toggle.ends);
                    let what = ends.unwrap_or(&planned.what);
                    self.made.push((at, format!("end of {what}")));
                    crate::trace::change(self.told.as_ref(), at, "undo", what);
                }
                Way::Make => {
                    changes.extend(planned.make.iter().cloned());
                    self.made.push((at, planned.what.clone()));
                    crate::trace::change(self.told.as_ref(), at, "make", &planned.what);
                    if let Some(during) = planned.during {
                        self.due.push(Reverse((at + during, Way::Undo, n)));
                    }
                    if let Some(every) = planned.every {
                        self.due.push(Reverse((at + every, Way::Make, n)));
                    }
                    if let Some(toggle) = &mut planned.toggle {
                        std::mem::swap(&mut toggle.back, &mut planned.make);
                        std::mem::swap(&mut toggle.back_is, &mut planned.what);
                    }
                }
            }
        }
        changes
    }

    /// What was changed, and when.
    pub(crate) fn made(self) -> Vec<(SimTime, String)> {
        self.made
    }
}

//! A story that was played, with a verdict for each claim.

use crate::claims::{self, Claim};
use crate::grid::Grid;
use crate::judge::Judged;
use crate::played::{Answer, NoAnswer, Played};
use crate::scene::Extent;
use crate::stage::{Stage, StageError};
use crate::story::{Row, Story};
use narrows_report::chart::Chart;

/// What came out of a story.
#[derive(Debug)]
pub struct Report<'s> {
    /// The story.
    pub story: &'s Story,
    /// How much was played.
    pub extent: Extent,
    /// The phenomenon in a sentence.
    pub phenomenon: Answer<String>,
    /// Titles and tables of variants.
    pub tables: Vec<(&'static str, Answer<Grid>)>,
    /// Each claim of the story, and those of other stories that it judges, in their order.
    pub rows: Vec<ClaimReport>,
    /// Names and figures, the one that tells it first.
    pub figures: Vec<(&'static str, Answer<Chart>)>,
}

/// A claim with what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimReport {
    /// The claim.
    pub claim: &'static Claim,
    /// What was measured, in words; empty if nothing was.
    pub measured: String,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What was to be shown is so.
    Holds,
    /// It is not, because.
    Differs(&'static str),
    /// It is not, and nobody has said why.
    Unexplained,
    /// What judges it has no value; why.
    Unknown(String),
    /// It runs with all rows only; why, if somebody has said.
    NeedsFull(&'static str),
    /// Nothing runs it; what it takes.
    Open(&'static str),
}

impl Verdict {
    /// It in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Differs(_) | Self::Unexplained => "differs",
            Self::Unknown(_) => "unknown",
            Self::NeedsFull(_) => "takes --full",
            Self::Open(_) => "open",
        }
    }

    /// What is to be said beside the word.
    pub fn why(&self) -> String {
        match self {
            Self::Holds => String::new(),
            Self::Differs(why) => format!("because {why}"),
            Self::Unexplained => "and nobody has said why".to_owned(),
            Self::Unknown(why) => why.clone(),
            Self::NeedsFull(why) => (*why).to_owned(),
            Self::Open("") => "nothing runs it yet".to_owned(),
            Self::Open(needs) => format!("nothing runs it yet; it takes {needs}"),
        }
    }

    /// Whether it is a mistake: a difference without a reason, or a row without a value.
    pub fn is_fault(&self) -> bool {
        matches!(self, Self::Unexplained | Self::Unknown(_))
    }
}

impl<'s> Report<'s> {
    /// Plays a story, and judges its rows.
    ///
    /// # Errors
    /// As [`Stage::play`].
    pub fn told(story: &'s Story, stage: &Stage<'_>) -> Result<Self, StageError> {
        Ok(Self::of(story, &stage.play(story.scenes)?))
    }

    /// The report of what was played.
    pub fn of(story: &'s Story, played: &Played) -> Self {
        let told = claims::all().iter().filter_map(|claim| {
            let row = story.rows.iter().find(|r| r.claim == claim.id);
            match row {
                Some(row) => Some(judged(claim, row, played)),
                None if claim.story == story.name => Some(ClaimReport {
                    claim,
                    measured: String::new(),
                    verdict: Verdict::Open(claim.needs),
                }),
                None => None,
            }
        });
        let (tables, figures) = (story.tables.iter(), story.figures.iter());
        Self {
            story,
            extent: played.extent(),
            phenomenon: (story.phenomenon)(played),
            tables: tables.map(|t| (t.title, t.grid(played))).collect(),
            rows: told.collect(),
            figures: figures.map(|f| (f.name, (f.draw)(played))).collect(),
        }
    }

    /// How many claims there are with a verdict, in its word.
    pub fn count(&self, word: &str) -> usize {
        self.rows
            .iter()
            .filter(|r| r.verdict.word() == word)
            .count()
    }

    /// Whether something is a mistake: a row, the sentence, a table or a figure.
    pub fn has_faults(&self) -> bool {
        let lost = |untold: &NoAnswer| *untold != NoAnswer::NeedsFull;
        self.rows.iter().any(|r| r.verdict.is_fault())
            || self.phenomenon.as_ref().is_err_and(lost)
            || self.tables.iter().any(|(_, t)| t.as_ref().is_err_and(lost))
            || self
                .figures
                .iter()
                .any(|(_, f)| f.as_ref().is_err_and(lost))
    }

    /// The verdicts in a sentence: `Of 16 claims 12 hold, 1 differs, 3 are open.`
    pub fn tally(&self) -> String {
        let said = ["holds", "differs", "unknown", "takes --full", "open"].map(|word| {
            let n = self.count(word);
            (n > 0).then(|| match (n, word) {
                (1, "holds" | "differs") => format!("1 {word}"),
                (n, "holds") => format!("{n} hold"),
                (n, "differs") => format!("{n} differ"),
                (1, "takes --full") => format!("1 {word}"),
                (n, "takes --full") => format!("{n} take --full"),
                (1, word) => format!("1 is {word}"),
                (n, word) => format!("{n} are {word}"),
            })
        });
        let said: Vec<String> = said.into_iter().flatten().collect();
        let n = self.rows.len();
        let s = if n == 1 { "" } else { "s" };
        format!("Of {n} claim{s} {}.", said.join(", "))
    }
}

fn judged(claim: &'static Claim, row: &Row, played: &Played) -> ClaimReport {
    let in_part = row.in_full.filter(|_| played.extent() == Extent::Usual);
    let (measured, verdict) = match (row.judge)(played) {
        Ok(finding) => {
            let verdict = match (in_part, finding.judged, row.because) {
                (Some(why), ..) => Verdict::NeedsFull(why),
                (None, Judged::Holds, _) => Verdict::Holds,
                (None, Judged::Differs, Some(why)) => Verdict::Differs(why),
                (None, Judged::Differs, None) => Verdict::Unexplained,
            };
            (finding.measured, verdict)
        }
        Err(NoAnswer::NeedsFull) => {
            let why = row.in_full.unwrap_or_default();
            (String::new(), Verdict::NeedsFull(why))
        }
        Err(NoAnswer::Missing(why)) => (String::new(), Verdict::Unknown(why)),
    };
    ClaimReport {
        claim,
        measured,
        verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Finding;

    #[test]
    fn a_row_that_takes_all_runs_is_judged_by_them_alone_and_has_to_hold() {
        let claim = claims::get("D22").unwrap();
        let verdict = |row: Row, extent| {
            let played = Played::new(Vec::new(), Vec::new(), extent);
            judged(claim, &row, &played).verdict
        };
        let fails = Row::new("D22", |_| Ok(Finding::is("", false))).in_full("why");
        let holds = Row::new("D22", |_| Ok(Finding::is("", true))).in_full("why");
        for row in [fails, holds] {
            let verdict = verdict(row, Extent::Usual);
            assert_eq!(verdict, Verdict::NeedsFull("why"));
            assert!(!verdict.is_fault());
        }
        assert!(verdict(fails, Extent::Full).is_fault());
        assert_eq!(verdict(holds, Extent::Full), Verdict::Holds);
    }
}

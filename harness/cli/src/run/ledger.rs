//! Whose ledger a run tells: what connections waited for.

use super::{Options, Stop};
use narrows_experiment::model::run::Place;
use narrows_experiment::model::{Experiment, NamedProbe, SweepAxis};
use narrows_explain::LEDGER;
use narrows_explain::simulated::LedgerProbe;

/// Has what connections wait for told as the options say: of every repetition, of the first if a report
/// is written, or not at all. An experiment that asks for it itself has it as it asks.
///
/// # Errors
/// If what is to go is swept.
pub(super) fn watch(experiment: &mut Experiment, args: &Options) -> Result<(), Stop> {
    let (ledgers, others): (Vec<_>, Vec<_>) = std::mem::take(&mut experiment.probes)
        .into_iter()
        .partition(|probe| probe.kind == LEDGER);
    experiment.probes = others;
    if args.no_ledger {
        let of = |axis: &&SweepAxis| {
            let of = |probe: &NamedProbe| axis.key.starts_with(&format!("probe.{}.", probe.name));
            ledgers.iter().any(of)
        };
        return match experiment.sweep.iter().find(of) {
            None => Ok(()),
            Some(axis) => Err(Stop::Wrong(format!(
                "error: --no-ledger leaves out what the sweep over {} is about: leave out one of \
                 them\n",
                axis.key
            ))),
        };
    }
    let reported = args.out.is_some() || args.files.reports();
    // A live place has no probes.
    let lives = experiment.run.place == Place::Live
        || experiment.sweep.iter().any(|axis| axis.key == "run.place");
    if ledgers.is_empty() && (args.ledger || reported && !lives) {
        experiment.probes.push(NamedProbe {
            name: LEDGER.to_owned(),
            kind: LEDGER.to_owned(),
            spec: Box::new(LedgerProbe {
                each_run: args.ledger,
                ..LedgerProbe::default()
            }),
        });
    }
    for mut own in ledgers {
        if args.ledger {
            // It knows of no other value, so nothing can be wrong with it.
            let _ = own.spec.set("each_run", "on");
        }
        experiment.probes.push(own);
    }
    Ok(())
}

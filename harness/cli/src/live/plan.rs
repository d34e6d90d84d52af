//! From the options of `narrows live incast` to a sweep.

use crate::catalog::{Catalog, Kind};
use crate::marking::{asks_for_ecn, never_marks};
use crate::values::List;
use narrows_experiment::scenario::tcp::check_ecn;
use narrows_experiment::scenario::{
    Axis, IncastSpec, PlannedRun, ScenarioError, Setting, SweepSpec,
};
use narrows_report::story::named;

/// A value that cannot be, with the option it was given for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadValue {
    pub(super) option: &'static str,
    pub(super) given: String,
    pub(super) why: String,
}

/// What takes several values, each of which is tried with every other.
#[derive(Debug)]
pub(super) struct Lists<'a> {
    pub(super) cc: &'a List<String>,
    pub(super) rto: &'a List<String>,
    pub(super) loss: &'a List<String>,
    pub(super) ecn_threshold: &'a List<narrows_experiment::scenario::spec::Aqm>,
    pub(super) ecn: &'a List<narrows_experiment::scenario::spec::EcnUse>,
}

/// The sweep of `lists`. Names are checked here, combinations when it is expanded.
pub(super) fn sweep(
    mut base: IncastSpec,
    servers: &[u32],
    repetitions: u32,
    lists: &Lists<'_>,
    catalog: &Catalog,
) -> Result<SweepSpec, BadValue> {
    known(catalog, Kind::Congestion, "cc", &lists.cc.0)?;
    known(catalog, Kind::Rto, "rto", &lists.rto.0)?;
    known(catalog, Kind::LossDetector, "loss", &lists.loss.0)?;
    let mut axes = Vec::new();
    let mut vary = |values: Vec<Setting>| match values.as_slice() {
        [] => {}
        [one] => one.apply(&mut base),
        _ => axes.push(Axis::new(values)),
    };
    vary(each(lists.cc, Setting::Congestion));
    vary(each(lists.rto, Setting::Rto));
    vary(each(lists.loss, Setting::LossDetector));
    vary(each(lists.ecn_threshold, Setting::Aqm));
    vary(each(lists.ecn, Setting::Ecn));
    Ok(SweepSpec {
        base,
        servers: servers.to_vec(),
        axes,
        repetitions,
    })
}

/// The runs of `sweep`. Whatever cannot be is told before anything runs.
pub(super) fn expand(catalog: &Catalog, sweep: &SweepSpec) -> Result<Vec<PlannedRun>, BadValue> {
    let told = |e| match e {
        ScenarioError::Invalid {
            option,
            given,
            allowed,
        } => BadValue {
            option,
            given,
            why: allowed,
        },
        other => BadValue {
            option: "servers",
            given: String::new(),
            why: other.to_string(),
        },
    };
    let planned = sweep.expand().map_err(told)?;
    for variant in sweep.variants() {
        let tcp = sweep.variant_spec(&variant).tcp;
        // Names were looked up when the sweep was planned.
        if let Ok(congestion) = catalog.registry.congestion.get(&tcp.congestion) {
            check_ecn(&tcp, &*congestion).map_err(told)?;
        }
    }
    Ok(planned)
}

fn each<T: Clone>(list: &List<T>, make: impl Fn(T) -> Setting) -> Vec<Setting> {
    list.0.iter().cloned().map(make).collect()
}

fn known(
    catalog: &Catalog,
    kind: Kind,
    option: &'static str,
    names: &[String],
) -> Result<(), BadValue> {
    names.iter().try_for_each(|name| {
        catalog.check(kind, name).map_err(|e| BadValue {
            option,
            given: name.clone(),
            why: e,
        })
    })
}
/// A hint about the variants that ask for ECN at a port that marks nothing.
pub(super) fn unmarked(catalog: &Catalog, sweep: &SweepSpec) -> Option<String> {
    let mut labels = Vec::new();
    let mut reasons: Vec<String> = Vec::new();
    for variant in sweep.variants() {
        let spec = sweep.variant_spec(&variant);
        let Ok(congestion) = catalog.registry.congestion.get(&spec.tcp.congestion) else {
            continue;
        };
        let reason = never_marks(spec.net.aqm, Some(spec.net.port_buffer));
        if let (true, Some(reason)) = (asks_for_ecn(&*congestion, spec.tcp.ecn), reason) {
            labels.push(variant.label);
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    (!labels.is_empty()).then(|| {
        format!(
            "No packet is ever marked for {}, and ECN was asked for: {}. What lowers the window \
             there is loss alone.",
            named(&labels),
            named(&reasons)
        )
    })
}

/// What each algorithm of the sweep is, in the order of its runs.
pub(super) fn explained(catalog: &Catalog, planned: &[PlannedRun]) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = Vec::new();
    for kind in [Kind::Congestion, Kind::Rto, Kind::LossDetector] {
        let entries = catalog.entries(kind);
        for p in planned {
            let name = match kind {
                Kind::Congestion => &p.spec.tcp.congestion,
                Kind::Rto => &p.spec.tcp.rto,
                _ => &p.spec.tcp.loss_detector,
            };
            let base = name.split(':').next().unwrap_or(name);
            let known = entries.iter().find(|e| e.name == base);
            let row = known.map(|e| (name.clone(), format!("{}: {}", kind.noun(), e.summary)));
            rows.extend(row.filter(|r| !rows.contains(r)));
        }
    }
    rows
}

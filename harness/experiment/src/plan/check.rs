//! Whether each point of a plan can run, before any does.

use super::Plan;
use crate::model::{Invalid, Path};
use crate::registry::Registry;
use crate::run::Size;
use crate::scenario::parallel;
use std::sync::{Mutex, PoisonError};

impl Plan {
    /// Whether each point can run, and all that is set says something at one of them.
    ///
    /// # Errors
    /// Of the first that cannot: the key, why, and at which values.
    pub fn check(&self, registry: &Registry) -> Result<(), Invalid> {
        self.largest(registry).map(drop)
    }

    /// How large runs are at most: each number is that of the point that has the most of it.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn largest(&self, registry: &Registry) -> Result<Size, Invalid> {
        self.base.check_idle()?;
        self.look(registry).map_err(|(point, e)| {
            let at = self.label(point);
            if at.is_empty() {
                return e;
            }
            Invalid::new(e.key, format!("{} (with {at})", e.why))
        })
    }

    /// The first point that cannot run.
    pub fn refused(&self, registry: &Registry) -> Option<usize> {
        self.look(registry).err().map(|(point, _)| point)
    }

    /// Looks at all points until the first that cannot run. Those that differ in words about TCP alone
    /// have one frame, which the first of them makes: a network of many hosts is not built for each.
    fn look(&self, registry: &Registry) -> Result<Size, (usize, Invalid)> {
        let (firsts, others) = self.frames();
        let found = Mutex::new((Size::default(), None::<(usize, Invalid)>));
        let found_until_now = || found.lock().unwrap_or_else(PoisonError::into_inner);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        parallel::each(firsts.len(), threads, |nth| {
            let first = firsts[nth];
            let earlier = |(point, _): &(usize, Invalid)| *point < first;
            if found_until_now().1.as_ref().is_some_and(earlier) {
                return;
            }
            let looked = self.look_at_frame(first, &others, registry);
            let (largest, refused) = &mut *found_until_now();
            match looked {
                Ok(size) => *largest = largest.or_larger(size),
                Err(e) if refused.as_ref().is_none_or(|(point, _)| e.0 < *point) => {
                    *refused = Some(e);
                }
                Err(_) => {}
            }
        });
        match found.into_inner().unwrap_or_else(PoisonError::into_inner) {
            (_, Some(e)) => Err(e),
            (largest, None) => Ok(largest),
        }
    }

    /// Looks at the point `first` and at those that come so many after it.
    fn look_at_frame(
        &self,
        first: usize,
        others: &[usize],
        registry: &Registry,
    ) -> Result<Size, (usize, Invalid)> {
        let frame = self.at(first, registry).and_then(|e| e.frame(registry));
        let frame = frame.map_err(|e| (first, e))?;
        for point in others.iter().map(|after| first + after) {
            let looked = self.at(point, registry);
            looked
                .and_then(|e| e.check_tcps(registry, &frame))
                .map_err(|e| (point, e))?;
        }
        Ok(frame.size)
    }

    /// The points that have the first value of each axis about TCP; and how far behind each the
    /// others are that have the same values of all other axes.
    fn frames(&self) -> (Vec<usize>, Vec<usize>) {
        let (mut firsts, mut others, mut weight) = (vec![0], vec![0], 1);
        for (axis, len) in self.base.sweep.iter().zip(&self.lengths).rev() {
            let of = match is_of_tcp(&axis.key) {
                true => &mut others,
                false => &mut firsts,
            };
            let before = std::mem::take(of);
            of.extend((0..*len).flat_map(|n| before.iter().map(move |point| n * weight + point)));
            weight *= len;
        }
        others.remove(0);
        (firsts, others)
    }
}

/// Whether a key says something about the TCP of connections.
fn is_of_tcp(key: &str) -> bool {
    let path = Path::parse(key).ok();
    matches!(
        path.as_ref().map(Path::words).as_deref(),
        Some(["host", "tcp", _] | ["group" | "traffic", _, "tcp", _])
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Experiment;

    fn plan(axes: &[(&str, &str)]) -> (Plan, Registry) {
        let registry = Registry::default();
        let incast = Experiment::shipped(&registry, "incast");
        let mut incast = incast.build().unwrap();
        incast.sweep.clear();
        for (key, values) in axes {
            let values = values.split(' ').map(str::to_owned).collect();
            incast.vary(key, values).unwrap();
        }
        (Plan::new(&incast, &registry).unwrap(), registry)
    }

    /// What is told is what each point tells that is looked at alone.
    #[test]
    fn every_point_is_looked_at() {
        let mss = ("host.tcp.mss", "1460 536 8960");
        let cc = ("host.tcp.congestion", "reno dctcp");
        let ecn = ("group.servers.tcp.ecn", "auto off");
        let servers = ("servers", "2 3 7");
        let mtu = ("network.mtu", "1500 9000");
        let window = ("network.queue.limit", "32p 64KiB");
        let sweeps: [&[(&str, &str)]; 7] = [
            &[servers],
            &[mss, servers],
            &[servers, mss],
            &[mss, mtu, servers],
            &[mtu, servers, mss],
            &[cc, servers, ecn],
            &[window, cc, mtu, servers],
        ];
        let mut found = Vec::new();
        for axes in sweeps {
            let (plan, registry) = plan(axes);
            let alone = |point: &usize| {
                let checked = plan.at(*point, &registry);
                checked.and_then(|e| e.check(&registry)).is_err()
            };
            let refused = (0..plan.points()).find(alone);
            assert_eq!(plan.refused(&registry), refused, "{axes:?}");
            found.push(refused);
            let sizes = (0..plan.points()).map(|p| plan.at(p, &registry)?.size(&registry));
            let most = sizes
                .map(|s| s.map(|s| s.hosts))
                .try_fold(0, |most, hosts| Ok::<u32, Invalid>(hosts?.max(most)));
            let largest = plan.largest(&registry).map(|size| size.hosts);
            assert_eq!(largest.ok(), most.ok(), "{axes:?}");
        }
        let none = |axes: usize| found[axes].is_none();
        assert!(none(0) && none(6) && (1..6).all(|n| !none(n)), "{found:?}");
    }
}

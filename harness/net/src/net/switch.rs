//! A switch: which ports lead to which host.
//!
//! Models a store-and-forward switch with output queues and an ideal fabric: a packet is at its
//! output port the moment its last bit is in. Leaves out: the fabric, input queues, the tables'
//! size, learning.
//!
//! A host that hangs on the switch itself is found in [`Home`]. For the others a table names the
//! ports by the switch that the host hangs on: hosts of one rack share an entry.

use narrows_congestion::order::OrderedMap;

use super::multipath::{Chooser, Multipath};
use crate::sim::time::SimTime;

/// Where a host hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    /// The switch; [`NO_SWITCH`] on a cable between two hosts.
    pub(crate) switch: u32,
    /// Its place among the switches that have hosts.
    pub(crate) edge: u32,
    /// The port that leads to the host.
    pub(crate) port: u32,
}

/// No switch.
pub(crate) const NO_SWITCH: u32 = u32::MAX;

/// The ports that lead to one switch with hosts: a port, or with [`MANY`] a place in `runs`.
type Route = u32;

/// No port leads there.
const NONE: Route = u32::MAX;
/// Set: several lead there.
const MANY: Route = 1 << 31;

/// Forwarding table of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// By [`Home::edge`].
    routes: Vec<Route>,
    /// First and number of `choices`.
    runs: Vec<(u32, u32)>,
    choices: Vec<u32>,
}

/// Fills a table, in which equal sets of ports stand once.
#[derive(Debug)]
pub(crate) struct TableBuilder {
    table: Table,
    known: OrderedMap<Vec<u32>, Route>,
}

impl TableBuilder {
    /// For so many switches with hosts.
    pub(crate) fn new(edges: usize) -> Self {
        Self {
            table: Table {
                routes: vec![NONE; edges],
                ..Table::default()
            },
            known: OrderedMap::new(),
        }
    }

    /// Packets for hosts at `edge` leave by one of `ports`.
    pub(crate) fn set(&mut self, edge: u32, ports: &[u32]) {
        let table = &mut self.table;
        let route = match *ports {
            [] => NONE,
            [port] => port,
            _ => match self.known.get(ports) {
                Some(&route) => route,
                None => {
                    let route = MANY | table.runs.len() as u32;
                    let first = table.choices.len() as u32;
                    table.runs.push((first, ports.len() as u32));
                    table.choices.extend_from_slice(ports);
                    self.known.insert(ports.to_vec(), route);
                    route
                }
            },
        };
        if let Some(slot) = table.routes.get_mut(edge as usize) {
            *slot = route;
        }
    }

    pub(crate) fn finish(self) -> Table {
        self.table
    }
}

impl Table {
    /// The ports of a route that has several.
    #[inline]
    fn run(&self, route: Route) -> Option<&[u32]> {
        // Of `NONE` there is no run.
        let &(first, count) = self.runs.get((route & !MANY) as usize)?;
        self.choices.get(first as usize..(first + count) as usize)
    }

    /// The ports that lead to hosts at `edge`.
    pub(crate) fn ports(&self, edge: u32) -> &[u32] {
        match self.routes.get(edge as usize) {
            None => &[],
            Some(route) if route & MANY == 0 => std::slice::from_ref(route),
            Some(&route) => self.run(route).unwrap_or(&[]),
        }
    }
}

#[cfg(test)]
impl Table {
    /// Entries for switches with hosts.
    pub(crate) fn entries(&self) -> usize {
        self.routes.len()
    }

    /// Ports in all sets of several.
    pub(crate) fn choices(&self) -> usize {
        self.choices.len()
    }
}

/// A switch at work.
#[derive(Debug)]
pub(crate) struct Switch {
    table: Table,
    chooser: Chooser,
}

impl Switch {
    /// Switch number `number` of the run with `seed`.
    pub(crate) fn new(table: Table, multipath: Multipath, seed: u64, number: u32) -> Self {
        Self {
            table,
            chooser: Chooser::new(multipath, seed, number),
        }
    }

    /// Forwards by another table from now on; what it remembers of flowlets stays.
    pub(crate) fn set_table(&mut self, table: Table) {
        self.table = table;
    }

    /// The port for a packet to hosts at `edge`, of a flow with this hash, that comes at `now`. The
    /// hash is asked for where there are several.
    #[inline]
    pub(crate) fn route(
        &mut self,
        now: SimTime,
        edge: u32,
        flow: impl FnOnce() -> u32,
    ) -> Option<u32> {
        let route = *self.table.routes.get(edge as usize)?;
        if route & MANY == 0 {
            return Some(route);
        }
        let ports = self.table.run(route)?;
        let nth = self.chooser.choose(now, flow(), ports.len() as u32);
        ports.get(nth as usize).copied()
    }

    /// The same for a packet that is yet to come, if it is certain.
    #[inline]
    pub(crate) fn foresee(&self, edge: u32, flow: impl FnOnce() -> u32) -> Option<u32> {
        let route = *self.table.routes.get(edge as usize)?;
        if route & MANY == 0 {
            return Some(route);
        }
        let ports = self.table.run(route)?;
        let nth = self.chooser.foresee(flow(), ports.len() as u32)?;
        ports.get(nth as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_paths_are_chosen_by_flow() {
        let mut b = TableBuilder::new(4);
        b.set(0, &[7]);
        b.set(1, &[3, 4, 5]);
        b.set(3, &[3, 4, 5]);
        let table = b.finish();
        assert_eq!(table.choices, [3, 4, 5], "equal sets stand once");
        let edges = [0, 1, 2, 3, 9].map(|edge| table.ports(edge).to_vec());
        let set = vec![3, 4, 5];
        assert_eq!(edges, [vec![7], set.clone(), vec![], set, vec![]]);
        let mut s = Switch::new(table, Multipath::default(), 1, 0);
        let now = SimTime::ZERO;
        assert_eq!(s.route(now, 0, || 99), Some(7));
        let mut used = [0u32; 3];
        for flow in 0..300 {
            let port = s.route(now, 1, || flow).unwrap();
            assert_eq!(
                (s.route(now, 3, || flow), s.foresee(1, || flow)),
                (Some(port), Some(port))
            );
            used[port as usize - 3] += 1;
        }
        assert!(used.iter().all(|&n| n > 70), "{used:?}");
        assert_eq!((s.route(now, 2, || 0), s.route(now, 9, || 0)), (None, None));
    }
}

//! Routes: the shortest paths of a graph, by number of links.
//!
//! All shortest paths are equal, whatever their rates and delays, as with ECMP over a routing
//! protocol whose links cost the same. One search for each switch that has hosts, backwards from
//! it, so that the work grows with switches times links and not with the hosts.

use narrows_congestion::order::OrderedMap;
use std::collections::VecDeque;

use super::graph::{Graph, NodeId, SwitchId, TopologyError};
use super::packet::{HostId, PortId};
use super::switch::{Home, NO_SWITCH, Table, TableBuilder};

/// Entries of all tables together: 1 GiB.
const MAX_ENTRIES: u64 = 1 << 28;

/// Ports, in their order.
pub(super) type Ports = OrderedMap<u32, ()>;

/// The shortest paths between the hosts of a graph.
#[derive(Debug)]
pub struct Routes {
    pub(super) homes: Vec<Home>,
    pub(super) tables: Vec<Table>,
    /// By port, what it leads to.
    leads_to: Vec<NodeId>,
    pub(super) fabric: Fabric,
}

/// What tables are computed from: the links between switches.
#[derive(Debug, Default)]
pub(crate) struct Fabric {
    switches: usize,
    /// In the order of their ports; the two ways of a link follow each other.
    trunks: Vec<Trunk>,
    /// The switches that have hosts, by [`Home::edge`].
    edges: Vec<u32>,
}

/// One way of a link between switches.
#[derive(Clone, Copy, Debug)]
struct Trunk {
    from: u32,
    to: u32,
    port: u32,
}

impl Fabric {
    /// The port at the other end of a link between switches.
    pub(super) fn twin(&self, port: u32) -> Option<u32> {
        let at = self.trunks.binary_search_by_key(&port, |t| t.port).ok()?;
        self.trunks.get(at ^ 1).map(|t| t.port)
    }

    /// The tables of all switches, once they know that the ports in `known` lead nowhere. Of the
    /// others each leaves out those of its own that are in `dead`.
    pub(super) fn tables(&self, known: &Ports, dead: &Ports) -> Vec<Table> {
        let mut out: Vec<Vec<(u32, u32)>> = vec![Vec::new(); self.switches];
        let alive = || self.trunks.iter().filter(|t| !known.contains_key(&t.port));
        for trunk in alive() {
            out[trunk.from as usize].push((trunk.to, trunk.port));
        }
        let mut into = None;
        if !known.is_empty() {
            let into = into.insert(vec![Vec::new(); self.switches]);
            for trunk in alive() {
                into[trunk.to as usize].push((trunk.from, trunk.port));
            }
        }
        // With both ways of every link, what is near a switch is what it is near to.
        let into = into.as_deref().unwrap_or(&out);
        let mut tables: Vec<TableBuilder> = (0..self.switches)
            .map(|_| TableBuilder::new(self.edges.len()))
            .collect();
        let mut search = Search::new(self.switches);
        for (edge, &switch) in (0..).zip(&self.edges) {
            search.fill(switch, edge, (&out, into), dead, &mut tables);
        }
        tables.into_iter().map(TableBuilder::finish).collect()
    }
}

impl Routes {
    /// Of a graph whose hosts all have a link.
    pub(super) fn of(graph: &Graph) -> Result<Self, TopologyError> {
        let switches = graph.switch_count() as usize;
        let mut homes = vec![
            Home {
                switch: NO_SWITCH,
                edge: NO_SWITCH,
                port: 0
            };
            graph.host_count() as usize
        ];
        let mut trunks = Vec::new();
        let mut leads_to = Vec::with_capacity(graph.port_count() as usize);
        for port in graph.ports() {
            let Some((from, to)) = graph.ends(port) else {
                continue;
            };
            leads_to.push(to);
            match (from, to) {
                (NodeId::Switch(a), NodeId::Switch(b)) => {
                    trunks.push(Trunk {
                        from: a.0,
                        to: b.0,
                        port: port.0,
                    });
                }
                (from, NodeId::Host(host)) => {
                    let home = &mut homes[host.index()];
                    home.port = port.0;
                    if let NodeId::Switch(switch) = from {
                        home.switch = switch.0;
                    }
                }
                (NodeId::Host(_), NodeId::Switch(_)) => {}
            }
        }
        let edges = number_edges(&mut homes, switches);
        if edges.len() as u64 * switches as u64 > MAX_ENTRIES {
            return Err(TopologyError::TooLarge {
                what: "entries in the switches' tables",
                most: MAX_ENTRIES,
            });
        }
        let fabric = Fabric {
            switches,
            trunks,
            edges,
        };
        let none = Ports::new();
        Ok(Self {
            homes,
            tables: fabric.tables(&none, &none),
            leads_to,
            fabric,
        })
    }

    /// The ports of `switch` that lead to `host` by a shortest path, in order; none if there is
    /// no way, or no such switch or host.
    pub fn next(&self, switch: SwitchId, host: HostId) -> &[u32] {
        let Some(home) = self.homes.get(host.index()) else {
            return &[];
        };
        if home.switch == switch.0 {
            return std::slice::from_ref(&home.port);
        }
        match self.tables.get(switch.index()) {
            Some(table) => table.ports(home.edge),
            None => &[],
        }
    }

    /// Links from one host to another; `None` without a way. A host reaches itself over none.
    pub fn hops(&self, from: HostId, to: HostId) -> Option<u32> {
        if from == to {
            return Some(0);
        }
        let mut hops = 1;
        let mut at = self.first(from)?;
        // A shortest path enters no switch twice.
        for _ in 0..=self.tables.len() {
            match at {
                NodeId::Host(host) => return (host == to).then_some(hops),
                NodeId::Switch(switch) => {
                    at = self.end(*self.next(switch, to).first()?)?;
                    hops += 1;
                }
            }
        }
        None
    }

    /// Number of shortest paths from one host to another, at most `u64::MAX`; 1 to itself.
    #[inline] // Called once, or by nobody here: compiled where it is.
    pub fn paths(&self, from: HostId, to: HostId) -> u64 {
        if from == to {
            return 1;
        }
        let mut level = match self.first(from) {
            None => return 0,
            Some(NodeId::Host(host)) => return u64::from(host == to),
            Some(NodeId::Switch(switch)) => std::collections::BTreeMap::from([(switch, 1u64)]),
        };
        // All that are equally far from the goal at once.
        for _ in 0..=self.tables.len() {
            let mut next = std::collections::BTreeMap::new();
            for (switch, ways) in level {
                for &port in self.next(switch, to) {
                    match self.end(port) {
                        Some(NodeId::Switch(s)) => {
                            let sum: &mut u64 = next.entry(s).or_default();
                            *sum = sum.saturating_add(ways);
                        }
                        Some(NodeId::Host(_)) => return ways,
                        None => {}
                    }
                }
            }
            level = next;
        }
        0
    }

    /// What a host's NIC leads to.
    fn first(&self, host: HostId) -> Option<NodeId> {
        self.homes.get(host.index())?;
        self.end(host.0)
    }

    fn end(&self, port: u32) -> Option<NodeId> {
        self.leads_to.get(PortId(port).index()).copied()
    }
}

/// Numbers the switches that have hosts, in the order of their first hosts.
fn number_edges(homes: &mut [Home], switches: usize) -> Vec<u32> {
    let mut number = vec![NO_SWITCH; switches];
    let mut edges = Vec::new();
    for home in homes {
        let Some(number) = number.get_mut(home.switch as usize) else {
            continue;
        };
        if *number == NO_SWITCH {
            *number = edges.len() as u32;
            edges.push(home.switch);
        }
        home.edge = *number;
    }
    edges
}

/// Of each switch, the other end and the port of its links.
type Neighbours = [Vec<(u32, u32)>];

/// A search from one switch; kept from one to the next for its memory.
struct Search {
    distance: Vec<u32>,
    queue: VecDeque<u32>,
    ports: Vec<u32>,
}

impl Search {
    fn new(switches: usize) -> Self {
        Self {
            distance: vec![u32::MAX; switches],
            queue: VecDeque::new(),
            ports: Vec::new(),
        }
    }

    /// Sets in all tables which ports lead to `goal`, but for those that are dead. Of each switch
    /// `out` has what it leads to, and `into` what leads to it.
    fn fill(
        &mut self,
        goal: u32,
        edge: u32,
        (out, into): (&Neighbours, &Neighbours),
        dead: &Ports,
        tables: &mut [TableBuilder],
    ) {
        self.distance.fill(u32::MAX);
        self.distance[goal as usize] = 0;
        self.queue.push_back(goal);
        while let Some(at) = self.queue.pop_front() {
            let distance = self.distance[at as usize];
            if at != goal {
                let nearer = |&&(next, _): &&(u32, u32)| self.distance[next as usize] < distance;
                self.ports.clear();
                let nearer = out[at as usize].iter().filter(nearer);
                let ports = nearer.map(|&(_, port)| port);
                if dead.is_empty() {
                    self.ports.extend(ports);
                } else {
                    self.ports
                        .extend(ports.filter(|port| !dead.contains_key(port)));
                }
                tables[at as usize].set(edge, &self.ports);
            }
            for &(next, _) in &into[at as usize] {
                let seen = &mut self.distance[next as usize];
                if *seen == u32::MAX {
                    *seen = distance + 1;
                    self.queue.push_back(next);
                }
            }
        }
    }
}

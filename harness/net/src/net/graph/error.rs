//! Why a topology is impossible.

use crate::net::multipath::MOST_ENTRIES;
use narrows_congestion::ByteCount;
use std::fmt;

use super::NodeId;
use crate::net::discipline::DisciplineError;
use crate::net::pause::PauseProblem;
use crate::net::port::PoolId;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// A host.
    Host,
    /// A switch.
    Switch,
    /// A port: the sending end of a link.
    Port,
    /// A group of nodes.
    Group,
    /// A kind of node.
    Tier,
    /// A shape of network.
    Topology,
    /// A value that a shape of network takes.
    Parameter,
    /// Anything that stands for nodes: a host, a switch, a group or a tier.
    Node,
}

impl fmt::Display for NameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Switch => "switch",
            Self::Port => "port",
            Self::Group => "group",
            Self::Tier => "tier",
            Self::Topology => "topology",
            Self::Parameter => "parameter",
            Self::Node => "host, switch, group or tier",
        })
    }
}

/// What is wrong with the values of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortProblem {
    /// The rate is zero or more than 8 Tb/s.
    Rate,
    /// It names a buffer pool that its switch does not have.
    Pool(PoolId),
    /// Its queue discipline cannot be built.
    Discipline(DisciplineError),
    /// The least extra delay of its link's reordering is above the greatest.
    Reorder,
    /// What the ports of its pool have to themselves is more than the pool.
    Reserve {
        /// The pool.
        size: ByteCount,
        /// The reserves together.
        needed: ByteCount,
    },
    /// Its switch, or the host that it leads to, cannot pause so.
    Pauses(PauseProblem),
    /// The host that it leads to pauses, and its ring is too short for that.
    Ring {
        /// Frames that it holds.
        ring: u64,
        /// That it has to hold.
        needed: u64,
    },
    /// Its switch pauses, and it has something that does not go with that.
    Pause {
        /// What, and what to do.
        why: &'static str,
    },
    /// It is a host's NIC and has none of this.
    IsNic {
        /// What was to be set.
        field: &'static str,
    },
    /// It is a switch's port and has none of this.
    IsSwitchPort {
        /// What was to be set.
        field: &'static str,
    },
}

/// Why a network cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyError {
    /// Nothing has this name.
    Unknown {
        /// What was looked for.
        kind: NameKind,
        /// The name asked for.
        name: String,
        /// The most similar name there is, if one is similar.
        near: Option<String>,
    },
    /// The name is taken.
    Duplicate {
        /// The name.
        name: String,
        /// What has it.
        taken_by: NameKind,
    },
    /// It can't be the name of a node, a group or a tier.
    Name {
        /// The text.
        name: String,
    },
    /// There is no node with this number.
    NoNode(NodeId),
    /// The second of two hosts is not behind the first.
    Range {
        /// The range as written.
        range: String,
    },
    /// A part of hosts that is none.
    Part {
        /// As written.
        part: String,
    },
    /// No link leads from one to the other.
    NoLink {
        /// From.
        from: String,
        /// To.
        to: String,
    },
    /// A link from a node to itself.
    SelfLink {
        /// The node.
        node: String,
    },
    /// A host has one NIC, and it is in use.
    SecondLink {
        /// The host.
        host: String,
        /// What it is connected with.
        first: String,
        /// What it was to be connected with.
        second: String,
    },
    /// A host or a switch has no link.
    NoLinks {
        /// What it is.
        kind: NameKind,
        /// Its name.
        node: String,
    },
    /// The network falls into parts without a way between them.
    Partitioned {
        /// A node of one part.
        here: String,
        /// A node of another.
        there: String,
        /// Nodes that `here` does not reach.
        unreached: u32,
    },
    /// There are no hosts.
    NoHosts,
    /// A port's values make no sense.
    Port {
        /// The port.
        port: String,
        /// What is wrong.
        problem: PortProblem,
    },
    /// A pool's alpha has a zero denominator.
    Alpha {
        /// Whose pool.
        switch: String,
        /// Which.
        pool: PoolId,
    },
    /// A flowlet table has no entries, or too many.
    FlowletTable {
        /// Whose table.
        switch: String,
    },
    /// A value of a shape is out of range.
    Parameter {
        /// The shape.
        topology: String,
        /// The value's name.
        name: String,
        /// What it was.
        value: u32,
        /// What it must be.
        must: String,
    },
    /// The network is not the one that was built of this graph.
    OtherNetwork {
        /// Ports of the graph.
        graph: u32,
        /// Ports of the network.
        network: u32,
    },
    /// More of something than there are numbers or tables for.
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        most: u64,
    },
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { kind, name, near } => {
                write!(f, "no {kind} '{name}'")?;
                match near {
                    Some(near) => write!(f, "; did you mean '{near}'?"),
                    None => Ok(()),
                }
            }
            Self::Duplicate { name, taken_by } => write!(
                f,
                "the name '{name}' is already that of a {taken_by}: give one of them another"
            ),
            Self::Name { name } => write!(
                f,
                "'{name}' cannot be a name: use letters, digits, '_', '-' and single dots, \
                 beginning with a letter or a digit"
            ),
            Self::NoNode(NodeId::Host(h)) => write!(f, "there is no host with the number {}", h.0),
            Self::NoNode(NodeId::Switch(s)) => {
                write!(f, "there is no switch with the number {}", s.0)
            }
            Self::Range { range } => write!(
                f,
                "'{range}' is no range of hosts: write the one with the lower number first"
            ),
            Self::Part { part } => write!(
                f,
                "'{part}' is no part of hosts: expected the second third as HOSTS:2/3, say"
            ),
            Self::NoLink { from, to } => write!(
                f,
                "no link leads from {from} to {to}: add one, or name a port that exists"
            ),
            Self::SelfLink { node } => {
                write!(
                    f,
                    "link {node}->{node} ends where it begins: connect two nodes"
                )
            }
            Self::SecondLink {
                host,
                first,
                second,
            } => write!(
                f,
                "host {host} is connected with {first} and cannot be with {second}, too: a host \
                 has one NIC; put a switch between"
            ),
            Self::NoLinks { kind, node } => {
                write!(f, "{kind} {node} has no link: connect it, or leave it out")
            }
            Self::Partitioned {
                here,
                there,
                unreached,
            } => write!(
                f,
                "no way leads from {here} to {there} ({unreached} nodes are out of reach): link \
                 the two parts"
            ),
            Self::NoHosts => write!(f, "the network has no hosts: add one"),
            Self::Port { port, problem } => match problem {
                PortProblem::Rate => {
                    write!(f, "link {port}: the rate is not between 1 b/s and 8 Tb/s")
                }
                PortProblem::Pool(pool) => {
                    write!(f, "port {port}: its switch has no buffer pool {}", pool.0)
                }
                PortProblem::Discipline(e) => write!(f, "the queue of port {port}: {e}"),
                PortProblem::Reorder => write!(
                    f,
                    "link {port}: the least delay of reordering is above the greatest"
                ),
                PortProblem::Reserve { size, needed } => write!(
                    f,
                    "port {port}: the ports of its buffer pool of {} bytes have {} bytes to \
                     themselves together: lower the reserve",
                    size.get(),
                    needed.get()
                ),
                PortProblem::Pauses(problem) => {
                    write!(f, "port {port}: it pauses who sends to it, and {problem}")
                }
                PortProblem::Ring { ring, needed } => write!(
                    f,
                    "port {port}: the host that it leads to pauses, and of the {ring} frames of its \
                     receive ring it needs {needed} for what still comes after XOFF: give it a longer ring"
                ),
                PortProblem::Pause { why } => {
                    write!(f, "port {port}: its switch pauses: {why}")
                }
                PortProblem::IsNic { field } => write!(
                    f,
                    "port {port} is a host's NIC and has no {field}: name ports of switches"
                ),
                PortProblem::IsSwitchPort { field } => write!(
                    f,
                    "port {port} is a switch's and has no {field}: name NICs, such as host->*"
                ),
            },
            Self::Alpha { switch, pool } => write!(
                f,
                "switch {switch}: alpha of buffer pool {} has a zero denominator",
                pool.0
            ),
            Self::FlowletTable { switch } => write!(
                f,
                "switch {switch}: a flowlet table has 1 to {MOST_ENTRIES} entries"
            ),
            Self::Parameter {
                topology,
                name,
                value,
                must,
            } => write!(f, "{topology}: {name} is {value} and must be {must}"),
            Self::OtherNetwork { graph, network } => write!(
                f,
                "the network has {network} ports and this graph {graph}: ask the graph that it \
                 was built of"
            ),
            Self::TooLarge { what, most } => {
                write!(
                    f,
                    "too many {what}: at most {most} fit, build a smaller network"
                )
            }
        }
    }
}

impl std::error::Error for TopologyError {}

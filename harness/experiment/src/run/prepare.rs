//! From an experiment to the parts of a run: network, hosts with their roles and TCP, instruments.

use super::changes;
use crate::knob::Section;
use crate::model::{Experiment, Group, Invalid, Members, Nic, Path, Place, Settings};
use crate::net::graph::{Graph, NodeId, PortProblem, TopologyError};
use crate::net::nic::NicSpec;
use crate::net::packet::HostId;
use crate::net::pause::PauseProblem;
use crate::probe::Site;
use crate::registry::Registry;
use crate::scenario::spec::TcpSpec;
use crate::scenario::validate::check_tcp;
use crate::scenario::{ScenarioError, tcp};
use crate::sim::time::SimTime;
use crate::traffic::{Ends, Family, HostApp, Log, Placement};
use crate::version::{COMMIT, VERSION};
use narrows::config::TcpConfig;
use narrows::congestion::order::OrderedMap;
use narrows::{ByteCount, Duration, Instant};
use narrows_run::parts::{Parts, Time};
use std::sync::Arc;

/// The parts of a run, whole and possible.
#[derive(Debug)]
pub struct Prepared {
    pub(super) parts: Parts,
    tcps: Vec<WhoseTcp>,
}

/// Bytes of an IPv6 and a TCP header without options.
const IPV6_TCP_HEADERS: u32 = 60;

impl Prepared {
    /// Everything of `experiment` but its sweep.
    ///
    /// # Errors
    /// Which key is impossible, and why.
    pub fn new(experiment: &Experiment, registry: &Registry) -> Result<Self, Invalid> {
        let run = &experiment.run;
        if run.warm_up >= run.duration {
            let why = "nothing is left to measure: it must be shorter than run.duration";
            return Err(Invalid::new("run.warm_up", why));
        }
        let mut graph = graph(experiment, registry)?;
        let of_group = memberships(experiment, &graph)?;
        set_nics(experiment, &mut graph, &of_group)?;
        let mut configs = Configs::new(experiment, registry);
        let log = Log::default();
        let mut hosts = Vec::with_capacity(of_group.len());
        for (n, groups) in of_group.iter().enumerate() {
            let family = experiment.network.common.ip;
            let app = HostApp::new(HostId(n as u32), family, log.clone());
            let Tcp { config, remembers } = configs.of(groups, None)?;
            hosts.push((app, config, remembers));
        }
        if experiment.traffic.is_empty() {
            let why = "there is no traffic: add a [[traffic]] with a name and a kind";
            return Err(Invalid::new("traffic", why));
        }
        for (number, traffic) in experiment.traffic.iter().enumerate() {
            let at = format!("traffic.{}", traffic.name);
            let mut placement = Placement::new(&graph, number as u16, run.seed);
            let placed = traffic.spec.install(&mut placement);
            placed.map_err(|e| Invalid::new(format!("{at}.{}", e.key), e.why))?;
            let start = Instant::ZERO + traffic.start;
            log.add(match placement.ends {
                Ends::Never => None,
                Ends::After(calls) => Some(calls),
            });
            for (host, role) in placement.roles {
                let config = configs.of(&of_group[host.index()], Some(number))?.config;
                hosts[host.index()]
                    .0
                    .add(role, number as u16, config, start);
            }
        }
        let names: Vec<String> = experiment.traffic.iter().map(|t| t.name.clone()).collect();
        let mut instruments = Vec::new();
        for (number, probe) in experiment.probes.iter().enumerate() {
            let site = Site {
                graph: &graph,
                traffic: &names,
                seed: run.seed,
                number: number as u64,
            };
            let placed = probe.spec.install(&site).map_err(|e| {
                let at = format!("probe.{}.{}", probe.name, e.key);
                Invalid::new(at, e.why)
            })?;
            instruments.extend(placed.into_iter().map(|i| (probe.name.clone(), i)));
        }
        let build = || {
            graph
                .build(run.seed, experiment.network.tie_order())
                .map_err(|e| Invalid::new(key_of(&e), e.to_string()))
        };
        let mut network = build()?;
        if !experiment.network.common.convergence.is_zero() {
            let after = SimTime::from_duration(experiment.network.common.convergence);
            network.set_convergence(after);
        }
        let changes = changes::planned(experiment, registry, &graph, build)?;
        let parts = Parts {
            family: experiment.network.common.ip,
            graph,
            network,
            hosts,
            instruments,
            changes,
            log,
            traffic: names,
            time: Time {
                duration: run.duration,
                warm_up: run.warm_up,
                clock: run.clock,
            },
            seed: run.seed,
            wire: run.wire,
            version: (VERSION, COMMIT),
        };
        Ok(Self {
            parts,
            tcps: configs.made.into_iter().map(|(whose, _)| whose).collect(),
        })
    }
}

/// How large a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Hosts.
    pub hosts: u32,
    /// Ports, NICs included.
    pub ports: u32,
    /// Full packets that the hosts' links could carry in the whole duration: no run has more.
    pub packets: u64,
}

impl Size {
    /// Of each the more.
    #[must_use]
    pub fn or_larger(self, other: Self) -> Self {
        Self {
            hosts: self.hosts.max(other.hosts),
            ports: self.ports.max(other.ports),
            packets: self.packets.max(other.packets),
        }
    }
}

/// The groups of a host and a traffic, whose words about TCP come together.
type WhoseTcp = (Vec<usize>, Option<usize>);

/// What is known of a run whatever its words about TCP are.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) size: Size,
    /// The TCPs that it has.
    tcps: Vec<WhoseTcp>,
}

impl Experiment {
    /// The host with a name, or `None` if it names none or several.
    ///
    /// # Errors
    /// Which key is impossible, and why.
    pub fn host_named(&self, registry: &Registry, name: &str) -> Result<Option<HostId>, Invalid> {
        let graph = Prepared::new(self, registry)?.parts.graph;
        Ok(match graph.resolve_hosts(name).as_deref() {
            Ok([host]) => Some(*host),
            _ => None,
        })
    }

    /// How large a run of it is; that it is possible, at its place if it is to run live, is checked on
    /// the way.
    ///
    /// # Errors
    /// Which key is impossible, and why.
    pub fn size(&self, registry: &Registry) -> Result<Size, Invalid> {
        Ok(self.frame(registry)?.size)
    }

    /// Whether it can be run, as [`Self::check`], and what is so whatever is said of its TCP.
    ///
    /// # Errors
    /// Which key is impossible, and why.
    pub(crate) fn frame(&self, registry: &Registry) -> Result<Frame, Invalid> {
        if self.run.place == Place::Live {
            registry.live_place()?.check(self)?;
        }
        let prepared = Prepared::new(self, registry)?;
        let graph = &prepared.parts.graph;
        let packet = ByteCount::from(self.network.common.mtu);
        let mut packets = 0_u64;
        let hosts = prepared.parts.hosts.len() as u32;
        for host in (0..hosts).map(HostId) {
            if let Some(egress) = graph.host_egress(host) {
                let bytes = egress.link.rate.bytes_in(self.run.duration);
                packets = packets.saturating_add(bytes.get() / packet.get().max(1));
            }
        }
        let size = Size {
            hosts,
            ports: graph.port_count(),
            packets,
        };
        let tcps = prepared.tcps;
        Ok(Frame { size, tcps })
    }

    /// Whether it can be run, if it differs in words about TCP alone from one with this frame.
    ///
    /// # Errors
    /// Which key is impossible, and why.
    pub(crate) fn check_tcps(&self, registry: &Registry, frame: &Frame) -> Result<(), Invalid> {
        if self.run.place == Place::Live {
            return self.check(registry);
        }
        let mut configs = Configs::new(self, registry);
        for (groups, traffic) in &frame.tcps {
            configs.of(groups, *traffic)?;
        }
        Ok(())
    }

    /// Whether it can be run: everything but the run itself.
    ///
    /// # Errors
    /// Which key is impossible, and why.
    pub fn check(&self, registry: &Registry) -> Result<(), Invalid> {
        self.frame(registry).map(drop)
    }
}

/// The key that a network is impossible by, where one alone is to blame.
const fn key_of(e: &TopologyError) -> &'static str {
    let TopologyError::Port { problem, .. } = e else {
        return "network";
    };
    match problem {
        PortProblem::Pauses(PauseProblem::Xoff { .. }) => "network.pause.xoff",
        PortProblem::Pauses(PauseProblem::Xon { .. }) => "network.pause.xon",
        PortProblem::Pauses(PauseProblem::Quanta { needed, .. }) if *needed <= u16::MAX as u64 => {
            "network.pause.quanta"
        }
        _ => "network",
    }
}

/// The graph with its groups.
fn graph(experiment: &Experiment, registry: &Registry) -> Result<Graph, Invalid> {
    let counted: Option<u32> = experiment
        .groups
        .iter()
        .filter_map(|group| match group.members {
            Members::Count(n) => Some(n),
            Members::Named(_) => None,
        })
        .reduce(u32::saturating_add);
    let network = &experiment.network;
    if counted.is_some() && network.common.topology != "star" {
        let sized = |g: &&Group| matches!(g.members, Members::Count(_));
        let group = experiment.groups.iter().find(sized);
        let name = group.map_or("", |g| g.name.as_str());
        let why = "only a star has as many hosts as its groups: name the group's hosts instead";
        return Err(Invalid::new(format!("group.{name}.size"), why));
    }
    if let (Some(_), Some(_)) = (
        counted,
        network.sizes.iter().find(|(key, _)| key == "hosts"),
    ) {
        let why =
            "the groups have sizes, which say how many hosts there are: give one or the other";
        return Err(Invalid::new("network.hosts", why));
    }
    let host = &experiment.host;
    check_nic(experiment, &host.nic, "host")?;
    let mut graph = network.graph(
        registry,
        host.nic.spec(&host.cpu, network.common.mtu),
        counted,
    )?;
    let mut next = 0;
    for group in &experiment.groups {
        let at = Path::new(vec!["group".to_owned(), group.name.clone()]).to_string();
        let invalid = |e: TopologyError| Invalid::new(format!("{at}.hosts"), e.to_string());
        let members: Vec<NodeId> = match &group.members {
            Members::Count(n) => {
                let of = next..next + n;
                next += n;
                of.map(|h| NodeId::Host(HostId(h))).collect()
            }
            Members::Named(patterns) => {
                // What is not a group names hosts: `[group.h3.tcp]`.
                let own = [group.name.clone()];
                let named = if patterns.is_empty() {
                    &own[..]
                } else {
                    patterns
                };
                let mut all = Vec::new();
                for pattern in named {
                    let hosts = graph.resolve_hosts(pattern).map_err(invalid)?;
                    all.extend(hosts.into_iter().map(NodeId::Host));
                }
                if patterns.is_empty() {
                    continue;
                }
                all
            }
        };
        graph
            .group(group.name.clone(), members)
            .map_err(|e| Invalid::new(at.clone(), e.to_string()))?;
    }
    Ok(graph)
}

/// By host: the groups whose settings it has, in their order.
fn memberships(experiment: &Experiment, graph: &Graph) -> Result<Vec<Vec<usize>>, Invalid> {
    let hosts = graph
        .nodes()
        .filter(|n| matches!(n, NodeId::Host(_)))
        .count();
    let mut of = vec![Vec::new(); hosts];
    for (n, group) in experiment.groups.iter().enumerate() {
        if group.settings.is_empty() {
            continue;
        }
        let at = format!("group.{}", group.name);
        let members = graph
            .resolve_hosts(&group.name)
            .map_err(|e| Invalid::new(at.clone(), e.to_string()))?;
        for host in members {
            of[host.index()].push(n);
        }
    }
    Ok(of)
}

/// Whether a NIC could be this, which `at` says.
fn check_nic(experiment: &Experiment, nic: &Nic, at: &str) -> Result<(), Invalid> {
    let known = nic.check(experiment.network.common.mtu);
    known.map_err(|(key, why)| Invalid::new(format!("{at}.nic.{key}"), why))
}

/// Gives hosts the NICs and processors of their groups.
fn set_nics(
    experiment: &Experiment,
    graph: &mut Graph,
    of_group: &[Vec<usize>],
) -> Result<(), Invalid> {
    for (host, groups) in of_group.iter().enumerate() {
        let (mut nic, mut cpu) = (experiment.host.nic, experiment.host.cpu);
        let (mut queue, mut overhead, mut at) = (false, false, None);
        for &group in groups {
            let group = &experiment.groups[group];
            for (key, value) in group.settings.iter() {
                // Each was tried when it was set.
                if let Some(key) = key.strip_prefix("nic.") {
                    let _ = nic.set(key, value);
                    queue |= key == "tx_queue";
                    overhead |= key == "overhead";
                } else if let Some(key) = key.strip_prefix("cpu.") {
                    let _ = cpu.set(key, value);
                } else {
                    continue;
                }
                at = Some(&group.name);
            }
        }
        let Some(at) = at else { continue };
        check_nic(experiment, &nic, &format!("group.{at}"))?;
        if let Some(is) = graph.nic_mut(HostId(host as u32)) {
            // A link may have given it another queue.
            let spec = nic.spec(&cpu, experiment.network.common.mtu);
            *is = NicSpec {
                capacity: if queue { spec.capacity } else { is.capacity },
                overhead: if overhead { spec.overhead } else { is.overhead },
                in_service: is.in_service,
                ..spec
            };
        }
    }
    Ok(())
}

/// TCP configurations, each made once.
struct Configs<'a> {
    experiment: &'a Experiment,
    registry: &'a Registry,
    made: OrderedMap<WhoseTcp, Tcp>,
}

/// The TCP of some connections.
#[derive(Clone)]
struct Tcp {
    config: Arc<TcpConfig>,
    /// How long its host remembers what they learn.
    remembers: Option<Duration>,
}

impl<'a> Configs<'a> {
    fn new(experiment: &'a Experiment, registry: &'a Registry) -> Self {
        Self {
            experiment,
            registry,
            made: OrderedMap::new(),
        }
    }

    /// The TCP of a host of these groups, for connections of a traffic.
    fn of(&mut self, groups: &[usize], traffic: Option<usize>) -> Result<Tcp, Invalid> {
        // Traffics without words about TCP have that of the host.
        let traffic = traffic.filter(|n| !self.experiment.traffic[*n].tcp.is_empty());
        let key = (groups.to_vec(), traffic);
        if let Some(made) = self.made.get(&key) {
            return Ok(made.clone());
        }
        let (mut spec, at) = self.spec(groups, traffic);
        let common = &self.experiment.network.common;
        if common.ip == Family::Ipv6 && spec.mss.is_none() {
            spec.mss = Some(common.mtu.saturating_sub(IPV6_TCP_HEADERS));
        }
        let made = Tcp {
            config: self.config(&spec).map_err(|e| invalid(&at, e))?,
            remembers: spec.metrics_cache,
        };
        self.made.insert(key, made.clone());
        Ok(made)
    }

    /// The words about it, and the key of the last that had any.
    fn spec(&self, groups: &[usize], traffic: Option<usize>) -> (TcpSpec, String) {
        let mut spec = self.experiment.host.tcp.clone();
        let mut at = "host.tcp".to_owned();
        for &group in groups {
            let group = &self.experiment.groups[group];
            self.put(
                &mut spec,
                group
                    .settings
                    .iter()
                    .filter_map(|(key, value)| Some((key.strip_prefix("tcp.")?, value))),
            );
            at = format!("group.{}.tcp", group.name);
        }
        if let Some(traffic) = traffic.map(|n| &self.experiment.traffic[n]) {
            let own: &Settings = &traffic.tcp;
            self.put(&mut spec, own.iter());
            at = format!("traffic.{}.tcp", traffic.name);
        }
        (spec, at)
    }

    fn put<'s>(&self, spec: &mut TcpSpec, settings: impl Iterator<Item = (&'s str, &'s str)>) {
        for (key, value) in settings {
            // Each was tried when it was set.
            let _ = self.registry.set_tcp(spec, key, value);
        }
    }

    fn config(&self, spec: &TcpSpec) -> Result<Arc<TcpConfig>, ScenarioError> {
        let mtu = self.experiment.network.common.mtu;
        check_tcp(spec, mtu)?;
        let mut config = tcp::config(spec, mtu, self.registry)?;
        // What fits the receive window must fit the scoreboard, too.
        let segments = config.buffers.recv / usize::from(config.mss).max(1);
        config.buffers.max_outstanding_segments =
            config.buffers.max_outstanding_segments.max(segments);
        Ok(Arc::new(config))
    }
}

/// What is said of options, of keys.
fn in_keys(text: &str) -> String {
    let keys = [
        ("--ecn-threshold", "network.queue.threshold"),
        ("--ecn", "ecn"),
        ("--loss", "loss_detection"),
        ("--sack", "sack"),
        ("--cc", "congestion"),
        ("--mtu", "network.mtu"),
    ];
    let mut text = text.to_owned();
    for (option, key) in keys {
        text = text.replace(option, key);
    }
    text
}

/// An error about an option of the scenarios as one about a key.
fn invalid(at: &str, e: ScenarioError) -> Invalid {
    let key = |option: &str| match option {
        "cc" => "congestion".to_owned(),
        "loss" => "loss_detection".to_owned(),
        "rwnd" => "receive_window".to_owned(),
        "tick" => "timer_tick".to_owned(),
        other => other.replace('-', "_"),
    };
    match e {
        ScenarioError::Invalid {
            option,
            given,
            allowed,
        } => Invalid::new(
            format!("{at}.{}", key(option)),
            format!(
                "{given} is not possible: {allowed}",
                given = in_keys(&given),
                allowed = in_keys(&allowed)
            ),
        ),
        ScenarioError::UnknownName { option, given } => Invalid::new(
            format!("{at}.{}", key(option)),
            format!("nothing is called '{given}'; see `narrows list`"),
        ),
        other => Invalid::new(at, other.to_string()),
    }
}

//! Labs that one program makes for itself, and what only they have: shaped ports, and more hosts
//! of the kernel.
//!
//! Such a lab says so on its switch, and its maker holds a socket there. Where the socket is gone
//! so is the maker, and what is left is anybody's to remove.

use super::super::shaper::{QueueStats, RouteRules, Shape};
use super::{
    Found, HOST, KERNEL, KERNEL_INTERFACE, Lab, MTU, PORT, SWITCH, build, check_name, check_tun,
    find, lock, networks, remove, within,
};
use crate::LiveError;
use crate::meter::Interface;
use crate::netlink::{Netlink, offload};
use crate::netns::{self, Namespace};
use narrows::device::marking::EcnStep;
use narrows::interface::Cidr;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// What the names of labs begin with that were given none.
pub const OWNED_PREFIX: &str = "narrows-run-";

const REMARK: &str = "narrows live: of one program";
/// An address of the switch's namespace only.
const CLAIM: &[u8] = b"narrows live: owner";
const SENDER: &str = "sender";

/// A lab of this program alone, which goes with this.
#[derive(Debug)]
pub struct Owned {
    lab: Lab,
    /// Says that the lab's maker lives.
    _claim: UnixListener,
}

/// A port of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// To the kernel's host.
    Kernel,
    /// To a host of ours.
    Host(u8),
    /// To a further host of the kernel's.
    Further(u8),
}

impl Port {
    fn interface(self) -> String {
        match self {
            Self::Kernel => PORT.to_owned(),
            Self::Host(n) => format!("{HOST}{n}"),
            Self::Further(n) => format!("{SENDER}{n}"),
        }
    }
}

/// A further host of the kernel's, which goes with this.
#[derive(Debug)]
pub(crate) struct KernelHost {
    pub(crate) namespace: Namespace,
}

impl Owned {
    /// Make the lab `name`.
    ///
    /// # Errors
    /// [`LiveError::Taken`] if there is one whose maker lives, or that was made to stay; and
    /// others.
    pub fn new(name: &str, mtu: Option<u32>) -> Result<Self, LiveError> {
        check_name(name)?;
        check_tun()?;
        let _lock = lock()?;
        match find(name)? {
            Found::Whole(_) => return Err(LiveError::Taken(name.to_owned())),
            Found::Remains => remove(name)?,
            Found::Nothing => {}
        }
        let lab = build(name, mtu.unwrap_or(MTU))?;
        let claim = claim(&lab.switch);
        let claim = claim.map_err(|e| LiveError::io("claim the lab", e))?;
        within(&lab.switch, "mark the switch", |netlink| {
            let bridge = netlink.link(SWITCH)?.index;
            netlink.set_alias(bridge, REMARK)
        })?;
        lab.publish()?;
        Ok(Self { lab, _claim: claim })
    }

    /// Make a lab for one run, with a name that nobody else has. What runs have left that are gone is
    /// removed.
    ///
    /// # Errors
    /// See [`LiveError`].
    pub fn for_run() -> Result<Self, LiveError> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        sweep()?;
        let nth = MADE.fetch_add(1, Ordering::Relaxed);
        Self::new(&format!("{OWNED_PREFIX}{}-{nth}", std::process::id()), None)
    }

    /// The lab.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The namespace of the kernel's host.
    pub(crate) fn kernel(&self) -> &Namespace {
        &self.lab.kernel
    }

    /// Make `port` of the switch a small one. What it has seen can be asked from then on.
    pub(crate) fn shape(&self, port: Port, shape: &Shape) -> Result<Watch, LiveError> {
        let doing = || format!("shape the port {}", port.interface());
        let watch = self.lab.switch.run(|| {
            let mut netlink = Netlink::open()?;
            let index = netlink.link(&port.interface())?.index;
            netlink.shape(index, shape)?;
            let marking = shape.mark_above.map(|above| EcnStep::attach(index, above));
            Ok((netlink, index, marking.transpose()))
        });
        let (netlink, index, marking) = watch
            .and_then(|w| w)
            .map_err(|e| LiveError::shaper(doing(), e))?;
        Ok(Watch {
            netlink,
            index,
            marking: marking.map_err(LiveError::marking)?,
        })
    }

    /// The counters of `port`, as the switch has them.
    pub(crate) fn interface(&self, port: Port) -> io::Result<Interface> {
        Interface::within(&self.lab.switch, &port.interface())
    }

    /// Cut super-frames into segments before they leave `port` of the switch.
    pub(crate) fn cut(&self, port: Port) -> Result<(), LiveError> {
        let doing = || format!("cut super-frames at the port {}", port.interface());
        let cut = || {
            let index = Netlink::open()?.link(&port.interface())?.index;
            let switch = |name: &&str| offload::switch(index, name, false);
            offload::TSO.iter().try_for_each(switch)
        };
        let cut = self.lab.switch.run(cut).and_then(|cut| cut);
        cut.map_err(|e| LiveError::io(doing(), e))
    }

    /// Let the kernel's host treat TCP to our hosts otherwise.
    pub(crate) fn set_rules(&self, rules: RouteRules) -> Result<(), LiveError> {
        within(&self.lab.kernel, "change a route", |netlink| {
            let own = netlink.link(KERNEL_INTERFACE)?.index;
            set_rules(netlink, own, KERNEL, rules)
        })
    }

    /// Add a host of the kernel's with the number `number`, whose link carries what `shape` says.
    pub(crate) fn add_kernel_host(
        &self,
        number: u8,
        shape: &Shape,
        rules: RouteRules,
    ) -> Result<KernelHost, LiveError> {
        let doing = "make a host of the kernel's";
        let namespace = Namespace::new().map_err(|e| LiveError::io(doing, e))?;
        let (switch, mtu) = (&self.lab.switch, self.lab.mtu);
        let port = format!("{SENDER}{number}");
        within(&namespace, doing, |netlink| {
            let lo = netlink.link("lo")?.index;
            netlink.set_up(lo)?;
            netlink.add_veth(KERNEL_INTERFACE, &port, switch.as_fd(), mtu)?;
            let own = netlink.link(KERNEL_INTERFACE)?.index;
            netlink.set_up(own)?;
            for network in ipv4(number) {
                netlink.add_address(own, network.addr(), network.prefix())?;
            }
            set_rules(netlink, own, number, rules)
        })?;
        within(&namespace, "shape a link", |netlink| {
            let own = netlink.link(KERNEL_INTERFACE)?.index;
            netlink.shape(own, shape)
        })
        .map_err(|e| match e {
            LiveError::Io { doing, source } => LiveError::shaper(doing, source),
            other => other,
        })?;
        within(switch, "connect a host of the kernel's", |netlink| {
            let bridge = netlink.link(SWITCH)?.index;
            let port = netlink.link(&port)?.index;
            netlink.set_port_of(port, bridge)
        })?;
        Ok(KernelHost { namespace })
    }
}

impl KernelHost {
    /// Cut super-frames into segments before they leave it.
    pub(crate) fn cut(&self) -> io::Result<()> {
        self.namespace.run(|| {
            let own = Netlink::open()?.link(KERNEL_INTERFACE)?.index;
            let switch = |name: &&str| offload::switch(own, name, false);
            offload::TSO.iter().try_for_each(switch)
        })?
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // What cannot be removed now is reclaimed by the next.
        let _ = Lab::down(&self.lab.name);
    }
}

impl Drop for KernelHost {
    fn drop(&mut self) {
        // Its namespace goes when the kernel finds the time; the next host may want the name.
        let _ = within(&self.namespace, "remove a host", |netlink| {
            let own = netlink.link(KERNEL_INTERFACE)?.index;
            netlink.remove(own)
        });
    }
}

/// Asks what a shaped port has seen.
#[derive(Debug)]
pub(crate) struct Watch {
    netlink: Netlink,
    index: u32,
    marking: Option<EcnStep>,
}

impl Watch {
    pub(crate) fn look(&mut self) -> io::Result<QueueStats> {
        let marks = self.marking.as_ref().map(EcnStep::marks).transpose()?;
        Ok(QueueStats {
            marks: marks.unwrap_or_default(),
            ..self.netlink.queue_stats(self.index)?
        })
    }
}

/// Remove the labs without a name of their own whose makers are gone; which.
///
/// # Errors
/// See [`LiveError`].
pub fn sweep() -> Result<Vec<String>, LiveError> {
    if !fs::exists(netns::FOLDER).unwrap_or(false) {
        return Ok(Vec::new());
    }
    let _lock = lock()?;
    let doing = || format!("read {}", netns::FOLDER);
    let entries = fs::read_dir(netns::FOLDER).map_err(|e| LiveError::io(doing(), e))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(OWNED_PREFIX))
        .map(|name| name.strip_suffix("-switch").unwrap_or(&name).to_owned())
        .collect();
    names.sort_unstable();
    names.dedup();
    let mut removed = Vec::new();
    for name in names {
        if matches!(find(&name), Ok(Found::Remains)) {
            remove(&name)?;
            removed.push(name);
        }
    }
    Ok(removed)
}

/// Whether the lab of `switch` was of one program that is gone.
pub(super) fn is_orphan((switch, links): &(Namespace, Vec<super::Link>)) -> bool {
    let marked = |link: &super::Link| link.alias.as_deref() == Some(REMARK);
    links.iter().any(marked) && claim(switch).is_ok()
}

fn claim(switch: &Namespace) -> io::Result<UnixListener> {
    switch.run(|| UnixListener::bind_addr(&SocketAddr::from_abstract_name(CLAIM)?))?
}

fn ipv4(number: u8) -> impl Iterator<Item = Cidr> {
    networks(number).into_iter().filter(|n| n.addr().is_ipv4())
}

fn set_rules(netlink: &mut Netlink, own: u32, number: u8, rules: RouteRules) -> io::Result<()> {
    for network in ipv4(number) {
        let (IpAddr::V4(addr), prefix) = (network.addr(), network.prefix()) else {
            continue;
        };
        let mask = u32::MAX << (32 - u32::from(prefix.clamp(1, 32)));
        let to = (Ipv4Addr::from_bits(addr.to_bits() & mask), prefix);
        netlink.set_route_rules(own, to, addr, rules)?;
    }
    Ok(())
}

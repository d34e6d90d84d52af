//! The lab: a host of the kernel and places for hosts of ours, around a switch.
//!
//! ```text
//!   namespace NAME             namespace NAME-switch
//!   eth0 10.77.0.254/24  <-->  kernel -- switch (bridge) -- host1, host2, ... (TAP, or veth)
//!        fd77::fe/64                                        10.77.0.1, fd77::1 ...
//! ```
//!
//! The TAP of one of our hosts belongs to the program that runs it, and so does the namespace in
//! which its veth ends; they are gone with it however it ends. The namespaces get their names last and lose them first: what is interrupted before has
//! left nothing, and what has a name can be recognised as ours by a remark on its `lo`. So no file
//! has to say what was made.

mod owned;
mod plug;

pub(super) use owned::{KernelHost, Port, Watch};
pub use owned::{OWNED_PREFIX, Owned, sweep};
pub use plug::{Cable, Plug, Plugged};

use super::LiveError;
use super::netlink::{Link, LinkKind, Netlink};
use super::netns::{self, Named, Namespace};
use narrows::ByteCount;
use narrows::interface::Cidr;
use narrows::wire::ethernet::MacAddr;
use nix::errno::Errno;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The numbers that hosts of ours can have.
pub const HOSTS: RangeInclusive<u8> = 1..=250;
/// The number of the kernel's host.
pub const KERNEL: u8 = 254;
/// The MTU of a lab that is not told otherwise.
pub const MTU: u32 = 1500;
/// A full frame there.
pub(crate) const FRAME: ByteCount = frame(MTU);

const SWITCH: &str = "switch";
const PORT: &str = "kernel";
pub(super) const KERNEL_INTERFACE: &str = "eth0";
const HOST: &str = "host";

/// A full frame on links with an MTU, as the kernel counts it: with Ethernet's header, and without its
/// check sequence.
pub(crate) const fn frame(mtu: u32) -> ByteCount {
    ByteCount::new(mtu as u64 + 14)
}

/// The addresses of a host, IPv4 and IPv6.
pub fn addresses(host: u8) -> [IpAddr; 2] {
    [
        Ipv4Addr::new(10, 77, 0, host).into(),
        Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host.into()).into(),
    ]
}

/// The same with the lengths of their networks' prefixes.
pub fn networks(host: u8) -> Vec<Cidr> {
    let with = |addr: IpAddr| Cidr::new(addr, if addr.is_ipv4() { 24 } else { 64 });
    addresses(host).into_iter().flat_map(with).collect()
}

/// The hardware address of a host of ours.
pub fn mac(host: u8) -> MacAddr {
    MacAddr([2, 0x77, 0, 0, 0, host])
}

/// A lab that is up.
#[derive(Debug)]
pub struct Lab {
    name: String,
    kernel: Namespace,
    switch: Namespace,
    mtu: u32,
}

/// What [`Lab::up`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Up {
    /// Made the lab.
    Created,
    /// Nothing: it was up.
    Already,
    /// Removed what was left of it, and made it.
    Reclaimed,
}

/// What [`Lab::down`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Down {
    /// Removed the lab.
    Removed,
    /// Nothing: there was none.
    NotThere,
}

/// What is going on in a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The MTU of its links.
    pub mtu: u32,
    /// Hosts of ours.
    pub hosts: Vec<u8>,
    /// Processes of the kernel's host.
    pub processes: Vec<u32>,
}

/// What is there of a lab.
#[derive(Debug)]
enum Found {
    Nothing,
    /// What an interruption or somebody's hand left.
    Remains,
    Whole(Lab),
}

/// Whether labs can be made here.
///
/// # Errors
/// What is missing, or not permitted.
pub fn check() -> Result<(), LiveError> {
    check_tun()?;
    check_kernels()
}

/// Whether hosts of ours can have TAPs here.
fn check_tun() -> Result<(), LiveError> {
    match fs::exists("/dev/net/tun") {
        Ok(true) => Ok(()),
        _ => Err(LiveError::NoTun),
    }
}

/// Whether hosts of the kernel's can be made here, which is all that some measurements take.
///
/// # Errors
/// It is not permitted.
pub fn check_kernels() -> Result<(), LiveError> {
    let made = Namespace::new().map(drop);
    made.map_err(|e| LiveError::io("make a network namespace", e))
}

impl Lab {
    /// Make the lab `name` if it is not up. `mtu`: the one it must have.
    ///
    /// # Errors
    /// See [`LiveError`]. What was made until then is gone.
    pub fn up(name: &str, mtu: Option<u32>) -> Result<(Self, Up), LiveError> {
        check_name(name)?;
        check_tun()?;
        let _lock = lock()?;
        let done = match find(name)? {
            Found::Whole(lab) => {
                return match mtu {
                    Some(mtu) if mtu != lab.mtu => Err(LiveError::OtherMtu {
                        lab: lab.name,
                        mtu: lab.mtu,
                    }),
                    _ => Ok((lab, Up::Already)),
                };
            }
            Found::Remains => {
                remove(name)?;
                Up::Reclaimed
            }
            Found::Nothing => Up::Created,
        };
        Ok((make(name, mtu.unwrap_or(MTU))?, done))
    }

    /// The lab `name`, which is up.
    ///
    /// # Errors
    /// See [`LiveError`].
    pub fn find(name: &str) -> Result<Self, LiveError> {
        check_name(name)?;
        if !fs::exists(netns::FOLDER).unwrap_or(false) {
            return Err(LiveError::NoLab(name.to_owned()));
        }
        match find(name)? {
            Found::Whole(lab) => Ok(lab),
            Found::Nothing | Found::Remains => Err(LiveError::NoLab(name.to_owned())),
        }
    }

    /// Remove the lab `name`, or what is left of it.
    ///
    /// # Errors
    /// See [`LiveError`]. What narrows has not made is not touched.
    pub fn down(name: &str) -> Result<Down, LiveError> {
        check_name(name)?;
        if !fs::exists(netns::FOLDER).unwrap_or(false) {
            return Ok(Down::NotThere);
        }
        let _lock = lock()?;
        match find(name)? {
            Found::Nothing => Ok(Down::NotThere),
            Found::Remains | Found::Whole(_) => remove(name).map(|()| Down::Removed),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The MTU of its links.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// What is going on in it.
    ///
    /// # Errors
    /// See [`LiveError`].
    pub fn status(&self) -> Result<Status, LiveError> {
        let links = within(&self.switch, "look at the switch", Netlink::links)?;
        let mut hosts: Vec<u8> = links
            .iter()
            .filter_map(|link| link.name.strip_prefix(HOST)?.parse().ok())
            .collect();
        hosts.sort_unstable();
        let processes = self.kernel.processes();
        Ok(Status {
            mtu: self.mtu,
            hosts,
            processes: processes.map_err(|e| LiveError::io("look for processes", e))?,
        })
    }

    /// Become a program on the kernel's host: the process is this one, so that whoever waits for
    /// it or ends it has the program itself. Comes back only when it cannot be started.
    pub fn become_program(&self, command: &[OsString]) -> LiveError {
        let Some((program, arguments)) = command.split_first() else {
            return LiveError::Invalid("no program was named".to_owned());
        };
        let failed = self
            .kernel
            .run(|| Command::new(program).args(arguments).exec());
        LiveError::Io {
            doing: format!("start {}", program.display()),
            source: failed.unwrap_or_else(|e| e),
        }
    }

    /// Give the namespaces their names, which are free.
    fn publish(&self) -> Result<(), LiveError> {
        let publish = |namespace: &Namespace, name: &str| {
            let at = netns::path(name);
            let doing = || format!("mount {}", at.display());
            namespace
                .publish(name)
                .map_err(|e| LiveError::io(doing(), e))
        };
        let other = switch_name(&self.name);
        publish(&self.switch, &other)?;
        publish(&self.kernel, &self.name).inspect_err(|_| {
            let _ = netns::remove(&other);
        })
    }

    /// Whether nobody uses it.
    fn is_idle(&self) -> Result<bool, LiveError> {
        let status = self.status()?;
        Ok(status.hosts.is_empty() && status.processes.is_empty())
    }
}

/// A lab for as long as this is there: one that had to be made for it goes with it, unless others
/// use it by then.
#[derive(Debug)]
pub struct Borrowed {
    lab: Lab,
    up: Up,
}

impl Borrowed {
    /// The lab `name`, made if it is not up.
    ///
    /// # Errors
    /// As [`Lab::up`].
    pub fn new(name: &str, mtu: Option<u32>) -> Result<Self, LiveError> {
        let (lab, up) = Lab::up(name, mtu)?;
        Ok(Self { lab, up })
    }

    /// The lab.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Whether it had to be made.
    pub fn up(&self) -> Up {
        self.up
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // What cannot be removed now is reclaimed by the next.
        if self.up != Up::Already && self.lab.is_idle().unwrap_or(false) {
            let _ = Lab::down(&self.lab.name);
        }
    }
}

fn check_name(name: &str) -> Result<(), LiveError> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let first = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    match first && name.len() <= 32 && name.chars().all(good) {
        true => Ok(()),
        false => Err(LiveError::BadName(name.to_owned())),
    }
}

fn switch_name(name: &str) -> String {
    format!("{name}-switch")
}

/// The remark by which a namespace is recognised.
fn mark(namespace: &str) -> String {
    format!("narrows live: {namespace}")
}

fn lock() -> Result<fs::File, LiveError> {
    netns::lock_names().map_err(|e| LiveError::io(format!("write to {}", netns::FOLDER), e))
}

/// Speak to the kernel in a namespace.
fn within<R: Send>(
    namespace: &Namespace,
    doing: &str,
    f: impl FnOnce(&mut Netlink) -> io::Result<R> + Send,
) -> Result<R, LiveError> {
    let result = namespace.run(|| f(&mut Netlink::open()?));
    result.and_then(|r| r).map_err(|e| LiveError::io(doing, e))
}

/// The namespace `name`, if it is there, and its interfaces. It must be ours.
fn open_own(name: &str) -> Result<Result<(Namespace, Vec<Link>), Found>, LiveError> {
    let at = || format!("look at {}", netns::path(name).display());
    match netns::look(name).map_err(|e| LiveError::io(at(), e))? {
        Named::Nothing => Ok(Err(Found::Nothing)),
        Named::EmptyFile => Ok(Err(Found::Remains)),
        Named::Other => Err(LiveError::Foreign(netns::path(name))),
        Named::Namespace(namespace) => {
            let links = within(&namespace, &at(), Netlink::links)?;
            let marked = |l: &Link| l.name == "lo" && l.alias.as_deref() == Some(&mark(name));
            match links.iter().any(marked) {
                true => Ok(Ok((namespace, links))),
                false => Err(LiveError::Foreign(netns::path(name))),
            }
        }
    }
}

fn find(name: &str) -> Result<Found, LiveError> {
    let kernel = open_own(name)?;
    let switch = open_own(&switch_name(name))?;
    let (kernel, switch) = match (kernel, switch) {
        (Ok(kernel), Ok(switch)) => (kernel, switch),
        (Err(Found::Nothing), Err(Found::Nothing)) => return Ok(Found::Nothing),
        _ => return Ok(Found::Remains),
    };
    let has = |links: &[Link], name, kind: LinkKind| {
        links
            .iter()
            .find(|l| l.name == name && l.kind == kind)
            .map(|l| l.mtu)
    };
    let mtu = has(&kernel.1, KERNEL_INTERFACE, LinkKind::Veth);
    let bridge = has(&switch.1, SWITCH, LinkKind::Bridge);
    let port = has(&switch.1, PORT, LinkKind::Veth);
    match (mtu, bridge, port) {
        // Whoever made it for himself is gone.
        _ if owned::is_orphan(&switch) => Ok(Found::Remains),
        (Some(mtu), Some(_), Some(_)) => Ok(Found::Whole(Lab {
            name: name.to_owned(),
            kernel: kernel.0,
            switch: switch.0,
            mtu,
        })),
        _ => Ok(Found::Remains),
    }
}

/// Remove what is ours under the names of the lab.
fn remove(name: &str) -> Result<(), LiveError> {
    for name in [switch_name(name), name.to_owned()] {
        let links = match open_own(&name)? {
            Ok(it) => Some(it),
            Err(Found::Remains) => None,
            Err(_) => continue,
        };
        // Those who still are in it see their interfaces go.
        if let Some((namespace, links)) = links {
            let doing = format!("remove the interfaces of {name}");
            within(&namespace, &doing, |netlink| {
                for link in links.iter().filter(|l| l.name != "lo") {
                    match netlink.remove(link.index) {
                        // The other end of a pair is gone, or a program has just ended.
                        Err(e) if e.raw_os_error() == Some(Errno::ENODEV as i32) => {}
                        other => other?,
                    }
                }
                Ok(())
            })?;
        }
        let doing = || format!("remove {}", netns::path(&name).display());
        netns::remove(&name).map_err(|e| LiveError::io(doing(), e))?;
    }
    Ok(())
}

fn make(name: &str, mtu: u32) -> Result<Lab, LiveError> {
    let lab = build(name, mtu)?;
    lab.publish()?;
    Ok(lab)
}

/// A lab without names: gone with what is returned.
fn build(name: &str, mtu: u32) -> Result<Lab, LiveError> {
    let new = || Namespace::new().map_err(|e| LiveError::io("make a network namespace", e));
    let (kernel, switch) = (new()?, new()?);
    let other = switch_name(name);
    within(&switch, "make the switch", |netlink| {
        let lo = netlink.link("lo")?.index;
        netlink.set_alias(lo, &mark(&other))?;
        // A switch has no address to speak with. Where /proc/sys cannot be written, it has.
        let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        netlink.add_bridge(SWITCH, mtu)?;
        let bridge = netlink.link(SWITCH)?.index;
        netlink.set_up(bridge)
    })?;
    within(&kernel, "make the kernel's host", |netlink| {
        let lo = netlink.link("lo")?.index;
        netlink.set_alias(lo, &mark(name))?;
        netlink.set_up(lo)?;
        netlink.add_veth(KERNEL_INTERFACE, PORT, switch.as_fd(), mtu)?;
        let own = netlink.link(KERNEL_INTERFACE)?.index;
        netlink.set_up(own)?;
        for network in networks(KERNEL) {
            match netlink.add_address(own, network.addr(), network.prefix()) {
                // A kernel without IPv6 is good for the rest.
                Err(_) if network.addr().is_ipv6() => {}
                other => other?,
            }
        }
        Ok(())
    })?;
    within(&switch, "connect the kernel's host", |netlink| {
        let bridge = netlink.link(SWITCH)?.index;
        let port = netlink.link(PORT)?.index;
        netlink.set_port_of(port, bridge)
    })?;
    Ok(Lab {
        name: name.to_owned(),
        kernel,
        switch,
        mtu,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_can_be_files_and_nothing_else() {
        for name in ["narrows", "a", "0", "a-b_c", &"x".repeat(32)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "a/b", "-a", "a b", "\u{e4}", &"x".repeat(33)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn hosts_are_in_one_network() {
        for host in [*HOSTS.start(), *HOSTS.end(), KERNEL] {
            let networks = networks(host);
            assert_eq!(networks.len(), 2);
            for (own, of_kernel) in networks.iter().zip(addresses(KERNEL)) {
                assert!(own.contains(of_kernel));
            }
        }
        assert!(!HOSTS.contains(&KERNEL));
    }
}

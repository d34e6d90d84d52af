//! Network namespaces without names, which go with their last user however it ends, and what is in
//! them: made with `ip` and `ethtool`.

use narrows::device::Device;
use narrows::device::tap::{Tap, TapConfig};
use narrows::device::xdp::{Attach, AttachMode, Xdp, XdpConfig};
use narrows::interface::{Cidr, InterfaceConfig};
use narrows::wire::ethernet::MacAddr;
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, setns, unshare};
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// The kernel's end.
pub(crate) const KERNEL: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 9));
/// The other end: ours, smoltcp's, the toy's, or a second kernel's.
pub(crate) const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
/// Its hardware address.
pub(crate) const MAC: MacAddr = MacAddr([2, 0x77, 0, 0, 0, 1]);
/// Frames that a TAP keeps for us: more than any window here.
const QUEUE: u32 = 10_000;

/// The thread at our end.
pub(crate) const OUR_THREAD: &str = "our-side";
/// The kernel's user at the other end.
pub(crate) const KERNEL_THREAD: &str = "kernel-side";

/// A network namespace.
#[derive(Clone, Debug)]
pub(crate) struct Net(Arc<File>);

impl Net {
    /// A new one, whose kernel uses `congestion`.
    pub(crate) fn new(congestion: &str) -> io::Result<Self> {
        let made = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let net = Self(Arc::new(made.join().expect("it does not panic")?));
        let set = congestion.to_owned();
        net.run(move || {
            std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", set)?;
            ip("link set lo up")
        })?;
        Ok(net)
    }

    /// The calling thread is in it from now on, and those that it starts.
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(setns(&*self.0, CloneFlags::CLONE_NEWNET)?)
    }

    /// Run `f` in it.
    pub(crate) fn run<R: Send + 'static>(
        &self,
        f: impl FnOnce() -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        self.spawn("lab", f).join().expect("it does not panic")
    }

    /// Run `f` in it, on a thread called `name` that keeps to `core`.
    pub(crate) fn spawn_at<R: Send + 'static>(
        &self,
        name: &str,
        core: Option<usize>,
        f: impl FnOnce() -> io::Result<R> + Send + 'static,
    ) -> JoinHandle<io::Result<R>> {
        self.spawn(name, move || {
            if let Some(core) = core {
                let mut cores = CpuSet::new();
                cores.set(core)?;
                sched_setaffinity(Pid::from_raw(0), &cores)?;
            }
            f()
        })
    }

    /// Run `f` in it, on a thread called `name`.
    pub(crate) fn spawn<R: Send + 'static>(
        &self,
        name: &str,
        f: impl FnOnce() -> io::Result<R> + Send + 'static,
    ) -> JoinHandle<io::Result<R>> {
        let net = self.clone();
        let thread = thread::Builder::new().name(name.to_owned());
        let run = move || net.enter().and_then(|()| f());
        thread.spawn(run).expect("there are threads")
    }
}

fn command(program: &str, args: &str) -> io::Result<()> {
    let output = Command::new(program)
        .args(args.split(' '))
        .output()
        .map_err(|e| io::Error::new(e.kind(), format!("{program}: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program} {args}: {said}")))
}

fn ip(args: &str) -> io::Result<()> {
    command("ip", args)
}

/// What carries the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// TAP with checksum and segmentation offload.
    TapOffload,
    /// TAP, a frame for every segment.
    TapPlain,
    /// AF_XDP on a veth, native or SKB mode.
    Xdp(AttachMode),
    /// Two kernels over a veth.
    Veth,
    /// The same without offloads.
    VethPlain,
}

impl Path {
    /// In tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TapOffload => "TAP, offload",
            Self::TapPlain => "TAP, plain",
            Self::Xdp(AttachMode::Native) => "AF_XDP, native",
            Self::Xdp(AttachMode::Skb) => "AF_XDP, SKB",
            Self::Veth => "veth, offload",
            Self::VethPlain => "veth, plain",
        }
    }
}

/// A TAP to the kernel of `net`; the interface is there when this returns.
pub(crate) fn tap(net: &Net, name: &'static str, offload: bool) -> io::Result<Tap> {
    net.run(move || {
        let config = TapConfig {
            offload,
            queue: Some(QUEUE),
            mtu: Some(1500),
            ..TapConfig::default()
        };
        let tap = Tap::open(name, &config)?;
        address(name)?;
        Ok(tap)
    })
}

/// Give the kernel its address, and ours.
fn address(name: &str) -> io::Result<()> {
    ip(&format!("addr add {KERNEL}/24 dev {name}"))?;
    // The toy speaks no ARP.
    ip(&format!(
        "neigh add {OTHER} lladdr {MAC} dev {name} nud permanent"
    ))
}

/// Bring up a TAP that somebody else made in the namespace of this thread.
pub(crate) fn adopt(name: &str) -> io::Result<()> {
    ip(&format!("link set {name} up mtu 1500 txqueuelen {QUEUE}"))?;
    address(name)
}

/// A cable whose one end is free.
fn cable(net: &Net) -> io::Result<()> {
    net.run(|| {
        ip("link add nwx0 mtu 1500 type veth peer name nwx1 mtu 1500")?;
        ip("link set nwx0 up")?;
        ip("link set nwx1 up")?;
        Ok(())
    })
}

/// AF_XDP at the end of a cable to the kernel of `net`.
fn xdp(net: &Net, mode: AttachMode) -> io::Result<Xdp> {
    cable(net)?;
    net.run(move || {
        address("nwx1")?;
        if mode == AttachMode::Skb {
            command("ethtool", "-K nwx1 tso off gso off")?;
        }
        let config = XdpConfig {
            attach: Attach::As(mode),
            ..XdpConfig::default()
        };
        Xdp::open("nwx0", &config).map_err(io::Error::other)
    })
}

/// A device to the kernel of a new namespace.
pub(crate) fn device(path: Path, congestion: &str) -> io::Result<(Net, Box<dyn Device>)> {
    let net = Net::new(congestion)?;
    let device: Box<dyn Device> = match path {
        Path::TapOffload => Box::new(tap(&net, "nw0", true)?),
        Path::TapPlain => Box::new(tap(&net, "nw0", false)?),
        Path::Xdp(mode) => Box::new(xdp(&net, mode)?),
        Path::Veth | Path::VethPlain => {
            return Err(io::Error::other("between two kernels there is no device"));
        }
    };
    Ok((net, device))
}

/// Two kernels and a cable.
pub(crate) fn veth(plain: bool, congestion: &str) -> io::Result<[Net; 2]> {
    let (one, two) = (Net::new(congestion)?, Net::new(congestion)?);
    cable(&one)?;
    one.run(|| ip(&format!("addr add {KERNEL}/24 dev nwx1")))?;
    // `ip` moves an interface to the namespace of a process, or of a thread that waits.
    let (say, said) = std::sync::mpsc::channel();
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let there = two.spawn("lab", move || {
        let link = std::fs::read_link("/proc/thread-self")?;
        let id = link.file_name().map(|n| n.to_string_lossy().into_owned());
        let _ = say.send(id.unwrap_or_default());
        let _ = wait.recv();
        ip("link set nwx0 up")?;
        ip(&format!("addr add {OTHER}/24 dev nwx0"))?;
        if plain {
            command("ethtool", "-K nwx0 tso off gso off gro off tx off")?;
        }
        Ok(())
    });
    let thread = said.recv().map_err(io::Error::other)?;
    one.run(move || {
        if plain {
            command("ethtool", "-K nwx1 tso off gso off gro off tx off")?;
        }
        ip(&format!("link set nwx0 netns {thread}"))
    })?;
    drop(done);
    there.join().expect("it does not panic")?;
    Ok([one, two])
}

/// Our addresses.
pub(crate) fn interface() -> InterfaceConfig {
    let cidr = Cidr::new(OTHER, 24).expect("24 bits");
    InterfaceConfig::new(MAC, vec![cidr])
}

//! How a host of ours is connected to the switch.

use super::{HOST, KERNEL_INTERFACE, Lab, SWITCH, within};
use crate::LiveError;
use crate::netns::Namespace;
use narrows::device::Device;
use narrows::device::tap::{Tap, TapConfig};
use narrows::device::xdp::{Xdp, XdpConfig};
use nix::errno::Errno;
use std::fs;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;

/// Frames that a TAP keeps for us: a receive buffer's worth of small ones.
const QUEUE: u32 = 10_000;
/// Frames that AF_XDP keeps for us: a receive buffer's worth of full ones.
const RING: u32 = 4096;

/// How often, and after which pauses, a port's carrier is looked at: for ten seconds.
const CARRIER_LOOKS: u32 = 2_000;
const CARRIER_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

/// What a host of ours is connected with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plug {
    /// A TAP.
    Tap {
        /// Checksum and segmentation offload.
        offload: bool,
    },
    /// AF_XDP at one end of a veth.
    Xdp,
}

/// A host of ours at the switch.
pub struct Plugged {
    /// Its number.
    pub number: u8,
    /// The name of its port at the switch.
    pub port: String,
    /// Its device.
    pub device: Box<dyn Device>,
    /// What else is there for it. To be dropped after the device.
    pub cable: Cable,
}

/// Between a port of the switch and a host: nothing for a TAP, a veth for AF_XDP, whose end at the
/// host is in a namespace without a name. It is gone with the process, however that ends.
#[derive(Debug)]
pub struct Cable(Option<Namespace>);

impl Drop for Cable {
    fn drop(&mut self) {
        let Some(namespace) = &self.0 else { return };
        // The namespace goes when the kernel finds the time; the next host may want the place.
        let _ = within(namespace, "remove a host", |netlink| {
            let own = netlink.link(KERNEL_INTERFACE)?.index;
            netlink.remove(own)
        });
    }
}

impl Lab {
    /// Connect a host of ours: the first of `numbers` that is free.
    ///
    /// # Errors
    /// [`LiveError::HostTaken`] if there was only one number, and others.
    pub fn plug(&self, numbers: RangeInclusive<u8>, plug: Plug) -> Result<Plugged, LiveError> {
        let taken = match numbers.start() == numbers.end() {
            true => LiveError::HostTaken(*numbers.start()),
            false => LiveError::NoHostFree,
        };
        for number in numbers {
            let plugged = match plug {
                Plug::Tap { offload } => self.plug_tap(number, offload)?,
                Plug::Xdp => self.plug_xdp(number)?,
            };
            if let Some(plugged) = plugged {
                return Ok(plugged);
            }
        }
        Err(taken)
    }

    /// `None`: the place is taken.
    fn plug_tap(&self, number: u8, offload: bool) -> Result<Option<Plugged>, LiveError> {
        let config = TapConfig {
            mtu: Some(self.mtu as usize),
            offload,
            queue: Some(QUEUE),
            ..TapConfig::default()
        };
        let open = || Tap::open(&format!("{HOST}{number}"), &config);
        let opened = self.switch.run(open);
        let tap = match opened.map_err(|e| LiveError::io("enter the lab", e))? {
            Ok(tap) => tap,
            // Another program's TAP, or its veth.
            Err(e) if is(&e.source, &[Errno::EBUSY, Errno::EINVAL, Errno::EEXIST]) => {
                return match self.status()?.hosts.contains(&number) {
                    true => Ok(None),
                    false => Err(LiveError::Interface(e)),
                };
            }
            Err(e) => return Err(LiveError::Interface(e)),
        };
        let port = tap.name().to_owned();
        self.connect(&port)?;
        Ok(Some(Plugged {
            number,
            port,
            device: Box::new(tap),
            cable: Cable(None),
        }))
    }

    /// `None`: the place is taken.
    fn plug_xdp(&self, number: u8) -> Result<Option<Plugged>, LiveError> {
        let doing = "connect a host";
        let port = format!("{HOST}{number}");
        let namespace = Namespace::new().map_err(|e| LiveError::io(doing, e))?;
        let made = within(&namespace, doing, |netlink| {
            // The kernel has nothing to say there. Where /proc/sys cannot be written, it has.
            let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            match netlink.add_veth(KERNEL_INTERFACE, &port, self.switch.as_fd(), self.mtu) {
                Err(e) if is(&e, &[Errno::EEXIST]) => return Ok(false),
                other => other?,
            }
            let own = netlink.link(KERNEL_INTERFACE)?.index;
            netlink.set_up(own)?;
            Ok(true)
        })?;
        if !made {
            return Ok(None);
        }
        let cable = Cable(Some(namespace));
        self.connect(&port)?;
        let config = XdpConfig {
            receive_ring: RING,
            ..XdpConfig::default()
        };
        let open = || Xdp::open(KERNEL_INTERFACE, &config);
        let opened = match &cable.0 {
            Some(namespace) => namespace.run(open),
            None => return Ok(None),
        };
        let xdp = opened.map_err(|e| LiveError::io("enter the lab", e))?;
        Ok(Some(Plugged {
            number,
            port,
            device: Box::new(xdp.map_err(LiveError::Xdp)?),
            cable,
        }))
    }

    /// Make `port` one of the switch's. A bridge forwards nothing before the kernel has found out
    /// about the carrier, which it does in its own time; without the wait the questions for a
    /// neighbour are over before.
    #[allow(clippy::disallowed_methods, reason = "live, time passes by itself")]
    fn connect(&self, port: &str) -> Result<(), LiveError> {
        within(&self.switch, "connect the host", |netlink| {
            let bridge = netlink.link(SWITCH)?.index;
            let own = netlink.link(port)?.index;
            netlink.set_port_of(own, bridge)?;
            for _ in 0..CARRIER_LOOKS {
                if netlink.link(port)?.running {
                    break;
                }
                std::thread::sleep(CARRIER_PAUSE);
            }
            Ok(())
        })
    }
}

fn is(e: &std::io::Error, any: &[Errno]) -> bool {
    any.iter()
        .any(|errno| e.raw_os_error() == Some(*errno as i32))
}

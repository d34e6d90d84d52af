//! A host of ours in the lab.

use super::LiveError;
use super::capture::{self, CaptureOutcome};
use super::lab::{self, Borrowed, Cable, Plug, Plugged};
use narrows::ByteCount;
use narrows::config::TcpConfig;
use narrows::device::pcap::Captured;
use narrows::driver::tokio::{Stack, StackStats};
use narrows::driver::{RealTime, secret};
use narrows::endpoint::EndpointConfig;
use narrows::interface::InterfaceConfig;
use narrows::memory::MemoryLimit;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Which host, and how it behaves.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// The lab, which is made if it is not up.
    pub lab: String,
    /// The numbers to try, in this order.
    pub numbers: RangeInclusive<u8>,
    /// How it is connected.
    pub plug: Plug,
    /// Its TCP.
    pub tcp: TcpConfig,
    /// How much memory its connections may take together.
    pub memory: MemoryLimit,
    /// Schedule the thread that starts it in real time.
    pub real_time: Option<RealTime>,
    /// Where to write what passes its interface.
    pub capture: Option<PathBuf>,
    /// How many bytes of each frame it keeps; all if `None`.
    pub snap_length: Option<ByteCount>,
}

/// A running host. The lab goes with it if it was made for it.
#[derive(Debug)]
pub struct LiveHost {
    // Dropped in this order.
    stack: Stack,
    capture: Option<CaptureOutcome>,
    number: u8,
    _cable: Cable,
    borrowed: Borrowed,
}

impl LiveHost {
    /// Connect it to the switch and start its stack, on the runtime that runs.
    ///
    /// # Errors
    /// See [`LiveError`].
    pub fn start(config: HostConfig) -> Result<Self, LiveError> {
        if let Some(priority) = config.real_time {
            let doing = "be scheduled in real time";
            priority.apply().map_err(|e| LiveError::io(doing, e))?;
        }
        let borrowed = Borrowed::new(&config.lab, None)?;
        let capture = match &config.capture {
            None => None,
            Some(path) => {
                let doing = || format!("write the capture to {}", path.display());
                Some(capture::create(path).map_err(|e| LiveError::io(doing(), e))?)
            }
        };
        let Plugged {
            number,
            port,
            device,
            cable,
        } = borrowed.lab().plug(config.numbers, config.plug)?;
        let interface = InterfaceConfig::new(lab::mac(number), lab::networks(number));
        let failed = |e| LiveError::io("start the stack", e);
        let endpoint = EndpointConfig {
            memory: Some(config.memory),
            ..EndpointConfig::new(Arc::new(config.tcp), secret().map_err(failed)?)
        };
        let (stack, capture) = match capture {
            None => (Stack::spawn_with(device, interface, endpoint), None),
            Some((file, outcome)) => {
                let device = Captured::with_snap_length(device, &port, file, config.snap_length)
                    .map_err(failed)?;
                let stack = Stack::spawn_with(device, interface, endpoint);
                (stack, Some(outcome))
            }
        };
        Ok(Self {
            stack: stack.map_err(failed)?,
            capture,
            number,
            _cable: cable,
            borrowed,
        })
    }

    /// Its stack.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Its number.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// The lab it is in.
    pub fn borrowed(&self) -> &Borrowed {
        &self.borrowed
    }

    /// Its addresses, IPv4 first.
    pub fn addresses(&self) -> [IpAddr; 2] {
        lab::addresses(self.number)
    }

    /// `port` at each of its addresses, the link-local one among them.
    pub fn sockets(&self, port: u16) -> [SocketAddr; 3] {
        let [v4, v6] = self.addresses();
        let link_local = lab::mac(self.number).link_local().into();
        [v4, v6, link_local].map(|ip| SocketAddr::new(ip, port))
    }

    /// Let connections end, `grace` at most, and stop; what was counted.
    ///
    /// # Errors
    /// When the device was gone before, or the capture could not be written.
    pub async fn stop(self, grace: Duration) -> Result<StackStats, LiveError> {
        let ended = self.stack.shutdown(grace).await;
        let stats = self.stack.stats();
        ended.map_err(|e| LiveError::io("go on", e))?;
        if let Some(capture) = &self.capture {
            let doing = || format!("write the capture to {}", capture.path().display());
            capture.get().map_err(|e| LiveError::io(doing(), e))?;
        }
        Ok(stats)
    }
}

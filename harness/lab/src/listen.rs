//! Interfaces that are listened to, in any network namespace.

use crate::LiveError;
use crate::lab::{KERNEL_INTERFACE, Lab};
use crate::meter::namespace;
use narrows::device::packet_socket::PacketSocket;

/// Listens to `INTERFACE`, or `NAMESPACE:INTERFACE`, where the namespace is a name as `ip netns` has
/// them, or the number of a process; keeps `snap` bytes of each frame.
///
/// # Errors
/// If there is no such namespace or interface, or the caller may not.
pub fn listen(name: &str, snap: usize) -> Result<PacketSocket, LiveError> {
    let failed = |e| LiveError::io(format!("listen to {name}"), e);
    let opened = match name.split_once(':') {
        None => PacketSocket::open(name, snap),
        Some((space, own)) => {
            let space = namespace(space).map_err(failed)?;
            space
                .run(|| PacketSocket::open(own, snap))
                .map_err(failed)?
        }
    };
    opened.map_err(LiveError::Interface)
}

/// The interface of the kernel's host of the lab `name`, as [`listen`] takes it.
///
/// # Errors
/// If there is no such lab.
pub fn of_lab(name: &str) -> Result<String, LiveError> {
    let lab = Lab::find(name)?;
    Ok(format!("{}:{KERNEL_INTERFACE}", lab.name()))
}

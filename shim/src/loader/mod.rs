//! Loads a shared object with packetdrill's userspace interface and drives it as packetdrill does,
//! so that our runner can play scripts against it: our own object, or another TCP's.
//!
//! As packetdrill does: the clock is looked at when a step begins, again and again while it waits
//! (after `usleep` up to 20 microseconds before the time), and once more when it is there. Packets
//! that arrive go to `netdev_send`, packets that must leave are had from `netdev_receive`. Calls
//! that block are made by a second thread, which looks at the clock as they return; the first goes
//! on when the second sleeps, by `/proc`. What is left open at the end is closed through libc.
//!
//! Not as packetdrill does: `%{ }%` asks the interface's `getsockopt` for `TCP_INFO`, not libc's.
//! And where a step needs that a call has returned, the clock is moved until it has; packetdrill
//! waits for a second of real time.

mod instance;
mod second_thread;
mod table;

pub use table::Table;

use crate::abi::{Init, PacketdrillInterface};
use crate::flags;
use instance::Instance;
use libc::c_void;
use narrows_script::sockets::Stuck;
use narrows_script::stack::{Stack, Wanted};
use std::ffi::{CStr, CString};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The flags that an instance is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// What the script wants, in the words of [`flags`], and then these: for our own object.
    Wanted(String),
    /// These: for another's, which has flags of its own. What the script wants is up to whoever
    /// gives them.
    Only(String),
}

/// A shared object with the interface.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    init: Init,
}

impl Library {
    /// Load it. It stays loaded until the process ends, as with packetdrill.
    ///
    /// # Errors
    /// When it cannot be loaded, or has no `packetdrill_interface_init`; in words.
    pub fn load(path: &Path) -> Result<Self, String> {
        // A name without a slash would be looked for along the library path.
        let path = std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| "a file's name has no byte 0".to_owned())?;
        let how = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE | libc::RTLD_DEEPBIND;
        // SAFETY: the name is a C string. Loading runs the object's initialisers, which is what
        // whoever names the file asks for.
        let handle = unsafe { libc::dlopen(name.as_ptr(), how) };
        if handle.is_null() {
            return Err(last_error());
        }
        // SAFETY: the handle is good, the name a C string.
        let symbol = unsafe { libc::dlsym(handle, c"packetdrill_interface_init".as_ptr()) };
        if symbol.is_null() {
            return Err(last_error());
        }
        // SAFETY: by the interface, a symbol of this name is a function of this type.
        let init = unsafe { mem::transmute::<*mut c_void, Init>(symbol) };
        Ok(Self { init })
    }

    /// A new instance for a script, with these flags.
    ///
    /// # Errors
    /// When the object cannot do it.
    pub fn stack(&self, wanted: &Wanted, given: &Given) -> Result<Box<dyn Stack>, Stuck> {
        let text = match given {
            Given::Only(flags) => flags.clone(),
            Given::Wanted(more) => format!("{}; {more}", flags::wanted(wanted)),
        };
        let mut table = self.instance(&text).map_err(Stuck::Refused)?;
        if wanted.local.is_ipv6() {
            table.domain = libc::AF_INET6;
        }
        let stack = Instance::new(table, wanted.setup.clone())?;
        Ok(Box::new(stack))
    }

    /// A table of functions, for these flags.
    ///
    /// # Errors
    /// When the flags hold a byte 0, or a function is missing from the table; in words.
    pub fn instance(&self, flags: &str) -> Result<Table, String> {
        let flags = CString::new(flags).map_err(|_| "flags have no byte 0".to_owned())?;
        let mut raw = PacketdrillInterface::EMPTY;
        // SAFETY: a C string, and room for a table; that is what the interface wants.
        unsafe { (self.init)(flags.as_ptr(), &raw mut raw) };
        Table::new(raw)
    }
}

fn last_error() -> String {
    // SAFETY: null, or a C string that lives until the next call of its family.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the object cannot be loaded".to_owned();
    }
    // SAFETY: not null.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

//! The interface: a table of functions that the object fills in.
//!
//! Names, order and types are packetdrill's. The order of the fields is the interface: nothing may
//! be put between them.

use libc::{
    c_char, c_int, c_longlong, c_uint, c_ulong, c_void, epoll_event, iovec, loff_t, msghdr, nfds_t,
    pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval, useconds_t,
};

/// `struct timezone`, which nobody fills in.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Timezone {
    /// Minutes west of Greenwich.
    pub minutes_west: c_int,
    /// Of what daylight saving.
    pub dst_time: c_int,
}

macro_rules! table {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        /// The table. Every function takes `userdata` first; it returns -1 and sets `errno` where
        /// it fails.
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct PacketdrillInterface {
            /// The object's own, handed back to it with every call.
            pub userdata: *mut c_void,
            $($(#[$doc])* pub $name: Option<$type>,)*
        }

        impl PacketdrillInterface {
            /// A table without functions.
            pub const EMPTY: Self = Self {
                userdata: std::ptr::null_mut(),
                $($name: None,)*
            };

            /// The functions in the order of the table.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];
        }
    };
}

/// The first argument of every function.
type User = *mut c_void;

table! {
    /// The end: nothing is called any more.
    free: unsafe extern "C" fn(User);
    /// `socket(2)`
    socket: unsafe extern "C" fn(User, c_int, c_int, c_int) -> c_int;
    /// `bind(2)`
    bind: unsafe extern "C" fn(User, c_int, *const sockaddr, socklen_t) -> c_int;
    /// `listen(2)`
    listen: unsafe extern "C" fn(User, c_int, c_int) -> c_int;
    /// `accept(2)`
    accept: unsafe extern "C" fn(User, c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    /// `connect(2)`
    connect: unsafe extern "C" fn(User, c_int, *const sockaddr, socklen_t) -> c_int;
    /// `read(2)`
    read: unsafe extern "C" fn(User, c_int, *mut c_void, size_t) -> ssize_t;
    /// `readv(2)`
    readv: unsafe extern "C" fn(User, c_int, *const iovec, c_int) -> ssize_t;
    /// `recv(2)`
    recv: unsafe extern "C" fn(User, c_int, *mut c_void, size_t, c_int) -> ssize_t;
    /// `recvfrom(2)`
    recvfrom: unsafe extern "C" fn(
        User, c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t,
    ) -> ssize_t;
    /// `recvmsg(2)`
    recvmsg: unsafe extern "C" fn(User, c_int, *mut msghdr, c_int) -> ssize_t;
    /// `write(2)`
    write: unsafe extern "C" fn(User, c_int, *const c_void, size_t) -> ssize_t;
    /// `writev(2)`
    writev: unsafe extern "C" fn(User, c_int, *const iovec, c_int) -> ssize_t;
    /// `send(2)`
    send: unsafe extern "C" fn(User, c_int, *const c_void, size_t, c_int) -> ssize_t;
    /// `sendto(2)`
    sendto: unsafe extern "C" fn(
        User, c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t,
    ) -> ssize_t;
    /// `sendmsg(2)`
    sendmsg: unsafe extern "C" fn(User, c_int, *const msghdr, c_int) -> ssize_t;
    /// `fcntl(2)`: variadic.
    fcntl: unsafe extern "C" fn(User, c_int, c_int, ...) -> c_int;
    /// `ioctl(2)`: variadic.
    ioctl: unsafe extern "C" fn(User, c_int, c_ulong, ...) -> c_int;
    /// `close(2)`
    close: unsafe extern "C" fn(User, c_int) -> c_int;
    /// `shutdown(2)`
    shutdown: unsafe extern "C" fn(User, c_int, c_int) -> c_int;
    /// `getsockopt(2)`
    getsockopt: unsafe extern "C" fn(
        User, c_int, c_int, c_int, *mut c_void, *mut socklen_t,
    ) -> c_int;
    /// `setsockopt(2)`
    setsockopt: unsafe extern "C" fn(
        User, c_int, c_int, c_int, *const c_void, socklen_t,
    ) -> c_int;
    /// `poll(2)`
    poll: unsafe extern "C" fn(User, *mut pollfd, nfds_t, c_int) -> c_int;
    /// An IP packet arrives.
    netdev_send: unsafe extern "C" fn(User, *const c_void, size_t) -> c_int;
    /// The next IP packet that leaves, however long that takes. `count` is the buffer's size
    /// before, the packet's after, 0 if there is none; `time_usecs` is when it left.
    netdev_receive: unsafe extern "C" fn(
        User, *mut c_void, *mut size_t, *mut c_longlong,
    ) -> c_int;
    /// `usleep(3)`
    usleep: unsafe extern "C" fn(User, useconds_t) -> c_int;
    /// `gettimeofday(2)`
    gettimeofday: unsafe extern "C" fn(User, *mut timeval, *mut Timezone) -> c_int;
    /// `epoll_create(2)`
    epoll_create: unsafe extern "C" fn(User, c_int) -> c_int;
    /// `epoll_ctl(2)`
    epoll_ctl: unsafe extern "C" fn(User, c_int, c_int, c_int, *mut epoll_event) -> c_int;
    /// `epoll_wait(2)`
    epoll_wait: unsafe extern "C" fn(User, c_int, *mut epoll_event, c_int, c_int) -> c_int;
    /// `pipe(2)`
    pipe: unsafe extern "C" fn(User, *mut c_int) -> c_int;
    /// `splice(2)`
    splice: unsafe extern "C" fn(
        User, c_int, *mut loff_t, c_int, *mut loff_t, size_t, c_uint,
    ) -> c_int;
}

/// `packetdrill_interface_init`: fills in the table. `flags` is what `--so_flags` says, or null.
pub type Init = unsafe extern "C" fn(*const c_char, *mut PacketdrillInterface);

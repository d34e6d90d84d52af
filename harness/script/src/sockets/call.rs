//! System calls as values: what is asked, and what comes of it.

use super::errno::Errno;
use std::net::SocketAddr;

/// A descriptor.
pub type Fd = i32;

/// A flag of a socket's type, of `accept4` and of `F_SETFL`: no call blocks.
pub const O_NONBLOCK: i32 = 0o4000;
/// Readable and writable: what `F_GETFL` says beside [`O_NONBLOCK`].
pub const O_RDWR: i32 = 2;

/// Urgent data.
pub const MSG_OOB: i32 = 1;
/// Leave the bytes where they are.
pub const MSG_PEEK: i32 = 2;
/// The length even where it is more than there is room for; no difference for a stream.
pub const MSG_TRUNC: i32 = 0x20;
/// Do not block.
pub const MSG_DONTWAIT: i32 = 0x40;
/// All or nothing, until the stream ends.
pub const MSG_WAITALL: i32 = 0x100;
/// No signal with [`Errno::EPIPE`].
pub const MSG_NOSIGNAL: i32 = 0x4000;
/// More is to come: what makes no full segment waits for it.
pub const MSG_MORE: i32 = 0x8000;

/// Connect, and send on the SYN what fits (RFC 7413).
pub const MSG_FASTOPEN: i32 = 0x2000_0000;

/// Flags that receiving knows.
pub const RECEIVE_FLAGS: i32 = MSG_PEEK | MSG_DONTWAIT | MSG_WAITALL | MSG_TRUNC | MSG_NOSIGNAL;
/// Flags that sending knows.
pub const SEND_FLAGS: i32 = MSG_OOB | MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE | MSG_FASTOPEN;

/// Can be read.
pub const POLLIN: i16 = 1;
/// Can be written.
pub const POLLOUT: i16 = 4;
/// An error waits.
pub const POLLERR: i16 = 8;
/// Both directions have ended.
pub const POLLHUP: i16 = 0x10;
/// No such descriptor.
pub const POLLNVAL: i16 = 0x20;
/// The peer sends no more.
pub const POLLRDHUP: i16 = 0x2000;

/// Which of its family a call for data is. They differ in how they are called, not in what they
/// do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `read`, `write`
    Plain,
    /// `readv`, `writev`
    Vector,
    /// `recv`, `send`
    Flags,
    /// `recvfrom`, `sendto`
    Address,
    /// `recvmsg`, `sendmsg`
    Message,
}

/// What is to be written: bytes that are given, and bytes that are a function of their place in
/// the stream, so that large writes need no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The first bytes.
    pub given: Vec<u8>,
    /// Where in the stream the first byte lies.
    pub at: u64,
    /// Bytes in all.
    pub len: usize,
}

impl Text {
    /// These bytes.
    pub fn of(bytes: Vec<u8>) -> Self {
        Self {
            at: 0,
            len: bytes.len(),
            given: bytes,
        }
    }

    /// `n` bytes from the `from`-th on, or as many as there are.
    pub fn bytes(&self, from: usize, n: usize) -> Vec<u8> {
        let end = self.len.min(from.saturating_add(n));
        (from..end)
            .map(|i| match self.given.get(i) {
                Some(byte) => *byte,
                None => user_byte(self.at + i as u64),
            })
            .collect()
    }
}

/// The byte that a user writes as the `n`-th of the stream where nothing else is said.
pub fn user_byte(n: u64) -> u8 {
    ((n as u32).wrapping_mul(0x85eb_ca6b) >> 24) as u8
}

/// The value of a socket option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// An integer.
    Number(i64),
    /// A name.
    Word(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// `struct linger`: on with so many seconds, or off.
    Linger(Option<u64>),
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The arguments are those of the calls.
pub enum Call {
    Socket {
        nonblocking: bool,
    },
    Bind {
        fd: Fd,
        at: SocketAddr,
    },
    Listen {
        fd: Fd,
        backlog: usize,
    },
    Accept {
        fd: Fd,
        nonblocking: bool,
    },
    Connect {
        fd: Fd,
        to: SocketAddr,
    },
    Receive {
        fd: Fd,
        form: Form,
        parts: Vec<usize>,
        flags: i32,
    },
    Send {
        fd: Fd,
        form: Form,
        parts: Vec<usize>,
        flags: i32,
        text: Text,
        /// Where to, for a socket that is not connected.
        to: Option<SocketAddr>,
    },
    Close {
        fd: Fd,
    },
    Shutdown {
        fd: Fd,
        read: bool,
        write: bool,
    },
    SetOption {
        fd: Fd,
        name: String,
        value: OptionValue,
    },
    GetOption {
        fd: Fd,
        name: String,
    },
    GetFlags {
        fd: Fd,
    },
    SetFlags {
        fd: Fd,
        nonblocking: bool,
    },
    /// `value` is for requests that set something.
    Ioctl {
        fd: Fd,
        request: String,
        value: i64,
    },
    /// `timeout_ms` below 0: for ever.
    Poll {
        wanted: Vec<(Fd, i16)>,
        timeout_ms: i64,
    },
}

/// What a call gave besides its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gave {
    /// Nothing.
    Nothing,
    /// What was read.
    Bytes(Vec<u8>),
    /// The value of an option or of a request.
    Number(i64),
    /// The same, a name.
    Word(String),
    /// Seconds that `close` lingers, if it does.
    Linger(Option<u64>),
    /// What `poll` says of each descriptor.
    Events(Vec<i16>),
    /// Whom `accept` accepted.
    Peer(SocketAddr),
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The number it returned, or why it failed.
    pub result: Result<i64, Errno>,
    /// What it gave besides.
    pub gave: Gave,
}

impl Answer {
    /// Only a number.
    pub fn of(n: i64) -> Self {
        Self::giving(n, Gave::Nothing)
    }

    /// A number, and this.
    pub fn giving(n: i64, gave: Gave) -> Self {
        Self {
            result: Ok(n),
            gave,
        }
    }
}

impl From<Errno> for Answer {
    fn from(errno: Errno) -> Self {
        Self {
            result: Err(errno),
            gave: Gave::Nothing,
        }
    }
}

/// A call that blocks, until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// What a call did at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returned.
    Done(Answer),
    /// It blocks. Its answer comes when it is there.
    Blocks(CallId),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_what_is_given_and_then_what_its_place_says() {
        let text = Text {
            given: vec![7],
            at: 100,
            len: 3,
        };
        assert_eq!(text.bytes(0, 9), [7, user_byte(101), user_byte(102)]);
        assert_eq!(text.bytes(1, 1), [user_byte(101)]);
        assert!(text.bytes(5, 1).is_empty());
        assert_eq!(Text::of(vec![1, 2]).bytes(1, 5), [2]);
    }
}

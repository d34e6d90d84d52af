//! What a script says.

use narrows::wire::{Ecn, Flags};
use narrows::{ByteCount, Duration};

/// Part of the source, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// After the last one.
    pub end: usize,
}

/// A parsed script.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The `--name=value` at its head.
    pub options: Vec<ScriptOption>,
    /// What happens, in order.
    pub events: Vec<Event>,
}

/// `--name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptOption {
    /// Without the dashes.
    pub name: String,
    /// What stands behind `=`.
    pub value: Option<String>,
    /// Where.
    pub span: Span,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its time stamp.
    pub at: When,
    /// What happens.
    pub action: Action,
    /// Where.
    pub span: Span,
}

/// A time stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// `1.5`: since the script began.
    Absolute(Duration),
    /// `+.5`: after the step before.
    Relative(Duration),
    /// `1.5~1.8`.
    AbsoluteRange(Duration, Duration),
    /// `+.1~+.2`.
    RelativeRange(Duration, Duration),
    /// `*`.
    Any,
}

/// What happens at a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A packet arrives, or must leave.
    Packet(Packet),
    /// A system call.
    Call(Call),
    /// A line for a shell, in backticks: set-up.
    Command(String),
    /// `%{ }%`: assertions.
    Code(String),
}

/// Which way a packet goes, seen from the TCP under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `<`
    In,
    /// `>`
    Out,
}

/// What is said of the ECN field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnField {
    /// Exactly this.
    Is(Ecn),
    /// `[ect01]`: either ECT codepoint, on packets that leave.
    Ect01,
}

/// What is said of the IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpFields {
    /// The ECN field.
    pub ecn: Option<EcnField>,
    /// The whole traffic-class byte.
    pub tos: Option<u8>,
    /// Time to live.
    pub ttl: Option<u8>,
}

/// A packet line.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// Which way.
    pub direction: Direction,
    /// Its IP header.
    pub ip: IpFields,
    /// Source and destination port, where given.
    pub ports: Option<(u16, u16)>,
    /// What it carries.
    pub body: Body,
    /// Where.
    pub span: Span,
}

/// What a packet carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A segment.
    Tcp(Segment),
    /// An ICMP error about one.
    Icmp(Icmp),
}

/// A TCP segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Control bits.
    pub flags: Flags,
    /// Sequence number, in the script's numbering.
    pub seq: u32,
    /// Bytes of text.
    pub len: usize,
    /// The acknowledgement number.
    pub ack: Option<u32>,
    /// The window field as it stands in the header.
    pub window: Option<u16>,
    /// The urgent pointer.
    pub urgent: Option<u16>,
    /// Options.
    pub options: Options,
}

/// What is said of a segment's options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Options {
    /// These.
    List(Vec<TcpOption>),
    /// `<...>`: whatever they are.
    Any,
}

/// One TCP option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// Kind 1.
    Nop,
    /// Kind 0.
    Eol,
    /// Kind 2.
    Mss(u16),
    /// Kind 3.
    WindowScale(u8),
    /// Kind 4.
    SackPermitted,
    /// Kind 5, with edges in the script's numbering.
    Sack(Vec<(u32, u32)>),
    /// Kind 8.
    Timestamps {
        /// TSval.
        val: u32,
        /// TSecr.
        ecr: u32,
    },
    /// Any other kind.
    Other {
        /// The kind.
        kind: u8,
        /// What follows the length.
        data: Vec<u8>,
    },
}

/// An ICMP error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// `unreachable`, `packet_too_big`, ...
    pub kind: String,
    /// `host_unreachable`, `frag_needed`, ...
    pub code: Option<String>,
    /// The MTU it reports.
    pub mtu: Option<ByteCount>,
    /// Sequence number and length of the segment it quotes.
    pub quoted: Option<(u32, usize)>,
}

/// A system call with what must come of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// When it returns, if it blocks: counted like the step's own stamp.
    pub until: Option<Duration>,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: Vec<Expr>,
    /// What it returns.
    pub result: Expr,
    /// The error number's name.
    pub errno: Option<String>,
    /// Where.
    pub span: Span,
}

/// An argument or a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// `...`
    Ellipsis,
    /// A number.
    Int(i64),
    /// A name.
    Word(String),
    /// `"..."`
    Text(Vec<u8>),
    /// `A | B`
    Or(Vec<Expr>),
    /// `[...]`
    List(Vec<Expr>),
    /// `{...}` with what it holds: named fields and plain ones (whose name is empty).
    Record(Vec<(String, Expr)>),
    /// `htons(8080)`
    Apply(String, Vec<Expr>),
}

impl Expr {
    /// A field of a record.
    pub fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Record(fields) => fields.iter().find(|(n, _)| n == name).map(|(_, e)| e),
            _ => None,
        }
    }
}

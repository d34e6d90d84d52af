//! What assertions know: constants, and the connection's `TCP_INFO`.

use crate::code::Value;
use crate::sockets::Fd;
use crate::stack::Stack;

/// Names that are always known.
const CONSTANTS: &[(&str, i128)] = &[
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_SYN_DATA", 32),
];

/// Where the values come from.
pub(super) struct Facts<'a> {
    pub(super) stack: &'a dyn Stack,
    pub(super) focus: Option<Fd>,
}

impl Facts<'_> {
    /// The value of `name`, if it is known.
    pub(super) fn value(&self, name: &str) -> Option<Value> {
        let constant = CONSTANTS.iter().find(|(c, _)| *c == name);
        let n = match constant {
            Some((_, n)) => *n,
            None => self
                .stack
                .tcp_info(self.focus?, name.strip_prefix("tcpi_")?)?,
        };
        Some(Value::Int(n))
    }

    /// There is a connection to know something of.
    pub(super) fn has_connection(&self) -> bool {
        self.value("tcpi_state").is_some()
    }
}

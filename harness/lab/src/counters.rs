//! What the kernel's TCP of a namespace has counted.

use crate::LiveError;
use crate::netns::Namespace;
use std::fs;

/// Its counters, as `nstat` names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) timeouts: u64,
    pub(crate) recoveries: u64,
    pub(crate) data_segments: u64,
    pub(crate) retransmits: u64,
}

impl Counters {
    /// Of `namespace`.
    pub(crate) fn of(namespace: &Namespace) -> Result<Self, LiveError> {
        let read = namespace.run(|| {
            // Those of the thread: /proc/net is the process's.
            let ext = fs::read_to_string("/proc/thread-self/net/netstat")?;
            Ok(ext + &fs::read_to_string("/proc/thread-self/net/snmp")?)
        });
        let text = read.and_then(|r| r);
        let text = text.map_err(|e| LiveError::io("read the kernel's counters", e))?;
        Ok(Self::parse(&text))
    }

    /// Since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            timeouts: self.timeouts.saturating_sub(before.timeouts),
            recoveries: self.recoveries.saturating_sub(before.recoveries),
            data_segments: self.data_segments.saturating_sub(before.data_segments),
            retransmits: self.retransmits.saturating_sub(before.retransmits),
        }
    }

    /// Pairs of lines: names, and values under them.
    fn parse(text: &str) -> Self {
        let mut counters = Self::default();
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.chunks_exact(2) {
            for (name, value) in pair[0].split(' ').zip(pair[1].split(' ')) {
                let value = value.parse().unwrap_or(0);
                match name {
                    "TCPTimeouts" => counters.timeouts += value,
                    "TCPSackRecovery" | "TCPRenoRecovery" => counters.recoveries += value,
                    "TCPOrigDataSent" => counters.data_segments += value,
                    "RetransSegs" => {
                        counters.retransmits += value;
                        counters.data_segments += value;
                    }
                    _ => {}
                }
            }
        }
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_name() {
        let text = "TcpExt: SyncookiesSent TCPSackRecovery TCPTimeouts TCPOrigDataSent\n\
                    TcpExt: 9 2 7 100\n\
                    IpExt: InNoRoutes\nIpExt: 3\n\
                    Tcp: RtoAlgorithm MaxConn RetransSegs\nTcp: 1 -1 11\n";
        let now = Counters::parse(text);
        assert_eq!(
            now,
            Counters {
                timeouts: 7,
                recoveries: 2,
                data_segments: 111,
                retransmits: 11,
            }
        );
        assert_eq!(now.since(now), Counters::default());
    }
}

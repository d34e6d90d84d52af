//! Whether a spec of flows can be run.

use super::spec::{FlowsSpec, Load, Loss, PortBuffer};
use crate::scenario::ScenarioError;
use crate::scenario::spec::SharedBuffer;
use crate::scenario::validate::{
    MAX_BLOCK, MAX_TIME, check_aqm, check_impair, check_queue, check_tcp, invalid, size_text,
    time_text, within,
};
use narrows::{Duration, Rate};

/// Most flows in one run: each has a port number of its own.
pub const MAX_FLOWS: u64 = 40_000;

const MAX_START_DELAY: u64 = 10_000_000_000;

impl FlowsSpec {
    /// Whether every value is in its range and none contradicts another.
    ///
    /// # Errors
    /// [`ScenarioError::Invalid`] names the value and what is allowed.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        let count = |n: u64| n.to_string();
        let hosts = self.hosts.len() as u64;
        within("hosts", hosts, 2, 60_000, count)?;
        within("flows", self.flows.len() as u64, 1, MAX_FLOWS, count)?;
        let last = hosts - 1;
        within("bottleneck", u64::from(self.bottleneck), 0, last, count)?;
        let time = |option, value: Duration, min, max| {
            within(option, value.as_nanos(), min, max, time_text)
        };
        for host in &self.hosts {
            time("delay", host.delay, 0, MAX_START_DELAY)?;
            within(
                "rate",
                host.rate.bits_per_sec(),
                1_000,
                1_000_000_000_000,
                |n| Rate::from_bits_per_sec(n).to_string(),
            )?;
        }
        time("duration", self.duration, 1_000, MAX_TIME)?;
        let before_end = self.duration.as_nanos() - 1;
        time("warm-up", self.warm_up, 0, before_end)?;
        time("jitter", self.jitter, 0, MAX_START_DELAY)?;
        if let Some(interval) = self.record.samples {
            time("samples", interval, 100, MAX_TIME)?;
        }
        for flow in &self.flows {
            within("from", u64::from(flow.from), 0, last, count)?;
            within("to", u64::from(flow.to), 0, last, count)?;
            if flow.from == flow.to {
                return invalid("to", flow.to.to_string(), "another host than the sender");
            }
            time("start", flow.start, 0, before_end)?;
            match flow.load {
                Load::Unlimited => {}
                Load::Bytes(size) => within("size", size.get(), 1, MAX_BLOCK, size_text)?,
                Load::Asked(asked) => {
                    within("size", asked.size.get(), 1, MAX_BLOCK, size_text)?;
                    within("request", asked.request.get(), 1, 1 << 20, size_text)?;
                    within("times", u64::from(asked.times), 1, 1_000_000_000, count)?;
                }
            }
        }
        let net = &self.net;
        within("mtu", u64::from(net.mtu), 104, 65_535, count)?;
        match net.buffer {
            PortBuffer::Own(limit) => check_queue("buffer", limit, net.mtu, net.framing)?,
            PortBuffer::Shared(SharedBuffer { size, alpha }) => {
                let least = u64::from(net.mtu) * hosts;
                within("buffer", size.get(), least, 1 << 40, size_text)?;
                within("alpha", u64::from(alpha.0), 1, 1 << 20, count)?;
                within("alpha", u64::from(alpha.1), 1, 1 << 20, count)?;
            }
        }
        check_queue("nic", net.nic, net.mtu, net.framing)?;
        time("nic-overhead", net.nic_overhead, 0, MAX_START_DELAY)?;
        match net.loss {
            Loss::None => {}
            // Fewer, and a retransmission would be lost with what it repeats, for ever.
            Loss::EachNth(n) => within("loss", n, 3, u64::MAX, count)?,
            Loss::Random(ppb) => within("loss", u64::from(ppb), 0, 900_000_000, count)?,
        }
        check_impair(net.impair)?;
        check_aqm(net.aqm)?;
        check_tcp(&self.tcp, net.mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::flows::spec::{Asked, FlowSpec};
    use crate::scenario::spec::QueueLimit;
    use narrows::ByteCount;

    fn spec() -> FlowsSpec {
        FlowsSpec::long_lived(2, Rate::from_gbps(1), Duration::from_micros(100))
    }

    /// Each line breaks one value; the error must name it.
    #[test]
    fn impossible_values_are_named() {
        type Break = fn(&mut FlowsSpec);
        let cases: [(&str, Break); 16] = [
            ("hosts", |s| s.hosts.truncate(1)),
            ("flows", |s| s.flows.clear()),
            ("bottleneck", |s| s.bottleneck = 3),
            ("delay", |s| s.hosts[1].delay = Duration::from_secs(11)),
            ("rate", |s| s.hosts[2].rate = Rate::from_bits_per_sec(1)),
            ("duration", |s| s.duration = Duration::ZERO),
            ("warm-up", |s| s.warm_up = s.duration),
            ("samples", |s| s.record.samples = Some(Duration::ZERO)),
            ("from", |s| s.flows[0].from = 9),
            ("to", |s| s.flows[0] = FlowSpec::unlimited(1, 1)),
            ("start", |s| s.flows[1].start = s.duration),
            ("size", |s| s.flows[0].load = Load::Bytes(ByteCount::ZERO)),
            ("times", |s| {
                let one = ByteCount::new(1);
                s.flows[0].load = Load::Asked(Asked {
                    size: one,
                    request: one,
                    times: 0,
                    group: 0,
                });
            }),
            ("buffer", |s| {
                s.net.buffer = PortBuffer::Own(QueueLimit::Packets(0));
            }),
            ("alpha", |s| {
                let size = ByteCount::new(1 << 20);
                let alpha = (1, 0);
                s.net.buffer = PortBuffer::Shared(SharedBuffer { size, alpha });
            }),
            ("loss", |s| s.net.loss = Loss::EachNth(2)),
        ];
        spec().validate().unwrap();
        for (expected, broken) in cases {
            let mut spec = spec();
            broken(&mut spec);
            match spec.validate() {
                Err(ScenarioError::Invalid { option, .. }) => assert_eq!(option, expected),
                other => panic!("{expected}: {other:?}"),
            }
        }
    }
}

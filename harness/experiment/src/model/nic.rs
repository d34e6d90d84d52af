//! `host.nic`: the interface between a host and its link; and `host.cpu`: what packets cost the host.

use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use crate::net::nic::{
    Coalescing, CpuSpec, MOST_OFFLOAD, Moment, NicSpec, ReceiveHash, ReceiveSpec, Refill,
    ShaperSpec, TransmitBuffers,
};
use crate::net::pause::PauseSpec;
use crate::scenario::network::capacity;
use crate::scenario::spec::{QueueLimit, Share};
use crate::sim::rng::Probability;
use crate::sim::time::SimTime;
use narrows::{ByteCount, Duration, Rate};

/// A host's NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Its transmit queue; a full one refuses packets, and their TCP sends them later.
    pub tx_queue: QueueLimit,
    /// A packet enters an idle link up to this late, at random.
    pub overhead: Duration,
    /// Segmentation offload: most payload of a packet that the host hands over.
    pub tso: Option<ByteCount>,
    /// Buffers that frames need besides their place in the queue.
    pub tx_buffers: Option<u32>,
    /// Those that come back a second; when frames have left if `None`.
    pub tx_refill: Option<u64>,
    /// Frames that have left, for an interrupt that gives their buffers back.
    pub tx_frames: u32,
    /// A send is refused with this probability if the one before was not.
    pub refuse: Share,
    /// Refused sends in a row, on average.
    pub refuse_run: u32,
    /// How long it refuses, on average; by sends if `None`.
    pub refuse_for: Option<Duration>,
    /// Rate of a token bucket before the wire.
    pub shaper_rate: Option<Rate>,
    /// Its burst.
    pub shaper_burst: ByteCount,
    /// What waits for tokens leaves at multiples of this; zero for when they are there.
    pub shaper_tick: Duration,
    /// Receive queues.
    pub rx_queues: u32,
    /// How a flow has one of them.
    pub rx_hash: ReceiveHash,
    /// Frames that each of their rings holds.
    pub rx_ring: u32,
    /// Frames that wait for an interrupt; zero leaves it to the age.
    pub rx_frames: u32,
    /// Age of the first frame at which the interrupt comes in any case; zero leaves it to the frames.
    pub rx_usecs: Duration,
    /// Receive offload: the largest aggregate.
    pub gro: Option<ByteCount>,
    /// Whether it pauses its switch when a ring fills up.
    pub rx_pause: bool,
}

impl Default for Nic {
    fn default() -> Self {
        Self {
            tx_queue: QueueLimit::Packets(1_000),
            overhead: Duration::from_micros(5),
            tso: None,
            tx_buffers: None,
            tx_refill: None,
            tx_frames: 1,
            refuse: Share(0),
            refuse_run: 8,
            refuse_for: None,
            shaper_rate: None,
            shaper_burst: ByteCount::new(65_536),
            shaper_tick: Duration::ZERO,
            rx_queues: 1,
            rx_hash: ReceiveHash::Even,
            rx_ring: 1_024,
            rx_frames: 1,
            rx_usecs: Duration::ZERO,
            gro: None,
            rx_pause: false,
        }
    }
}

/// Longest time of a tick or an interrupt: a second.
const MOST: u64 = 1_000_000_000;

impl Knobs for Nic {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { tx_queue: "tx_queue", "transmit queue", Kind::Queue { least: 1 },
        "Queue between a host and its link; a full one refuses packets, which their TCP sends later (ENOBUFS)." },
        knob! { overhead: "overhead", "send overhead", Kind::Time { least: 0, most: 10_000_000_000 },
        "A packet enters an idle link up to this late, at random: hosts are never as punctual as a simulator, and equal ones would march in step." },
        knob! { tso: "tso", "segmentation offload", Kind::Or("off", &Kind::Size { least: 1_000, most: 65_536 }),
        "Most payload that a host hands its NIC as one packet, which leaves as segments back to back. The probes counters and time-sequence, the ledger and captures at the host (--pcap-side host) see the one; captures at the switch, counters of ports and the metric segments have what leaves. Left out: sizes by the rate (Linux tcp_tso_autosize), waiting for more (tcp_tso_should_defer), segments sent again as one, and what cutting takes.", "ip-link(8), gso_max_size" },
        knob! { tx_buffers: "tx_buffers", "transmit buffers", Kind::Or("off", &Kind::Whole { least: 1, most: 1_000_000 }),
        "Buffers that frames need besides their place in the queue, one each; without any the NIC refuses (ENOBUFS). Left out: buffers of several sizes, those that receiving takes from the same supply, and who else shares it." },
        knob! { tx_refill: "tx_refill", "buffers back a second", Kind::Or("off", &Kind::Whole { least: 1, most: 1_000_000_000 }),
        "Buffers that come back a second, whatever has left; off is when the frame has left." },
        knob! { tx_frames: "tx_frames", "completions an interrupt", Kind::Whole { least: 1, most: 100_000 },
        "Buffers come back when so many frames have left, or all have.", "ethtool, tx-frames" },
        knob! { refuse: "refuse", "refused sends", Kind::Share,
        "A NIC refuses a send with this probability if it took the one before: a buffer is unavailable at the moment. Left out: what takes the buffers away, which is drawn." },
        knob! { refuse_run: "refuse_run", "refused in a row", Kind::Whole { least: 1, most: 1_000_000 },
        "Sends that it refuses in a row then, on average (geometric)." },
        knob! { refuse_for: "refuse_for", "refused for", Kind::Or("off", &Kind::Time { least: 1_000, most: MOST }),
        "How long it refuses then, on average (geometric, in microseconds), however much is tried; off is so many sends (refuse_run)." },
        knob! { shaper_rate: "shaper_rate", "shaper rate", Kind::Or("off", &Kind::Rate),
        "Rate of a token bucket before the wire, in bits of frames. Left out: a second bucket (peakrate), a queue limit of its own, and classes.", "tc-tbf(8)" },
        knob! { shaper_burst: "shaper_burst", "shaper burst", Kind::Size { least: 64, most: 1 << 40 },
        "Tokens of a full bucket: what may leave at once.", "tc-tbf(8)" },
        knob! { shaper_tick: "shaper_tick", "shaper tick", Kind::Time { least: 0, most: MOST },
        "What waits for tokens leaves at multiples of this, as in kernels that look at timer ticks; 0 is when the tokens are there." },
        knob! { rx_queues: "rx_queues", "receive queues", Kind::Whole { least: 1, most: 1_024 },
        "Receive queues, among which flows are spread by hash, each with a ring and an interrupt. Left out: steering by anything but the hash." },
        knob! { rx_hash: "rx_hash", "receive hash", Kind::Choice(&["even", "toeplitz"]),
        "Which hash of addresses and ports spreads flows among receive queues: one of our own, even in all of its bits; or toeplitz, that of NICs with Microsoft's key and a table of 128 entries dealt out in turn. Left out: other keys and tables.", "RSS hashing functions (Microsoft), ethtool --show-rxfh" },
        knob! { rx_ring: "rx_ring", "receive ring", Kind::Whole { least: 1, most: 1_000_000 },
        "Frames that the ring of a receive queue holds; more are dropped." },
        knob! { rx_frames: "rx_frames", "frames an interrupt", Kind::Whole { least: 0, most: 100_000 },
        "A receive queue interrupts when so many frames wait, or by rx_usecs; 0 leaves it to that.", "ethtool, rx-frames" },
        knob! { rx_usecs: "rx_usecs", "interrupt delay", Kind::Time { least: 0, most: MOST },
        "A receive queue interrupts when its first frame has waited so long, or by rx_frames; 0 leaves it to that. Left out: adaptive coalescing, and frames that come during a poll and would join it (they are in the next).", "ethtool, rx-usecs" },
        knob! { gro: "gro", "receive offload", Kind::Or("off", &Kind::Size { least: 1_000, most: 65_536 }),
        "Largest packet into which segments of a flow are merged that one poll takes (GRO, LRO), by the rules of Linux: a change of the congestion mark ends it, and so does another timestamp, which in experiments is in microseconds (host.tcp.timestamps). The TCP acknowledges what it is given, so less often. 64KiB is 65535 bytes, as much as a packet can have. Left out: timers that hold aggregates across polls, the eight flows that a hash bucket of Linux holds at most, and hardware that merges before the ring." },
        knob! { rx_pause: "rx_pause", "pause of the switch", Kind::Switch,
        "Whether the NIC sends pause frames to its switch when a receive ring fills up, because interrupts wait (rx_usecs) or the processor is slow (host.cpu): from the ring less what may still come, until half of that. What then waits at the switch's port takes its memory. Left out: the room that its pause frames take of its own link.", "IEEE 802.3 Annex 31B, ethtool --pause" },
    ];
}

impl Nic {
    /// Whether a NIC with links of so many bytes a packet could be this; otherwise which key is
    /// impossible, and why.
    pub(crate) fn check(&self, mtu: u32) -> Result<(), (&'static str, String)> {
        if self.refuse != Share(0) && self.tx_buffers.is_some() {
            let why = "tx_buffers says already when the NIC refuses: set one of the two";
            return Err(("refuse", why.to_owned()));
        }
        if let Some(why) = self.refuse_for.and_then(|mean| self.against_moments(mean)) {
            return Err(("refuse_for", why.to_owned()));
        }
        if self.rx_frames == 0 && self.rx_usecs.is_zero() {
            let why = "with rx_usecs 0, too, no interrupt would ever come: set one of the two";
            return Err(("rx_frames", why.to_owned()));
        }
        let frame = u64::from(mtu) + 18;
        if self.shaper_rate.is_some() && self.shaper_burst.get() < frame {
            let why =
                format!("a bucket of less than a frame of {frame} bytes would let none leave");
            return Err(("shaper_burst", why));
        }
        if let QueueLimit::Bytes(most) = self.tx_queue
            && most.get() < frame
        {
            let why = format!("a queue of less than a frame of {frame} bytes would take none");
            return Err(("tx_queue", why));
        }
        Ok(())
    }

    /// Why moments without a buffer cannot last for `mean`.
    fn against_moments(&self, mean: Duration) -> Option<&'static str> {
        match () {
            // Nothing comes of it.
            () if self.refuse == Share(0) => None,
            () if self.refuse_run != Self::default().refuse_run => {
                Some("refuse_run says already when it ends, in sends: set one of the two")
            }
            () if !mean.as_nanos().is_multiple_of(1_000) => {
                Some("they are drawn in whole microseconds")
            }
            () => None,
        }
    }

    /// Bytes of the largest aggregate of receive offload; zero for none.
    pub(crate) fn offload(&self) -> u32 {
        self.gro
            .map_or(0, |most| most.get().min(MOST_OFFLOAD.into()) as u32)
    }

    /// As the network takes it, with the processor behind it, where packets have at most `mtu` bytes.
    pub fn spec(&self, cpu: &Cpu, mtu: u32) -> NicSpec {
        let time = SimTime::from_duration;
        let buffers = match self.tx_buffers {
            Some(buffers) => TransmitBuffers::Bucket {
                buffers,
                refill: self
                    .tx_refill
                    .map_or(Refill::Completions(self.tx_frames), Refill::PerSecond),
            },
            None if self.refuse == Share(0) => TransmitBuffers::Enough,
            None => TransmitBuffers::Moments {
                refuse: Probability::ratio(self.refuse.0.into(), Share::ALL.0.into()),
                lasts: self
                    .refuse_for
                    .map_or(Moment::Sends(self.refuse_run), |mean| {
                        Moment::Micros((mean.as_nanos() / 1_000) as u32)
                    }),
            },
        };
        NicSpec {
            overhead: time(self.overhead),
            buffers,
            shaper: self.shaper_rate.map(|rate| ShaperSpec {
                rate,
                burst: self.shaper_burst,
                tick: time(self.shaper_tick),
            }),
            segmentation: self.tso.map_or(0, |most| most.get() as u32),
            receive: ReceiveSpec {
                queues: self.rx_queues,
                hash: self.rx_hash,
                ring: self.rx_ring,
                coalescing: Coalescing {
                    frames: self.rx_frames,
                    age: time(self.rx_usecs),
                },
                offload: self.offload(),
                cpu: cpu.spec(),
                pause: self.rx_pause.then(|| PauseSpec::new(mtu)),
                ..ReceiveSpec::DIRECT
            },
            ..NicSpec::new(capacity(self.tx_queue))
        }
    }
}

/// What packets cost a host's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Whether they cost anything.
    pub counts: bool,
    /// Cores.
    pub cores: u32,
    /// Cores besides, busy with something else.
    pub other: u32,
    /// An interrupt.
    pub interrupt: Duration,
    /// A packet with data, in or out, of any size.
    pub packet: Duration,
    /// Each 1000 bytes of its payload.
    pub kilobyte: Duration,
    /// A packet without data, in or out.
    pub ack: Duration,
    /// A read by an application.
    pub call: Duration,
}

impl Default for Cpu {
    fn default() -> Self {
        Self {
            counts: false,
            cores: 1,
            other: 0,
            interrupt: Duration::from_micros(2),
            packet: Duration::from_micros(1),
            kilobyte: Duration::from_nanos(100),
            ack: Duration::from_nanos(500),
            call: Duration::from_micros(1),
        }
    }
}

impl Knobs for Cpu {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { counts: "counts", "processor", Kind::Switch,
        "Whether packets cost a host time: its cores do one thing after the other, and what waits fills the receive rings. The usual costs are guesses of an order of magnitude; measure yours. Left out: caches and memory bandwidth, other work on the core, frequency and sleep states, locks, moving a flow to another core, and the calls by which applications write." },
        knob! { cores: "cores", "cores", Kind::Whole { least: 1, most: 1_024 },
        "Cores; receive queue n has core n, modulo this." },
        knob! { other: "other", "cores of something else", Kind::Whole { least: 0, most: 1_024 },
        "Cores besides, which something else keeps busy, as applications do: they count in the load and do nothing with packets." },
        knob! { interrupt: "interrupt", "cost of an interrupt", Kind::Time { least: 0, most: MOST },
        "An interrupt, until the poll begins." },
        knob! { packet: "packet", "cost of a packet", Kind::Time { least: 0, most: MOST },
        "A packet with data of any size that the TCP is given or gives: an aggregate, or a segment." },
        knob! { kilobyte: "kilobyte", "cost of 1000 bytes", Kind::Time { least: 0, most: MOST },
        "Each 1000 bytes of payload: copies, checksums." },
        knob! { ack: "ack", "cost of an ACK", Kind::Time { least: 0, most: MOST },
        "A packet without data, in or out." },
        knob! { call: "call", "cost of a read", Kind::Time { least: 0, most: MOST },
        "A system call by which an application reads: one a flow and poll that brought it data." },
    ];
}

impl Cpu {
    /// As the network takes it.
    pub fn spec(&self) -> CpuSpec {
        if !self.counts {
            return CpuSpec::FREE;
        }
        let time = SimTime::from_duration;
        CpuSpec {
            cores: self.cores,
            other: self.other,
            interrupt: time(self.interrupt),
            packet: time(self.packet),
            kilobyte: time(self.kilobyte),
            ack: time(self.ack),
            call: time(self.call),
        }
    }
}

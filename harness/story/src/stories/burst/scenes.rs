//! What the story runs: the set-up of the text, and each claim's.

use crate::scene::{Keys, Scene};

/// Hosts of the set-up, each coordinator and server.
pub(super) const HOSTS: f64 = 20.0;
/// The line.
pub(super) const LINE: f64 = 1e9;
/// The loads of the curve, the knee and the rows.
pub(super) const LOADS: &str = "50Mb/s,100Mb/s,200Mb/s,250Mb/s,300Mb/s,350Mb/s,400Mb/s,450Mb/s,500Mb/s,\
                     550Mb/s,600Mb/s,700Mb/s,800Mb/s,900Mb/s";

/// 10 kB on the mean, by the quantiles of an exponential distribution.
const MIXED: (&str, &str) = (
    "size",
    "cdf:1B 0|512B 0.05|1053B 0.1|2231B 0.2|3566B 0.3|5108B 0.4|6931B 0.5|9162B 0.6|12039B \
     0.7|16094B 0.8|23025B 0.9|29957B 0.95|39120B 0.98|46051B 0.99|69077B 0.999|100kB 1",
);
/// Hosts that hand over up to 64 KB as one packet, and count those.
const OFFLOAD: (&str, &str) = ("host.nic.tso", "64KiB");
const COUNTERS: (&str, &str) = ("probe.at.kind", "counters");

/// Queries at a load, without what else is told of the port.
const QUERIES: Keys = &[
    ("cc", "cubic"),
    ("host.tcp.loss_detection", "sack"),
    ("probe.port.series", "off"),
    ("run.duration", "5500ms"),
];

/// A switch with queries at a load, which most scenes vary in one thing.
const LOADED: Scene = Scene::new("", "microbursts")
    .sharing(&[QUERIES])
    .usually(&[("run.duration", "1500ms")]);

/// The load and replies at which remedies stand side by side.
const REMEDIED: Scene = LOADED
    .sharing(&[QUERIES, &[("load", "300Mb/s"), ("size", "10kB")]])
    .usually(&[("run.duration", "3500ms")]);

/// What is dropped at the ports of hosts, in bits, too.
const DROPPED_BITS: [(&str, &str); 2] =
    [("probe.tier.kind", "tier"), ("probe.tier.on", "s0->host")];
const LIMIT: (&str, &str) = ("host.nic.shaper_rate", "800Mb/s");
/// Interrupts that wait for so many frames, or for a time.
const COALESCED: (&str, &str) = ("host.nic.rx_frames", "16");

/// A sender that goes back to the first loss, which the text does not tell.
const GOING_BACK: Scene = Scene::new("", "microbursts")
    .sharing(&[&[
        ("cc", "cubic"),
        ("host.tcp.loss_detection", "go-back-n"),
        ("probe.port.series", "off"),
        OFFLOAD,
        COUNTERS,
        ("run.warm_up", "500ms"),
        ("run.duration", "5500ms"),
        ("run.repetitions", "3"),
    ]])
    .usually(&[("run.duration", "3500ms")]);

/// As servers of the text's time: neither SACK nor timestamps, a port that is busy from the 8 KiB of a
/// socket's high watermark on, and a switch that holds two dozen frames.
const SEE_SAW: Scene = Scene::new("see-saw", "busy-port")
    .sharing(&[&[
        ("writers", "suspend"),
        ("limit", "8KiB"),
        ("traffic.mesh.request", "100B"),
        ("traffic.mesh.reply", "1MB"),
        ("traffic.mesh.service", "50us"),
        ("host.tcp.loss_detection", "newreno"),
        ("host.tcp.limited_transmit", "off"),
        ("host.tcp.sack", "off"),
        ("host.tcp.timestamps", "off"),
        ("change.0.at", "1000s"),
        ("probe.out.kind", "rate"),
        ("probe.out.on", "host->s0"),
        ("probe.out.every", "100ms"),
        ("run.warm_up", "0s"),
        ("run.duration", "18s"),
    ]])
    .with(&[
        ("rate", "62"),
        ("network.queue.limit", "32KiB"),
        ("run.repetitions", "3"),
    ])
    .keeping_outcomes();

/// What runs.
pub(super) const SCENES: &[Scene] = &[
    Scene::new("polling", "microbursts")
        .with(&[
            ("cc", "cubic"),
            ("host.tcp.loss_detection", "sack"),
            ("load", "170Mb/s"),
            ("probe.port.on", "s0->host"),
            ("probe.port.series", "off"),
            (
                "probe.port.every",
                "500ms,250ms,128ms,64ms,32ms,16ms,8ms,4ms,2ms,1ms",
            ),
            ("run.warm_up", "500ms"),
            ("run.duration", "20500ms"),
        ])
        .usually(&[("run.duration", "3500ms")]),
    // Calibrated: so late that readings of 1 ms are the text's. What is judged is those of 2 ms.
    Scene::new("late", "microbursts")
        .with(&[
            ("cc", "cubic"),
            ("host.tcp.loss_detection", "sack"),
            ("load", "170Mb/s"),
            ("probe.port.on", "s0->host"),
            ("probe.port.series", "off"),
            ("probe.port.every", "2ms,1ms"),
            ("probe.port.late", "850us"),
            ("run.warm_up", "500ms"),
            ("run.duration", "20500ms"),
        ])
        .usually(&[("run.duration", "2500ms")]),
    Scene::new("units", "microbursts").with(&[
        ("cc", "cubic"),
        ("load", "450Mb/s"),
        ("network.hosts", "5"),
        ("sweep.probe.port.mega", "10^6,2^20"),
        ("probe.port.every", "100ms"),
        ("run.warm_up", "100ms"),
        ("run.duration", "600ms"),
    ]),
    Scene::new("load", "microbursts")
        .with(&[
            ("cc", "cubic"),
            ("host.tcp.loss_detection", "sack"),
            ("size", "10kB"),
            ("sweep.load", LOADS),
            ("probe.port.series", "off"),
            ("run.warm_up", "500ms"),
            ("run.duration", "5500ms"),
            ("run.repetitions", "3"),
        ])
        .usually(&[("run.duration", "2s"), ("run.repetitions", "1")]),
    // As many queries at a host as make what is served bend at twice 250 Mb/s: chosen, and quoted only.
    LOADED
        .named("bounded")
        .with(&[
            ("size", "10kB"),
            ("traffic.get.limit", "256"),
            ("sweep.load", "250Mb/s,400Mb/s,450Mb/s,500Mb/s,600Mb/s"),
            ("run.warm_up", "500ms"),
        ])
        .usually(&[("run.duration", "2500ms")]),
    // Copies as in M12, alone.
    LOADED
        .named("copies-alone")
        .with(&[
            ("load", "250Mb/s"),
            ("servers", "1"),
            ("size", "600MB"),
            ("run.warm_up", "6s"),
            ("run.duration", "30s"),
            ("run.repetitions", "6"),
        ])
        .usually(&[("run.repetitions", "2")]),
    LOADED.named("large-replies").with(&[
        ("size", "30kB"),
        ("sweep.load", "200Mb/s,400Mb/s"),
        ("run.warm_up", "500ms"),
    ]),
    LOADED
        .named("counted-at-hosts")
        .usually(&[("run.duration", "3s")])
        .with(&[
            MIXED,
            ("load", "200Mb/s"),
            OFFLOAD,
            COUNTERS,
            ("run.warm_up", "500ms"),
        ]),
    Scene::new("smooth", "microbursts").with(&[
        ("cc", "cubic"),
        ("load", "250Mb/s"),
        ("traffic.get.kind", "on-off"),
        ("traffic.get.from", "*"),
        ("traffic.get.to", "*"),
        ("traffic.get.rate", "13157kb/s"),
        ("traffic.get.size", "1MB"),
        ("traffic.get.idle", "1us"),
        ("probe.port.series", "off"),
        ("run.duration", "1500ms"),
    ]),
    LOADED
        .named("unmarked")
        .with(&[("load", "250Mb/s"), ("sweep.size", "10kB,30kB")]),
    LOADED.named("deeper").with(&[
        ("load", "250Mb/s"),
        ("buffer", "128KiB"),
        ("sweep.cc", "cubic,dctcp"),
    ]),
    // Chosen for M28. DCTCP's authors have 20 packets at 1 Gb/s, and the rate times a round trip over seven,
    // here one, as the least.
    Scene::new("early-marks", "microbursts")
        .with(&[
            ("cc", "dctcp"),
            ("load", "250Mb/s"),
            ("host.tcp.loss_detection", "sack"),
            ("sweep.size", "10kB,30kB"),
            ("sweep.network.queue.threshold", "5p,10p,20p"),
            ("probe.port.series", "off"),
            ("run.duration", "5500ms"),
        ])
        .usually(&[("run.duration", "1500ms")]),
    REMEDIED.named("none").with(&DROPPED_BITS),
    REMEDIED.named("marks").with(&[
        ("cc", "dctcp"),
        ("sweep.network.queue.threshold", "5p,30kB"),
    ]),
    REMEDIED
        .named("pause")
        .with(&[("network.pause.mode", "802.3x")]),
    REMEDIED
        .named("larger-ports")
        .with(&[("sweep.buffer", "128KiB,256KiB")]),
    REMEDIED.named("rto").with(&[("sweep.rto", "10ms,1ms")]),
    REMEDIED
        .named("rto-at-ticks")
        .with(&[
            ("sweep.rto", "linux,10ms,1ms"),
            ("sweep.host.tcp.timer_tick", "1ms,10ms"),
        ])
        .usually(&[
            ("sweep.host.tcp.timer_tick", "10ms"),
            ("run.duration", "3500ms"),
        ]),
    REMEDIED
        .named("mtu")
        .with(&[("network.mtu", "9000"), DROPPED_BITS[0], DROPPED_BITS[1]]),
    REMEDIED
        .named("tx-queue")
        .with(&[("host.nic.tx_queue", "100p")]),
    REMEDIED
        .named("interrupts")
        .with(&[COALESCED, ("sweep.host.nic.rx_usecs", "20us,125us")]),
    REMEDIED.named("ring").with(&[
        COALESCED,
        ("host.nic.rx_usecs", "20us"),
        ("host.nic.rx_ring", "64"),
    ]),
    REMEDIED.named("sender-limit").with(&[
        LIMIT,
        ("host.nic.shaper_burst", "3kB"),
        ("sweep.host.nic.shaper_tick", "0s,10ms"),
    ]),
    REMEDIED.named("sender-limit-bursts").with(&[
        LIMIT,
        ("host.nic.shaper_burst", "1MB"),
        ("host.nic.shaper_tick", "10ms"),
    ]),
    LOADED
        .named("buffers")
        .with(&[
            ("load", "450Mb/s"),
            ("sweep.buffer", "64KiB,128KiB,256KiB,512KiB,1MiB,10MiB"),
        ])
        .usually(&[
            ("sweep.buffer", "64KiB,256KiB,1MiB"),
            ("run.duration", "1500ms"),
        ]),
    // What fills a buffer of any size: copies without an end, as in M1, beside the queries.
    LOADED
        .named("deep")
        .with(&[
            ("load", "100Mb/s"),
            ("size", "10kB"),
            ("host.tcp.receive_window", "16MiB"),
            ("traffic.copy.kind", "bulk"),
            ("traffic.copy.from", "h1..h5"),
            ("traffic.copy.to", "h0"),
            ("sweep.buffer", "64KiB,128KiB,256KiB,512KiB,1MiB,10MiB"),
            ("run.warm_up", "0s"),
            ("run.duration", "20s"),
        ])
        // Nothing is shorter: copies take long to fill 10 MiB.
        .usually(&[]),
    // Calibrated: replies and ports that have all of M16. Single runs and shorter ones have not always.
    GOING_BACK
        .named("going-back")
        .with(&[
            ("size", "14kB"),
            ("buffer", "96KiB"),
            ("sweep.load", "250Mb/s,350Mb/s,400Mb/s,500Mb/s"),
        ])
        .usually(&[("run.duration", "3500ms"), ("run.repetitions", "1")]),
    GOING_BACK
        .named("going-back-less")
        .with(&[
            ("size", "11kB"),
            ("buffer", "80KiB"),
            ("sweep.load", "400Mb/s,500Mb/s"),
        ])
        .in_full(),
    GOING_BACK
        .named("going-back-more")
        .with(&[
            ("size", "16kB"),
            ("buffer", "104KiB"),
            ("sweep.load", "400Mb/s,500Mb/s"),
        ])
        .in_full(),
    Scene::new("together", "incast").with(&[
        ("cc", "cubic"),
        ("rto", "linux"),
        ("delay", "5us"),
        ("servers", "3"),
        ("sru", "100kB"),
        ("blocks", "50"),
        ("sweep.buffer", "64KiB,100kB,150kB,200kB,250kB,300kB,400kB"),
    ]),
    Scene::new("apart", "incast").with(&[
        ("cc", "cubic"),
        ("rto", "linux"),
        ("delay", "5us"),
        ("servers", "3"),
        ("sru", "100kB"),
        ("blocks", "50"),
        ("buffer", "128kB"),
        (
            "sweep.traffic.read.stagger",
            "0us,10us,30us,100us,200us,400us,800us,2ms,10ms",
        ),
    ]),
    Scene::new("frames", "incast").with(&[
        ("cc", "cubic"),
        ("rto", "linux"),
        ("delay", "5us"),
        ("sru", "10kB"),
        ("blocks", "10"),
        ("ecn-threshold", "10p"),
        ("sweep.buffer", "24p,50p,100p,200p,400p"),
        (
            "sweep.servers",
            "2,3,4,5,6,7,8,9,10,12,14,15,16,18,20,24,28,29,30,32,40,48,56,57,58,60,64",
        ),
    ]),
    Scene::new("bulk", "two-senders")
        .with(&[
            ("host.tcp.congestion", "cubic"),
            ("network.hosts", "6"),
            ("network.queue.limit", "256KiB"),
            ("traffic.copy.from", "h1..h5"),
            ("run.warm_up", "1s"),
            ("run.duration", "11s"),
            ("run.repetitions", "1"),
        ])
        .keeping_outcomes(),
    Scene::new("few-losses", "two-senders")
        .with(&[
            ("host.tcp.congestion", "cubic"),
            ("host.tcp.loss_detection", "rack"),
            ("network.hosts", "2"),
            ("network.queue.limit", "256KiB"),
            ("traffic.copy.from", "h1"),
            ("sweep.network.link.loss", "0%,0.01%,0.1%,1%,5%"),
            ("run.duration", "5s"),
        ])
        .usually(&[("run.duration", "2s")]),
    Scene::new("many-losses", "incast")
        .with(&[
            ("cc", "cubic"),
            ("rto", "linux"),
            ("servers", "8"),
            ("blocks", "100"),
            ("probe.window.kind", "window"),
            ("probe.window.on", "servers"),
        ])
        .keeping_outcomes(),
    Scene::new("resends", "microbursts")
        .with(&[
            ("cc", "cubic"),
            ("host.tcp.loss_detection", "sack"),
            ("size", "10kB"),
            ("load", "280Mb/s"),
            OFFLOAD,
            COUNTERS,
            ("probe.port.series", "off"),
            ("run.warm_up", "500ms"),
            ("run.duration", "8s"),
        ])
        .usually(&[("run.duration", "3s")]),
    Scene::new("ten-gigabit", "microbursts")
        .with(&[
            ("cc", "cubic"),
            ("host.tcp.loss_detection", "sack"),
            ("network.link.rate", "10Gb/s"),
            ("size", "10kB"),
            ("sweep.load", "2Gb/s,3Gb/s,4Gb/s,5Gb/s"),
            ("probe.port.series", "off"),
            ("run.warm_up", "100ms"),
            ("run.duration", "500ms"),
        ])
        .usually(&[("run.duration", "250ms"), ("run.warm_up", "50ms")]),
    LOADED
        .named("racks")
        .with(&[
            ("size", "10kB"),
            ("network.topology", "leaf-spine"),
            ("network.leaves", "4"),
            ("network.spines", "2"),
            ("network.hosts", "5"),
            ("network.trunk.link.rate", "10Gb/s"),
            ("sweep.load", "200Mb/s,250Mb/s,300Mb/s,350Mb/s,400Mb/s"),
            ("probe.port.on", "leaf->host"),
            ("run.warm_up", "500ms"),
        ])
        .usually(&[
            ("sweep.load", "200Mb/s,250Mb/s,300Mb/s"),
            ("run.duration", "1500ms"),
        ]),
    SEE_SAW,
    // A mesh of equal replies, at a load above half.
    SEE_SAW
        .named("equal-replies")
        .with(&[
            ("rate", "70"),
            ("network.queue.limit", "64KiB"),
            ("host.tcp.rto", "200ms"),
        ])
        .usually(&[("run.duration", "8s")]),
    SEE_SAW
        .named("timestamps")
        .with(&[
            ("rate", "62"),
            ("network.queue.limit", "32KiB"),
            ("host.tcp.timestamps", "on"),
            ("run.repetitions", "3"),
        ])
        .in_full(),
    // Queries, and copies as in M1, here of 600 MB, which take some seconds each: chosen.
    LOADED
        .named("copies")
        .with(&[
            ("load", "200Mb/s"),
            ("size", "10kB"),
            ("traffic.copy.kind", "fan-out"),
            ("traffic.copy.load", "350Mb/s"),
            ("traffic.copy.k", "1"),
            ("traffic.copy.size", "600MB"),
            ("probe.out.kind", "rate"),
            ("probe.out.on", "host->s0"),
            ("probe.out.every", "100ms"),
            ("run.warm_up", "6s"),
            ("run.duration", "30s"),
            ("run.repetitions", "4"),
        ])
        // Never shorter: only a full story has it.
        .usually(&[])
        .keeping_outcomes()
        .in_full(),
    Scene::new("all-to-all", "shuffle")
        .with(&[("cc", "cubic"), ("path", "flow"), ("parallel", "off")])
        .usually(&[("run.repetitions", "2")]),
    LOADED
        .named("limited-copy")
        .with(&[
            ("load", "100Mb/s"),
            ("size", "10kB"),
            ("traffic.copy.kind", "bulk"),
            ("traffic.copy.from", "h1"),
            ("traffic.copy.to", "h0"),
            ("sweep.host.nic.shaper_rate", "off,800Mb/s"),
            ("host.nic.shaper_burst", "1MB"),
            ("sweep.host.nic.shaper_tick", "0s,10ms"),
            ("run.warm_up", "500ms"),
        ])
        .usually(&[("run.duration", "3500ms")]),
];

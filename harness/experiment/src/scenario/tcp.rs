//! A scenario's words about TCP as the configuration of the stack.

use super::error::ScenarioError;
use super::spec::{AckCount, DctcpReceiver, DelayedAck, EcnUse, PrrUse, SackUse, TcpSpec};
use crate::registry::Registry;
use narrows::ByteCount;
use narrows::config::{
    AckPolicy, Buffers, EcnMode, Factory, InitialWindow, RecoverySending, SpuriousDetection,
    TcpConfig, TimestampMode,
};
use narrows::congestion::{CongestionFactory, EcnNeed, FlowStart};
use narrows::conn::acknowledge::{Acknowledge, FullSegments};
use narrows::conn::ecn::{EcnFeedback, LinuxDctcp, LinuxDctcp2015};
use narrows::recovery::DetectorFactory;
use std::sync::Arc;

/// Whether `spec` has the ECN that its congestion control works with: a connection negotiates
/// what the congestion control needs, whatever else is configured, and a run by another name
/// would be a mistake.
pub fn check_ecn(spec: &TcpSpec, congestion: &dyn CongestionFactory) -> Result<(), ScenarioError> {
    let feedback = match (spec.ecn, need(congestion)) {
        (EcnUse::Off | EcnUse::Classic, EcnNeed::Dctcp) => "the ECN feedback of RFC 8257",
        (EcnUse::Off, EcnNeed::Classic) => "ECN",
        _ => return Ok(()),
    };
    let (ecn, cc) = (spec.ecn.name(), &spec.congestion);
    Err(ScenarioError::Invalid {
        option: "ecn",
        given: format!("{ecn} with --cc {cc}"),
        allowed: format!(
            "{cc} needs {feedback}: choose --ecn auto, or --cc without {cc}; to see it without \
             marks, --ecn-threshold off"
        ),
    })
}

/// Whether `spec` has SACK only with a loss detector that uses it: a connection negotiates what its
/// detector works with, and a run by another name would be a mistake.
fn check_sack(spec: &TcpSpec, detector: &dyn DetectorFactory) -> Result<(), ScenarioError> {
    let loss = &spec.loss_detector;
    let (given, allowed) = match (spec.sack, detector.build().uses_sack()) {
        (SackUse::On, false) => (
            format!("on with --loss {loss}"),
            format!("{loss} works without SACK: choose --sack auto, or --loss sack or rack"),
        ),
        (SackUse::Off, true) if loss == "sack" => (
            format!("off with --loss {loss}"),
            "choose --loss newreno or reno, or --sack on".to_owned(),
        ),
        _ => return Ok(()),
    };
    Err(ScenarioError::Invalid {
        option: "sack",
        given,
        allowed,
    })
}

/// The ECN that a congestion control asks for.
fn need(congestion: &dyn CongestionFactory) -> EcnNeed {
    let segment = ByteCount::new(1_460);
    congestion
        .build(&FlowStart::new(segment, segment))
        .needs()
        .ecn
}

/// What a receiver does with marks, where it is not what RFC 8257 says, or RFC 3168: that the peer
/// runs DCTCP is known only from what runs here.
fn feedback(
    spec: &TcpSpec,
    congestion: &dyn CongestionFactory,
) -> Option<Factory<dyn EcnFeedback>> {
    if need(congestion) != EcnNeed::Dctcp {
        return None;
    }
    match spec.dctcp_receiver {
        DctcpReceiver::Rfc8257 => None,
        DctcpReceiver::Linux => Some(Arc::new(|| Box::new(LinuxDctcp::default()))),
        DctcpReceiver::Linux2015 => Some(Arc::new(|| Box::new(LinuxDctcp2015::default()))),
    }
}

/// Delayed acknowledgements by bytes, where they are asked for.
fn acknowledge(spec: &TcpSpec, mtu: u32) -> Option<Factory<dyn Acknowledge>> {
    match (spec.ack_count, spec.delayed_ack) {
        (AckCount::Bytes, DelayedAck::On { segments, timeout }) => {
            let options = if spec.timestamps { TIMESTAMPS } else { 0 };
            let full = ByteCount::from(spec.effective_mss(mtu).saturating_sub(options));
            Some(Arc::new(move || {
                Box::new(FullSegments::new(segments, full, timeout))
            }))
        }
        (AckCount::Segments, _) | (_, DelayedAck::Off) => None,
    }
}

/// Bytes that the timestamps option takes of a segment, padding included.
const TIMESTAMPS: u32 = 12;

/// The TCP that `spec` describes, on a path with `mtu`.
pub fn config(spec: &TcpSpec, mtu: u32, registry: &Registry) -> Result<TcpConfig, ScenarioError> {
    let unknown = |option, given: &str| ScenarioError::UnknownName {
        option,
        given: given.to_owned(),
    };
    let congestion = registry
        .congestion
        .get(&spec.congestion)
        .map_err(|_| unknown("cc", &spec.congestion))?;
    check_ecn(spec, &*congestion)?;
    let detector = registry
        .detectors
        .get(&spec.loss_detector)
        .map_err(|_| unknown("loss", &spec.loss_detector))?;
    check_sack(spec, &*detector)?;
    let config = TcpConfig {
        ecn_feedback: feedback(spec, &*congestion),
        congestion,
        rto: registry
            .rto
            .get(&spec.rto)
            .map_err(|_| unknown("rto", &spec.rto))?,
        detector,
        recovery: match spec.prr {
            PrrUse::On => RecoverySending::Prr,
            PrrUse::Linux43 => RecoverySending::PrrLinux43,
            PrrUse::Off => RecoverySending::Pipe,
        },
        limited_transmit: spec.limited_transmit,
        spurious: if spec.undo_spurious {
            SpuriousDetection::default()
        } else {
            SpuriousDetection::OFF
        },
        mss: spec.effective_mss(mtu).min(u32::from(u16::MAX)) as u16,
        sack: spec.sack != SackUse::Off,
        timestamps: if spec.timestamps {
            TimestampMode::Micros
        } else {
            TimestampMode::Off
        },
        ecn: match spec.ecn {
            EcnUse::Auto | EcnUse::Off => EcnMode::Off,
            EcnUse::Classic => EcnMode::Classic,
        },
        initial_window: InitialWindow::Segments(spec.initial_window),
        dscp: u8::try_from(spec.dscp).unwrap_or(0),
        idle_restart: spec.idle_restart,
        nagle: spec.nagle,
        local_drop: registry
            .local_drop
            .get(&spec.local_drop)
            .map_err(|_| unknown("local-drop", &spec.local_drop))?,
        ack: match spec.delayed_ack {
            DelayedAck::Off => AckPolicy::IMMEDIATE,
            DelayedAck::On { segments, timeout } => AckPolicy {
                delay: timeout,
                every: segments,
                quick_acks: 0,
            },
        },
        acknowledge: acknowledge(spec, mtu),
        window_count: spec.window_count,
        buffers: Buffers {
            send: spec.send_buffer.map_or(1 << 30, ByteCount::as_usize),
            recv: spec.receive_window.map_or(16 << 20, ByteCount::as_usize),
            ..Buffers::default()
        },
        window_scaling: spec
            .receive_window
            .is_none_or(|w| w.get() > u64::from(u16::MAX)),
        timer_tick: spec.timer_tick,
        ..TcpConfig::default()
    };
    config
        .validate()
        .map_err(|e| ScenarioError::Internal(e.to_string()))?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::validate::check_tcp;
    use narrows::Duration;

    fn configured(tcp: &TcpSpec, mtu: u32) -> Result<TcpConfig, ScenarioError> {
        check_tcp(tcp, mtu)?;
        config(tcp, mtu, &Registry::default())
    }

    /// The ends of each range that a scenario allows are allowed by the stack, too, and what is
    /// beyond is told as the user's value.
    #[test]
    fn a_scenario_allows_what_the_stack_does() {
        type Set = fn(&mut TcpSpec);
        let ends: [(Set, Set); 6] = [
            (
                |s| s.initial_window = InitialWindow::MAX_SEGMENTS,
                |s| s.initial_window = InitialWindow::MAX_SEGMENTS + 1,
            ),
            (|s| s.initial_window = 1, |s| s.initial_window = 0),
            (|s| s.mss = Some(64), |s| s.mss = Some(63)),
            (
                |s| s.receive_window = Some(ByteCount::new(1 << 30)),
                |s| s.receive_window = Some(ByteCount::new((1 << 30) + 1)),
            ),
            (
                |s| s.timer_tick = Duration::from_secs(1),
                |s| s.timer_tick = Duration::from_nanos(1_000_000_001),
            ),
            (
                |s| {
                    s.delayed_ack = DelayedAck::On {
                        segments: 64,
                        timeout: Duration::from_millis(499),
                    };
                },
                |s| {
                    s.delayed_ack = DelayedAck::On {
                        segments: 2,
                        timeout: Duration::from_millis(500),
                    };
                },
            ),
        ];
        for (i, (last, beyond)) in ends.into_iter().enumerate() {
            let mut tcp = TcpSpec::default();
            last(&mut tcp);
            for mtu in [104, 1_500, 65_535] {
                configured(&tcp, mtu).unwrap_or_else(|e| panic!("{i}: {e}"));
            }
            beyond(&mut tcp);
            let refused = configured(&tcp, 1_500);
            assert!(
                matches!(refused, Err(ScenarioError::Invalid { .. })),
                "{i}: {refused:?}"
            );
        }
    }

    /// The stack's own words have the bound that everything else takes from its constant.
    #[test]
    fn the_stack_names_its_greatest_initial_window() {
        let config = TcpConfig {
            initial_window: InitialWindow::Segments(InitialWindow::MAX_SEGMENTS + 1),
            ..TcpConfig::default()
        };
        let allowed = format!("1 to {} segments", InitialWindow::MAX_SEGMENTS);
        assert_eq!(
            config.validate().map_err(|e| e.allowed),
            Err(allowed.as_str())
        );
    }

    /// Whoever asks for an ECN gets that one or is told.
    #[test]
    fn ecn_is_what_was_asked_for() {
        for (cc, ecn, mode) in [
            ("reno", EcnUse::Auto, Some(EcnMode::Off)),
            ("reno", EcnUse::Off, Some(EcnMode::Off)),
            ("cubic", EcnUse::Classic, Some(EcnMode::Classic)),
            ("dctcp", EcnUse::Auto, Some(EcnMode::Off)),
            ("dctcp", EcnUse::Off, None),
            ("dctcp:g=1/32", EcnUse::Classic, None),
        ] {
            let tcp = TcpSpec {
                congestion: cc.to_owned(),
                ecn,
                ..TcpSpec::default()
            };
            match configured(&tcp, 1_500) {
                Ok(config) => assert_eq!(Some(config.ecn), mode, "{cc}, {ecn:?}"),
                Err(e) => {
                    assert_eq!(mode, None, "{cc}, {ecn:?}: {e}");
                    assert!(e.to_string().starts_with("--ecn: "), "{e}");
                }
            }
        }
    }

    #[test]
    fn sack_is_what_the_loss_detector_works_with() {
        for (loss, sack, refused) in [
            ("newreno", SackUse::Auto, None),
            ("newreno", SackUse::Off, None),
            ("newreno", SackUse::On, Some("choose --sack auto")),
            ("reno", SackUse::On, Some("reno works without SACK")),
            ("sack", SackUse::Auto, None),
            ("sack", SackUse::Off, Some("choose --loss newreno or reno")),
            ("rack", SackUse::On, None),
            ("rack", SackUse::Off, None),
        ] {
            let tcp = TcpSpec {
                loss_detector: loss.to_owned(),
                sack,
                ..TcpSpec::default()
            };
            match (configured(&tcp, 1_500), refused) {
                (Ok(config), None) => assert_eq!(config.sack, sack != SackUse::Off),
                (Err(e), Some(why)) => assert!(e.to_string().contains(why), "{e}"),
                (other, _) => panic!("{loss}, {sack:?}: {:?}", other.err()),
            }
        }
    }
}

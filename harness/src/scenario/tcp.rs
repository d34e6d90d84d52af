//! A scenario's words about TCP as the configuration of the stack.

use super::ScenarioError;
use super::spec::{DelayedAck, EcnUse, TcpSpec};
use narrows::ByteCount;
use narrows::config::{
    AckPolicy, EcnMode, InitialWindow, RecoverySending, SpuriousDetection, TcpConfig, TimestampMode,
};
use narrows::congestion::{CongestionRegistry, RtoRegistry};
use narrows::recovery::detector::DetectorRegistry;

/// The TCP that `spec` describes, on a path with `mtu`.
pub(crate) fn config(
    spec: &TcpSpec,
    mtu: u32,
    congestion: &CongestionRegistry,
    rto: &RtoRegistry,
    detectors: &DetectorRegistry,
) -> Result<TcpConfig, ScenarioError> {
    let unknown = |option, given: &str| ScenarioError::UnknownName {
        option,
        given: given.to_owned(),
    };
    let config = TcpConfig {
        congestion: congestion
            .get(&spec.congestion)
            .map_err(|_| unknown("cc", &spec.congestion))?,
        rto: rto.get(&spec.rto).map_err(|_| unknown("rto", &spec.rto))?,
        detector: detectors
            .get(&spec.loss_detector)
            .map_err(|_| unknown("loss", &spec.loss_detector))?,
        recovery: if spec.prr {
            RecoverySending::Prr
        } else {
            RecoverySending::Pipe
        },
        limited_transmit: spec.limited_transmit,
        spurious: if spec.undo_spurious {
            SpuriousDetection::default()
        } else {
            SpuriousDetection::OFF
        },
        mss: spec.effective_mss(mtu).min(u32::from(u16::MAX)) as u16,
        sack: spec.sack,
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
        idle_restart: spec.idle_restart,
        nagle: false,
        ack: match spec.delayed_ack {
            DelayedAck::Off => AckPolicy::IMMEDIATE,
            DelayedAck::On { segments, timeout } => AckPolicy {
                delay: timeout,
                every: segments,
                quick_acks: 0,
            },
        },
        send_buffer: 1 << 30,
        recv_buffer: spec.receive_window.map_or(16 << 20, ByteCount::as_usize),
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

//! A scenario's words about TCP as the configuration of the stack.

use super::ScenarioError;
use super::spec::{DelayedAck, EcnUse, TcpSpec};
use narrows::ByteCount;
use narrows::config::{
    AckPolicy, EcnMode, IdleRestart, InitialWindow, RecoverySending, SpuriousDetection, TcpConfig,
    TimestampMode,
};
use narrows::congestion::{CongestionRegistry, RtoRegistry};
use narrows::recovery::detector;
use std::sync::Arc;

/// The TCP that `spec` describes, on a path with `mtu`.
pub(super) fn config(
    spec: &TcpSpec,
    mtu: u32,
    congestion: &CongestionRegistry,
    rto: &RtoRegistry,
) -> Result<TcpConfig, ScenarioError> {
    let unknown = |option, given: &str| ScenarioError::UnknownName {
        option,
        given: given.to_owned(),
    };
    let detector = *detector::by_name(&spec.loss_detector)
        .ok_or_else(|| unknown("loss", &spec.loss_detector))?;
    let config = TcpConfig {
        congestion: congestion
            .get(&spec.congestion)
            .map_err(|_| unknown("cc", &spec.congestion))?,
        rto: rto.get(&spec.rto).map_err(|_| unknown("rto", &spec.rto))?,
        detector: Arc::new(detector),
        recovery: if spec.prr {
            RecoverySending::Prr
        } else {
            RecoverySending::Pipe
        },
        limited_transmit: spec.limited_transmit,
        spurious: SpuriousDetection::default(),
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
        // The senders are idle between blocks for no longer than it takes the slowest of them:
        // what the papers' persistent connections do is kept.
        idle_restart: IdleRestart::Keep,
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

//! What a connection is generic over.

use crate::buffer::{RecvBuffer, SendBuffer};
use crate::config::TcpConfig;
use narrows_congestion::{AnyCongestion, AnyRto, CongestionControl, FlowStart, RtoPolicy};
use std::marker::PhantomData;

/// The types a connection is made of.
pub trait TcpTypes: Sized + 'static {
    /// Holds what the user sends.
    type Send: SendBuffer + Default + Send;
    /// Holds what the user is to receive.
    type Recv: RecvBuffer + Default + Send;
    /// Congestion control.
    type Congestion: CongestionControl;
    /// Retransmission timeouts.
    type Rto: RtoPolicy;

    /// A congestion control for a new connection.
    fn congestion(config: &TcpConfig, start: &FlowStart) -> Self::Congestion;
    /// An RTO policy for a new connection.
    fn rto(config: &TcpConfig) -> Self::Rto;
}

/// What the user sends, as the sender's buffer takes it.
pub type Source<'a, T> = <<T as TcpTypes>::Send as SendBuffer>::Source<'a>;

/// The text of a segment that leaves.
pub type View<'a, T> = <<T as TcpTypes>::Send as SendBuffer>::View<'a>;

/// The text of a segment that arrives.
pub type Text<'a, T> = <<T as TcpTypes>::Recv as RecvBuffer>::Payload<'a>;

/// Buffers `S` and `R` with whatever congestion control and RTO policy the configuration names:
/// those of `narrows-congestion` in the connection itself, those of others boxed.
#[derive(Debug)]
pub struct Boxed<S, R>(PhantomData<fn() -> (S, R)>);

impl<S, R> TcpTypes for Boxed<S, R>
where
    S: SendBuffer + Default + Send + 'static,
    R: RecvBuffer + Default + Send + 'static,
{
    type Send = S;
    type Recv = R;
    type Congestion = AnyCongestion;
    type Rto = AnyRto;

    fn congestion(config: &TcpConfig, start: &FlowStart) -> Self::Congestion {
        config.congestion.build_any(start)
    }
    fn rto(config: &TcpConfig) -> Self::Rto {
        config.rto.build_any()
    }
}

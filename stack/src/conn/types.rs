//! What a connection is generic over.

use crate::buffer::{RecvBuffer, SendBuffer};

/// The types a connection is made of.
pub trait TcpTypes: Sized + 'static {
    /// Holds what the user sends.
    type Send: SendBuffer + Default + Send;
    /// Holds what the user is to receive.
    type Recv: RecvBuffer + Default + Send;
}

/// What the user sends, as the sender's buffer takes it.
pub type Source<'a, T> = <<T as TcpTypes>::Send as SendBuffer>::Source<'a>;

/// The text of a segment that leaves.
pub type View<'a, T> = <<T as TcpTypes>::Send as SendBuffer>::View<'a>;

/// The text of a segment that arrives.
pub type Text<'a, T> = <<T as TcpTypes>::Recv as RecvBuffer>::Payload<'a>;

/// Buffers `S` and `R` with whatever congestion control and RTO policy the configuration names:
/// those of `narrows-congestion` in the connection itself, those of others boxed.
pub type Boxed<S, R> = (S, R);

impl<S, R> TcpTypes for Boxed<S, R>
where
    S: SendBuffer + Default + Send + 'static,
    R: RecvBuffer + Default + Send + 'static,
{
    type Send = S;
    type Recv = R;
}

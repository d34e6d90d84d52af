//! The network, through its public face.

mod change;
mod topologies;
mod transfer;

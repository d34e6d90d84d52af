//! Experiments, through the public face.

mod capture;
mod determinism;
mod drawn;
mod guide;
mod host;
mod incast;
mod own_experiment;
mod switches;
mod trace;

//! Experiments, through the public face.

mod capture;
mod determinism;
mod drawn;
mod guide;
mod host;
mod incast;
mod own_experiment;
mod short_names;
mod switches;
mod tags;
mod trace;

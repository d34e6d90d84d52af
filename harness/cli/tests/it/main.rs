//! The command, as a program and as a library.

mod captures;
mod commands;
mod examples;
mod experiments;
mod explained;
mod flows;
mod grid;
mod ledger;
mod outputs;
mod scripts;
mod stories;

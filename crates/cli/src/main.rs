//! The terminal door: commands, configuration and output around the `quipu-ledger` library.
//!
//! The binary speaks and does no work. Only here are `$HOME`, the environment and the
//! configuration read, and only [`output`] prints. Read in this order: [`args`], [`commands`],
//! [`settings`], [`output`], [`error`].

mod args;
mod commands;
mod config;
mod demo;
mod error;
mod filters;
mod logging;
mod machine;
mod output;
mod paths;
mod reading;
mod roots;
mod routing;
mod service;
mod settings;
mod shell;
mod telling;
mod zone;

use std::process::ExitCode;
use std::sync::Arc;

use signal_hook::consts::SIGXFSZ;

/// Reader threads allocate what the writer thread frees; glibc's allocator makes them wait for each
/// other, which costs an import a fifth of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Whatever is created, the ledger and restored transcripts above all, is its owner's alone.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    // A file that may not grow any more is an error to be told, like a full disk, and no reason to
    // die on the spot. Any handler turns the signal into the error of the write that caused it;
    // without one, nothing is lost either, but nobody is told why.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    commands::main(std::env::args_os().collect())
}

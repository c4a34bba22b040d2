//! The command line of quipu: commands, configuration and output around the `quipu-ledger` library.
//!
//! The binary prints and leaves the work to the library. Only here are `$HOME`, the environment and
//! the configuration read, and only [`output`] prints. Read in this order: [`args`], [`commands`],
//! [`settings`], [`output`], [`error`].

mod args;
mod commands;
mod completing;
mod config;
mod demo;
mod detail;
mod error;
mod filters;
mod help;
mod logging;
mod machine;
mod mistakes;
mod output;
mod paths;
mod reading;
mod roots;
mod routing;
mod service;
mod settings;
mod shell;
mod stopping;
mod summarisers;
mod zone;

use std::process::ExitCode;
use std::sync::Arc;

use signal_hook::consts::SIGXFSZ;

/// The allocator. Reader threads allocate what the writer thread frees; with glibc's allocator they
/// wait for each other, which costs an import a fifth of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Every file that is created, such as the ledger, is readable by its owner only.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    // Reaching the limit for file sizes is an error with a message, like a full disk. A handler for
    // the signal turns it into the error of the write that caused it. Without one, nothing would be
    // lost either, but the process would end without a message.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let arguments: Vec<_> = std::env::args_os().collect();
    if completing::complete(&arguments) {
        return ExitCode::SUCCESS;
    }
    commands::main(arguments)
}

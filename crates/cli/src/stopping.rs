//! What a command does on Ctrl-C, on SIGTERM and when the terminal is closed: it stops its work in
//! order, or ends its child processes before it is ended itself.

use std::io;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Time that a command has to end after a signal. One that takes longer waits for a lock or the
/// disk, and the process exits without it.
const GRACE: Duration = Duration::from_millis(1_500);

/// Runs `stop` with the signal on Ctrl-C, on SIGTERM, and when the terminal is closed. Ends the
/// process if it is still there a moment later.
pub(crate) fn on_signal(stop: impl FnOnce(i32) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            stop(signal);
            std::thread::sleep(GRACE);
            std::process::exit(if signal == SIGINT { 130 } else { 0 });
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(())
}

/// Runs `before` on these signals, and then lets the signal end the process as it normally does.
pub(crate) fn before_end(before: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal));
    let mut signals = Signals::new(signals)?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            before();
            let _ = emulate_default_handler(signal);
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(())
}

/// Returns whether a signal is ignored, as `nohup` ignores SIGHUP.
fn is_ignored(signal: i32) -> bool {
    // Only Linux reports it; elsewhere the signal ends the command.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

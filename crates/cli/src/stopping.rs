//! Ends commands that run until they are stopped.

use std::io;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Time that a command has to end after a signal. One that takes longer waits for a lock or the
/// disk, and the process exits without it.
const GRACE: Duration = Duration::from_millis(1_500);

/// Runs `stop` with the signal on Ctrl-C, on SIGTERM, and when the terminal is closed. Ends the
/// process if it is still there a moment later.
pub(crate) fn on_signal(stop: impl FnOnce(i32) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    if !is_hangup_ignored() {
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

/// Returns whether SIGHUP is ignored, as `nohup` does.
fn is_hangup_ignored() -> bool {
    // Only Linux reports it; elsewhere a closed terminal stops the command.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0)
}

//! Events of the file system for individual folders: from inotify on Linux, from the `notify` crate
//! on other systems, with the same interface.

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(not(target_os = "linux"))]
mod others;

#[cfg(target_os = "linux")]
pub(super) use inotify::Events;
#[cfg(not(target_os = "linux"))]
pub(super) use others::Events;

/// The result of following a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    /// The folder is followed: its events arrive from now on.
    Done,
    /// This folder cannot be followed.
    Refused,
    /// The system has no watches left.
    NoneLeft,
}

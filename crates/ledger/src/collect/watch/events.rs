//! Events of the file system, for folders that are named one by one. Two kinds, one shape:
//! inotify on Linux, whatever `notify` finds elsewhere.

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(not(target_os = "linux"))]
mod others;

#[cfg(target_os = "linux")]
pub(super) use inotify::Events;
#[cfg(not(target_os = "linux"))]
pub(super) use others::Events;

/// What became of the wish to follow a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    /// Its events come from now on.
    Done,
    /// Not this one.
    Refused,
    /// The system has no watches left.
    NoneLeft,
}

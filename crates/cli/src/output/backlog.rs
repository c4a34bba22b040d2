//! Keeps results while standard output, or a pager, cannot take them.
//!
//! A command reads the ledger in one snapshot, and the write-ahead log grows as long as a snapshot
//! is held. So results that would block are kept in memory, above 4 MiB in a file without a name,
//! and a thread writes them. The command waits for that thread after it has dropped the snapshot.
//! Results that do not block are written at once, without a thread.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use tempfile::SpooledTempFile;

/// Limit for the bytes that are kept in memory.
const MAX_BYTES_IN_MEMORY: usize = 4 << 20;

/// Limit for the bytes that are kept in all. Above it, writing waits for the reader.
const MAX_KEPT_BYTES: u64 = 1 << 30;

/// Bytes that a pipe takes without blocking if it takes any.
const PIECE: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// Bytes that the thread writes at once.
const BATCH: usize = 64 << 10;

/// An output that does not block its caller, up to [`MAX_KEPT_BYTES`].
#[derive(Debug)]
pub(super) struct Backlog<W: AsFd> {
    out: Arc<W>,
    /// False for a regular file, which never blocks.
    can_block: bool,
    shared: Arc<Shared>,
    /// Started when something is kept for the first time.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    kept: SpooledTempFile,
    /// The first kept byte that is not written yet.
    from: u64,
    /// The end of the kept bytes.
    to: u64,
    /// Why the thread could not write.
    failed: Option<Errno>,
    /// Set when nothing more comes.
    is_ended: bool,
}

impl State {
    /// Keeps bytes for the thread.
    fn keep(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.kept.seek(SeekFrom::Start(self.to))?;
        self.kept.write_all(bytes)?;
        self.to += bytes.len() as u64;
        Ok(())
    }

    /// Reads the next bytes to write.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        let length = usize::try_from(self.to - self.from).unwrap_or(BATCH).min(BATCH);
        let mut bytes = vec![0; length];
        self.kept.seek(SeekFrom::Start(self.from))?;
        self.kept.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Notes that the thread has written bytes.
    fn advance(&mut self, bytes: usize) {
        self.from += bytes as u64;
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
            self.kept = SpooledTempFile::new(MAX_BYTES_IN_MEMORY);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_enough`, or until the thread has failed.
    fn wait(&self, is_enough: impl Fn(&State) -> bool) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        loop {
            if let Some(errno) = state.failed {
                return Err(errno.into());
            }
            if is_enough(&state) {
                return Ok(state);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes what is kept, until nothing more comes.
    fn drain(&self, out: &impl AsFd) {
        while let Ok(mut state) = self.wait(|state| state.from < state.to || state.is_ended) {
            if state.from == state.to {
                return;
            }
            let written = match state.next() {
                Ok(bytes) => {
                    drop(state);
                    write_all(out, &bytes).map(|()| bytes.len())
                }
                Err(error) => {
                    drop(state);
                    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
                }
            };
            let mut state = self.lock();
            match written {
                Ok(bytes) => state.advance(bytes),
                Err(errno) => state.failed = Some(errno),
            }
            self.changed.notify_all();
        }
    }
}

impl<W: AsFd + Send + Sync + 'static> Backlog<W> {
    pub(super) fn new(out: W) -> Backlog<W> {
        let kind = fstat(&out).map(|stat| FileType::from_raw_mode(stat.st_mode));
        let can_block = kind.is_ok_and(|kind| kind != FileType::RegularFile);
        let state = State {
            kept: SpooledTempFile::new(MAX_BYTES_IN_MEMORY),
            from: 0,
            to: 0,
            failed: None,
            is_ended: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        Backlog { out: Arc::new(out), can_block, shared, thread: None }
    }

    /// Returns the output.
    pub(super) fn out(&self) -> &W {
        &self.out
    }

    /// Writes the bytes that do not block. Returns their number.
    fn write_ready(&self, bytes: &[u8]) -> io::Result<usize> {
        if !self.can_block {
            write_all(&*self.out, bytes)?;
            return Ok(bytes.len());
        }
        let mut written = 0;
        for piece in bytes.chunks(PIECE) {
            if !is_ready(&*self.out) {
                break;
            }
            write_all(&*self.out, piece)?;
            written += piece.len();
        }
        Ok(written)
    }

    /// Starts the thread, if it does not run. Returns false if it cannot be started.
    fn start(&mut self) -> bool {
        if self.thread.is_none() {
            let (out, shared) = (Arc::clone(&self.out), Arc::clone(&self.shared));
            let thread = std::thread::Builder::new().name("output".to_owned());
            self.thread = thread.spawn(move || shared.drain(&*out)).ok();
        }
        self.thread.is_some()
    }
}

impl<W: AsFd + Send + Sync + 'static> Write for Backlog<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // With nothing kept, the thread sleeps.
        let is_idle = self.shared.wait(|_| true)?.to == 0;
        let written = if is_idle { self.write_ready(bytes)? } else { 0 };
        let rest = bytes.get(written..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(bytes.len());
        }
        let has_room = |state: &State| state.to - state.from + rest.len() as u64 <= MAX_KEPT_BYTES;
        let is_kept = self.start() && {
            let mut state = self.shared.wait(|state| state.to == 0 || has_room(state))?;
            state.keep(rest).is_ok()
        };
        self.shared.changed.notify_all();
        if !is_kept {
            // Bytes that cannot be kept are written by the command itself, which may block.
            self.flush()?;
            write_all(&*self.out, rest)?;
        }
        Ok(bytes.len())
    }

    /// Waits until everything is written.
    fn flush(&mut self) -> io::Result<()> {
        self.shared.wait(|state| state.to == 0).map(drop)
    }
}

impl<W: AsFd> Drop for Backlog<W> {
    fn drop(&mut self) {
        // `flush` returned the error, if there was one.
        drop(self.shared.wait(|state| state.to == 0));
        self.shared.lock().is_ended = true;
        self.shared.changed.notify_all();
        // The thread has a handle of the output, and a pager runs until all handles are closed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Returns whether a piece can be written without blocking, or if that is unknown.
fn is_ready(out: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(out, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec::default())).map_or(true, |ready| ready > 0)
}

fn write_all(out: &impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(out, bytes))?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe() -> (io::PipeReader, Backlog<io::PipeWriter>) {
        let (reader, writer) = io::pipe().unwrap();
        (reader, Backlog::new(writer))
    }

    /// The reader still gets every byte.
    #[test]
    fn writing_does_not_wait_for_the_reader() {
        let (mut reader, mut backlog) = pipe();
        let sent: Vec<u8> =
            (0..MAX_BYTES_IN_MEMORY * 2).map(|number| (number % 251) as u8).collect();
        for part in sent.chunks(10_007) {
            backlog.write_all(part).unwrap();
        }
        let read = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            all
        });
        backlog.write_all(b"the end").unwrap();
        backlog.flush().unwrap();
        assert_eq!(backlog.shared.lock().to, 0);
        drop(backlog);
        assert!(read.join().unwrap() == [&sent[..], b"the end"].concat());
    }

    /// Nothing more has to be written.
    #[test]
    fn kept_bytes_reach_the_reader() {
        let (mut reader, mut backlog) = pipe();
        backlog.write_all(&vec![b'x'; 300_000]).unwrap();
        let mut row = vec![0; 300_000];
        reader.read_exact(&mut row).unwrap();
        assert!(row.iter().all(|byte| *byte == b'x'));
    }

    #[test]
    fn a_closed_pipe_is_an_error() {
        let (mut reader, mut backlog) = pipe();
        backlog.write_all(b"first words").unwrap();
        let mut first = [0; 11];
        reader.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"first words");
        drop(reader);
        assert_eq!(backlog.write(b"more").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        // The same if the thread finds the pipe closed.
        let (reader, mut backlog) = pipe();
        backlog.write_all(&vec![b'x'; 300_000]).unwrap();
        drop(reader);
        assert_eq!(backlog.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}

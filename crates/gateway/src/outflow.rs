//! How far the bytes of a connection have left this process.
//!
//! A connection takes a piece of a body long before its client has read it. A stream that has to
//! bound what waits for a slow client, and to end when the client no longer reads, looks here.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, OwnedSemaphorePermit};

/// The time without progress after which a client is no longer waited for. Tests wait less.
const MAX_STALL: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 30 });

/// A connection as a request sees it. It counts as open as long as this exists.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) outflow: Arc<Outflow>,
    pub(crate) _permit: Option<Arc<OwnedSemaphorePermit>>,
}

/// The progress of a connection's writing.
#[derive(Debug, Default)]
pub(crate) struct Outflow {
    /// The bytes that the system has taken.
    written: AtomicU64,
    /// The pieces that the connection has taken from bodies.
    taken: AtomicU64,
    /// Of these, the pieces that the system has taken.
    flushed: AtomicU64,
    has_flushed: Notify,
    is_cut: AtomicBool,
    waiting: Mutex<Option<Waker>>,
}

/// The client did not read for [`MAX_STALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stalled;

impl Outflow {
    /// Notes that the connection takes a piece of a body.
    pub(crate) fn take(&self) {
        self.taken.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of pieces that were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// Waits until the system has taken that many pieces.
    pub(crate) async fn flushed(&self, pieces: u64) -> Result<(), Stalled> {
        self.unless_stalled(async {
            while self.flushed.load(Ordering::Acquire) < pieces {
                self.has_flushed.notified().await;
            }
        })
        .await
    }

    /// Waits for `done`, as long as the client reads something.
    pub(crate) async fn unless_stalled<T>(
        &self,
        done: impl Future<Output = T>,
    ) -> Result<T, Stalled> {
        tokio::pin!(done);
        let mut written = self.written.load(Ordering::Acquire);
        loop {
            if let Ok(done) = tokio::time::timeout(MAX_STALL, &mut done).await {
                return Ok(done);
            }
            let now = self.written.load(Ordering::Acquire);
            if now == written {
                return Err(Stalled);
            }
            written = now;
        }
    }

    /// Breaks the connection off.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        if let Some(waker) = self.waiting().take() {
            waker.wake();
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if the connection was cut. Otherwise a later cut wakes it.
    fn check(&self, context: &mut Context<'_>) -> io::Result<()> {
        let mut waiting = self.waiting();
        if self.is_cut.load(Ordering::Acquire) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match &mut *waiting {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Ok(())
    }
}

/// A stream of bytes whose writing is followed.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    inner: S,
    outflow: Arc<Outflow>,
}

impl<S> Metered<S> {
    pub(crate) fn new(inner: S, outflow: Arc<Outflow>) -> Metered<S> {
        Metered { inner, outflow }
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.outflow.written.fetch_add(*bytes as u64, Ordering::AcqRel);
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.outflow.check(context)?;
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.outflow.check(context)?;
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.outflow.check(context)?;
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, bytes);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    /// Called when everything that was buffered before is written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        if let Poll::Ready(Ok(())) = &flushed {
            let outflow = &self.outflow;
            let taken = outflow.taken();
            if outflow.flushed.swap(taken, Ordering::AcqRel) != taken {
                outflow.has_flushed.notify_one();
            }
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

//! A body that is read from a file, piece by piece, on threads that may block.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::task::JoinHandle;

/// The largest size of a piece, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// The file, positioned after a piece, and the bytes of the piece.
type Piece = (File, Vec<u8>);

/// The rest of a file.
#[derive(Debug)]
pub(crate) struct FileBody {
    /// The file, while no piece is read.
    file: Option<File>,
    reading: Option<JoinHandle<io::Result<Piece>>>,
    /// The number of bytes that were not sent yet, if it is known.
    left: Option<u64>,
}

impl FileBody {
    /// Returns a file that is at its beginning.
    pub(crate) fn new(file: File) -> FileBody {
        let left = file.metadata().ok().map(|meta| meta.len());
        FileBody { file: Some(file), reading: None, left }
    }
}

impl HttpBody for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let reading = match (&mut this.reading, this.file.take()) {
            (Some(reading), _) => reading,
            (reading, Some(mut file)) => reading.insert(tokio::task::spawn_blocking(move || {
                let mut piece = vec![0; PIECE_BYTES];
                let length = file.read(&mut piece)?;
                piece.truncate(length);
                Ok((file, piece))
            })),
            // The last piece was sent.
            (None, None) => return Poll::Ready(None),
        };
        let read = ready!(Pin::new(reading).poll(context));
        this.reading = None;
        match read {
            Ok(Ok((_, piece))) if piece.is_empty() => Poll::Ready(None),
            Ok(Ok((file, piece))) => {
                this.file = Some(file);
                this.left = this.left.map(|left| left.saturating_sub(piece.len() as u64));
                Poll::Ready(Some(Ok(Frame::data(piece.into()))))
            }
            Ok(Err(error)) => Poll::Ready(Some(Err(error))),
            Err(_) => Poll::Ready(Some(Err(io::Error::other("the file cannot be read")))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

//! Decompresses a source into a plain file, so that all other code reads it like any file.
//!
//! Archives are hostile input: their decompressed size and the memory for decompressing them are
//! limited. The plain file has no name and vanishes with its last handle.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use zstd::stream::read::Decoder;

/// The largest decompressed size in bytes: the plain file takes that much of the ledger's disk. The
/// largest transcript ever reported has 5 GB, and was not compressed.
const MAX_DECOMPRESSED_BYTES: u64 = 8 << 30;

/// The largest ratio of decompressed to compressed size. Transcripts shrink to a tenth, at best to
/// a hundredth; more than this was made to fill a disk.
const MAX_RATIO: u64 = 1000;

/// The decompressed size in bytes up to which any ratio is allowed.
const ALWAYS_ALLOWED_BYTES: u64 = 64 << 20;

/// The largest window, as a power of two: 32 MiB, like the longest decoded line. `zstd -19` uses 8
/// MiB.
const MAX_WINDOW_LOG: u32 = 25;

/// The number of bytes decompressed at once.
const STEP_BYTES: usize = 128 << 10;

/// The description of a file whose end is missing.
const CUT_OFF: &str = "it is truncated";

/// Describes the error of the decompressor. `is_begun`: some bytes were decompressed before it.
pub(super) fn fault(error: &std::io::Error, is_begun: bool) -> &'static str {
    let message = error.to_string();
    if error.kind() == ErrorKind::UnexpectedEof {
        CUT_OFF
    } else if message.contains("checksum") {
        "its checksum does not match: some bytes were changed"
    } else if message.contains("Unknown frame descriptor") {
        if is_begun { "the data after its first frame is not zstd" } else { "it is not zstd" }
    } else {
        "its compressed data is damaged"
    }
}

/// The result of decompressing a file.
#[derive(Debug)]
pub(crate) enum Decompressed {
    /// The file was decompressed completely.
    Whole(Plain),
    /// The complete lines before the damage; none if the file was refused.
    Damaged(Plain, &'static str),
}

/// A plain file and its length.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) file: File,
    pub(crate) length: u64,
}

/// Returns the largest decompressed size that is allowed for a compressed size.
pub(super) fn max_decompressed(size: u64) -> u64 {
    size.saturating_mul(MAX_RATIO).clamp(ALWAYS_ALLOWED_BYTES, MAX_DECOMPRESSED_BYTES)
}

/// Decompresses a file of `size` bytes into `folder`. Fails only for an I/O error.
pub(crate) fn to_plain_file(
    mut source: &File,
    size: u64,
    folder: &Path,
) -> std::io::Result<Decompressed> {
    let plain = tempfile::tempfile_in(folder)?;
    let mut out = &plain;
    let mut decoder = decoder(&mut source)?;
    let mut buffer = vec![0; STEP_BYTES];
    let (mut length, mut lines) = (0_u64, 0_u64);
    // A file that was made to fill the disk or memory is refused as a whole.
    let refused = |file, why| Ok(Decompressed::Damaged(Plain { file, length: 0 }, why));
    let damage = loop {
        let got = match decoder.read(&mut buffer) {
            Ok(0) => break None,
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            Err(error) if error.to_string().contains("too much memory") => {
                return refused(plain, "compressed with a window above 32 MiB");
            }
            Err(error) => break Some(fault(&error, length > 0)),
        };
        let bytes = buffer.get(..got).unwrap_or_default();
        if let Some(newline) = memchr::memrchr(b'\n', bytes) {
            lines = length + newline as u64 + 1;
        }
        length += got as u64;
        if length > MAX_DECOMPRESSED_BYTES {
            return refused(plain, "decompresses to more than 8 GiB");
        }
        if length > ALWAYS_ALLOWED_BYTES && length > size.saturating_mul(MAX_RATIO) {
            return refused(plain, "decompresses to more than a thousand times its size");
        }
        out.write_all(bytes)?;
    };
    Ok(match damage {
        None => Decompressed::Whole(Plain { file: plain, length }),
        Some(damage) => Decompressed::Damaged(Plain { file: plain, length: lines }, damage),
    })
}

/// Returns at most the first `wanted` bytes of a file's decompressed contents.
pub(crate) fn head(mut source: &File, wanted: usize) -> Vec<u8> {
    let mut head = Vec::new();
    if let Ok(decoder) = decoder(&mut source) {
        // The bytes before an error are enough.
        let _ = decoder.take(wanted as u64).read_to_end(&mut head);
    }
    head
}

fn decoder<R: Read>(source: R) -> std::io::Result<Decoder<'static, std::io::BufReader<R>>> {
    let mut decoder = Decoder::new(source)?;
    decoder.window_log_max(MAX_WINDOW_LOG)?;
    Ok(decoder)
}

//! Turns a compressed source into a plain file, so that everything behind the border reads it like
//! any other.
//!
//! Archives are hostile input like transcripts: what they may unfold to is limited, and so is the
//! memory that unfolding them takes. The plain file has no name and vanishes with its last handle.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use zstd::stream::read::Decoder;

/// Nothing larger is unfolded: the plain file stands on the ledger's disk while it is read. The
/// largest transcript that was ever reported has 5 GB, and was not OpenClaw's.
const MOST: u64 = 8 << 30;

/// Transcripts shrink to a tenth, at best to a hundredth. What unfolds to more than this many times
/// its size was made to fill a disk …
const MOST_TIMES: u64 = 1000;

/// … unless it is small all the same.
const HARMLESS: u64 = 64 << 20;

/// 32 MiB, as much as the longest line that is decoded whole. `zstd -19` uses 8 MiB.
const WINDOW_LOG: u32 = 25;

/// How much is unfolded at once.
const STEP: usize = 128 << 10;

/// How a file is damaged whose end is missing.
const CUT_OFF: &str = "it ends in the middle";

/// What is wrong with a file that the decompressor refuses. `is_begun`: some of it came out before.
pub(super) fn fault(error: &std::io::Error, is_begun: bool) -> &'static str {
    let said = error.to_string();
    if error.kind() == ErrorKind::UnexpectedEof {
        CUT_OFF
    } else if said.contains("checksum") {
        "some of its bytes were changed: its checksum does not fit"
    } else if said.contains("Unknown frame descriptor") {
        if is_begun { "what follows its first part is no zstd" } else { "its bytes are no zstd" }
    } else {
        "its compressed bytes are damaged"
    }
}

/// What became of a compressed file.
#[derive(Debug)]
pub(crate) enum Unfolded {
    /// All of it.
    Whole(Plain),
    /// The whole lines before the place where it is damaged; none if it is not unfolded at all.
    Damaged(Plain, &'static str),
}

/// A plain file and its length.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) file: File,
    pub(crate) length: u64,
}

/// How much something compressed of that size may unfold to.
pub(super) fn most(size: u64) -> u64 {
    size.saturating_mul(MOST_TIMES).clamp(HARMLESS, MOST)
}

/// Unfolds a file of `size` bytes into `folder`. Fails only if a disk does.
pub(crate) fn unfold(mut source: &File, size: u64, folder: &Path) -> std::io::Result<Unfolded> {
    let plain = tempfile::tempfile_in(folder)?;
    let mut out = &plain;
    let mut decoder = decoder(&mut source)?;
    let mut buffer = vec![0; STEP];
    let (mut length, mut lines) = (0_u64, 0_u64);
    // What was made to fill a disk or memory is not unfolded at all.
    let refused = |file, why| Ok(Unfolded::Damaged(Plain { file, length: 0 }, why));
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
        if length > MOST {
            return refused(plain, "decompresses to more than 8 GiB");
        }
        if length > HARMLESS && length > size.saturating_mul(MOST_TIMES) {
            return refused(plain, "decompresses to more than a thousand times its size");
        }
        out.write_all(bytes)?;
    };
    Ok(match damage {
        None => Unfolded::Whole(Plain { file: plain, length }),
        Some(damage) => Unfolded::Damaged(Plain { file: plain, length: lines }, damage),
    })
}

/// At most `wanted` bytes of what a file unfolds to.
pub(crate) fn head(mut source: &File, wanted: usize) -> Vec<u8> {
    let mut head = Vec::new();
    if let Ok(decoder) = decoder(&mut source) {
        // What comes before an error is enough.
        let _ = decoder.take(wanted as u64).read_to_end(&mut head);
    }
    head
}

fn decoder<R: Read>(source: R) -> std::io::Result<Decoder<'static, std::io::BufReader<R>>> {
    let mut decoder = Decoder::new(source)?;
    decoder.window_log_max(WINDOW_LOG)?;
    Ok(decoder)
}

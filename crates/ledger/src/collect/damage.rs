//! Keeps the bytes of a compressed file that cannot be decompressed to its end, beside the lines
//! before the damage. `restore` writes both, so that the file can still be repaired.
//!
//! The bytes belong to one generation. If the file only grew (it was being written when it was
//! read), the generation continues. A repaired or replaced file begins a new one.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

use super::batch::{Began, Ends, Piece, Step};
use super::known::KnownSource;
use super::read::Reader;
use crate::truth::damaged::{self, Compressed, Damage, PIECE_BYTES};
use crate::{Error, Result};

impl Reader<'_, '_> {
    /// Returns the reason for a new generation although the lines are the same: the file no longer
    /// begins with the compressed bytes that the ledger has of it.
    pub(super) fn new_generation_reason(&self, known: &KnownSource) -> Result<Option<Began>> {
        let Some(file) = self.compressed.as_ref().filter(|_| !known.is_unfinished()) else {
            return Ok(None);
        };
        let damage = damaged::of(self.conn, known.generation)?.filter(Damage::is_kept);
        if damage.is_none() || self.begins_with(file, known)? {
            return Ok(None);
        }
        let is_same_file = self.stat.file() == known.stat.file();
        Ok(Some(if is_same_file { Began::Rewritten } else { Began::Replaced }))
    }

    /// Returns whether the file on disk begins with the compressed bytes that the ledger has of it.
    fn begins_with(&self, file: &File, known: &KnownSource) -> Result<bool> {
        let (mut is_same, mut at) = (true, 0);
        let mut buffer = Vec::new();
        damaged::stream(self.conn, known.generation, &mut |bytes| {
            buffer.resize(bytes.len(), 0);
            if is_same {
                is_same = fill_from(file, &mut buffer, at)? && buffer == bytes;
            }
            at += bytes.len() as u64;
            Ok(())
        })?;
        Ok(is_same)
    }

    /// Finishes a compressed file after its last readable line.
    pub(super) fn finish_compressed(&mut self, mut last: Piece) -> Result<()> {
        let begins = matches!(last.step, Step::Begin { .. });
        let known = self.job.known.as_ref().filter(|_| !begins);
        let Some(damage) = self.damage.clone() else {
            last.stat = self.stat;
            last.compressed = known.map(|_| Compressed::Obsolete);
            return self.builder.piece(last);
        };
        if let (Some(known), Some(file)) = (known, &self.compressed)
            && !known.is_unfinished()
            && damaged::of(self.conn, known.generation)?.as_ref() == Some(&damage)
            && (!damage.is_kept() || self.begins_with(file, known)?)
        {
            // The damage is unchanged since the last sync.
            last.stat = self.stat;
            return self.builder.piece(last);
        }
        let prints = last.prints;
        last.is_last = false;
        self.builder.piece(last)?;
        let make_piece =
            |reader: &Self| Piece { prints, ..reader.piece(Step::Continue, &Ends::default()) };
        if damage.is_kept() && !self.send_compressed(damage.length, &make_piece)? {
            // The file changed while it was read. The next sync tries again.
            return Ok(());
        }
        let mut last = make_piece(self);
        last.is_last = true;
        last.stat = self.stat;
        last.damage = Some(damage);
        self.builder.piece(last)
    }

    /// Sends the bytes of the file on disk to the writer. Returns false if the file became shorter.
    fn send_compressed(
        &mut self,
        length: u64,
        make_piece: &dyn Fn(&Self) -> Piece,
    ) -> Result<bool> {
        let mut at = 0;
        loop {
            let wanted = PIECE_BYTES.min(usize::try_from(length - at).unwrap_or(PIECE_BYTES));
            let mut bytes = vec![0; wanted];
            let Some(file) = &self.compressed else { return Ok(false) };
            if !fill_from(file, &mut bytes, at)? {
                return Ok(false);
            }
            let mut piece = make_piece(self);
            piece.compressed = Some(Compressed::Piece(at, bytes));
            self.builder.piece(piece)?;
            at += wanted as u64;
            if at >= length {
                return Ok(true);
            }
        }
    }
}

/// Fills the buffer from the file. Returns false if the file is too short.
fn fill_from(file: &File, buffer: &mut [u8], at: u64) -> Result<bool> {
    match file.read_exact_at(buffer, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(Error::Source(error)),
    }
}

//! Keeps the bytes of a compressed file that cannot be decompressed to its end, beside the lines that
//! could be read: `restore` gives both back, and whoever can mend the file has what there was.
//!
//! They belong to one life of the file. If it only went on from there (it was being written when it
//! was read), that life goes on, too; a file that was mended or replaced begins another.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

use super::batch::{Began, Ends, Piece, Step};
use super::known::Known;
use super::read::Reader;
use crate::truth::damaged::{self, Compressed, Damage, PIECE};
use crate::{Error, Result};

impl Reader<'_, '_> {
    /// Why a new life begins although the lines are the same: the compressed bytes that the ledger
    /// has of the file are not what it begins with now.
    pub(super) fn is_mended(&self, known: &Known) -> Result<Option<Began>> {
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

    /// Whether the file on disk begins with the compressed bytes that the ledger has of it.
    fn begins_with(&self, file: &File, known: &Known) -> Result<bool> {
        let (mut is_same, mut at) = (true, 0);
        let mut buffer = Vec::new();
        damaged::stream(self.conn, known.generation, &mut |bytes| {
            buffer.resize(bytes.len(), 0);
            if is_same {
                is_same = fills(file, &mut buffer, at)? && buffer == bytes;
            }
            at += bytes.len() as u64;
            Ok(())
        })?;
        Ok(is_same)
    }

    /// The end of a compressed file of which all that can be read was read.
    pub(super) fn finish_compressed(&mut self, mut last: Piece) -> Result<()> {
        let begins = matches!(last.step, Step::Begin { .. });
        let known = self.job.known.as_ref().filter(|_| !begins);
        let Some(damage) = self.damage.clone() else {
            last.stat = self.stat;
            last.compressed = known.map(|_| Compressed::Needless);
            return self.builder.piece(last);
        };
        if let (Some(known), Some(file)) = (known, &self.compressed)
            && !known.is_unfinished()
            && damaged::of(self.conn, known.generation)?.as_ref() == Some(&damage)
            && (!damage.is_kept() || self.begins_with(file, known)?)
        {
            // Looked at again, and still the same.
            last.stat = self.stat;
            return self.builder.piece(last);
        }
        let prints = last.prints;
        last.is_last = false;
        self.builder.piece(last)?;
        let go_on =
            |reader: &Self| Piece { prints, ..reader.piece(Step::Continue, &Ends::default()) };
        if damage.is_kept() && !self.keep(damage.length, &go_on)? {
            // It changed while it was read; the next look tries again.
            return Ok(());
        }
        let mut last = go_on(self);
        last.is_last = true;
        last.stat = self.stat;
        last.damage = Some(damage);
        self.builder.piece(last)
    }

    /// Hands over the bytes of the file on disk. False if there are fewer than there were.
    fn keep(&mut self, length: u64, go_on: &dyn Fn(&Self) -> Piece) -> Result<bool> {
        let mut at = 0;
        loop {
            let wanted = PIECE.min(usize::try_from(length - at).unwrap_or(PIECE));
            let mut bytes = vec![0; wanted];
            let Some(file) = &self.compressed else { return Ok(false) };
            if !fills(file, &mut bytes, at)? {
                return Ok(false);
            }
            let mut piece = go_on(self);
            piece.compressed = Some(Compressed::Piece(at, bytes));
            self.builder.piece(piece)?;
            at += wanted as u64;
            if at >= length {
                return Ok(true);
            }
        }
    }
}

/// Reads so many bytes, if the file has them.
fn fills(file: &File, buffer: &mut [u8], at: u64) -> Result<bool> {
    match file.read_exact_at(buffer, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(Error::Source(error)),
    }
}

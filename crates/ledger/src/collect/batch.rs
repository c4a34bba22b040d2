//! Batches that reader threads hand to the writer: pieces of files, decoded and compressed, so that
//! the writer only has to write. Never touches SQLite.

use quipu_fts5::{Access, PostingsBuilder, SortedPostings};

use crate::Result;
use crate::base::ids::{GenerationId, Seq};
use crate::project::draft::Draft;
use crate::truth::chunks::{PackedBatch, Packer};
use crate::truth::damaged::{Compressed, Damage};
use crate::truth::sources::{Prints, Stat};

use super::index::IndexUpdate;
use super::known::{HEAD, MARKER, fingerprint};

/// The weight in bytes at which a batch is handed over.
pub(crate) const BATCH_BYTES: usize = 4 << 20;

/// The smallest batch, by weight in bytes, that carries its sorted tokens. FTS5 tokenizes the text
/// of smaller batches.
pub(crate) const MIN_BULK_BYTES: usize = 64 << 10;

/// Pieces of files that are written in one transaction.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) packed: PackedBatch,
    /// The length of each record, over all pieces.
    pub(crate) lengths: Vec<u64>,
    /// For each record, the record in the ledger with the same bytes, if there is one.
    pub(crate) same_as: Vec<Option<Seq>>,
    /// The records that are rows of a database: the index of the record here, and the number of the
    /// row.
    pub(crate) rows: Vec<(usize, i64)>,
    pub(crate) drafts: Vec<Draft>,
    /// The sorted tokens of the drafts; `None` if FTS5 tokenizes them.
    pub(crate) words: Option<SortedPostings>,
    /// The approximate size in memory, in bytes.
    pub(crate) weight: usize,
}

/// A piece of one file.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) job: usize,
    pub(crate) step: Step,
    /// True if the file ends here.
    pub(crate) is_last: bool,
    /// The end of a record whose beginning is the tail in the ledger and that is too long for
    /// memory.
    pub(crate) closes_long_tail: Option<LongTail>,
    /// True if the first record here begins with the tail in the ledger, or if `step` drops that
    /// tail.
    pub(crate) takes_tail: bool,
    pub(crate) spans: Vec<SpanPlan>,
    /// Bytes to add to the tail.
    pub(crate) tail: Vec<u8>,
    /// The changes in the newest version of an index.
    pub(crate) index: Option<Box<IndexUpdate>>,
    pub(crate) stat: Stat,
    pub(crate) prints: Prints,
    /// Compressed bytes of the file, if it cannot be decompressed to its end.
    pub(crate) compressed: Option<Compressed>,
    /// The reason why nothing can be read of the file from here on.
    pub(crate) damage: Option<Damage>,
    /// True if the file was unchanged for so long that its last line will hardly grow.
    pub(crate) is_still: bool,
    /// The position in a database session.
    pub(crate) rows: Option<RowCursor>,
}

/// The position up to which a database session was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowCursor {
    /// The other program's own name of this generation of the session.
    pub(crate) rewrite: String,
    /// The number of the last row.
    pub(crate) last_row: i64,
    /// The number of rows up to it.
    pub(crate) rows: i64,
}

/// The relation of a piece to the part of its file that the ledger has.
#[derive(Debug)]
pub(crate) enum Step {
    /// The piece continues where the ledger, or the piece before, ends.
    Continue,
    /// The piece begins a new generation or a new source.
    Begin {
        began: Began,
        /// The draft of the old generation's last line, which had no newline and is a record now.
        closing: Option<Draft>,
        /// The generation of another source that its copied spans refer to.
        copy_of: Option<GenerationId>,
    },
    /// Nothing is collected from the file, for this reason.
    Refuse(&'static str),
}

/// The end of a record that is too long for memory.
#[derive(Debug)]
pub(crate) struct LongTail {
    pub(crate) rest: Vec<u8>,
    pub(crate) draft: Draft,
}

/// The reason why a generation began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Began {
    First,
    Copy,
    Truncated,
    Replaced,
    Rewritten,
    Returned,
    Version,
}

impl Began {
    /// Returns the stable name that is stored and printed.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Began::First => "first",
            Began::Copy => "copy",
            Began::Truncated => "truncated",
            Began::Replaced => "replaced",
            Began::Rewritten => "rewritten",
            Began::Returned => "returned",
            Began::Version => "version",
        }
    }
}

/// A run of bytes of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanPlan {
    /// A number of records of the batch.
    Own { records: usize, length: u64 },
    /// The same bytes as in another generation.
    Same { generation: GenerationId, start: u64, length: u64 },
}

/// The first and last bytes of a file, as far as it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ends {
    head: Vec<u8>,
    last: Vec<u8>,
}

impl Ends {
    /// Creates the ends from verified bytes of a known file.
    pub(crate) fn of(head: Vec<u8>, last: Vec<u8>) -> Ends {
        Ends { head, last }
    }

    /// Returns true if the fingerprint of the last bytes covers a single repeated byte.
    pub(crate) fn end_in_a_run(&self) -> bool {
        self.last.len() == MARKER && self.last.iter().all(|byte| Some(byte) == self.last.first())
    }

    /// Adds the next bytes of the file.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        if self.head.len() < HEAD {
            let missing = HEAD - self.head.len();
            self.head.extend_from_slice(bytes.get(..missing).unwrap_or(bytes));
        }
        match bytes.len().checked_sub(MARKER) {
            Some(start) => {
                self.last.clear();
                self.last.extend_from_slice(bytes.get(start..).unwrap_or_default());
            }
            None => {
                self.last.extend_from_slice(bytes);
                let extra = self.last.len().saturating_sub(MARKER);
                self.last.drain(..extra);
            }
        }
    }

    /// Returns the last byte that was read.
    pub(crate) fn last_byte(&self) -> Option<u8> {
        self.last.last().copied()
    }

    pub(crate) fn prints(&self) -> Prints {
        Prints {
            head: fingerprint(&self.head),
            head_length: self.head.len(),
            marker: fingerprint(&self.last),
        }
    }
}

/// Buffers that are reused from batch to batch, so that they keep their size.
pub(crate) struct Buffers {
    packer: Packer,
    /// `None` if FTS5 tokenizes everything.
    postings: Option<PostingsBuilder>,
}

impl Buffers {
    /// Creates the buffers of one thread.
    pub(crate) fn new(access: Access) -> Buffers {
        let postings = (access == Access::Direct).then(PostingsBuilder::default);
        Buffers { packer: Packer::default(), postings }
    }
}

/// Gathers pieces until a batch is full.
pub(crate) struct Builder<'s> {
    buffers: &'s mut Buffers,
    batch: Batch,
    /// The bytes of records and the memory of drafts: a draft of a tiny record is larger than the
    /// record.
    weight: usize,
    /// The number of drafts whose tokens were gathered.
    collected_drafts: usize,
    send: &'s mut dyn FnMut(Batch) -> Result<()>,
}

impl<'s> Builder<'s> {
    pub(crate) fn new(
        buffers: &'s mut Buffers,
        send: &'s mut dyn FnMut(Batch) -> Result<()>,
    ) -> Builder<'s> {
        Builder { buffers, batch: Batch::default(), weight: 0, collected_drafts: 0, send }
    }

    /// Adds a record to the piece that will be pushed next.
    pub(crate) fn record(&mut self, bytes: &[u8], draft: Draft) -> Result<()> {
        self.buffers.packer.push(bytes)?;
        self.weight += bytes.len();
        self.draft(draft, bytes.len() as u64, None);
        Ok(())
    }

    /// Adds a record whose bytes the ledger has already, in the record `holder`.
    pub(crate) fn repeat(&mut self, holder: Seq, length: u64, mut draft: Draft) {
        draft.same_as = Some(holder);
        self.buffers.packer.skip();
        self.draft(draft, length, Some(holder));
    }

    fn draft(&mut self, draft: Draft, length: u64, same_as: Option<Seq>) {
        self.batch.lengths.push(length);
        self.batch.same_as.push(same_as);
        self.weight += draft.approximate_size();
        self.batch.drafts.push(draft);
        self.collect_tokens();
    }

    /// Gathers the tokens of drafts as soon as the batch is too large for FTS5, so that text that
    /// is only indexed need not stay in memory.
    fn collect_tokens(&mut self) {
        if let Some(postings) = &mut self.buffers.postings
            && self.weight >= MIN_BULK_BYTES
        {
            for draft in self.batch.drafts.iter_mut().skip(self.collected_drafts) {
                draft.collect_words(postings);
            }
            self.collected_drafts = self.batch.drafts.len();
        }
    }

    /// Records that the last record is a row of a database with this number.
    pub(crate) fn row(&mut self, number: i64) {
        if let Some(last) = self.batch.lengths.len().checked_sub(1) {
            self.batch.rows.push((last, number));
        }
    }

    /// Adds a piece. Its own spans cover the records added since the last piece.
    pub(crate) fn piece(&mut self, piece: Piece) -> Result<()> {
        self.weight += piece.tail.len();
        if let Some(Compressed::Piece(_, bytes)) = &piece.compressed {
            self.weight += bytes.len();
        }
        self.batch.pieces.push(piece);
        if self.is_full() { self.hand_over(false) } else { Ok(()) }
    }

    /// Returns whether the batch should be handed over. A full batch waits for the end of the
    /// current chunk, if that is near.
    pub(crate) fn is_full(&self) -> bool {
        self.weight >= BATCH_BYTES
            && (self.buffers.packer.is_between() || self.weight >= BATCH_BYTES + BATCH_BYTES / 2)
    }

    /// Hands the batch over. The last batch of a sync may leave its small end uncompressed, so that
    /// it can grow into a chunk later.
    pub(crate) fn hand_over(&mut self, is_last: bool) -> Result<()> {
        self.collect_tokens();
        let mut batch = std::mem::take(&mut self.batch);
        batch.packed = self.buffers.packer.finish(is_last)?;
        batch.weight = std::mem::take(&mut self.weight);
        self.collected_drafts = 0;
        if batch.weight >= MIN_BULK_BYTES {
            batch.words = self.buffers.postings.as_mut().map(PostingsBuilder::finish);
        }
        if batch.pieces.is_empty() { Ok(()) } else { (self.send)(batch) }
    }
}

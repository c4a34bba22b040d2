//! What the readers hand to the writer: some pieces of files, decoded and compressed, so that the
//! writer has nothing left to do but to write.

use quipu_fts5::{Access, PostingsBuilder, SortedPostings};

use crate::Result;
use crate::base::ids::{GenerationId, Seq};
use crate::project::draft::Draft;
use crate::truth::chunks::{PackedBatch, Packer};
use crate::truth::damaged::{Compressed, Damage};

use super::discover::Stat;
use super::index::IndexUpdate;
use super::known::{HEAD, MARKER, Print, print};

/// A batch is handed over when it weighs this much.
pub(crate) const BATCH: usize = 4 << 20;

/// A batch of at least this weight brings its words along, sorted; those of a smaller one are left
/// to FTS5.
pub(crate) const BULK: usize = 64 << 10;

/// Some pieces of files, to be written in one transaction.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) packed: PackedBatch,
    /// The length of each record, over all pieces.
    pub(crate) lengths: Vec<u64>,
    /// For each record, the one in the ledger that holds the same bytes.
    pub(crate) same_as: Vec<Option<Seq>>,
    /// Which of the records are rows of a database, and their numbers there.
    pub(crate) rows: Vec<(usize, i64)>,
    pub(crate) drafts: Vec<Draft>,
    /// The words of the drafts, if there are so many that they are not left to FTS5.
    pub(crate) words: Option<SortedPostings>,
    /// About what it takes in memory.
    pub(crate) weight: usize,
}

/// A piece of one file.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) job: usize,
    pub(crate) step: Step,
    /// The file ends here.
    pub(crate) is_last: bool,
    /// The tail in the ledger is closed by these bytes and too long to be held in memory.
    pub(crate) closes_long_tail: Option<LongTail>,
    /// The tail in the ledger is part of the first record here (or is dropped: see `step`).
    pub(crate) takes_tail: bool,
    pub(crate) spans: Vec<SpanPlan>,
    /// Bytes to add to the tail.
    pub(crate) tail: Vec<u8>,
    /// What the newest version of an index changes.
    pub(crate) index: Option<Box<IndexUpdate>>,
    pub(crate) stat: Stat,
    pub(crate) prints: Prints,
    /// Compressed bytes of the file, if it cannot be decompressed to its end.
    pub(crate) compressed: Option<Compressed>,
    /// Why nothing can be read of the file from here on.
    pub(crate) damage: Option<Damage>,
    /// The file was last changed so long ago that its tail will not go on at once.
    pub(crate) is_still: bool,
    /// How far a session in a database was read.
    pub(crate) rows: Option<RowCursor>,
}

/// How far a session in a database was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowCursor {
    /// The other program's own name for this life of the session.
    pub(crate) rewrite: String,
    /// The number of the last row.
    pub(crate) last_row: i64,
    /// How many rows there were up to it.
    pub(crate) rows: i64,
}

/// How a piece relates to what the ledger has of its file.
#[derive(Debug)]
pub(crate) enum Step {
    /// It goes on where the ledger (or the piece before) ends.
    Continue,
    /// It begins a new generation, or a new source.
    Begin {
        began: Began,
        /// The old generation ended without a newline: its last bytes are a record now.
        closing: Option<Draft>,
        /// The generation that its copied spans refer to, when that is another source's.
        copy_of: Option<GenerationId>,
    },
    /// Nothing is collected from it, for this reason.
    Refuse(&'static str),
}

/// The end of a record that is too long for memory.
#[derive(Debug)]
pub(crate) struct LongTail {
    pub(crate) rest: Vec<u8>,
    pub(crate) draft: Draft,
}

/// Why a generation began.
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
    /// The stable name that is stored and printed.
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
    /// So many records of the batch.
    Own { records: usize, length: u64 },
    /// The same bytes as in another generation.
    Same { generation: GenerationId, start: u64, length: u64 },
}

/// What tells a grown file from a rewritten one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prints {
    pub(crate) head: Print,
    pub(crate) head_length: usize,
    pub(crate) marker: Print,
}

/// The first and last bytes of what was read of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ends {
    head: Vec<u8>,
    last: Vec<u8>,
}

impl Ends {
    /// What was verified of a known file.
    pub(crate) fn of(head: Vec<u8>, last: Vec<u8>) -> Ends {
        Ends { head, last }
    }

    /// More bytes were read.
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

    /// The last byte that was read.
    pub(crate) fn last_byte(&self) -> Option<u8> {
        self.last.last().copied()
    }

    pub(crate) fn prints(&self) -> Prints {
        Prints { head: print(&self.head), head_length: self.head.len(), marker: print(&self.last) }
    }
}

/// What is used for one batch after the other: it has grown to the size it needs.
pub(crate) struct Tools {
    packer: Packer,
    /// `None` if all words are left to FTS5.
    postings: Option<PostingsBuilder>,
}

impl Tools {
    /// Makes the tools of one thread.
    pub(crate) fn new(access: Access) -> Tools {
        let postings = (access == Access::Direct).then(PostingsBuilder::default);
        Tools { packer: Packer::default(), postings }
    }
}

/// Collects pieces until a batch is full.
pub(crate) struct Builder<'s> {
    tools: &'s mut Tools,
    batch: Batch,
    /// Bytes, and what drafts take in memory: tiny records weigh more than they are long.
    weight: usize,
    /// The words of so many drafts were gathered.
    gathered: usize,
    send: &'s mut dyn FnMut(Batch) -> Result<()>,
}

impl<'s> Builder<'s> {
    pub(crate) fn new(
        tools: &'s mut Tools,
        send: &'s mut dyn FnMut(Batch) -> Result<()>,
    ) -> Builder<'s> {
        Builder { tools, batch: Batch::default(), weight: 0, gathered: 0, send }
    }

    /// Adds a record to the piece that will be pushed next.
    pub(crate) fn record(&mut self, bytes: &[u8], draft: Draft) -> Result<()> {
        self.tools.packer.push(bytes)?;
        self.weight += bytes.len();
        self.draft(draft, bytes.len() as u64, None);
        Ok(())
    }

    /// Adds a record whose bytes the ledger has already, as record `of`.
    pub(crate) fn repeat(&mut self, of: Seq, length: u64, mut draft: Draft) {
        draft.same_as = Some(of);
        self.tools.packer.skip();
        self.draft(draft, length, Some(of));
    }

    fn draft(&mut self, draft: Draft, length: u64, same_as: Option<Seq>) {
        self.batch.lengths.push(length);
        self.batch.same_as.push(same_as);
        self.weight += draft.weight();
        self.batch.drafts.push(draft);
        self.gather();
    }

    /// Gathers the words of drafts as soon as they are known to be so many that they are not left
    /// to FTS5: what is only there to be indexed need not be held.
    fn gather(&mut self) {
        if let Some(postings) = &mut self.tools.postings
            && self.weight >= BULK
        {
            for draft in self.batch.drafts.iter_mut().skip(self.gathered) {
                draft.gather_words(postings);
            }
            self.gathered = self.batch.drafts.len();
        }
    }

    /// The record that was added last is a row of a database, with this number.
    pub(crate) fn row(&mut self, number: i64) {
        if let Some(last) = self.batch.lengths.len().checked_sub(1) {
            self.batch.rows.push((last, number));
        }
    }

    /// Adds a piece. Its own spans stand for the records added since the last one.
    pub(crate) fn piece(&mut self, piece: Piece) -> Result<()> {
        self.weight += piece.tail.len();
        if let Some(Compressed::Piece(_, bytes)) = &piece.compressed {
            self.weight += bytes.len();
        }
        self.batch.pieces.push(piece);
        if self.is_full() { self.hand_over(false) } else { Ok(()) }
    }

    /// True if the records of the current piece should be handed over soon: at the end of a chunk,
    /// if that is near.
    pub(crate) fn is_full(&self) -> bool {
        self.weight >= BATCH && (self.tools.packer.is_between() || self.weight >= BATCH + BATCH / 2)
    }

    /// Hands over what there is. The last batch of a sync may keep its small rest uncompressed, so
    /// that it can grow into a chunk later.
    pub(crate) fn hand_over(&mut self, is_last: bool) -> Result<()> {
        self.gather();
        let mut batch = std::mem::take(&mut self.batch);
        batch.packed = self.tools.packer.finish(is_last)?;
        batch.weight = std::mem::take(&mut self.weight);
        self.gathered = 0;
        if batch.weight >= BULK {
            batch.words = self.tools.postings.as_mut().map(PostingsBuilder::finish);
        }
        if batch.pieces.is_empty() { Ok(()) } else { (self.send)(batch) }
    }
}

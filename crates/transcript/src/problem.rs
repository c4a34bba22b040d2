//! Problems: oddities in the input. A problem never stops the reader; it is counted and shown.

/// An oddity of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The kind of oddity.
    pub kind: ProblemKind,
    /// A short explanation without any transcript text: a field name, a byte count.
    pub detail: String,
}

impl Problem {
    /// Returns a problem of `kind`, explained by `detail`.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Problem { kind, detail: detail.into() }
    }
}

macro_rules! problem_kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The kinds of oddity, each with the stable name that is stored and printed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ProblemKind { $($(#[doc = $doc])+ $variant,)+ }

        impl ProblemKind {
            /// Every kind.
            pub const ALL: &[ProblemKind] = &[$(ProblemKind::$variant,)+];

            /// Returns the stable name that is stored and printed.
            pub fn as_str(self) -> &'static str {
                match self { $(ProblemKind::$variant => $name,)+ }
            }

            /// Returns the meaning in one line.
            pub fn meaning(self) -> &'static str {
                match self { $(ProblemKind::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

problem_kinds! {
    /// Bytes that cannot be decoded; stored unchanged.
    Opaque = "opaque",
    /// The torn-off beginning of a record, before another record on the same line.
    Fragment = "fragment",
    /// Several complete records on one line.
    Welded = "welded",
    /// A run of NUL bytes, as a crash leaves it.
    NulRun = "nul_run",
    /// A byte-order mark inside the file.
    ByteOrderMark = "byte_order_mark",
    /// Bytes that are not UTF-8; shown with replacement characters.
    InvalidUtf8 = "invalid_utf8",
    /// Not a file of UTF-8 lines: UTF-16, gzip or similar.
    Encoding = "encoding",
    /// Half of a surrogate pair in a string; shown as a replacement character.
    LoneSurrogate = "lone_surrogate",
    /// A raw control character inside a string.
    ControlCharacter = "control_character",
    /// A number outside the range of 64-bit integers and floats.
    NumberRange = "number_range",
    /// More tokens than a response can have; counted as 4,294,967,296.
    TokenCount = "token_count",
    /// Nested more than 120 levels deep; the deeper part is not decoded.
    TooDeep = "too_deep",
    /// The same key twice in one object; the last one wins.
    DuplicateKey = "duplicate_key",
    /// Valid JSON, but not an object.
    NotObject = "not_object",
    /// An object without a usable type.
    NoType = "no_type",
    /// A line above 32 MiB: only its first 64 KiB are decoded. Or an index above 512 MiB: it is not
    /// read.
    Oversize = "oversize",
    /// A compressed file that cannot be decompressed to its end. Its readable lines are collected;
    /// up to 256 MiB it is stored unchanged.
    DamagedArchive = "damaged_archive",
    /// An event of a database that cannot be decompressed; stored unchanged.
    DamagedEvent = "damaged_event",
    /// The last bytes of a file that ended without a newline.
    Unterminated = "unterminated",
    /// A time that cannot be read.
    BadTime = "bad_time",
    /// A time that is far from those around it.
    ClockSkew = "clock_skew",
    /// A field of an unexpected type.
    BadField = "bad_field",
    /// The header names another session than the file's name does.
    HeaderMismatch = "header_mismatch",
    /// A transcript without a header line, or with one that is not the first line.
    HeaderMissing = "header_missing",
    /// A second header line.
    HeaderRepeated = "header_repeated",
    /// Written by a newer release than this version knows.
    NewerVersion = "newer_version",
    /// The parent entry is not in the session.
    MissingParent = "missing_parent",
    /// Entries that are ancestors of each other; cut at the earliest one.
    ParentCycle = "parent_cycle",
    /// The same entry id with other content; all versions are kept, the newest is shown.
    IdReused = "id_reused",
    /// A tool result that answers no call of the session.
    OrphanResult = "orphan_result",
    /// A second result for the same call.
    RepeatedResult = "repeated_result",
    /// The same tool-call id on two calls.
    CallIdReused = "call_id_reused",
    /// A tool call that was cut off while it was streamed.
    PartialCall = "partial_call",
    /// A summary or label that points at an entry this session does not have.
    DanglingReference = "dangling_reference",
    /// An index that cannot be read, or not to its end; the last good version stays in use.
    IndexDamaged = "index_damaged",
    /// An index that names a transcript outside of its folder; not followed.
    IndexOutside = "index_outside",
    /// A file that became shorter; the earlier content is kept.
    SourceTruncated = "source_truncated",
    /// A file that was replaced by another; the earlier content is kept.
    SourceReplaced = "source_replaced",
    /// A file that was changed in the part already collected; the earlier content is kept.
    SourceRewritten = "source_rewritten",
    /// A row of a database whose number does not follow the one before it.
    RowGap = "row_gap",
    /// A row of a database without content.
    RowEmpty = "row_empty",
}

impl std::fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

//! Compares the files on disk with the ledger: unchanged, grown, renamed, gone, new. Reads at most
//! a kilobyte of a file, and only where a name changed.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::discover::{Discovery, FoundFile, Reason, RootPath, Skipped};
use super::forgotten;
use super::known::{self, KnownSource};
use crate::base::foreign::FileId;
use crate::base::paths::{absolute, path_bytes};
use foldhash::{HashMap, HashSet};

/// The work of one sync.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) renamed: Vec<Renamed>,
    pub(crate) gone: Vec<KnownSource>,
    pub(crate) back: Vec<KnownSource>,
    pub(crate) jobs: Vec<Job>,
    /// Tails that were seen unchanged for the second time.
    pub(crate) standing: Vec<KnownSource>,
    pub(crate) unchanged: u64,
    /// Files that an earlier sync refused, because they are not transcripts, and that are
    /// unchanged.
    pub(crate) refused: Vec<Skipped>,
    /// Databases, if all of them were searched for. `rows` plans their contents.
    pub(crate) databases: Option<Vec<FoundFile>>,
}

/// A known source with a new path.
#[derive(Debug)]
pub(crate) struct Renamed {
    pub(crate) known: KnownSource,
    pub(crate) root: Vec<u8>,
    pub(crate) path: Vec<u8>,
}

/// The kind of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// A file.
    File,
    /// A session in a database, or the database itself.
    Rows,
}

impl SourceKind {
    /// Returns the stable name that is stored.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SourceKind::File => "file",
            SourceKind::Rows => "rows",
        }
    }
}

/// A source to read.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) kind: SourceKind,
    pub(crate) root: usize,
    pub(crate) root_path: PathBuf,
    pub(crate) path: Vec<u8>,
    pub(crate) absolute: PathBuf,
    /// True if one of its first lines has to be a record.
    pub(crate) is_probe: bool,
    /// The file that discovery found.
    pub(crate) file: FileId,
    pub(crate) size: u64,
    /// Its state in the ledger; `None` for a new source.
    pub(crate) known: Option<KnownSource>,
}

/// Compares the discovered files with the known sources.
pub(crate) fn plan(roots: &[RootPath], discovery: &Discovery, known: Vec<KnownSource>) -> Plan {
    let comparison = Comparison {
        roots,
        root_bytes: roots.iter().map(|root| path_bytes(&root.path)).collect(),
        found: &discovery.found,
        known: &known,
    };
    let sources_of_files = comparison.sources_of_files();
    let moves = comparison.moves(&sources_of_files);
    let mut plan = Plan::default();
    comparison.renamed(&moves, &mut plan);
    comparison.jobs(&sources_of_files, &moves, &mut plan);
    comparison.gone(&sources_of_files, &moves, &mut plan);
    plan
}

/// The two lists that are compared. Files are named by their index in `found`, sources by theirs in
/// `known`.
struct Comparison<'a> {
    roots: &'a [RootPath],
    root_bytes: Vec<Vec<u8>>,
    found: &'a [FoundFile],
    known: &'a [KnownSource],
}

/// The sources that have the paths of discovered files.
struct SourcesByFile {
    /// The source of each file.
    source_of_file: Vec<Option<usize>>,
    /// Sources with a file at their path.
    seen: HashSet<usize>,
    /// Files at new paths, by device and inode.
    at_new_paths: HashMap<(u64, u64), usize>,
}

/// Sources whose file has a new path.
#[derive(Default)]
struct MovedSources {
    to: HashMap<usize, usize>,
    from: HashMap<usize, usize>,
}

impl Comparison<'_> {
    fn sources_of_files(&self) -> SourcesByFile {
        let by_path = known::by_path(self.known);
        let mut sources_of_files = SourcesByFile {
            source_of_file: Vec::with_capacity(self.found.len()),
            seen: HashSet::with_capacity_and_hasher(
                self.found.len(),
                foldhash::fast::RandomState::default(),
            ),
            at_new_paths: HashMap::default(),
        };
        for (index, found) in self.found.iter().enumerate() {
            let format = self.roots.get(found.root).map_or("", |root| root.format.name());
            let root = self.root_bytes.get(found.root).map_or(&[][..], Vec::as_slice);
            let source = by_path.get(&(format, root, found.path.as_slice())).copied();
            match source {
                Some(source) => {
                    sources_of_files.seen.insert(source);
                }
                None => {
                    sources_of_files.at_new_paths.insert(found.stat.file(), index);
                }
            }
            sources_of_files.source_of_file.push(source);
        }
        sources_of_files
    }

    /// Returns known files under a new path: their old path is gone, or holds another file now.
    fn moves(&self, sources_of_files: &SourcesByFile) -> MovedSources {
        let mut moves = MovedSources::default();
        if sources_of_files.at_new_paths.is_empty() {
            return moves;
        }
        let is_itself = |(found, index): (&FoundFile, &Option<usize>)| {
            let source = self.known.get((*index)?)?;
            (source.stat.file() == found.stat.file()).then_some((*index)?)
        };
        let stayed: HashSet<usize> =
            self.found.iter().zip(&sources_of_files.source_of_file).filter_map(is_itself).collect();
        for (index, source) in self.known.iter().enumerate() {
            if !stayed.contains(&index)
                && !source.is_gone
                && let Some(&file_index) = sources_of_files.at_new_paths.get(&source.stat.file())
                && let Some(found) = self.found.get(file_index)
                && self.roots.get(found.root).is_some_and(|root| {
                    root.format.name() == source.format && is_moved(root, source, found)
                })
                && !moves.from.contains_key(&file_index)
            {
                moves.to.insert(index, file_index);
                moves.from.insert(file_index, index);
            }
        }
        moves
    }

    fn renamed(&self, moves: &MovedSources, plan: &mut Plan) {
        for (&source, &file_index) in &moves.to {
            if let (Some(known), Some(found)) = (self.known.get(source), self.found.get(file_index))
            {
                plan.renamed.push(Renamed {
                    known: known.clone(),
                    root: self.root_bytes.get(found.root).cloned().unwrap_or_default(),
                    path: found.path.clone(),
                });
            }
        }
        plan.renamed.sort_by(|a, b| a.path.cmp(&b.path));
    }

    /// Adds the files that have to be read, and the sources that returned.
    fn jobs(&self, sources_of_files: &SourcesByFile, moves: &MovedSources, plan: &mut Plan) {
        for (index, found) in self.found.iter().enumerate() {
            let has_moved = moves.from.contains_key(&index);
            let source = match moves.from.get(&index) {
                Some(source) => Some(*source),
                // A path whose file moved away holds a new source now.
                None => sources_of_files
                    .source_of_file
                    .get(index)
                    .copied()
                    .flatten()
                    .filter(|h| !moves.to.contains_key(h)),
            };
            let source = source.and_then(|source| self.known.get(source));
            if let Some(source) = source.filter(|source| source.is_gone) {
                plan.back.push(source.clone());
            }
            if found.is_left_out {
                continue;
            }
            if let Some(source) = source.filter(|source| is_unchanged(source, found, has_moved)) {
                if source.tail_length > 0 && !source.tail_stands {
                    plan.standing.push(source.clone());
                }
                // A refused file stays refused until it changes.
                match &source.refused {
                    None => plan.unchanged += 1,
                    Some(_) if forgotten::is_refused(source) => {}
                    Some(_) => plan.refused.push(Skipped {
                        root: found.root,
                        path: found.path.clone(),
                        reason: Reason::NotATranscript,
                    }),
                }
                continue;
            }
            // A known path may have become a hard link to another file.
            let is_unproven = source.is_none_or(|source| {
                source.refused.is_some()
                    || (found.links > 1 && source.stat.file() != found.stat.file())
            });
            let Some(root) = self.roots.get(found.root) else { continue };
            plan.jobs.push(Job {
                kind: SourceKind::File,
                root: found.root,
                root_path: root.path.clone(),
                path: found.path.clone(),
                absolute: absolute(&root.path, &found.path),
                is_probe: found.is_probe && is_unproven,
                file: found.stat.file(),
                size: found.stat.size,
                known: source.cloned(),
            });
        }
    }

    /// Adds the sources that are gone. Only sources below the roots of this sync can be.
    fn gone(&self, sources_of_files: &SourcesByFile, moves: &MovedSources, plan: &mut Plan) {
        for (index, source) in self.known.iter().enumerate() {
            let is_ours =
                self.roots.iter().zip(&self.root_bytes).any(|(root, bytes)| {
                    root.format.name() == source.format && *bytes == source.root
                });
            let is_here = sources_of_files.seen.contains(&index) || moves.to.contains_key(&index);
            if is_ours && !is_here && !source.is_gone {
                let path = absolute(Path::new(OsStr::from_bytes(&source.root)), &source.path);
                if is_absent(&path) {
                    plan.gone.push(source.clone());
                }
            }
        }
    }
}

/// Returns whether nothing has to be read, by the file's metadata alone.
fn is_unchanged(source: &KnownSource, found: &FoundFile, has_moved: bool) -> bool {
    let is_same = source.stat == found.stat
        // A rename changes only the time of the last status change.
        || (has_moved
            && (source.stat.size, source.stat.mtime_ns) == (found.stat.size, found.stat.mtime_ns));
    // A compressed file that is stored with its size was read to its end.
    is_same
        && (source.stat.size == source.reached()
            || source.refused.is_some()
            || source.is_compressed()
            || source.is_kept_whole())
}

/// Returns whether there is certainly no such file. A folder that cannot be read may hide files.
pub(super) fn is_absent(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(meta) => !meta.is_file(),
        Err(error) => {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        }
    }
}

/// Returns whether a file with the same inode is the same file under another name. File systems
/// reuse inodes at once, so a file with another time or size has to begin with the same bytes.
fn is_moved(root: &RootPath, known: &KnownSource, found: &FoundFile) -> bool {
    if (found.stat.mtime_ns, found.stat.size) == (known.stat.mtime_ns, known.stat.size) {
        return true;
    }
    known.head_length > 0
        && super::read::head_of(root, &found.path, found.stat.file(), known.head_length)
            .is_some_and(|head| known::fingerprint(&head) == known.head)
}

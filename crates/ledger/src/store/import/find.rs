//! Finds OpenClaw's sessions in a folder: its state folder, the `agents/` in it, one agent's
//! folder, or the `sessions/` in that.
//!
//! Lists only transcripts, indexes and session databases, and opens none of them. Never follows a
//! link. Leaves out hard links of files with secrets in this folder or below the given roots.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldhash::HashSet;
use quipu_transcript::format::{Archive, Claim, Format, Node, Part};
use quipu_transcript::formats::openclaw::OpenClaw;

use super::read;
use crate::base::foreign::{FileId, FileKind as Kind, Folder, Meta, denied_files, state_folder};
use crate::collect::{Dump, Dumped};
use crate::wire::ImportedFile;
use crate::{Error, Result};

/// The folder for files that OpenClaw has moved into its database. It contains one folder per move.
const MOVED_FOLDER: &str = "session-sqlite-import-archive";

/// The path of an agent's database, below the agent's folder.
const DATABASE_PATH: &str = "agent/openclaw-agent.sqlite";

/// The files of one agent.
#[derive(Debug)]
pub(super) struct AgentFiles {
    pub(super) agent: String,
    /// The folder that a person named. Nothing outside it is opened.
    pub(super) root: PathBuf,
    pub(super) index: Option<(PathBuf, FileId)>,
    pub(super) database: Option<(PathBuf, FileId)>,
    pub(super) transcripts: Vec<Transcript>,
    /// Known files that are not imported, each with the reason.
    pub(super) left_out: Vec<(PathBuf, String)>,
    /// True if one of the files has several hard links.
    has_hard_links: bool,
    /// True if the agent's folder is in a folder `agents`, as OpenClaw has it.
    is_in_agents: bool,
}

impl AgentFiles {
    /// Returns an empty report on one of the files.
    pub(super) fn empty_report(&self, path: &Path, kind: &'static str) -> ImportedFile {
        let path = path.strip_prefix(&self.root).unwrap_or(path);
        let (path, agent) = (path.to_string_lossy().into_owned(), self.agent.clone());
        ImportedFile { path, kind, agent, ..ImportedFile::default() }
    }

    /// Adds the sessions of the agent's database.
    pub(super) fn add(&mut self, database: &Path, dump: Dump) {
        for dumped in dump.sessions {
            let Dumped { name, session, archive, start, end } = dumped;
            self.transcripts.push(Transcript {
                path: database.join(name),
                file: (0, 0),
                is_shared: false,
                session: Some(session),
                archive,
                is_compressed: false,
                rows: Some((Arc::clone(&dump.lines), start, end)),
            });
        }
        let left_out = dump.left_out.into_iter();
        self.left_out.extend(left_out.map(|(name, why)| (database.join(name), why)));
    }
}

/// A transcript, live or archived.
#[derive(Debug, Clone)]
pub(super) struct Transcript {
    /// The path of the file; for rows of a database, the path that the file would have.
    pub(super) path: PathBuf,
    /// The file that was found at the path.
    pub(super) file: FileId,
    /// True if the file has several hard links; their names may be anywhere.
    pub(super) is_shared: bool,
    /// The session in the file's name; `None` if only its header names it.
    pub(super) session: Option<String>,
    pub(super) archive: Option<Archive>,
    pub(super) is_compressed: bool,
    /// The lines, if they come from a database.
    pub(super) rows: Option<(Arc<File>, u64, u64)>,
}

impl Transcript {
    /// Returns whether this may be a copy of another transcript of its session.
    pub(super) fn is_copy(&self) -> bool {
        matches!(self.archive, Some(Archive::Backup | Archive::Imported | Archive::Cold))
    }

    /// Returns whether the transcript is in OpenClaw's database, or is the file that OpenClaw set
    /// aside when it moved the transcript there.
    pub(super) fn is_moved(&self) -> bool {
        self.rows.is_some() || self.archive == Some(Archive::Imported)
    }

    pub(super) fn kind(&self) -> &'static str {
        if self.archive.is_some() { "archive" } else { "transcript" }
    }

    /// Returns the part of an archive's name after the session: the reason and the time.
    pub(super) fn suffix(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().replace(':', "-");
        let name = name.strip_suffix(".zst").unwrap_or(&name);
        match (name.split_once(".jsonl."), self.archive) {
            (Some((_, suffix)), _) => suffix.to_owned(),
            // The file is named after the hash of its bytes.
            (None, Some(Archive::Cold)) => format!("cold-{}", name.get(..8).unwrap_or("0")),
            (None, _) => "file".to_owned(),
        }
    }

    /// Returns the sort key: archives by the time in their name, then live files, then live rows of
    /// a database.
    pub(super) fn order(&self) -> (bool, bool, String) {
        let suffix = self.suffix();
        let time = suffix.split_once('.').map(|(_, time)| time.to_owned());
        (self.archive.is_none(), self.rows.is_some(), time.unwrap_or(suffix))
    }
}

/// Finds the agents' files in a folder. Leaves out every file that also has a denied name there, in
/// the surrounding state folder or below `roots`.
pub(super) fn find(folder: &Path, roots: &[PathBuf]) -> Result<Vec<AgentFiles>> {
    let root = std::fs::canonicalize(folder).map_err(Error::io("open", folder))?;
    let tree = Tree { handle: Folder::root(&root).map_err(Error::io("open", folder))?, root };
    let agents = tree.agents()?;
    let mut found: Vec<AgentFiles> =
        agents.iter().map(|agent| tree.files(agent)).collect::<Result<_>>()?;
    if found.iter().any(|files| files.has_hard_links) {
        let near = [Some(tree.root.as_path()), state_folder(&tree.root)];
        let roots: Vec<PathBuf> =
            roots.iter().map(|root| std::fs::canonicalize(root).unwrap_or_default()).collect();
        let all = near.into_iter().flatten().chain(roots.iter().map(PathBuf::as_path));
        let denied = denied_files(all);
        found.iter_mut().for_each(|files| files.leave_out(&denied));
    }
    let is_openclaw = |files: &AgentFiles| files.has_openclaw_file(&tree.root);
    if !found.iter().any(|files| files.is_in_agents) && !found.iter().any(is_openclaw) {
        return Err(Error::NotOpenClaw { path: folder.to_owned() });
    }
    Ok(found)
}

/// The folders of one agent.
struct Agent {
    name: Vec<u8>,
    /// The agent's folder, if it is inside the named folder.
    home: Option<PathBuf>,
    sessions: PathBuf,
    /// The state folder, if that was named.
    state: Option<PathBuf>,
}

impl Agent {
    fn of(name: Vec<u8>, home: PathBuf, state: Option<&Path>) -> Agent {
        let sessions = home.join("sessions");
        Agent { name, home: Some(home), sessions, state: state.map(Path::to_owned) }
    }
}

/// The folder that a person named, opened.
struct Tree {
    root: PathBuf,
    handle: Folder,
}

impl Tree {
    fn look(&self, path: &Path) -> std::io::Result<Meta> {
        self.handle.look_below(path.strip_prefix(&self.root).unwrap_or(path))
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.look(path).is_ok_and(|meta| meta.kind == Kind::Folder)
    }

    fn is_file(&self, path: &Path) -> bool {
        self.look(path).is_ok_and(|meta| meta.kind == Kind::File)
    }

    /// Opens a folder without following links.
    fn folder(&self, path: &Path) -> Result<Folder> {
        let inside = path.strip_prefix(&self.root).unwrap_or(path);
        self.handle.folder(inside).map_err(Error::io("open", path))
    }

    /// Returns whether the agent has a file or folder that may hold sessions.
    fn is_agent(&self, agent: &Agent) -> bool {
        let has_database = |home: &PathBuf| self.is_file(&home.join(DATABASE_PATH));
        self.is_folder(&agent.sessions) || agent.home.as_ref().is_some_and(has_database)
    }

    /// Returns the agents whose files are in the named folder.
    fn agents(&self) -> Result<Vec<Agent>> {
        let root = self.root.as_path();
        let below = |folder: &Path, state: Option<&Path>| -> Result<Vec<Agent>> {
            let agents = names(&self.folder(folder)?, folder)?.into_iter().filter_map(|name| {
                let path = [b"agents/", &*name, b"/sessions"].concat();
                let home = folder.join(OsStr::from_bytes(&name));
                let is_entered = OpenClaw.claim(&path, Node::Directory) == Claim::Enter;
                let agent = Agent::of(name, home, state);
                (is_entered && self.is_agent(&agent)).then_some(agent)
            });
            Ok(agents.collect())
        };
        let agents = root.join("agents");
        if self.is_folder(&agents) {
            return below(&agents, Some(root));
        }
        let name = root.file_name().map(|name| name.as_bytes().to_owned());
        let agent = Agent::of(name.unwrap_or_else(|| super::MAIN.into()), root.to_owned(), None);
        if self.is_agent(&agent) {
            return Ok(vec![agent]);
        }
        let below = below(root, None)?;
        if !below.is_empty() {
            return Ok(below);
        }
        let is_session = |name: &Vec<u8>| name == b"sessions.json" || is_transcript(name);
        if !names(&self.handle, root)?.iter().any(is_session) {
            return Ok(Vec::new());
        }
        // A single folder of sessions does not contain the agent's name.
        let mut parents = root.iter().rev();
        let name = match (parents.next(), parents.next(), parents.next()) {
            (Some(sessions), Some(agent), Some(agents))
                if sessions == "sessions" && agents == "agents" =>
            {
                agent.as_bytes().to_owned()
            }
            _ => super::MAIN.into(),
        };
        Ok(vec![Agent { name, home: None, sessions: root.to_owned(), state: None }])
    }

    /// Returns the files of an agent.
    fn files(&self, agent: &Agent) -> Result<AgentFiles> {
        let claimed = |rest: &str| [b"agents/", &*agent.name, b"/", rest.as_bytes()].concat();
        let origin = OpenClaw.origin(&claimed("sessions/sessions.json"));
        let mut files = AgentFiles {
            agent: origin.agent.unwrap_or_default(),
            root: self.root.clone(),
            index: None,
            database: None,
            transcripts: Vec::new(),
            left_out: Vec::new(),
            has_hard_links: false,
            is_in_agents: agent.state.is_some(),
        };
        if self.is_folder(&agent.sessions) {
            files.scan(self, &agent.sessions, &claimed("sessions"))?;
        }
        if let Some(home) = &agent.home {
            for below in [MOVED_FOLDER.to_owned(), format!("agent/{MOVED_FOLDER}")] {
                if self.is_folder(&home.join(&below)) {
                    files.scan(self, &home.join(&below), &claimed(&below))?;
                }
            }
            if self.is_folder(&home.join("agent")) {
                files.scan(self, &home.join("agent"), &claimed("agent"))?;
            }
        }
        if let Some(moved) = agent.state.as_ref().map(|state| state.join(MOVED_FOLDER))
            && self.is_folder(&moved)
        {
            files.scan(self, &moved, MOVED_FOLDER.as_bytes())?;
        }
        Ok(files)
    }
}

fn is_transcript(name: &[u8]) -> bool {
    let path = [b"agents/main/sessions/", name].concat();
    OpenClaw.claim(&path, Node::File) == Claim::Collect(Part::Transcript)
}

/// Returns the names in a folder, sorted.
fn names(folder: &Folder, path: &Path) -> Result<Vec<Vec<u8>>> {
    let (entries, failed) = folder.list();
    if let Some(error) = failed {
        return Err(Error::io("open", path)(error));
    }
    let mut names: Vec<Vec<u8>> =
        entries.into_iter().map(|entry| entry.name.as_bytes().to_owned()).collect();
    names.sort();
    Ok(names)
}

impl AgentFiles {
    /// Adds the files of a folder and of the archive folders below it. `claimed` is the folder's
    /// path below OpenClaw's state folder.
    fn scan(&mut self, tree: &Tree, folder: &Path, claimed: &[u8]) -> Result<()> {
        let handle = tree.folder(folder)?;
        for name in names(&handle, folder)? {
            let claimed = [claimed, b"/", &*name].concat();
            let path = folder.join(OsStr::from_bytes(&name));
            let Ok(meta) = handle.look(OsStr::from_bytes(&name)) else { continue };
            if meta.kind == Kind::Folder {
                // The caller scans the other folders itself.
                let is_below = claimed.iter().filter(|byte| **byte == b'/').count() == 3
                    && claimed.split(|byte| *byte == b'/').nth(2) == Some(b"sessions");
                if is_below && OpenClaw.claim(&claimed, Node::Directory) == Claim::Enter {
                    self.scan(tree, &path, &claimed)?;
                }
                continue;
            }
            let origin = OpenClaw.origin(&claimed);
            let file = meta.file();
            self.has_hard_links |= meta.links > 1;
            match OpenClaw.claim(&claimed, Node::File) {
                // The folder holds files of several agents.
                Claim::Collect(_) if origin.agent.as_ref() != Some(&self.agent) => {}
                Claim::Collect(_) if meta.kind != Kind::File => {
                    self.left_out
                        .push((path, "not a regular file, so it was not opened".to_owned()));
                }
                Claim::Collect(Part::Index) => self.index = Some((path, file)),
                Claim::Collect(Part::Database) => self.database = Some((path, file)),
                Claim::Collect(Part::Transcript) => self.transcripts.push(Transcript {
                    path,
                    file,
                    is_shared: meta.links > 1,
                    session: origin.session,
                    archive: origin.archive,
                    is_compressed: OpenClaw.is_compressed(&claimed),
                    rows: None,
                }),
                Claim::Collect(Part::Trajectory) => {
                    self.left_out.push((path, "trajectory of a run".to_owned()));
                }
                Claim::LeaveOut(why) => self.left_out.push((path, why.to_owned())),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns whether any of the files is OpenClaw's. Other programs also have folders named
    /// `sessions`, and files named `*.jsonl`.
    fn has_openclaw_file(&self, root: &Path) -> bool {
        let mut transcripts = self.transcripts.iter();
        self.index.is_some()
            || self.database.is_some()
            || transcripts.any(|file| {
                file.is_compressed || read::begins_with_a_record(root, file).unwrap_or(true)
            })
    }

    /// Leaves out files that are also hard links of a file with secrets.
    fn leave_out(&mut self, denied: &HashSet<FileId>) {
        let is_denied = |file: &FileId| denied.contains(file);
        let is_denied_file = |found: &mut (PathBuf, FileId)| is_denied(&found.1);
        let mut left_out: Vec<PathBuf> = Vec::new();
        left_out.extend(self.index.take_if(is_denied_file).map(|found| found.0));
        left_out.extend(self.database.take_if(is_denied_file).map(|found| found.0));
        let transcripts = self.transcripts.extract_if(.., |found| is_denied(&found.file));
        left_out.extend(transcripts.map(|found| found.path));
        let why = "may contain secrets under another name, so it was not opened";
        self.left_out.extend(left_out.into_iter().map(|path| (path, why.to_owned())));
    }
}

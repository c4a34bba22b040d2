//! Where OpenClaw's sessions are in a folder that a person names: its state folder, the `agents/` in
//! it, one agent's folder, or the `sessions/` in that. What is no transcript and no index is never
//! opened, and neither is a link.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use quipu_transcript::format::{Archive, Claim, Format, Node, Part};
use quipu_transcript::formats::openclaw::OpenClaw;

use crate::{Error, Result};

/// The files of one agent.
#[derive(Debug)]
pub(super) struct AgentFiles {
    pub(super) agent: String,
    /// The folder that they are in.
    pub(super) folder: PathBuf,
    /// The same as people see it.
    pub(super) shown: String,
    pub(super) has_index: bool,
    pub(super) transcripts: Vec<Transcript>,
    /// Names of files that are known and not imported, and why.
    pub(super) left_out: Vec<(String, String)>,
}

/// A transcript, live or put aside.
#[derive(Debug, Clone)]
pub(super) struct Transcript {
    pub(super) name: PathBuf,
    /// The session that its name says.
    pub(super) session: String,
    pub(super) is_archive: bool,
    pub(super) is_compressed: bool,
}

impl Transcript {
    pub(super) fn shown(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// What follows the session in the name of an archive: why and when it was put aside.
    pub(super) fn suffix(&self) -> String {
        let name = self.shown().replace(':', "-");
        let name = name.strip_suffix(".zst").unwrap_or(&name);
        name.split_once(".jsonl.").map(|(_, suffix)| suffix.to_owned()).unwrap_or_default()
    }

    /// When it was put aside, as far as the name says; what is live comes last.
    pub(super) fn order(&self) -> (bool, String) {
        let suffix = self.suffix();
        let time = suffix.split_once('.').map(|(_, time)| time.to_owned());
        (!self.is_archive, time.unwrap_or(suffix))
    }
}

/// The agents' files in a folder.
pub(super) fn find(folder: &Path) -> Result<Vec<AgentFiles>> {
    let root = std::fs::canonicalize(folder).map_err(Error::io("open", folder))?;
    let mut found = Vec::new();
    for (agent, sessions) in sessions_folders(&root)? {
        found.push(files(&root, &agent, sessions)?);
    }
    if found.is_empty() {
        let why = format!("{} holds no sessions of OpenClaw", folder.display());
        return Err(Error::refused(why));
    }
    Ok(found)
}

/// Each agent and the folder of its sessions.
fn sessions_folders(root: &Path) -> Result<Vec<(Vec<u8>, PathBuf)>> {
    let agents = root.join("agents");
    let of_agents = |folder: &Path| -> Result<Vec<(Vec<u8>, PathBuf)>> {
        let names = names(folder)?.into_iter();
        let agents = names.map(|name| (name.clone(), folder.join(OsStr::from_bytes(&name))));
        let agents = agents.map(|(name, folder)| (name, folder.join("sessions")));
        let is_entered = |(name, sessions): &(Vec<u8>, PathBuf)| {
            let path = [b"agents/", &**name, b"/sessions"].concat();
            let is_real = sessions.symlink_metadata().is_ok_and(|meta| meta.is_dir());
            OpenClaw.claim(&path, Node::Directory) == Claim::Enter && is_real
        };
        Ok(agents.filter(is_entered).collect())
    };
    if agents.is_dir() {
        return of_agents(&agents);
    }
    let sessions = root.join("sessions");
    if sessions.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        let agent = root.file_name().map(|name| name.as_bytes().to_owned());
        return Ok(vec![(agent.unwrap_or_else(|| super::MAIN.into()), sessions)]);
    }
    let below = of_agents(root)?;
    if !below.is_empty() {
        return Ok(below);
    }
    let is_session = |name: &Vec<u8>| name == b"sessions.json" || is_transcript(name);
    if !names(root)?.iter().any(is_session) {
        return Ok(Vec::new());
    }
    // A folder of sessions by itself does not say whose they are.
    let mut parents = root.iter().rev();
    let agent = match (parents.next(), parents.next(), parents.next()) {
        (Some(sessions), Some(agent), Some(agents))
            if sessions == "sessions" && agents == "agents" =>
        {
            agent.as_bytes().to_owned()
        }
        _ => super::MAIN.into(),
    };
    Ok(vec![(agent, root.to_owned())])
}

fn is_transcript(name: &[u8]) -> bool {
    let path = [b"agents/main/sessions/", name].concat();
    OpenClaw.claim(&path, Node::File) == Claim::Collect(Part::Transcript)
}

/// Names in a folder, in order.
fn names(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let entries = std::fs::read_dir(folder).map_err(Error::io("open", folder))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io("open", folder))?;
        names.push(entry.file_name().as_bytes().to_owned());
    }
    names.sort();
    Ok(names)
}

fn files(root: &Path, agent: &[u8], folder: PathBuf) -> Result<AgentFiles> {
    let shown = folder.strip_prefix(root).unwrap_or(&folder).display().to_string();
    let mut files = AgentFiles {
        agent: String::new(),
        folder,
        shown,
        has_index: false,
        transcripts: Vec::new(),
        left_out: Vec::new(),
    };
    let path_of = |name: &[u8]| [b"agents/", agent, b"/sessions/", name].concat();
    files.agent = OpenClaw.origin(&path_of(b"sessions.json")).agent.unwrap_or_default();
    for name in names(&files.folder)? {
        let path = path_of(&name);
        let plain = PathBuf::from(OsStr::from_bytes(&name));
        let leave = |why: &str| (plain.to_string_lossy().into_owned(), why.to_owned());
        let Ok(meta) = files.folder.join(&plain).symlink_metadata() else { continue };
        if meta.is_dir() {
            if OpenClaw.claim(&path, Node::Directory) == Claim::Enter {
                files.left_out.push(leave("a folder of archives; `quipu sync` collects them"));
            }
            continue;
        }
        match OpenClaw.claim(&path, Node::File) {
            Claim::Collect(_) if !meta.is_file() => {
                files.left_out.push(leave("no regular file, so it is not opened"));
            }
            Claim::Collect(Part::Index) => files.has_index = true,
            Claim::Collect(Part::Transcript) => {
                let origin = OpenClaw.origin(&path);
                match (origin.session, origin.archive) {
                    (Some(session), None | Some(Archive::Reset | Archive::Deleted)) => {
                        files.transcripts.push(Transcript {
                            name: plain,
                            session,
                            is_archive: origin.archive.is_some(),
                            is_compressed: OpenClaw.is_compressed(&path),
                        });
                    }
                    _ => files.left_out.push(leave("a copy; `quipu sync` collects it")),
                }
            }
            Claim::LeaveOut(why) => files.left_out.push(leave(why)),
            _ => {}
        }
    }
    Ok(files)
}

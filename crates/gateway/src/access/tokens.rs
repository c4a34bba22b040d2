//! Tokens: who may use the server, and for what.
//!
//! Each token is a file of its own in a folder beside the ledger, which only its owner can read. The
//! file has the hash of the secret, never the secret. The text of a token names its file, so a
//! revoked token is refused from that moment, without a cache. A browser that signed in has such a
//! file too; the time of the file is the time of its last use.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::secret::{Secret, SecretHash};

/// The beginning of every token, so that scanners for secrets can find one.
const PREFIX: &str = "quipu_";

/// The largest length of a name, in bytes. Names are file names.
const MAX_NAME_BYTES: usize = 64;

/// The largest size of a token's file, in bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// The time without a request after which a browser has to sign in again.
const IDLE_TIME: Duration = Duration::from_secs(12 * 60 * 60);

/// The use of a cookie is recorded at most once in this time, so that most requests write nothing.
const NOTE_AFTER: Duration = Duration::from_secs(10 * 60);

/// The rights of a token's holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Read everything in the ledger.
    Read,
    /// Read everything, and write sessions.
    Write,
}

impl Scope {
    /// Returns the name of the scope.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Write => "write",
        }
    }
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The name.
    pub name: String,
    /// The rights of its holder.
    pub scope: Scope,
    /// The only agent whose sessions its holder sees and writes to; `None` for all agents.
    pub agent: Option<String>,
    /// `token`, or `browser` for a browser that signed in.
    pub kind: &'static str,
    /// The time it was created, milliseconds UTC.
    pub created_at: i64,
}

/// The reason why a token cannot be created or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The name cannot be an agent's.
    #[error("an agent's name has 1 to {MAX_NAME_BYTES} bytes without control characters")]
    Agent,
    /// The name cannot be a token's.
    #[error("a token's name has 1 to {MAX_NAME_BYTES} letters, digits, `-` and `_`")]
    Name,
    /// There is such a token.
    #[error("the token `{0}` already exists")]
    Exists(String),
    /// There is no such token.
    #[error("no token is named `{0}`")]
    NoMatch(String),
    /// The system has no random numbers.
    #[error("cannot make a secret: {0}")]
    Random(getrandom::Error),
    /// A file could not be used.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The tokens of one ledger.
#[derive(Debug, Clone)]
pub struct TokenFolder {
    path: PathBuf,
}

/// The content of a token's file.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    hash: String,
    scope: Scope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    is_browser: bool,
    created_at: i64,
}

impl TokenFolder {
    /// Returns the tokens of the ledger at `ledger`. The folder is created with the first token.
    pub fn beside(ledger: &Path) -> TokenFolder {
        let mut name = ledger.as_os_str().to_owned();
        name.push(".tokens");
        TokenFolder { path: name.into() }
    }

    /// Creates a token and returns its text, which is not kept. With an agent, its holder sees that
    /// agent's sessions alone, and writes to no other.
    pub fn create(
        &self,
        name: &str,
        scope: Scope,
        agent: Option<&str>,
    ) -> Result<String, TokenError> {
        let is_agent = |name: &str| {
            (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control)
        };
        match agent {
            Some(name) if !is_agent(name) => Err(TokenError::Agent),
            agent => self.create_of_kind(name, scope, agent, false),
        }
    }

    /// Creates the token of a browser that signed in. Removes those that are no longer used.
    pub(crate) fn create_cookie(&self, scope: Scope) -> Result<String, TokenError> {
        for (name, stored) in self.read_all().unwrap_or_default() {
            if stored.is_browser && self.idle(&name).is_none_or(|idle| idle > IDLE_TIME) {
                let _ = fs::remove_file(self.file(&name));
            }
        }
        let random = Secret::new().map_err(TokenError::Random)?;
        let name: String = random.text().chars().take(8).collect();
        self.create_of_kind(&format!("browser-{name}"), scope, None, true)
    }

    fn create_of_kind(
        &self,
        name: &str,
        scope: Scope,
        agent: Option<&str>,
        is_browser: bool,
    ) -> Result<String, TokenError> {
        if !is_name(name) {
            return Err(TokenError::Name);
        }
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| TokenError::Io { action, path, source }
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
            .map_err(io("create", &self.path))?;
        let secret = Secret::new().map_err(TokenError::Random)?;
        let stored = Stored {
            hash: secret.hash().to_hex(),
            scope,
            agent: agent.map(str::to_owned),
            is_browser,
            created_at: jiff::Timestamp::now().as_millisecond(),
        };
        let path = self.file(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => TokenError::Exists(name.to_owned()),
            _ => io("create", &path)(source),
        })?;
        let text = serde_json::to_vec(&stored).unwrap_or_default();
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(io("write", &path))?;
        Ok(format!("{PREFIX}{name}.{}", secret.text()))
    }

    /// Returns all tokens, by name.
    pub fn list(&self) -> Result<Vec<Token>, TokenError> {
        let tokens = self.read_all()?.into_iter().map(|(name, stored)| stored.token(name));
        Ok(tokens.collect())
    }

    /// Removes a token. Its next request is refused.
    pub fn revoke(&self, name: &str) -> Result<(), TokenError> {
        let no_match = || TokenError::NoMatch(name.to_owned());
        if !is_name(name) {
            return Err(no_match());
        }
        let path = self.file(name);
        fs::remove_file(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => no_match(),
            _ => TokenError::Io { action: "remove", path, source },
        })
    }

    /// Returns the token with this text.
    pub(crate) fn find(&self, text: &str) -> Option<Token> {
        let (name, stored) = self.read_secret(text)?;
        (!stored.is_browser).then(|| stored.token(name))
    }

    /// Returns the token of a browser, and whether its cookie has to be sent again.
    pub(crate) fn find_cookie(&self, text: &str) -> Option<(Token, bool)> {
        let (name, stored) = self.read_secret(text)?;
        let idle = self.idle(&name).filter(|idle| stored.is_browser && *idle <= IDLE_TIME)?;
        let is_due = idle >= NOTE_AFTER;
        if is_due {
            self.note_use(&name);
        }
        Some((stored.token(name), is_due))
    }

    /// Returns whether a token that was found before is still valid. Notes the use of a browser's.
    pub(crate) fn is_current(&self, token: &Token) -> bool {
        let Some(stored) = self.read(&token.name) else { return false };
        let is_browser = stored.is_browser;
        if stored.token(token.name.clone()) != *token {
            return false;
        }
        match self.idle(&token.name) {
            Some(idle) if is_browser => {
                if idle >= NOTE_AFTER {
                    self.note_use(&token.name);
                }
                idle <= IDLE_TIME
            }
            _ => true,
        }
    }

    /// Notes that a browser uses its token. Without the note, it has to sign in again earlier.
    fn note_use(&self, name: &str) {
        let file = OpenOptions::new().write(true).open(self.file(name));
        let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
    }

    /// Returns the name and the file of a token, if the text has its secret.
    fn read_secret(&self, text: &str) -> Option<(String, Stored)> {
        let (name, secret) = text.strip_prefix(PREFIX)?.split_once('.')?;
        let stored = is_name(name).then(|| self.read(name)).flatten()?;
        let is_right = SecretHash::from_hex(&stored.hash)?.is_of(secret);
        is_right.then(|| (name.to_owned(), stored))
    }

    fn read_all(&self) -> Result<Vec<(String, Stored)>, TokenError> {
        let io = |source| TokenError::Io { action: "read", path: self.path.clone(), source };
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io)?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let file = entry.map_err(io)?.file_name();
            let name = file.to_str().and_then(|file| file.strip_suffix(".json"));
            let name = name.filter(|name| is_name(name));
            all.extend(name.and_then(|name| Some((name.to_owned(), self.read(name)?))));
        }
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(all)
    }

    fn read(&self, name: &str) -> Option<Stored> {
        let file = File::open(self.file(name)).ok()?;
        // Read at once: every request reads such a file.
        let mut text = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Returns the time since the last noted use.
    fn idle(&self, name: &str) -> Option<Duration> {
        let modified = fs::metadata(self.file(name)).and_then(|meta| meta.modified()).ok()?;
        // A clock that was set back does not end a session.
        Some(SystemTime::now().duration_since(modified).unwrap_or_default())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.json"))
    }
}

impl Stored {
    fn token(&self, name: String) -> Token {
        let kind = if self.is_browser { "browser" } else { "token" };
        Token {
            name,
            scope: self.scope,
            agent: self.agent.clone(),
            kind,
            created_at: self.created_at,
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder() -> (tempfile::TempDir, TokenFolder) {
        let folder = tempfile::tempdir().unwrap();
        let tokens = TokenFolder::beside(&folder.path().join("ledger.db"));
        (folder, tokens)
    }

    #[test]
    fn a_token_is_valid_until_it_is_revoked() {
        let (_folder, tokens) = folder();
        assert_eq!(tokens.list().unwrap(), []);
        let text = tokens.create("phone", Scope::Read, None).unwrap();
        let other = tokens.create("laptop", Scope::Write, None).unwrap();
        assert_eq!(tokens.find(&text).unwrap().scope, Scope::Read);
        assert_eq!(tokens.find(&other).unwrap().name, "laptop");
        assert!(matches!(tokens.create("phone", Scope::Write, None), Err(TokenError::Exists(_))));
        // The name of one token and the secret of another.
        let (_, secret) = other.split_once('.').unwrap();
        for wrong in ["", "quipu_phone", "quipu_phone.", &format!("quipu_phone.{secret}")] {
            assert_eq!(tokens.find(wrong), None, "{wrong}");
        }
        // A token is no cookie.
        assert!(tokens.find_cookie(&text).is_none());
        tokens.revoke("phone").unwrap();
        assert_eq!(tokens.find(&text), None);
        assert!(matches!(tokens.revoke("phone"), Err(TokenError::NoMatch(_))));
    }

    #[test]
    fn r63_a_token_may_be_bound_to_one_agent() {
        let (_folder, tokens) = folder();
        let text = tokens.create("phone", Scope::Write, Some("main")).unwrap();
        assert_eq!(tokens.find(&text).unwrap().agent.as_deref(), Some("main"));
        for name in ["", "a\nb", &"a".repeat(65)] {
            let refused = tokens.create("other", Scope::Read, Some(name));
            assert!(matches!(refused, Err(TokenError::Agent)), "{name}");
        }
        // A file of an earlier version names no agent.
        let old = tokens.create("old", Scope::Read, None).unwrap();
        assert!(!fs::read_to_string(tokens.file("old")).unwrap().contains("agent"));
        assert_eq!(tokens.find(&old).unwrap().agent, None);
    }

    #[test]
    fn only_the_owner_can_read_the_hash_and_nobody_the_secret() {
        let (_folder, tokens) = folder();
        let text = tokens.create("phone", Scope::Read, None).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = tokens.file("phone");
        assert_eq!((mode(&tokens.path), mode(&file)), (0o700, 0o600));
        let (_, secret) = text.split_once('.').unwrap();
        assert!(!fs::read_to_string(file).unwrap().contains(secret));
    }

    #[test]
    fn a_name_cannot_leave_the_folder() {
        let (_folder, tokens) = folder();
        for name in ["", "..", "a/b", "a.b", "ä", &"a".repeat(65)] {
            assert!(
                matches!(tokens.create(name, Scope::Read, None), Err(TokenError::Name)),
                "{name}"
            );
            assert!(matches!(tokens.revoke(name), Err(TokenError::NoMatch(_))), "{name}");
            assert_eq!(tokens.find(&format!("quipu_{name}.00")), None);
        }
    }

    #[test]
    fn a_cookie_ends_after_twelve_idle_hours() {
        let (_folder, tokens) = folder();
        let text = tokens.create_cookie(Scope::Write).unwrap();
        let (token, is_due) = tokens.find_cookie(&text).unwrap();
        assert_eq!((token.kind, is_due), ("browser", false));
        assert_eq!(tokens.find(&text), None);
        let used = |hours: u64| {
            let file = OpenOptions::new().write(true).open(tokens.file(&token.name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
        };
        used(11);
        assert!(tokens.find_cookie(&text).unwrap().1);
        // That use was noted.
        assert!(!tokens.find_cookie(&text).unwrap().1);
        used(13);
        assert!(tokens.find_cookie(&text).is_none());
        tokens.create_cookie(Scope::Read).unwrap();
        assert_eq!(tokens.list().unwrap().len(), 1);
    }
}

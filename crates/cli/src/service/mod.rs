//! `quipu watch` as a service of the user's own service manager: what the file says, where it is,
//! and which programs start it. Programs are started by name and arguments, never through a shell.

pub(crate) mod launchd;
pub(crate) mod systemd;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::error::{CommandError, Result};
use crate::settings::{self, Origin, Settings};

/// A file with this in its first lines is ours to replace and to delete.
pub(crate) const MARK: &str = "Written by `quipu service install`";

/// What the service does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    /// The program, absolute.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// Variables that it needs beside those that every service has.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    /// The one folder that it writes to.
    pub(crate) writes_to: PathBuf,
}

/// Which file system rights a service is left with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sandbox {
    /// Everything can be read, only the ledger's folder can be written to.
    Strict,
    /// Those of the user, where the system cannot take any away.
    None,
}

/// The two service managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manager {
    Systemd,
    Launchd,
}

impl Manager {
    /// The one of this system.
    pub(crate) fn here() -> Manager {
        if cfg!(target_os = "macos") { Manager::Launchd } else { Manager::Systemd }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Manager::Systemd => "systemd",
            Manager::Launchd => "launchd",
        }
    }

    /// Where the file of our service belongs.
    pub(crate) fn path(self, home: Option<&Path>) -> Result<PathBuf> {
        let home = || {
            home.ok_or_else(|| {
                CommandError::new("cannot tell where services are: there is no home folder")
                    .hint("set HOME")
            })
        };
        Ok(match self {
            Manager::Systemd => match settings::xdg("XDG_CONFIG_HOME") {
                Some(folder) => folder.join("systemd/user").join(systemd::NAME),
                None => home()?.join(".config/systemd/user").join(systemd::NAME),
            },
            Manager::Launchd => {
                home()?.join("Library/LaunchAgents").join(format!("{}.plist", launchd::LABEL))
            }
        })
    }

    /// What the file says.
    pub(crate) fn text(self, unit: &Unit, sandbox: Sandbox) -> Result<String> {
        match self {
            Manager::Systemd => Ok(systemd::text(unit, sandbox)),
            Manager::Launchd => launchd::text(unit),
        }
    }

    /// What makes a file that was written take effect, now and after each login.
    pub(crate) fn start(self, path: &Path) -> Vec<Program> {
        match self {
            Manager::Systemd => vec![
                Program::new("systemctl", ["--user", "daemon-reload"]),
                Program::new("systemctl", ["--user", "enable", systemd::NAME]),
                Program::new("systemctl", ["--user", "restart", systemd::NAME]),
            ],
            Manager::Launchd => vec![
                // One that runs with the old file has to go first.
                Program::new("launchctl", ["bootout", &launchd::target()]).may_fail(),
                Program::new("launchctl", ["bootstrap", &launchd::domain()]).with(path),
            ],
        }
    }

    /// What ends it, before its file is deleted.
    pub(crate) fn stop(self) -> Vec<Program> {
        match self {
            Manager::Systemd => {
                vec![Program::new("systemctl", ["--user", "disable", "--now", systemd::NAME])]
            }
            Manager::Launchd => vec![Program::new("launchctl", ["bootout", &launchd::target()])],
        }
    }

    /// What the manager has to hear after the file is deleted.
    pub(crate) fn forget(self) -> Vec<Program> {
        match self {
            Manager::Systemd => vec![Program::new("systemctl", ["--user", "daemon-reload"])],
            Manager::Launchd => Vec::new(),
        }
    }

    /// Asks whether the service runs. The error says why that cannot be told.
    pub(crate) fn is_running(self) -> Result<bool, String> {
        // What each answers with when it knows the service and it does not run, or does not know it.
        let (program, no): (Program, &[i32]) = match self {
            Manager::Systemd => {
                let asking = ["--user", "--quiet", "is-active", systemd::NAME];
                (Program::new("systemctl", asking), &[3, 4])
            }
            Manager::Launchd => (Program::new("launchctl", ["print", &launchd::target()]), &[113]),
        };
        match program.output()? {
            output if output.status.success() => Ok(true),
            output if output.status.code().is_some_and(|code| no.contains(&code)) => Ok(false),
            output => Err(program.said(&output)),
        }
    }
}

/// The service of these settings: the same program, ledger, configuration and roots.
pub(crate) fn unit(settings: &Settings) -> Result<Unit> {
    let program =
        std::env::current_exe().ok().filter(|program| program.is_file()).ok_or_else(|| {
            CommandError::new("cannot tell where the program is that is running")
                .hint("it may have been replaced; run the new one")
        })?;
    let ledger = &settings.ledger.value;
    let mut arguments: Vec<OsString> = vec!["watch".into(), "--ledger".into(), ledger.into()];
    let mut variables = Vec::new();
    if let Some(config) = &settings.config {
        match config.origin {
            // A file that was named has to be there; one in its usual place need not.
            Origin::Flag(_) | Origin::Environment("QUIPU_CONFIG") => {
                arguments.extend(["--config".into(), config.value.clone().into()]);
            }
            Origin::Environment(name) => {
                variables.extend(settings::xdg(name).map(|folder| (name, folder.into())));
            }
            Origin::File(_) | Origin::Default => {}
        }
    }
    for roots in &settings.roots {
        if let Origin::Environment(name) = roots.origin {
            let mut value = OsString::new();
            for path in &roots.paths {
                if !value.is_empty() {
                    value.push(",");
                }
                value.push(path);
            }
            variables.push((name, value));
        }
    }
    let writes_to = ledger.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(Unit { program, arguments, variables, writes_to })
}

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    name: &'static str,
    arguments: Vec<OsString>,
    /// Its failure means nothing.
    may_fail: bool,
}

impl Program {
    fn new<'a>(name: &'static str, arguments: impl IntoIterator<Item = &'a str>) -> Program {
        let arguments = arguments.into_iter().map(OsString::from).collect();
        Program { name, arguments, may_fail: false }
    }

    fn with(mut self, path: &Path) -> Program {
        self.arguments.push(path.into());
        self
    }

    fn may_fail(mut self) -> Program {
        self.may_fail = true;
        self
    }

    /// Runs it to its end. The error is what it said, in one line.
    pub(crate) fn run(&self) -> Result<(), String> {
        match self.output()? {
            output if output.status.success() || self.may_fail => Ok(()),
            output => Err(self.said(&output)),
        }
    }

    /// Runs it to its end. The error is why it could not be started.
    fn output(&self) -> Result<Output, String> {
        let ran = Command::new(self.name).args(&self.arguments).stdin(Stdio::null()).output();
        ran.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("there is no {} here", self.name),
            _ => format!("{}: {error}", self.name),
        })
    }

    /// What it said about its failure, in one line.
    fn said(&self, output: &Output) -> String {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        match said.trim() {
            "" => format!("{} ended with {}", self.name, output.status),
            said => format!("{}: {said}", self.name),
        }
    }

    /// As a person types it.
    pub(crate) fn typed(&self) -> String {
        let mut typed = self.name.to_owned();
        for argument in &self.arguments {
            typed.push(' ');
            let argument = argument.to_string_lossy();
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:@,+".contains(&byte);
            if !argument.is_empty() && argument.bytes().all(is_plain) {
                typed.push_str(&argument);
            } else {
                typed.push_str(&format!("'{}'", argument.replace('\'', "'\\''")));
            }
        }
        typed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_typed() {
        let program = Program::new("launchctl", ["bootstrap"]).with(Path::new("/a b/it's.plist"));
        assert_eq!(program.typed(), "launchctl bootstrap '/a b/it'\\''s.plist'");
    }
}

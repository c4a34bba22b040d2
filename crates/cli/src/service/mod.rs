//! `quipu watch` or `quipu serve` as a user service: the service's file, its path, and the programs that start it.
//! Programs are started by name and arguments, never through a shell.

pub(crate) mod launchd;
pub(crate) mod systemd;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::error::{CommandError, Result};
use crate::settings::{self, Origin, Settings};

/// A text in the first lines of the files that quipu wrote, and may replace and delete.
pub(crate) const MARK: &str = "Written by `quipu service install`";

/// A service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    /// The absolute path of the program.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// Variables that it needs, besides those that every service has.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    /// The only folder that it writes to.
    pub(crate) writes_to: PathBuf,
    /// The task of the service.
    pub(crate) task: Task,
}

/// The task of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// Collect continuously.
    Watch,
    /// Collect, and serve the ledger over HTTP.
    Serve,
}

impl Task {
    /// Returns the command.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Task::Watch => "watch",
            Task::Serve => "serve",
        }
    }
}

/// The file system rights of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sandbox {
    /// Everything is readable, only the ledger's folder is writable.
    Strict,
    /// The rights of the user, if the system cannot restrict them.
    None,
}

/// The two service managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manager {
    Systemd,
    Launchd,
}

impl Manager {
    /// Returns the service manager of this system.
    pub(crate) fn here() -> Manager {
        if cfg!(target_os = "macos") { Manager::Launchd } else { Manager::Systemd }
    }

    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Manager::Systemd => "systemd",
            Manager::Launchd => "launchd",
        }
    }

    /// Returns the path of the service's file.
    pub(crate) fn path(self, home: Option<&Path>) -> Result<PathBuf> {
        let home = || {
            home.ok_or_else(|| {
                CommandError::new("cannot find the folder for services: there is no home folder")
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

    /// Returns the text of the service's file.
    pub(crate) fn text(self, unit: &Unit, sandbox: Sandbox) -> Result<String> {
        match self {
            Manager::Systemd => Ok(systemd::text(unit, sandbox)),
            Manager::Launchd => launchd::text(unit),
        }
    }

    /// Returns the programs that start the service, now and after each login.
    pub(crate) fn start(self, path: &Path) -> Vec<Program> {
        match self {
            Manager::Systemd => vec![
                Program::new("systemctl", ["--user", "daemon-reload"]),
                Program::new("systemctl", ["--user", "enable", systemd::NAME]),
                Program::new("systemctl", ["--user", "restart", systemd::NAME]),
            ],
            Manager::Launchd => vec![
                // A service with the old file has to be removed first.
                Program::new("launchctl", ["bootout", &launchd::target()]).may_fail(),
                Program::new("launchctl", ["bootstrap", &launchd::domain()]).with(path),
            ],
        }
    }

    /// Returns the programs that stop the service, before its file is deleted.
    pub(crate) fn stop(self) -> Vec<Program> {
        match self {
            Manager::Systemd => {
                vec![Program::new("systemctl", ["--user", "disable", "--now", systemd::NAME])]
            }
            Manager::Launchd => vec![Program::new("launchctl", ["bootout", &launchd::target()])],
        }
    }

    /// Returns the programs to run after the file was deleted.
    pub(crate) fn forget(self) -> Vec<Program> {
        match self {
            Manager::Systemd => vec![Program::new("systemctl", ["--user", "daemon-reload"])],
            Manager::Launchd => Vec::new(),
        }
    }

    /// Returns whether the service runs. The error explains why that is unknown.
    pub(crate) fn is_running(self) -> Result<bool, String> {
        // Exit codes for a service that is unknown or not running.
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
            output => Err(program.failure(&output)),
        }
    }
}

/// Returns the service for these settings: the same program, ledger, configuration and roots.
pub(crate) fn unit(settings: &Settings, task: Task) -> Result<Unit> {
    let program =
        std::env::current_exe().ok().filter(|program| program.is_file()).ok_or_else(|| {
            CommandError::new("cannot find the path of the running quipu")
                .hint("it may have been replaced; run the new one")
        })?;
    let ledger = &settings.ledger.value;
    let mut arguments: Vec<OsString> = vec![task.name().into(), "--ledger".into(), ledger.into()];
    let mut variables = Vec::new();
    if let Some(config) = &settings.config {
        match config.origin {
            // A named file has to exist; the default one need not.
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
    Ok(Unit { program, arguments, variables, writes_to, task })
}

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    name: &'static str,
    arguments: Vec<OsString>,
    /// True if a failure is ignored.
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

    /// Runs the program to its end. If it fails, the error is what it printed on standard error, on
    /// one line.
    pub(crate) fn run(&self) -> Result<(), String> {
        match self.output()? {
            output if output.status.success() || self.may_fail => Ok(()),
            output => Err(self.failure(&output)),
        }
    }

    /// Runs the program to its end. The error is the reason why it could not be started.
    fn output(&self) -> Result<Output, String> {
        let ran = Command::new(self.name).args(&self.arguments).stdin(Stdio::null()).output();
        ran.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("{} is not installed", self.name),
            _ => format!("{}: {error}", self.name),
        })
    }

    /// Returns what the program printed on standard error, on one line.
    fn failure(&self, output: &Output) -> String {
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        match message.trim() {
            "" => format!("{} ended with {}", self.name, output.status),
            message => format!("{}: {message}", self.name),
        }
    }

    /// Returns the command line as a user would type it.
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

//! A ledger that is read-only for a while: `chmod 444`, some reads, `chmod 600`, then writes.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};

use anyhow::{Context as _, Result, ensure};

use crate::sandbox::{Run, Sandbox};
use crate::writer::Writer;
use crate::{Outcome, Scenario, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "modes",
    faults: "F23",
    what: "a ledger that is read-only for a while: chmod 444, reads, chmod 600, writes",
    run,
};

/// The uid and gid of a user without privileges.
const NOBODY: u32 = 65534;

/// Commands that must work with a read-only ledger.
const READS: [&[&str]; 5] =
    [&["sessions"], &["sessions", "--no-sync"], &["status"], &["search", "word"], &["cursors"]];

/// Commands that must fail with a read-only ledger.
const WRITES: [&[&str]; 2] = [&["sync"], &["session", "new"]];

fn run(setting: &Setting) -> Result<Outcome> {
    let sandbox = Sandbox::new(setting)?;
    let mut writer = Writer::new(&sandbox, setting.seed)?;
    writer.lines(&sandbox, 10)?;
    own(&sandbox)?;
    if !restricted(&sandbox, &["--version"]).is_ok_and(|run| run.code == Some(0)) {
        return Ok(Outcome::Skipped("no user without privileges can run it".to_owned()));
    }
    succeed(&sandbox, &["sync"])?;
    let (mut runs, mut refused) = (0, 0);
    let rounds = setting.times(4, 100);
    for _ in 0..rounds {
        let mode = if writer.below(2) == 0 { 0o444 } else { 0o400 };
        fs::set_permissions(sandbox.ledger(), Permissions::from_mode(mode))?;
        for _ in 0..1 + writer.below(3) {
            if let Some(command) = READS.get(writer.below(READS.len() as u64) as usize) {
                succeed(&sandbox, command).with_context(|| format!("with mode {mode:o}"))?;
                runs += 1;
            }
        }
        if let Some(command) = WRITES.get(writer.below(4) as usize) {
            let run = restricted(&sandbox, command)?;
            run.check_reported()?;
            ensure!(run.code == Some(2), "it wrote to a file of mode {mode:o}: {run:?}");
            refused += 1;
        }
        if writer.below(2) == 0 {
            leave_companions(&sandbox)?;
        }
        fs::set_permissions(sandbox.ledger(), Permissions::from_mode(0o600))?;
        writer.lines(&sandbox, 1)?;
        for command in WRITES {
            succeed(&sandbox, command).context("after chmod 600")?;
            runs += 1;
        }
    }
    // A new session has one record.
    sandbox.check(writer.complete() + rounds)?;
    let what = format!("{runs} commands succeeded; {refused} writes to a read-only file refused");
    Ok(Outcome::Held { runs: runs + refused, what })
}

/// Gives the folders to the user without privileges, if this is root.
fn own(sandbox: &Sandbox) -> Result<()> {
    if rustix::process::geteuid().is_root() {
        for folder in [sandbox.at(""), sandbox.home(), sandbox.data()] {
            chown(folder, Some(NOBODY), Some(NOBODY))?;
        }
    }
    Ok(())
}

/// Runs a command as a user whom permissions restrict.
fn restricted(sandbox: &Sandbox, arguments: &[&str]) -> Result<Run> {
    if !rustix::process::geteuid().is_root() {
        return sandbox.run(arguments);
    }
    let options = [&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups"];
    Run::of(&mut sandbox.command_under("setpriv", &options, None, arguments))
}

fn succeed(sandbox: &Sandbox, arguments: &[&str]) -> Result<()> {
    let run = restricted(sandbox, arguments)?;
    ensure!(run.code == Some(0), "`quipu {}`: {run:?}", arguments.join(" "));
    Ok(())
}

/// Leaves empty read-only files, as SQLite does when it reads a read-only database.
fn leave_companions(sandbox: &Sandbox) -> Result<()> {
    for name in ["ledger.db-wal", "ledger.db-shm"] {
        let path = sandbox.data().join(name);
        if path.exists() {
            continue;
        }
        File::create(&path)?.set_permissions(Permissions::from_mode(0o444))?;
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(NOBODY), Some(NOBODY))?;
        }
    }
    Ok(())
}

//! `quipu config edit`: opens the configuration file in an editor.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Global;
use crate::error::{CommandError, Result};
use crate::output::Output;
use crate::{config, settings};

/// The text of a new file: every setting, as a comment.
const NEW: &str = "\
# Settings of quipu. `quipu config show` prints the effective ones.

# ledger = \"~/quipu/ledger.db\"
# color = \"auto\"

# [collect]
# priority = 2     # 0 transcripts, 1 also scheduled jobs, 2 also notes
# deleted = true   # also transcripts that the agent has deleted

# [roots]
# claude-code = [\"~/.claude\"]
# openclaw = [\"~/.openclaw\"]

# [retention]      # days until the agent deletes a transcript
# claude-code = 30

# [prices]         # US dollars per million tokens
# \"my-model\" = { input = 3.0, output = 15.0 }

# [limits]         # of your plan, for each window of `quipu usage blocks`
# block_usd = 50
";

/// Returns the path of the configuration file.
pub(super) fn path(global: &Global) -> Result<PathBuf> {
    settings::config_file(global)?.ok_or_else(|| {
        CommandError::new("cannot find the folder of the configuration file")
            .hint("set HOME, XDG_CONFIG_HOME or QUIPU_CONFIG")
    })
}

/// Opens the file in an editor, then checks it.
pub(super) fn run(path: &Path, output: &mut Output) -> Result<()> {
    if !path.exists() {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(NEW.as_bytes())?;
    }
    let set = |name: &str| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    // An editor may have options, for example `code --wait`.
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = Command::new(program).args(words).arg(path).status().map_err(|error| {
        CommandError::from_source(
            anyhow::Error::new(error).context(format!("cannot run {program}")),
        )
        .hint("set EDITOR to your editor")
    })?;
    if !status.success() {
        return Err(CommandError::new(format!("{program} failed: {status}")));
    }
    for unknown in config::read(path)?.unknown {
        let hint = unknown.nearest.map(|nearest| format!("did you mean `{nearest}`?"));
        let what = format!("unknown key `{}` in {}", unknown.key, path.display());
        output.warn(&what, hint.as_deref());
    }
    Ok(())
}

//! `quipu completions`: shell completions.

use clap_complete::Shell;
use clap_complete::env::Shells;

use super::Context;
use crate::completing::VARIABLE;
use crate::error::{CommandError, Result};

/// Print shell completions
///
/// The script asks `quipu` what can come next: commands, options, ids of sessions
/// with their titles, projects, agents, and filters of a query.
///
/// Examples:
///   source <(quipu completions bash)     # in ~/.bashrc
///   source <(quipu completions zsh)      # in ~/.zshrc, after compinit
///   quipu completions fish | source      # in ~/.config/fish/config.fish
///   quipu completions powershell | Out-String | Invoke-Expression
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let shells = Shells::builtins();
    let name = args.shell.to_string();
    let shell = shells
        .completer(&name)
        .ok_or_else(|| CommandError::new(format!("there are no completions for {name}")))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "quipu", "quipu", "quipu", &mut script)?;
    Ok(context.output.file(&script)?)
}

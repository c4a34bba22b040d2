//! `quipu completions`: shell completions.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Context;
use crate::args;
use crate::error::Result;

/// Print shell completions
///
/// Examples:
///   quipu completions bash > ~/.local/share/bash-completion/completions/quipu
///   quipu completions zsh > "${fpath[1]}/_quipu"
///   quipu completions fish > ~/.config/fish/completions/quipu.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::Args::command(), "quipu", &mut script);
    Ok(context.output.file(&script)?)
}

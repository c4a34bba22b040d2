//! How much of a session is told: the options of whatever tells one.

use quipu_transcript::story::{Telling, Tools};

/// Options that open more of a story.
#[derive(Debug, Clone, Copy, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Open everything: thinking, tools, compactions, and what is folded
    #[arg(long)]
    full: bool,

    /// Show the agent's thinking
    #[arg(long)]
    thinking: bool,

    /// How much of tool calls to show
    #[arg(long, value_name = "WHAT", value_enum)]
    tools: Option<ToolsArg>,

    /// Show the summaries of compacted history, and the files read and changed before
    #[arg(long)]
    compactions: bool,
}

/// How much of tool calls to show.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ToolsArg {
    /// Names alone.
    Names,
    /// Names and all of what they were given.
    Inputs,
    /// That, and all of what they answered.
    Full,
}

impl Args {
    /// What is told, where `usual` is if nothing is said.
    pub(crate) fn telling(self, usual: Telling) -> Telling {
        let mut telling = if self.full { Telling::FULL } else { usual };
        telling.thinking |= self.thinking;
        telling.compactions |= self.compactions;
        match self.tools {
            Some(ToolsArg::Names) => telling.tools = Tools::Names,
            Some(ToolsArg::Inputs) => telling.tools = Tools::Inputs,
            Some(ToolsArg::Full) => telling.tools = Tools::Full,
            None => {}
        }
        telling
    }
}

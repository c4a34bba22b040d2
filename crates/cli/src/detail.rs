//! Options for how much of a session is shown.

use quipu_transcript::story::{StoryDetail, Tools};

/// Options that show more of a story.
#[derive(Debug, Clone, Copy, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Show everything: thinking, tool calls, compactions, and all that is hidden by default
    #[arg(long)]
    full: bool,

    /// Show the agent's thinking
    #[arg(long)]
    thinking: bool,

    /// How much of tool calls to show
    #[arg(long, value_name = "WHAT", value_enum)]
    tools: Option<ToolsArg>,

    /// Show summaries of compactions, and the files read and changed before each
    #[arg(long)]
    compactions: bool,
}

/// The parts of tool calls to show.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ToolsArg {
    /// Only names.
    Names,
    /// Names and full inputs.
    Inputs,
    /// Names, full inputs and full results.
    Full,
}

impl Args {
    /// Returns the details to show, starting from `default`.
    pub(crate) fn story_detail(self, default: StoryDetail) -> StoryDetail {
        let mut detail = if self.full { StoryDetail::FULL } else { default };
        detail.thinking |= self.thinking;
        detail.compactions |= self.compactions;
        match self.tools {
            Some(ToolsArg::Names) => detail.tools = Tools::Names,
            Some(ToolsArg::Inputs) => detail.tools = Tools::Inputs,
            Some(ToolsArg::Full) => detail.tools = Tools::Full,
            None => {}
        }
        detail
    }
}

//! `quipu mcp`: the tools that agents call.

use std::process::Command;

use quipu_gateway::{Collector, Settings, serve_stdio};
use quipu_ledger::freshness::{LedgerKind, open_to_read};
use quipu_ledger::wire::McpInstallation;

use super::Context;
use crate::error::{CommandError, Result};
use crate::{machine, reading, shell, zone};

/// The variable in which Claude Code names its session to the programs that it starts.
const SESSION_VARIABLE: &str = "CLAUDE_CODE_SESSION_ID";

/// The name of the server in the agents' lists.
const NAME: &str = "quipu";

/// Let agents search and read past sessions, over standard input and output
///
/// An agent starts it and calls its tools (Model Context Protocol): recall,
/// sessions, read, files, usage, and with --write also note. New data is collected
/// before each answer. Secrets are masked. docs/mcp.md has what is sent and what
/// is not. `quipu serve` has the same tools at /mcp.
///
/// Examples:
///   quipu mcp install claude-code
///   quipu mcp install codex --run
///   quipu mcp --write
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// Also let agents keep notes
    #[arg(long)]
    write: bool,

    /// The action to run.
    #[command(subcommand)]
    action: Option<Action>,
}

/// Actions of `quipu mcp`.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print the agent's own command that adds the tools, or run it
    ///
    /// The agent changes its configuration itself; quipu never opens it. AGENT is
    /// claude-code, codex or openclaw.
    ///
    /// Examples:
    ///   quipu mcp install claude-code
    ///   quipu mcp install openclaw --write --run
    #[command(verbatim_doc_comment)]
    Install(InstallArgs),
}

#[derive(Debug, clap::Args)]
#[group(skip)]
struct InstallArgs {
    /// The agent
    #[arg(value_name = "AGENT")]
    agent: Agent,

    /// Run the command
    #[arg(long)]
    run: bool,

    /// Also let the agent keep notes
    #[arg(long)]
    write: bool,
}

/// The agents whose command is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Agent {
    ClaudeCode,
    Codex,
    Openclaw,
}

impl Agent {
    fn name(self) -> &'static str {
        match self {
            Agent::ClaudeCode => "claude-code",
            Agent::Codex => "codex",
            Agent::Openclaw => "openclaw",
        }
    }

    /// Returns the agent's own command that adds a server.
    fn command(self, server: &[String]) -> Vec<String> {
        let own: &[&str] = match self {
            Agent::ClaudeCode => &["claude", "mcp", "add", "--scope", "user", NAME, "--"],
            Agent::Codex => &["codex", "mcp", "add", NAME, "--"],
            Agent::Openclaw => &["openclaw", "mcp", "set", NAME],
        };
        let own = own.iter().map(|word| (*word).to_owned());
        match (self, server) {
            (Agent::Openclaw, [program, arguments @ ..]) => {
                let server = serde_json::json!({ "command": program, "args": arguments });
                own.chain([server.to_string()]).collect()
            }
            _ => own.chain(server.iter().cloned()).collect(),
        }
    }
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    match &args.action {
        Some(Action::Install(args)) => install(args, context),
        None => serve(args.write, context),
    }
}

fn serve(may_write: bool, context: &mut Context) -> Result<()> {
    let path = &context.settings.ledger.value;
    reading::refuse_unknown(context, path)?;
    let kind = open_to_read(path, machine::name())?.kind;
    if may_write && kind != LedgerKind::Own {
        return Err(CommandError::new("this ledger is read as it is; nothing can be kept in it")
            .hint("leave out --write"));
    }
    let settings = Settings {
        ledger: context.settings.ledger.value.clone(),
        may_project: kind == LedgerKind::Own,
        may_write,
        roots: context.roots(),
        prices: context.prices(),
        limits: context.settings.limits.value,
        compaction: super::session::compaction_settings(context, None)?,
        routing: Default::default(),
        summariser: Default::default(),
        zone: zone::zone(),
    };
    super::serve::hide_panics();
    let collector = Collector { machine: machine::name().to_owned(), roots: context.roots() };
    let session = std::env::var(SESSION_VARIABLE).ok().filter(|session| !session.is_empty());
    serve_stdio(settings, Some(collector), may_write, session).map_err(|error| {
        CommandError::from_source(anyhow::Error::new(error).context("cannot answer the agent"))
    })
}

fn install(args: &InstallArgs, context: &mut Context) -> Result<()> {
    let command = args.agent.command(&server(args.write, context)?);
    let shown = command.iter().map(shell::quote).collect::<Vec<_>>().join(" ");
    if args.run {
        run_agent(args.agent, &command, &shown)?;
    }
    let agent = args.agent.name();
    if context.is_json {
        let installation = McpInstallation { agent, command: &command, was_run: args.run };
        return Ok(context.output.json(&installation)?);
    }
    match args.run {
        true => context.output.note(&format!("added {NAME} to {agent}")),
        false => context.output.verbatim(&shown)?,
    }
    Ok(())
}

/// Returns the command line of the server, with the options of this command that name the ledger.
fn server(may_write: bool, context: &Context) -> Result<Vec<String>> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::new(format!("cannot find this program: {error}")))?;
    let mut words = vec![program.display().to_string()];
    if reading::is_named(context) {
        words.extend(["--ledger".to_owned(), context.settings.ledger.value.display().to_string()]);
    }
    words.push("mcp".to_owned());
    if may_write {
        words.push("--write".to_owned());
    }
    Ok(words)
}

fn run_agent(agent: Agent, command: &[String], shown: &str) -> Result<()> {
    let [program, arguments @ ..] = command else { return Ok(()) };
    let ran = Command::new(program).args(arguments).output();
    let output = ran.map_err(|error| {
        CommandError::new(format!("cannot run {program}: {error}"))
            .hint(format!("run it yourself: {shown}"))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    let why = why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
    Err(CommandError::new(format!("{} refused: {}", agent.name(), why.trim()))
        .hint(format!("the command was: {shown}")))
}

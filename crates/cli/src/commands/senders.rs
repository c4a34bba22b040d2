//! `quipu senders`: the senders that may write to an agent.

use quipu_ledger::Ledger;
use quipu_ledger::freshness::LedgerKind;
use quipu_ledger::store::Store;
use quipu_ledger::store::senders::{self, SenderAddress, SenderFilter};
use quipu_ledger::wire::Sender;
use quipu_transcript::routing::admission::EVERYBODY;
use quipu_transcript::routing::{AgentId, Channel, PairingCode};

use super::Context;
use crate::error::{CommandError, Kind, Result};
use crate::machine;
use crate::output::{Column, Style, Text, elapsed, minute, now_ms};

/// Show or decide who may write to an agent
///
/// A sender who is not allowed is refused: in a direct conversation they get a
/// pairing code, in a group their messages never reach the session. A sender is
/// written as CHANNEL:ID, with its id on that channel, or as ID with --channel.
///
/// Examples:
///   quipu senders list
///   quipu senders pair K7QM2XPA
///   quipu senders allow telegram:821071206 --agent work
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The action to run.
    #[command(subcommand)]
    action: Action,
}

impl Args {
    /// Returns whether it prints a list.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.action, Action::List(_))
    }
}

/// Actions of `quipu senders`.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List senders: pending requests, allowed, denied
    ///
    /// `--json` prints one object per line: agent, channel, sender_id, state
    /// (asking, allowed or denied), time, and for pending requests code and
    /// expires_at.
    ///
    /// Example:
    ///   quipu senders list --channel telegram
    #[command(verbatim_doc_comment)]
    List(ListArgs),
    /// Allow a sender
    ///
    /// `CHANNEL:*` means every sender on the channel who was not denied.
    ///
    /// Examples:
    ///   quipu senders allow matrix:@ada:example.org
    ///   quipu senders allow 'irc:*'
    #[command(verbatim_doc_comment)]
    Allow(SenderArgs),
    /// Deny a sender, who then gets no pairing code either
    ///
    /// Example:
    ///   quipu senders deny +15555550123 --channel whatsapp
    #[command(verbatim_doc_comment)]
    Deny(SenderArgs),
    /// Remove the decision about a sender, who is then unknown again
    ///
    /// Example:
    ///   quipu senders revoke telegram:821071206
    #[command(verbatim_doc_comment)]
    Revoke(SenderArgs),
    /// Allow the sender who received this pairing code
    ///
    /// A code is valid for one hour.
    ///
    /// Example:
    ///   quipu senders pair K7QM2XPA
    #[command(verbatim_doc_comment)]
    Pair(PairArgs),
}

#[derive(Debug, clap::Args)]
#[group(skip)]
struct ListArgs {
    #[command(flatten)]
    place: ScopeArgs,
}

#[derive(Debug, clap::Args)]
#[group(skip)]
struct SenderArgs {
    /// The sender: CHANNEL:ID, or the id alone with --channel
    #[arg(value_name = "SENDER", allow_hyphen_values = true)]
    sender: String,

    #[command(flatten)]
    place: ScopeArgs,
}

#[derive(Debug, clap::Args)]
#[group(skip)]
struct PairArgs {
    /// The pairing code
    #[arg(value_name = "CODE")]
    code: String,

    #[command(flatten)]
    place: ScopeArgs,
}

#[derive(Debug, clap::Args)]
#[group(skip)]
struct ScopeArgs {
    /// The agent that the sender writes to [default: main; for list and pair: any]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// The channel that the sender writes on
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    match &args.action {
        Action::List(args) => list(args, context),
        Action::Allow(args) => decide(args, context, Store::allow),
        Action::Deny(args) => decide(args, context, Store::deny),
        Action::Revoke(args) => decide(args, context, Store::revoke),
        Action::Pair(args) => pair(args, context),
    }
}

fn list(args: &ListArgs, context: &mut Context) -> Result<()> {
    let filter = args.place.filter()?;
    let found = match open(context)? {
        Some(ledger) => senders::senders(&ledger, &filter, now_ms())?,
        None => Vec::new(),
    };
    if context.is_json {
        return Ok(found.iter().try_for_each(|sender| context.output.json(sender))?);
    }
    if found.is_empty() {
        return Ok(context.output.line("no senders")?);
    }
    context.output.page()?;
    let has_codes = found.iter().any(|sender| sender.code.is_some());
    let mut columns = vec![
        Column::words("state"),
        Column::long("sender"),
        Column::words("agent"),
        Column::words("since"),
    ];
    if has_codes {
        columns.push(Column::words("code"));
    }
    let row = |sender: &Sender| {
        let mut row = vec![
            Text::styled(state_style(sender.state), sender.state),
            Text::plain(full_name(sender)),
            Text::plain(&sender.agent),
            Text::styled(Style::Dim, elapsed(sender.time)),
        ];
        if has_codes {
            row.push(Text::styled(Style::Bold, sender.code.as_deref().unwrap_or_default()));
        }
        row
    };
    context.output.table(0, &columns, found.iter().map(row).collect())?;
    if has_codes {
        context.output.gap()?;
        let how = "`quipu senders pair CODE` allows the sender who received that code";
        let how = context.shell.sentence(how);
        context.output.line(Text::styled(Style::Dim, how))?;
    }
    Ok(())
}

/// Opens the ledger for reading, and brings its projection up to date if it can be written to. A
/// ledger of an older version is not migrated.
fn open(context: &Context) -> Result<Option<Ledger>> {
    let path = &context.settings.ledger.value;
    let ledger = context.open_if_any()?;
    if ledger.as_ref().is_none_or(Ledger::is_copy) {
        return Ok(ledger);
    }
    drop(ledger);
    let mut reader = quipu_ledger::freshness::open_to_read(path, machine::name())?;
    if reader.kind == LedgerKind::Own {
        senders::catch_up_ledger(&mut reader.ledger)?;
    }
    Ok(Some(reader.ledger))
}

/// Opens the ledger for writing.
fn store(context: &Context) -> Result<Store> {
    Ok(Store::open(&context.settings.ledger.value)?)
}

/// A decision about a sender.
type Decision = fn(&Store, &SenderAddress, i64) -> quipu_ledger::Result<Sender>;

fn decide(args: &SenderArgs, context: &mut Context, decision: Decision) -> Result<()> {
    let address = args.address()?;
    let sender = decision(&store(context)?, &address, now_ms())?;
    print_state(context, &sender)
}

fn pair(args: &PairArgs, context: &mut Context) -> Result<()> {
    let filter = args.place.filter()?;
    let Some(code) = PairingCode::parse(&args.code) else {
        let mut error = CommandError::new(format!("`{}` is not a pairing code", args.code)).hint(
            "a code has eight letters and digits; `quipu senders list` shows pending requests",
        );
        error.kind = Kind::NoMatch;
        return Err(error);
    };
    let sender = store(context)?.pair(code, &filter, now_ms())?;
    print_state(context, &sender)
}

/// Prints the new state of a sender.
fn print_state(context: &mut Context, sender: &Sender) -> Result<()> {
    if context.is_json {
        return Ok(context.output.json(sender)?);
    }
    let end = match sender.state {
        "allowed" => format!(" may now write to agent {}", sender.agent),
        "denied" => format!(" may not write to agent {}", sender.agent),
        _ => format!(" is now unknown to agent {}", sender.agent),
    };
    let line = Text::styled(Style::Bold, full_name(sender)).and(end);
    let since = sender.time;
    let line = match now_ms() - since {
        // The decision is older than this command.
        60_000.. => line.with(Style::Dim, format!(", since {}", minute(since))),
        _ => line,
    };
    Ok(context.output.line(line)?)
}

fn full_name(sender: &Sender) -> String {
    format!("{}:{}", sender.channel, sender.sender_id)
}

fn state_style(state: &str) -> Style {
    match state {
        "allowed" => Style::Good,
        "denied" => Style::Bad,
        _ => Style::Warning,
    }
}

impl ScopeArgs {
    fn filter(&self) -> Result<SenderFilter> {
        Ok(SenderFilter {
            agent: self.agent.as_deref().map(agent).transpose()?,
            channel: self.channel.as_deref().map(channel).transpose()?,
        })
    }
}

impl SenderArgs {
    fn address(&self) -> Result<SenderAddress> {
        let agent = self.place.agent.as_deref().map(agent).transpose()?.unwrap_or_default();
        let (channel, id) = match &self.place.channel {
            Some(name) => {
                let channel = channel(name)?;
                // `telegram:5 --channel telegram` means the same as `telegram:5` alone.
                let prefix = format!("{channel}:");
                (channel, self.sender.strip_prefix(&prefix).unwrap_or(&self.sender))
            }
            None => match self.sender.split_once(':') {
                Some((name, id)) => (channel(name)?, id),
                None if self.sender.trim() == EVERYBODY => {
                    return Err(CommandError::new("`*` needs a channel")
                        .hint(
                            "write telegram:* for every sender on Telegram, or set `direct = \"open\"` under [store.admission] \
                             for all channels",
                        ));
                }
                None => {
                    let what = format!("`{}` has no channel", self.sender);
                    return Err(CommandError::new(what)
                        .hint("write it as telegram:821071206, or add --channel"));
                }
            },
        };
        if id.trim_matches(' ') == EVERYBODY {
            return Ok(SenderAddress::all_on_channel(agent, channel));
        }
        SenderAddress::new(agent, channel, id).ok_or_else(|| {
            CommandError::new(format!("`{id}` is not a valid sender id"))
                .hint("an id is not empty and has no control characters")
        })
    }
}

fn agent(name: &str) -> Result<AgentId> {
    AgentId::parse(name).map_err(|error| CommandError::from_source(error.into()))
}

fn channel(name: &str) -> Result<Channel> {
    Channel::parse(name).map_err(|error| CommandError::from_source(error.into()))
}

//! The commands: one file each, and one list of them.

mod backup;
mod completions;
mod config;
mod cron;
mod cursors;
mod demo;
mod doctor;
mod export;
mod files;
mod forget;
mod formats;
mod import;
mod man;
mod mcp;
mod notes;
mod overview;
mod problems;
mod projects;
mod rebuild;
mod restore;
mod resume;
pub(crate) mod schema;
mod search;
mod senders;
mod serve;
mod service;
mod session;
mod sessions;
mod show;
mod sql;
mod status;
mod statusline;
mod sync;
mod tail;
mod token;
mod tree;
mod usage;
mod watch;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use quipu_ledger::Ledger;
use quipu_ledger::collect::RootPath;
use quipu_ledger::ids::SessionRow;
use quipu_transcript::prices::Prices;

pub(crate) use sessions::title;

use crate::args::{self, ColorWhen, Global};
use crate::error::{CommandError, Kind, Result};
use crate::output::{Output, ShortIds, Style, Text, Verbosity};
use crate::settings::{self, Settings};
use crate::shell::Shell;
use crate::{logging, machine, mistakes, paths, reading, roots};

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Projects(projects::Args),
    #[command(visible_alias = "ls")]
    Sessions(sessions::Args),
    #[command(visible_alias = "log")]
    Show(show::Args),
    Tail(tail::Args),
    Tree(tree::Args),
    Resume(resume::Args),
    Search(search::Args),
    Files(files::Args),
    Sync(sync::Args),
    Watch(watch::Args),
    Serve(serve::Args),
    Mcp(mcp::Args),
    Token(token::Args),
    Service(service::Args),
    Status(status::Args),
    Problems(problems::Args),
    #[command(visible_alias = "cost")]
    Usage(usage::Args),
    Statusline(statusline::Args),
    Export(export::Args),
    Import(import::Args),
    Notes(notes::Args),
    Cron(cron::Args),
    Sql(sql::Args),
    Restore(restore::Args),
    Backup(backup::Args),
    Doctor(doctor::Args),
    Rebuild(rebuild::Args),
    Forget(forget::Args),
    Session(session::Args),
    Senders(senders::Args),
    Cursors(cursors::Args),
    Formats(formats::Args),
    Schema(schema::Args),
    Config(config::Args),
    Demo(demo::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Returns whether `quipu usage` sums by that word.
pub(crate) fn is_usage_group(word: &str) -> bool {
    usage::is_group(word)
}

impl Command {
    fn run(&self, context: &mut Context) -> Result<()> {
        match self {
            Command::Projects(args) => projects::run(args, context),
            Command::Sessions(args) => sessions::run(args, context),
            Command::Show(args) => show::run(args, context),
            Command::Tail(args) => tail::run(args, context),
            Command::Tree(args) => tree::run(args, context),
            Command::Resume(args) => resume::run(args, context),
            Command::Search(args) => search::run(args, context),
            Command::Files(args) => files::run(args, context),
            Command::Sync(args) => sync::run(args, context),
            Command::Watch(args) => watch::run(args, context),
            Command::Serve(args) => serve::run(args, context),
            Command::Mcp(args) => mcp::run(args, context),
            Command::Token(args) => token::run(args, context),
            Command::Service(args) => service::run(args, context),
            Command::Status(args) => status::run(args, context),
            Command::Problems(args) => problems::run(args, context),
            Command::Usage(args) => usage::run(args, context),
            Command::Statusline(args) => statusline::run(args, context),
            Command::Export(args) => export::run(args, context),
            Command::Import(args) => import::run(args, context),
            Command::Notes(args) => notes::run(args, context),
            Command::Cron(args) => cron::run(args, context),
            Command::Sql(args) => sql::run(args, context),
            Command::Restore(args) => restore::run(args, context),
            Command::Backup(args) => backup::run(args, context),
            Command::Doctor(args) => doctor::run(args, context),
            Command::Rebuild(args) => rebuild::run(args, context),
            Command::Forget(args) => forget::run(args, context),
            Command::Session(args) => session::run(args, context),
            Command::Senders(args) => senders::run(args, context),
            Command::Cursors(args) => cursors::run(args, context),
            Command::Formats(args) => formats::run(args, context),
            Command::Schema(args) => schema::run(args, context),
            Command::Config(args) => config::run(args, context),
            Command::Demo(args) => demo::run(args, context),
            Command::Completions(args) => completions::run(args, context),
            Command::Man(args) => man::run(args, context),
        }
    }
}

impl Command {
    /// Returns whether `--json` prints one object per line. Such a command exits with 1 if it found
    /// nothing.
    fn is_list(&self) -> bool {
        match self {
            Command::Projects(_)
            | Command::Sessions(_)
            | Command::Show(_)
            | Command::Tree(_)
            | Command::Search(_)
            | Command::Files(_)
            | Command::Problems(_)
            | Command::Notes(_)
            | Command::Cron(_)
            | Command::Cursors(_)
            | Command::Formats(_) => true,
            Command::Senders(args) => args.is_list(),
            Command::Token(args) => args.is_list(),
            Command::Session(args) => args.is_list(),
            _ => false,
        }
    }
}

/// State that every command uses.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) output: Output,
    /// Formats commands for printing.
    pub(crate) shell: Shell,
    /// True if JSON is printed.
    pub(crate) is_json: bool,
}

impl Context {
    /// Returns the folders to collect from.
    pub(crate) fn roots(&self) -> Vec<RootPath> {
        roots::flatten(&self.settings.roots, self.settings.selection())
    }

    /// Opens the ledger to collect into it. An absent one is created when the first file is stored.
    fn open_to_collect(&self) -> Result<Ledger> {
        let mut ledger = Ledger::open_to_collect(&self.settings.ledger.value)?;
        quipu_ledger::collect::adopt(&mut ledger, machine::name())?;
        Ok(ledger)
    }

    /// Opens the ledger for writing, creating it if absent.
    fn open(&self) -> Result<Ledger> {
        Ok(Ledger::open(&self.settings.ledger.value)?)
    }

    /// Opens the ledger for reading. Returns `None` if the default ledger does not exist, and fails
    /// if a named ledger does not exist.
    fn open_if_any(&self) -> Result<Option<Ledger>> {
        match Ledger::open_read_only(&self.settings.ledger.value) {
            Err(quipu_ledger::Error::Absent { .. }) if !reading::is_named(self) => Ok(None),
            opened => {
                let ledger = opened?;
                reading::warn_of_copy(self, &ledger);
                Ok(Some(ledger))
            }
        }
    }

    /// Returns whether nothing was collected yet.
    fn is_empty(&self) -> bool {
        let ledger = Ledger::open_read_only(&self.settings.ledger.value).ok();
        ledger.is_none_or(|ledger| ledger.is_empty().unwrap_or(false))
    }

    /// Returns the time when the ledger was last collected into; `None` if it cannot be read.
    fn collected_at(&self) -> Option<i64> {
        let ledger = Ledger::open_read_only(&self.settings.ledger.value).ok()?;
        quipu_ledger::freshness::collected_at(&ledger).ok()
    }

    /// Returns the prices of tokens.
    pub(crate) fn prices(&self) -> Prices {
        Prices::with(self.settings.prices.value.clone())
    }

    /// Formats a path for people, with `~` for the home folder.
    pub(crate) fn show(&self, path: impl AsRef<Path>) -> String {
        paths::shorten(path.as_ref(), self.settings.home.as_deref())
    }
}

impl Context {
    /// Formats a path for people like [`show`](Context::show), with a link to it on terminals that
    /// support links.
    pub(crate) fn linked(&self, path: impl AsRef<Path>) -> Text {
        let link = self.output.link(path.as_ref());
        Text::path(self.show(path), link)
    }

    /// Returns a session's short id, with a link to its transcript if that exists and the terminal
    /// supports links.
    pub(crate) fn linked_session(&self, ledger: &Ledger, ids: &ShortIds, id: &str) -> Text {
        let row = match self.output.has_links() {
            true => quipu_ledger::query::find_session(ledger, id).ok(),
            false => None,
        };
        self.linked_id(ledger, row, &ids.of(id))
    }

    /// Returns a session's id, with a link to its transcript if that exists and the terminal
    /// supports links.
    pub(crate) fn linked_id(&self, ledger: &Ledger, row: Option<SessionRow>, shown: &str) -> Text {
        let found = || {
            let path = quipu_ledger::export::transcript_path(ledger, row?).ok()??;
            path.is_file().then_some(path)
        };
        let path = if self.output.has_links() { found() } else { None };
        match path.and_then(|path| self.output.link(&path)) {
            Some(link) => Text::styled(Style::Id(link), shown),
            None => Text::styled(Style::Good, shown),
        }
    }
}

/// Parses the command line, runs the command and returns the exit code.
pub(crate) fn main(arguments: Vec<OsString>) -> ExitCode {
    let arguments = search::with_excluded_words(arguments);
    let args = match args::parse(&arguments) {
        Ok(args) => args,
        Err(error) => return explain(&arguments, &error),
    };
    let global = &args.global;
    let mut output = Output::new(settings::early_color(global.color), verbosity(global));
    if global.json {
        output.set_json();
    }
    if global.no_pager {
        output.set_no_pager();
    }
    logging::start(global.quiet, global.verbose);
    if let Some(Command::Config(config)) = &args.command
        && let Some(ran) = config::run_on_file(config, global, &mut output)
    {
        return end(&mut output, ran);
    }
    let settings = match load(global, &mut output) {
        Ok(settings) => settings,
        Err(error) if matches!(args.command, Some(Command::Statusline(_))) => {
            let ran = statusline::without_settings(&error, &mut output);
            return end(&mut output, ran);
        }
        Err(error) => {
            output.error(&error);
            return error.exit_code();
        }
    };
    let shell = Shell::new(global);
    output.set_shell(shell.clone());
    let mut context = Context { settings, output, shell, is_json: global.json };
    let ran = match &args.command {
        Some(command) => command.run(&mut context),
        None => overview::run(&mut context),
    };
    let is_list = args.command.as_ref().is_some_and(Command::is_list);
    let ran = match ran {
        Ok(()) if global.json && is_list && !context.output.has_json() => {
            let mut none = CommandError::new("nothing found");
            none.kind = Kind::NoMatch;
            if context.output.has_freshness() {
                if context.is_empty() {
                    none = none.hint(reading::NOTHING_YET);
                }
            } else {
                let fresh_as_of = context.collected_at();
                context.output.set_freshness(fresh_as_of, None);
            }
            Err(none)
        }
        ran => ran,
    };
    end(&mut context.output, ran)
}

/// Ends the output, prints the error of a command, and returns the exit code.
fn end(output: &mut Output, ran: Result<()>) -> ExitCode {
    // Output written before a failure is shown before the error.
    let written = output.finish().map_err(CommandError::from);
    match ran.and(written) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let is_silent = match error.kind {
                Kind::PipeClosed | Kind::Stopped => true,
                // Its findings were printed.
                Kind::CheckFailed => !output.has_json_errors(),
                _ => false,
            };
            if !is_silent {
                output.error(&error);
            }
            error.exit_code()
        }
    }
}

/// Prints help, the version, or the error in the command line.
fn explain(arguments: &[OsString], error: &clap::Error) -> ExitCode {
    let color = settings::early_color(args::color_flag(arguments));
    let mut output = Output::new(color, Verbosity::Ordinary);
    if error.use_stderr() {
        let is_json = arguments.iter().any(|argument| argument == "--json");
        if is_json {
            output.set_json();
        }
        match mistakes::explained(error) {
            Some(explained) => output.error(&explained),
            None if is_json => output.error(&mistakes::in_one_line(error)),
            None => output.usage_error(&error.render()),
        }
        return ExitCode::from(2);
    }
    match output.help(&error.render()).and_then(|()| output.finish()).map_err(CommandError::from) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if error.kind != Kind::PipeClosed {
                output.error(&error);
            }
            error.exit_code()
        }
    }
}

fn load(global: &Global, output: &mut Output) -> Result<Settings> {
    let settings = settings::load(global)?;
    let color: ColorWhen = settings.color.value;
    output.set_color(color);
    let file = settings.config.as_ref().map(|config| config.value.display().to_string());
    for unknown in &settings.unknown {
        let hint = match &unknown.nearest {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "`quipu config show` lists all settings".to_owned(),
        };
        let file = file.as_deref().unwrap_or_default();
        output.warn(&format!("unknown key `{}` in {file}", unknown.key), Some(&hint));
    }
    Ok(settings)
}

fn verbosity(global: &Global) -> Verbosity {
    match (global.quiet, global.verbose) {
        (true, _) => Verbosity::Quiet,
        (false, 0) => Verbosity::Ordinary,
        (false, _) => Verbosity::Verbose,
    }
}

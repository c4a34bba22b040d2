//! `quipu serve`: the ledger over HTTP.

use std::io::Write;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quipu_gateway::{BindError, Listener, Origin, Server, Settings, Summarisers};
use quipu_ledger::collect::watch::{self, Timing};
use quipu_ledger::freshness::{LedgerKind, RefreshLimit, open_to_read};
use quipu_ledger::wire::ServerStarted;
use signal_hook::consts::SIGINT;
use tempfile::NamedTempFile;

use super::Context;
use super::watch::warning;
use crate::error::{CommandError, Result};
use crate::output::{Style, Text};
use crate::{machine, reading, stopping, summarisers, zone};

/// Serve the ledger over HTTP, and collect continuously, until Ctrl-C
///
/// Programs on this machine read the ledger at /v1 with a token (`quipu token
/// new`), and agent runtimes keep their sessions in it with one for writing. The
/// printed link signs a browser in; it works once, within two minutes. Only this machine can connect, unless --origin names the address
/// that other browsers use. docs/http.md describes every route.
///
/// Meanwhile the ledger is kept up to date, as by `quipu watch`. The exit code
/// after Ctrl-C is 130.
///
/// Examples:
///   quipu serve --open
///   quipu serve --socket ~/.quipu.sock
///   curl -H "Authorization: Bearer $(quipu token new me)" localhost:4774/v1/sessions
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Listen at this address; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4774")]
    addr: SocketAddr,

    /// Listen at a Unix socket, which only you can open, instead of an address
    #[arg(long, value_name = "PATH", conflicts_with_all = ["addr", "open", "origin"])]
    socket: Option<PathBuf>,

    /// Only serve; do not collect anything
    #[arg(long)]
    no_collect: bool,

    /// Answer no request that writes, whatever its token
    #[arg(long)]
    read_only: bool,

    /// Open the link in the browser
    #[arg(long)]
    open: bool,

    /// The address that browsers use, if it is not one of this machine: https://quipu.example
    #[arg(long, value_name = "URL")]
    origin: Option<String>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<()> {
    let listener = listen(args, context)?;
    let kind = open(context)?;
    let settings = Settings {
        ledger: context.settings.ledger.value.clone(),
        may_project: kind == LedgerKind::Own && !args.read_only,
        may_write: kind == LedgerKind::Own && !args.read_only,
        roots: context.roots(),
        prices: context.prices(),
        limits: context.settings.limits.value,
        compaction: super::session::compaction_settings(context, None)?,
        routing: context.settings.store.routing()?.settings,
        summariser: summarisers(context),
        zone: zone::zone(),
    };
    let server = Server::new(listener, settings);
    let link = server.sign_in_link().map_err(|error| CommandError::from_source(error.into()))?;
    let address = server.address();
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let (stop, stop_collecting) = (quipu_gateway::Stop::new(), watch::Stop::new());
    let (stops, interrupted) =
        ((stop.clone(), stop_collecting.clone()), Arc::clone(&is_interrupted));
    let on_signal = move |signal| {
        interrupted.store(signal == SIGINT, Ordering::Relaxed);
        stops.0.stop();
        stops.1.stop();
    };
    stopping::on_signal(on_signal)
        .map_err(|error| CommandError::new(format!("cannot wait for signals: {error}")))?;
    hide_panics();
    let socket = args.socket.as_ref().map(|path| path.display().to_string());
    let started = ServerStarted {
        address: address.map(|address| address.to_string()),
        socket_path: socket.as_deref(),
        link: link.as_deref(),
    };
    show(context, &started)?;
    let _page = match &link {
        Some(link) if args.open => Some(open_in_browser(link)?),
        _ => None,
    };
    let collects = kind == LedgerKind::Own && !args.no_collect;
    let ran = match collects {
        false => server.run(&stop).map_err(served),
        true => std::thread::scope(|scope| {
            let (stop_watch, stop_server) = (stop_collecting.clone(), stop.clone());
            let serving = scope.spawn(move || {
                let ran = server.run(&stop_server);
                // Without the server there is nothing to collect for.
                stop_watch.stop();
                ran
            });
            let collected = collect(context, &stop_collecting);
            stop.stop();
            let ran = serving.join().map_err(|_| CommandError::new("the server failed"))?;
            collected.and(ran.map_err(served))
        }),
    };
    ran?;
    match is_interrupted.load(Ordering::Relaxed) {
        true => Err(CommandError::stopped()),
        false => Ok(()),
    }
}

/// Returns what makes the configured summariser for each compaction.
fn summarisers(context: &Context) -> Summarisers {
    let config = context.settings.store.summariser.clone();
    Summarisers::new(move || {
        let reason = |error: CommandError| error.causes().collect::<Vec<_>>().join(": ");
        summarisers::configured(&config).map_err(reason)
    })
}

fn served(error: std::io::Error) -> CommandError {
    CommandError::from_source(anyhow::Error::new(error).context("cannot serve the ledger"))
}

/// Collects until it is stopped. Warns of what cannot be collected.
fn collect(context: &Context, stop: &watch::Stop) -> Result<()> {
    let output = &context.output;
    Ok(watch::watch(
        &context.settings.ledger.value,
        machine::name(),
        &context.roots(),
        &Timing::default(),
        stop,
        &mut |event| {
            if let Some((text, hint)) = warning(&event) {
                output.warn(&text, Some(&hint));
            }
            ControlFlow::Continue(())
        },
    )?)
}

fn listen(args: &Args, context: &Context) -> Result<Listener> {
    if let Some(path) = &args.socket {
        let here = std::env::current_dir().unwrap_or_default();
        let path = crate::paths::resolve(path, context.settings.home.as_deref(), &here)?;
        return Listener::unix(&path).map_err(bound);
    }
    let origin = args.origin.as_deref().map(Origin::parse).transpose().map_err(|error| {
        CommandError::from_source(error.into()).hint(
            "write a scheme, a host, and a port if it is not the usual one: https://quipu.example",
        )
    })?;
    let is_open = origin.as_ref().is_some_and(|origin| !origin.is_https());
    let listener = Listener::tcp(args.addr, origin).map_err(bound)?;
    if is_open && !args.addr.ip().is_loopback() {
        context.output.warn(
            "nothing is encrypted: others in this network can read sessions and tokens",
            Some("use a proxy with TLS, and an https:// address for --origin"),
        );
    }
    Ok(listener)
}

fn bound(error: BindError) -> CommandError {
    let hint = match &error {
        BindError::NotLoopback(_) => {
            "name the address that browsers use with --origin, or listen at 127.0.0.1"
        }
        BindError::InUse(_) => {
            "another `quipu serve` may run; --addr 127.0.0.1:0 takes a free port"
        }
        _ => "see `quipu serve --help`",
    };
    CommandError::from_source(error.into()).hint(hint)
}

/// Returns what kind of ledger it is. Creates the default ledger if there is none.
fn open(context: &Context) -> Result<LedgerKind> {
    let path = &context.settings.ledger.value;
    reading::refuse_unknown(context, path)?;
    let mut reader = open_to_read(path, machine::name())?;
    let freshness =
        reader.refresh(&context.roots(), machine::name(), RefreshLimit::None, &mut |_| {})?;
    reading::warn_of_kind(context, reader.kind, freshness.fresh_as_of);
    reading::warn_of_copy(context, &reader.ledger);
    Ok(reader.kind)
}

fn show(context: &mut Context, started: &ServerStarted<'_>) -> Result<()> {
    if context.is_json {
        context.output.json(started)?;
        return Ok(context.output.finish()?);
    }
    let ledger = context.show(&context.settings.ledger.value);
    let place = match (&started.address, started.socket_path) {
        (Some(address), _) => format!("http://{address}"),
        (None, socket) => socket.unwrap_or_default().to_owned(),
    };
    context
        .output
        .line(Text::plain(format!("Serving {ledger} at ")).with(Style::Bold, place).and("."))?;
    if let Some(link) = started.link {
        context.output.line(format!("Sign in once, within two minutes: {link}"))?;
    }
    if context.output.is_seen() {
        context.output.line(Text::styled(Style::Dim, "Press Ctrl-C to stop."))?;
    }
    Ok(context.output.finish()?)
}

/// Opens the link in the browser. The link is in a file that only this user can read, because
/// every user of the machine can see the arguments of programs.
fn open_in_browser(link: &str) -> Result<NamedTempFile> {
    let failed = |error: std::io::Error| {
        CommandError::new(format!("cannot open a browser: {error}"))
            .hint("open the printed link yourself, without --open")
    };
    let page = format!("<!doctype html><meta http-equiv=refresh content=\"0;url={link}\">\n");
    let mut file = tempfile::Builder::new().suffix(".html").tempfile().map_err(failed)?;
    file.write_all(page.as_bytes()).map_err(failed)?;
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(failed)?;
    Ok(file)
}

/// Logs where a thread panicked, without the message: it may have text of a transcript.
pub(super) fn hide_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "A request ended with a defect of quipu.");
    }));
}

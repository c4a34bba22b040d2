//! Many subscribers to the events of a server, of which some do not read.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use quipu_ledger::store::Store;

use super::Plan;
use super::server::Server;
use crate::measure::{Workplace, milliseconds};
use crate::report::{Report, Target, Unit, note};
use crate::store::runtime::message;

/// The number of events in a second.
const EVENTS_PER_SECOND: u32 = 50;

/// One subscriber in this many does not read.
const ONE_STALLS_IN: usize = 10;

/// The size of the stack of a subscriber's thread, in bytes.
const STACK_BYTES: usize = 128 << 10;

/// What a subscriber got: when each event came, by its cursor.
type Seen = Vec<(String, Instant)>;

pub(super) fn run(plan: &Plan, place: &Workplace, report: &mut Report) -> Result<()> {
    note("subscribers");
    place.remove_ledger()?;
    drop(Store::open(place.ledger())?);
    let server = Server::start(place)?;
    let mut writer = server.client()?;
    let events = usize::try_from(u64::from(EVENTS_PER_SECOND) * plan.seconds)?;
    let (mut stalled, mut readers) = (Vec::new(), Vec::new());
    for number in 0..plan.subscribers {
        let stream = subscribe(&server)?;
        match number % ONE_STALLS_IN == 0 {
            true => stalled.push(stream),
            false => readers.push(follow(stream, events)?),
        }
    }
    let (began, pause) = (Instant::now(), Duration::from_secs(1) / EVENTS_PER_SECOND);
    let mut sent = Vec::with_capacity(events);
    for number in 0..events {
        let due = began + pause * u32::try_from(number)?;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        sent.push(Instant::now());
        writer.append(&message(number))?;
    }
    let (mut delays, mut first) = (Vec::new(), None::<Vec<String>>);
    for reader in readers {
        let seen = reader.join().map_err(|_| anyhow!("a subscriber panicked"))??;
        let cursors: Vec<String> = seen.iter().map(|(cursor, _)| cursor.clone()).collect();
        ensure!(cursors.len() == events, "a subscriber lost events");
        ensure!(first.get_or_insert_with(|| cursors.clone()) == &cursors, "events differ");
        delays.extend(seen.iter().zip(&sent).map(|((_, came), sent)| milliseconds(*came - *sent)));
    }
    let cursors = first.unwrap_or_default();
    ensure!(cursors.windows(2).all(|pair| pair[0] != pair[1]), "an event came twice");
    delays.sort_by(f64::total_cmp);
    let at = |share: f64| delays.get((delays.len() as f64 * share) as usize).copied();
    report.fact("subscribers", plan.subscribers as u64);
    report.fact("subscribers that do not read", stalled.len() as u64);
    report.fact("events", events as u64);
    report.row("event, p50", at(0.5).unwrap_or_default(), Unit::Milliseconds, Target::None);
    report.row("event, p99", at(0.99).unwrap_or_default(), Unit::Milliseconds, Target::None);
    let peak = server.peak_memory()? as f64;
    report.row("memory of the server", peak, Unit::Megabytes, Target::AtMost(100e6));
    Ok(())
}

/// Opens a stream of messages that are appended.
fn subscribe(server: &Server) -> Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(server.address())?;
    let head = server.head();
    write!(stream, "GET /v1/events?type=entry.appended HTTP/1.1\r\n{head}\r\n")?;
    let mut stream = BufReader::with_capacity(4 << 10, stream);
    let mut line = String::new();
    // From `hello` on, every event comes.
    while !line.starts_with("event: hello") {
        line.clear();
        ensure!(stream.read_line(&mut line)? > 0, "the server refused a subscriber");
    }
    Ok(stream)
}

fn follow(mut stream: BufReader<TcpStream>, events: usize) -> Result<JoinHandle<Result<Seen>>> {
    let read = move || {
        let mut seen = Seen::with_capacity(events);
        let mut line = String::new();
        while seen.len() < events {
            line.clear();
            ensure!(stream.read_line(&mut line)? > 0, "the server ended a stream");
            if let Some(cursor) = line.strip_prefix("id: ") {
                seen.push((cursor.trim().to_owned(), Instant::now()));
            }
        }
        Ok(seen)
    };
    Builder::new().stack_size(STACK_BYTES).spawn(read).context("cannot start a subscriber")
}

//! Durable appends: one client beside the library, and many clients beside the library's group
//! commit.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use quipu_ledger::store::{Append, AppendCall, Entry, NewSession, Session, Store};

use super::Plan;
use super::server::Server;
use crate::measure::{Workplace, median, milliseconds};
use crate::report::{Report, Target, Unit, note};
use crate::store::runtime::message;

pub(super) fn run(plan: &Plan, place: &Workplace, report: &mut Report) -> Result<()> {
    report.fact("appends of one client", plan.appends as u64);
    report.fact("clients", plan.clients as u64);
    let one = one_client(plan, place, report)?;
    note("many clients");
    let many = many_clients(&new_server(place)?, plan)?;
    note("group commit of the library");
    let library = group_commit(plan, place)?;
    report.row("one client, appends/s", one, Unit::Number, Target::None);
    report.row("all clients, appends/s", many, Unit::Number, Target::None);
    report.row("library, group commit, appends/s", library, Unit::Number, Target::None);
    report.row("all clients / one client", many / one, Unit::Times, Target::AtLeast(3.0));
    let ratio = many / library;
    report.row("all clients / group commit", ratio, Unit::Times, Target::AtLeast(0.5));
    if plan.fsync_ms > 0 {
        delayed(plan, place, report)?;
    }
    Ok(())
}

fn new_server(place: &Workplace) -> Result<Server> {
    place.remove_ledger()?;
    // A server serves what exists.
    drop(Store::open(place.ledger())?);
    Server::start(place)
}

/// Appends by turns through the library and through a server, each to a ledger of its own. Returns
/// the appends of the server's client per second.
fn one_client(plan: &Plan, place: &Workplace, report: &mut Report) -> Result<f64> {
    note("one client");
    let server = new_server(place)?;
    let mut client = server.client()?;
    let store = Store::open(place.at("library.db"))?;
    let session = store.create(&NewSession::default())?;
    let (mut direct, mut served) = (Vec::new(), Vec::new());
    for number in 0..plan.appends {
        let line = message(number);
        let began = Instant::now();
        session.append(Entry::json(&*line))?;
        direct.push(milliseconds(began.elapsed()));
        served.push(milliseconds(client.append(&line)?));
    }
    let rate = served.len() as f64 / (served.iter().sum::<f64>() / 1000.0);
    let (direct, served) = (median(direct), median(served));
    report.row("append, library, p50", direct, Unit::Milliseconds, Target::None);
    report.row("append, one client, p50", served, Unit::Milliseconds, Target::None);
    report.row("one client / library, p50", served / direct, Unit::Times, Target::AtMost(1.5));
    Ok(rate)
}

/// Returns the appends per second of many clients, each with its own session.
fn many_clients(server: &Server, plan: &Plan) -> Result<f64> {
    let clients = (0..plan.clients).map(|_| server.client()).collect::<Result<Vec<_>>>()?;
    let (began, time) = (Instant::now(), Duration::from_secs(plan.seconds));
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                scope.spawn(move || -> Result<usize> {
                    let mut count = 0;
                    while began.elapsed() < time {
                        client.append(&message(count))?;
                        count += 1;
                    }
                    Ok(count)
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| {
            thread.join().map_err(|_| anyhow!("a client panicked")).and_then(|count| count)
        });
        ended.collect::<Result<Vec<usize>>>()
    })?;
    Ok(counts.iter().sum::<usize>() as f64 / began.elapsed().as_secs_f64())
}

/// Returns the appends per second of the library, with one call for each client in a transaction.
fn group_commit(plan: &Plan, place: &Workplace) -> Result<f64> {
    place.remove_ledger()?;
    let store = Store::open(place.ledger())?;
    let sessions: Vec<Session> = (0..plan.clients)
        .map(|_| store.create(&NewSession::default()))
        .collect::<Result<_, _>>()?;
    let (began, time) = (Instant::now(), Duration::from_secs(plan.seconds));
    let mut count = 0;
    while began.elapsed() < time {
        let line = message(count);
        let call = |session| AppendCall {
            session,
            entries: vec![Entry::json(&*line)],
            conditions: Append::default(),
            begins_turn: false,
            measures: false,
        };
        let calls: Vec<AppendCall<'_>> = sessions.iter().map(call).collect();
        for answer in store.append_all(&calls)? {
            count += answer?.len();
        }
    }
    Ok(count as f64 / began.elapsed().as_secs_f64())
}

/// Measures both rates again where each sync of the disk takes longer.
fn delayed(plan: &Plan, place: &Workplace, report: &mut Report) -> Result<()> {
    note("a slower disk");
    place.remove_ledger()?;
    drop(Store::open(place.ledger())?);
    let server = Server::start_delayed(place, plan.fsync_ms)?;
    let one = many_clients(&server, &Plan { clients: 1, ..*plan })?;
    let many = many_clients(&server, plan)?;
    report.row("slower disk: one client, appends/s", one, Unit::Number, Target::None);
    report.row("slower disk: all clients, appends/s", many, Unit::Number, Target::None);
    let ratio = many / one;
    report.row("slower disk: all / one client", ratio, Unit::Times, Target::AtLeast(20.0));
    Ok(())
}

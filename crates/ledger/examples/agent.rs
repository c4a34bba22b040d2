//! An agent that keeps its session in a ledger. Every line of standard input is a prompt.

#![expect(clippy::print_stdout, reason = "it answers")]

use quipu_ledger::store::{Entry, Message, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ledger = std::env::args().nth(1).ok_or("the path of a ledger is missing")?;
    let store = Store::open(ledger)?;
    let session = store.session_or_new("agent:main:main")?;
    for prompt in std::io::stdin().lines() {
        let turn = session.begin_turn(Entry::user(&prompt?))?;
        let answer = model(&session.context()?.messages);
        // If another process has appended since, this is an error that names the leaf.
        session.at(&turn.id).append(Entry::assistant(&answer).model("none", "parrot"))?;
        println!("{answer}");
    }
    Ok(())
}

/// Stands for the call of a model.
fn model(messages: &[Message]) -> String {
    format!("I have seen {} messages.", messages.len())
}

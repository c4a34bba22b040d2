//! An agent that keeps its session in a ledger. Every line of standard input is a prompt.

#![expect(clippy::print_stdout, reason = "it answers")]

use quipu_ledger::store::{Append, Expect, NewSession, Store};
use quipu_transcript::context::Message;
use quipu_transcript::key::SessionKey;
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ledger = std::env::args().nth(1).ok_or("where is the ledger?")?;
    let mut store = Store::open(ledger.as_ref())?;
    let key = "agent:main:main";
    let session = match store.by_key(&SessionKey::parse(key))? {
        Some(session) => session,
        None => store.create(&NewSession { key: Some(key), ..NewSession::default() })?,
    };
    for prompt in std::io::stdin().lines() {
        let prompt = json!({"role": "user", "content": prompt?});
        let turn = store.begin_turn(&session, &prompt.to_string(), Append::default())?;
        let answer = model(&store.context(&session, None)?.context.messages);
        // If somebody else went on meanwhile, this is an error that names the leaf.
        let here = Append { expected_leaf: Expect::Entry(&turn.id), ..Append::default() };
        store.append(&session, &answer.to_string(), here)?;
        println!("{}", answer["content"]);
    }
    Ok(())
}

/// Stands for the call of a model.
fn model(messages: &[Message]) -> Value {
    let content = format!("I have seen {} messages.", messages.len());
    json!({"role": "assistant", "content": content, "provider": "none", "model": "parrot"})
}

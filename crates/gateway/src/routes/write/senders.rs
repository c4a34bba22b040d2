//! Who may write to an agent.

use quipu_ledger::Store;
use quipu_ledger::store::senders::{SenderAddress, SenderFilter};
use quipu_ledger::wire::Sender;
use quipu_transcript::routing::admission::EVERYBODY;
use quipu_transcript::routing::{AgentId, Channel, PairingCode};
use serde::Deserialize;

use super::Work;
use crate::answer::Answer;
use crate::problem::Problem;
use crate::write::given::Given;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    action: Action,
    agent: Option<String>,
    channel: Option<String>,
    sender_id: Option<String>,
    code: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Allow,
    Deny,
    Revoke,
    Pair,
}

/// Decides about a sender, like `quipu senders allow`, `deny`, `revoke` and `pair`.
pub(crate) fn decide(given: Given) -> Result<Work, Problem> {
    given.refuse_conditions()?;
    let asked: Body = given.body()?;
    let bad = |error: &dyn std::error::Error| Problem::bad_request(error.to_string());
    let channel = asked.channel.as_deref().map(Channel::parse).transpose();
    let channel = channel.map_err(|error| bad(&error))?;
    let decide = match asked.action {
        Action::Pair => {
            let (Some(code), None) = (&asked.code, &asked.sender_id) else {
                return Err(Problem::bad_request("`pair` needs a `code`, and no `sender_id`"));
            };
            let code = PairingCode::parse(code)
                .ok_or_else(|| Problem::not_found("the code is not a pairing code"))?;
            let agent = given.agent_or(asked.agent.as_deref())?;
            let agent = agent.as_deref().map(AgentId::parse).transpose();
            let filter = SenderFilter { agent: agent.map_err(|error| bad(&error))?, channel };
            return work(move |store, now| store.pair(code, &filter, now));
        }
        Action::Allow => Store::allow,
        Action::Deny => Store::deny,
        Action::Revoke => Store::revoke,
    };
    let (Some(channel), Some(sender), None) = (channel, &asked.sender_id, &asked.code) else {
        let needed = "the action needs a `channel` and a `sender_id`, and no `code`";
        return Err(Problem::bad_request(needed));
    };
    let agent = given.agent_id(asked.agent.as_deref())?;
    let address = match sender.trim_matches(' ') {
        EVERYBODY => SenderAddress::all_on_channel(agent, channel),
        sender => SenderAddress::new(agent, channel, sender).ok_or_else(|| {
            Problem::bad_request("a sender's id is not empty and has no control characters")
        })?,
    };
    work(move |store, now| decide(store, &address, now))
}

fn work(
    decide: impl FnOnce(&Store, i64) -> quipu_ledger::Result<Sender> + Send + 'static,
) -> Result<Work, Problem> {
    Work::on_thread(move |store| {
        let now = jiff::Timestamp::now().as_millisecond();
        Answer::json(&decide(store, now)?)
    })
}

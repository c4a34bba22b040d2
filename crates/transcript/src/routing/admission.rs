//! Decides who may speak to an agent: allowlist and pairing.
//!
//! Unknown senders are refused. In a direct conversation they may ask to be paired: they receive a
//! code, and the agent's owner approves it. In a group their messages are filtered out before any
//! session sees them. Approvals and denials are not settings: the caller passes them in.

mod pairing;
mod policies;

use std::fmt;

use super::inbound::Inbound;
pub use pairing::{MOST_REQUESTS, PairingCode, REQUEST_LIFETIME, Request, is_open_at};
pub use policies::{AdmissionSettings, DirectPolicy, FileAdmission, FilePolicies, GroupPolicy};

/// Maximum length of a sender's id in bytes.
const MAX_SENDER_BYTES: usize = 256;

/// The id that allows every sender on a channel, as in OpenClaw's `allowFrom`.
pub const EVERYBODY: &str = "*";

/// Returns the form in which senders are compared: trimmed and in lower case, as in keys. `None`
/// for text that cannot be an id, and for [`EVERYBODY`].
pub fn sender_id(text: &str) -> Option<String> {
    let id = text.trim().to_lowercase();
    let is_id = !id.is_empty()
        && id != EVERYBODY
        && id.len() <= MAX_SENDER_BYTES
        // Spaces around an id are ignored; a control character, even a line end after it, is a
        // mistake.
        && !text.chars().any(char::is_control);
    is_id.then_some(id)
}

/// The decision about a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The sender may speak.
    Allowed,
    /// The sender may neither speak nor ask to be paired.
    Denied,
}

/// The stored decisions and requests for a message's agent and channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SenderState {
    /// The decision about the sender.
    pub standing: Option<Standing>,
    /// Pairing requests on the channel, of all senders.
    pub requests: Vec<Request>,
}

/// The decision about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// The message goes to its session.
    Admitted,
    /// The sender must be approved first.
    Pair {
        /// The code that approves the sender.
        code: PairingCode,
        /// True if the request is not stored yet.
        is_new: bool,
    },
    /// The message is left out of a group's session.
    Filtered {
        /// The reason.
        why: RefusalReason,
    },
    /// The message is refused.
    Refused {
        /// The reason.
        why: RefusalReason,
    },
}

impl Admission {
    /// Returns whether the message goes to its session.
    pub fn is_admitted(&self) -> bool {
        *self == Admission::Admitted
    }

    /// Returns the reason why the message does not go to its session.
    pub fn why(&self) -> Option<String> {
        match self {
            Admission::Admitted => None,
            Admission::Pair { .. } => Some(RefusalReason::NotApproved.to_string()),
            Admission::Filtered { why } | Admission::Refused { why } => Some(why.to_string()),
        }
    }

    /// Returns the reply to the sender, if there is one. A sender who asks again gets the same
    /// reply, because the first one may not have arrived.
    pub fn reply(&self) -> Option<String> {
        match self {
            Admission::Pair { code, .. } => Some(format!(
                "You are not approved to talk to this agent yet. Your pairing code is {code}; it is \
                 valid for one hour after your first message. The owner approves it with: \
                 quipu senders pair {code}"
            )),
            _ => None,
        }
    }
}

/// The reason why a message does not go to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The message names no sender.
    NoSender,
    /// The sender was denied.
    Denied,
    /// The sender was not approved.
    NotApproved,
    /// The channel takes no messages of this kind.
    Disabled,
    /// The sender was not approved, and too many other requests are open.
    TooManyRequests,
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RefusalReason::NoSender => "it names no sender",
            RefusalReason::Denied => "its sender was denied",
            RefusalReason::NotApproved => "its sender is not approved",
            RefusalReason::Disabled => "messages of this kind are refused on this channel",
            RefusalReason::TooManyRequests => {
                "its sender is not approved, and too many requests are open on this channel"
            }
        })
    }
}

/// Decides about a message. `fresh` is the code for a new request.
pub fn decide(
    settings: &AdmissionSettings,
    known: &SenderState,
    inbound: &Inbound,
    fresh: PairingCode,
    now: i64,
) -> Admission {
    let (direct, group) = settings.policies(&inbound.channel);
    let refused = |why| match inbound.is_group() {
        true => Admission::Filtered { why },
        false => Admission::Refused { why },
    };
    let is_disabled = match inbound.is_group() {
        true => group == GroupPolicy::Disabled,
        false => direct == DirectPolicy::Disabled,
    };
    let Some(sender) = sender_id(inbound.sender()) else { return refused(RefusalReason::NoSender) };
    if known.standing == Some(Standing::Denied) {
        return refused(RefusalReason::Denied);
    }
    if is_disabled {
        return refused(RefusalReason::Disabled);
    }
    if known.standing == Some(Standing::Allowed) || settings.is_owner(inbound) {
        return Admission::Admitted;
    }
    match (inbound.is_group(), direct, group) {
        (true, _, GroupPolicy::Open) | (false, DirectPolicy::Open, _) => Admission::Admitted,
        (false, DirectPolicy::Pairing, _) => ask(&known.requests, &sender, fresh, now),
        _ => refused(RefusalReason::NotApproved),
    }
}

fn ask(requests: &[Request], sender: &str, fresh: PairingCode, now: i64) -> Admission {
    let open = || requests.iter().filter(|request| request.is_open(now));
    if let Some(request) = open().find(|request| request.sender == sender) {
        return Admission::Pair { code: request.code, is_new: false };
    }
    if open().count() >= MOST_REQUESTS {
        return Admission::Refused { why: RefusalReason::TooManyRequests };
    }
    Admission::Pair { code: fresh, is_new: true }
}

#[cfg(test)]
mod tests {
    use super::super::inbound::Chat;
    use super::super::names::{AgentId, Channel};
    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    fn code(number: u8) -> PairingCode {
        PairingCode::of([0, 0, 0, 0, number])
    }

    fn from(chat: Chat, sender: &str) -> Inbound {
        Inbound {
            agent: AgentId::default(),
            channel: Channel::parse("telegram").unwrap(),
            account: None,
            chat,
            peer: if chat == Chat::Direct { sender.to_owned() } else { "-100".to_owned() },
            sender: sender.to_owned(),
            thread: None,
            text: "/new".to_owned(),
        }
    }

    fn settings(direct: &str, group: &str) -> AdmissionSettings {
        AdmissionSettings {
            direct: DirectPolicy::parse(direct).unwrap(),
            group: GroupPolicy::parse(group).unwrap(),
            ..AdmissionSettings::default()
        }
    }

    #[track_caller]
    fn check(
        settings: &AdmissionSettings,
        known: Option<Standing>,
        inbound: &Inbound,
        admission: Admission,
    ) {
        let known = SenderState { standing: known, requests: Vec::new() };
        assert_eq!(decide(settings, &known, inbound, code(1), NOW), admission, "{inbound:?}");
    }

    #[test]
    fn r74_unknown_senders_are_refused_by_default() {
        let settings = AdmissionSettings::default();
        let pair = Admission::Pair { code: code(1), is_new: true };
        check(&settings, None, &from(Chat::Direct, "1"), pair);
        let why = RefusalReason::NotApproved;
        check(&settings, None, &from(Chat::Group, "1"), Admission::Filtered { why });
        check(&settings, None, &from(Chat::Channel, "1"), Admission::Filtered { why });
        check(
            &settings,
            None,
            &from(Chat::Group, ""),
            Admission::Filtered { why: RefusalReason::NoSender },
        );
        check(
            &settings,
            None,
            &from(Chat::Direct, " "),
            Admission::Refused { why: RefusalReason::NoSender },
        );
        for odd in ["a\u{1b}[2J", "*", " * "] {
            let why = RefusalReason::NoSender;
            let odd = from(Chat::Direct, odd);
            check(&settings, Some(Standing::Allowed), &odd, Admission::Refused { why });
        }
    }

    #[test]
    fn r74_every_policy_is_applied() {
        let (allowed, denied) = (Some(Standing::Allowed), Some(Standing::Denied));
        let refused = |why| Admission::Refused { why };
        let filtered = |why| Admission::Filtered { why };
        let admitted = || Admission::Admitted;
        let pair = || Admission::Pair { code: code(1), is_new: true };
        let direct = from(Chat::Direct, "1");
        for (policy, of_unknown, of_allowed) in [
            ("pairing", pair(), admitted()),
            ("allowlist", refused(RefusalReason::NotApproved), admitted()),
            ("open", admitted(), admitted()),
            ("disabled", refused(RefusalReason::Disabled), refused(RefusalReason::Disabled)),
        ] {
            let settings = settings(policy, "open");
            check(&settings, None, &direct, of_unknown);
            check(&settings, allowed, &direct, of_allowed);
            check(&settings, denied, &direct, refused(RefusalReason::Denied));
        }
        for (policy, of_unknown, of_allowed) in [
            ("allowlist", filtered(RefusalReason::NotApproved), admitted()),
            ("open", admitted(), admitted()),
            ("disabled", filtered(RefusalReason::Disabled), filtered(RefusalReason::Disabled)),
        ] {
            let settings = settings("open", policy);
            for chat in [Chat::Group, Chat::Channel, Chat::Room] {
                check(&settings, None, &from(chat, "1"), of_unknown.clone());
                check(&settings, allowed, &from(chat, "1"), of_allowed.clone());
                check(&settings, denied, &from(chat, "1"), filtered(RefusalReason::Denied));
            }
        }
    }

    #[test]
    fn r74_owners_need_no_approval() {
        let mut settings = AdmissionSettings::default();
        let telegram = Channel::parse("telegram").unwrap();
        settings.owners.insert((telegram, "alice".to_owned()));
        check(&settings, None, &from(Chat::Direct, " Alice"), Admission::Admitted);
        check(&settings, None, &from(Chat::Group, "alice"), Admission::Admitted);
        let denied = Some(Standing::Denied);
        check(
            &settings,
            denied,
            &from(Chat::Group, "alice"),
            Admission::Filtered { why: RefusalReason::Denied },
        );
        let mut elsewhere = from(Chat::Group, "alice");
        elsewhere.channel = Channel::parse("irc").unwrap();
        check(&settings, None, &elsewhere, Admission::Filtered { why: RefusalReason::NotApproved });
    }

    #[test]
    fn a_channel_may_have_its_own_policy() {
        let mut settings = settings("open", "open");
        let here = FilePolicies { direct: Some(DirectPolicy::Allowlist), group: None };
        settings.channels.insert(Channel::parse("telegram").unwrap(), here);
        let why = RefusalReason::NotApproved;
        check(&settings, None, &from(Chat::Direct, "1"), Admission::Refused { why });
        check(&settings, None, &from(Chat::Group, "1"), Admission::Admitted);
    }

    #[test]
    fn r74_requests_expire_after_an_hour_and_at_most_three_are_open() {
        let settings = AdmissionSettings::default();
        let request = |number: u8, asked_at| Request {
            sender: number.to_string(),
            code: code(number),
            asked_at,
        };
        let mut known = SenderState {
            standing: None,
            requests: vec![
                request(1, NOW),
                request(2, NOW - 5),
                request(3, NOW - REQUEST_LIFETIME),
            ],
        };
        let admit = |known: &SenderState, sender: &str| {
            super::decide(&settings, known, &from(Chat::Direct, sender), code(9), NOW)
        };
        assert_eq!(admit(&known, "2"), Admission::Pair { code: code(2), is_new: false });
        assert_eq!(admit(&known, "4"), Admission::Refused { why: RefusalReason::TooManyRequests });
        known.requests[2].asked_at -= 1;
        assert_eq!(admit(&known, "4"), Admission::Pair { code: code(9), is_new: true });
        assert_eq!(admit(&known, "3"), Admission::Pair { code: code(9), is_new: true });
        // The clock was set back.
        known.requests[0].asked_at = NOW + REQUEST_LIFETIME + 1;
        assert_eq!(admit(&known, "1"), Admission::Pair { code: code(9), is_new: true });
    }

    #[test]
    fn codes_are_read_as_people_type_them() {
        let code = PairingCode::of([0xff, 0, 0x10, 0x80, 0x01]);
        let text = code.to_string();
        assert_eq!(text.len(), 8);
        assert_eq!(PairingCode::parse(&text), Some(code));
        assert_eq!(
            PairingCode::parse(&format!("{}-{}", &text[..4], &text[4..].to_lowercase())),
            Some(code)
        );
        for text in ["", "ABCDEFG", "ABCDEFGHJ", "ABCDEFG0", "ABCDEFGI", "ÄBCDEFG"] {
            assert_eq!(PairingCode::parse(text), None, "{text}");
        }
        assert_eq!(PairingCode::of([0; 5]).to_string(), "AAAAAAAA");
        assert_eq!(PairingCode::of([0xff; 5]).to_string(), "99999999");
    }
}

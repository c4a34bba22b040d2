//! Who may speak: allowlist and pairing.
//!
//! Unknown senders are refused. In a direct conversation they may ask to be paired: they get a code,
//! and whoever runs the agent approves it. In a group their messages are filtered out before any
//! session sees them. Who was approved or denied is not a setting: it is handed in.

mod pairing;
mod policies;

use std::fmt;

use super::inbound::Inbound;
pub use pairing::{MOST_REQUESTS, PairingCode, REQUEST_STANDS, Request, stands};
pub use policies::{AdmissionSettings, DirectPolicy, GroupPolicy, SaidAdmission, SaidPolicies};

/// The longest id of a sender that is believed to be one.
const LONGEST_SENDER: usize = 256;

/// What stands for everybody on a channel where somebody is allowed, as in OpenClaw's `allowFrom`.
pub const EVERYBODY: &str = "*";

/// The form in which senders are compared: without spaces around it, in small letters, as in keys.
/// `None` for what cannot be an id; nobody is called what stands for everybody.
pub fn sender_id(text: &str) -> Option<String> {
    let id = text.trim().to_lowercase();
    let is_id = !id.is_empty()
        && id != EVERYBODY
        && id.len() <= LONGEST_SENDER
        // Spaces around it are nobody's; a line's end there is somebody's mistake.
        && !text.chars().any(char::is_control);
    is_id.then_some(id)
}

/// What was decided about a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// They may speak.
    Allowed,
    /// They may not, and may not ask.
    Denied,
}

/// What is known about the sender of a message, for its agent and channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// What was decided about them.
    pub standing: Option<Standing>,
    /// Requests on the channel, of anybody.
    pub requests: Vec<Request>,
}

/// What happens with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It goes to its session.
    Admitted,
    /// Its sender has to be approved first.
    Pair {
        /// What approves them.
        code: PairingCode,
        /// The request is not stored yet.
        is_new: bool,
    },
    /// It is left out of a group's session.
    Filtered {
        /// Why.
        why: Why,
    },
    /// It is not taken.
    Refused {
        /// Why.
        why: Why,
    },
}

impl Admission {
    /// Whether it goes to its session.
    pub fn is_admitted(&self) -> bool {
        *self == Admission::Admitted
    }

    /// Why it does not go to its session.
    pub fn why(&self) -> Option<String> {
        match self {
            Admission::Admitted => None,
            Admission::Pair { .. } => Some(Why::NotApproved.to_string()),
            Admission::Filtered { why } | Admission::Refused { why } => Some(why.to_string()),
        }
    }

    /// What the sender is told, if anything. Whoever asks again is told the same again: the first
    /// answer may never have reached them.
    pub fn reply(&self) -> Option<String> {
        match self {
            Admission::Pair { code, .. } => Some(format!(
                "You are not approved to talk to this agent yet. Your pairing code is {code}; it is \
                 good for an hour after you first asked. The owner approves it with: \
                 quipu senders pair {code}"
            )),
            _ => None,
        }
    }
}

/// Why a message does not go to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// Nobody knows who wrote it.
    NoSender,
    /// Its sender was denied.
    Denied,
    /// Its sender was not approved.
    NotApproved,
    /// Nobody may speak there.
    Disabled,
    /// Its sender was not approved, and too many others are waiting for an answer.
    TooManyRequests,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::NoSender => "it does not say who wrote it",
            Why::Denied => "its sender was denied",
            Why::NotApproved => "its sender is not approved",
            Why::Disabled => "messages of this kind are not taken on this channel",
            Why::TooManyRequests => {
                "its sender is not approved, and too many requests are open on this channel"
            }
        })
    }
}

/// What happens with a message. `fresh` is the code that a new request would get.
pub fn admit(
    settings: &AdmissionSettings,
    known: &Known,
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
    let Some(sender) = sender_id(inbound.sender()) else { return refused(Why::NoSender) };
    if known.standing == Some(Standing::Denied) {
        return refused(Why::Denied);
    }
    if is_disabled {
        return refused(Why::Disabled);
    }
    if known.standing == Some(Standing::Allowed) || settings.is_owner(inbound) {
        return Admission::Admitted;
    }
    match (inbound.is_group(), direct, group) {
        (true, _, GroupPolicy::Open) | (false, DirectPolicy::Open, _) => Admission::Admitted,
        (false, DirectPolicy::Pairing, _) => ask(&known.requests, &sender, fresh, now),
        _ => refused(Why::NotApproved),
    }
}

fn ask(requests: &[Request], sender: &str, fresh: PairingCode, now: i64) -> Admission {
    let open = || requests.iter().filter(|request| request.stands(now));
    if let Some(request) = open().find(|request| request.sender == sender) {
        return Admission::Pair { code: request.code, is_new: false };
    }
    if open().count() >= MOST_REQUESTS {
        return Admission::Refused { why: Why::TooManyRequests };
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
        let known = Known { standing: known, requests: Vec::new() };
        assert_eq!(admit(settings, &known, inbound, code(1), NOW), admission, "{inbound:?}");
    }

    #[test]
    fn r74_unknown_senders_are_refused_by_default() {
        let settings = AdmissionSettings::default();
        let pair = Admission::Pair { code: code(1), is_new: true };
        check(&settings, None, &from(Chat::Direct, "1"), pair);
        let why = Why::NotApproved;
        check(&settings, None, &from(Chat::Group, "1"), Admission::Filtered { why });
        check(&settings, None, &from(Chat::Channel, "1"), Admission::Filtered { why });
        check(&settings, None, &from(Chat::Group, ""), Admission::Filtered { why: Why::NoSender });
        check(&settings, None, &from(Chat::Direct, " "), Admission::Refused { why: Why::NoSender });
        for odd in ["a\u{1b}[2J", "*", " * "] {
            let why = Why::NoSender;
            let odd = from(Chat::Direct, odd);
            check(&settings, Some(Standing::Allowed), &odd, Admission::Refused { why });
        }
    }

    #[test]
    fn r74_every_policy() {
        let (allowed, denied) = (Some(Standing::Allowed), Some(Standing::Denied));
        let refused = |why| Admission::Refused { why };
        let filtered = |why| Admission::Filtered { why };
        let admitted = || Admission::Admitted;
        let pair = || Admission::Pair { code: code(1), is_new: true };
        let direct = from(Chat::Direct, "1");
        for (policy, of_unknown, of_allowed) in [
            ("pairing", pair(), admitted()),
            ("allowlist", refused(Why::NotApproved), admitted()),
            ("open", admitted(), admitted()),
            ("disabled", refused(Why::Disabled), refused(Why::Disabled)),
        ] {
            let settings = settings(policy, "open");
            check(&settings, None, &direct, of_unknown);
            check(&settings, allowed, &direct, of_allowed);
            check(&settings, denied, &direct, refused(Why::Denied));
        }
        for (policy, of_unknown, of_allowed) in [
            ("allowlist", filtered(Why::NotApproved), admitted()),
            ("open", admitted(), admitted()),
            ("disabled", filtered(Why::Disabled), filtered(Why::Disabled)),
        ] {
            let settings = settings("open", policy);
            for chat in [Chat::Group, Chat::Channel, Chat::Room] {
                check(&settings, None, &from(chat, "1"), of_unknown.clone());
                check(&settings, allowed, &from(chat, "1"), of_allowed.clone());
                check(&settings, denied, &from(chat, "1"), filtered(Why::Denied));
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
            Admission::Filtered { why: Why::Denied },
        );
        let mut elsewhere = from(Chat::Group, "alice");
        elsewhere.channel = Channel::parse("irc").unwrap();
        check(&settings, None, &elsewhere, Admission::Filtered { why: Why::NotApproved });
    }

    #[test]
    fn channels_may_be_different() {
        let mut settings = settings("open", "open");
        let here = SaidPolicies { direct: Some(DirectPolicy::Allowlist), group: None };
        settings.channels.insert(Channel::parse("telegram").unwrap(), here);
        let why = Why::NotApproved;
        check(&settings, None, &from(Chat::Direct, "1"), Admission::Refused { why });
        check(&settings, None, &from(Chat::Group, "1"), Admission::Admitted);
    }

    #[test]
    fn r74_requests_stand_for_an_hour_and_three_are_enough() {
        let settings = AdmissionSettings::default();
        let request = |number: u8, asked_at| Request {
            sender: number.to_string(),
            code: code(number),
            asked_at,
        };
        let mut known = Known {
            standing: None,
            requests: vec![request(1, NOW), request(2, NOW - 5), request(3, NOW - REQUEST_STANDS)],
        };
        let admit = |known: &Known, sender: &str| {
            super::admit(&settings, known, &from(Chat::Direct, sender), code(9), NOW)
        };
        assert_eq!(admit(&known, "2"), Admission::Pair { code: code(2), is_new: false });
        assert_eq!(admit(&known, "4"), Admission::Refused { why: Why::TooManyRequests });
        known.requests[2].asked_at -= 1;
        assert_eq!(admit(&known, "4"), Admission::Pair { code: code(9), is_new: true });
        assert_eq!(admit(&known, "3"), Admission::Pair { code: code(9), is_new: true });
        // A clock that was put back.
        known.requests[0].asked_at = NOW + REQUEST_STANDS + 1;
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

//! Who may speak: allowlist and pairing.
//!
//! Unknown senders are refused. In a direct conversation they may ask to be paired: they get a code,
//! and whoever runs the agent approves it. In a group their messages are filtered out before any
//! session sees them. Who was approved or denied is not a setting: it is handed in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::inbound::Inbound;
use super::names::Channel;
use super::settings::choices;

/// How long a request to be paired stands, in milliseconds.
pub const REQUEST_STANDS: i64 = 60 * 60 * 1000;

/// How many requests may be open on one channel of an agent.
pub const MOST_REQUESTS: usize = 3;

/// The longest id of a sender that is believed to be one.
const LONGEST_SENDER: usize = 256;

choices! {
    /// Who may speak in direct conversations.
    DirectPolicy {
        /// Whoever was approved; the others may ask.
        Pairing = "pairing",
        /// Whoever was approved.
        Allowlist = "allowlist",
        /// Everybody who was not denied.
        Open = "open",
        /// Nobody.
        Disabled = "disabled",
    }
}

choices! {
    /// Who may speak in groups.
    GroupPolicy {
        /// Whoever was approved.
        Allowlist = "allowlist",
        /// Everybody who was not denied.
        Open = "open",
        /// Nobody.
        Disabled = "disabled",
    }
}

/// What people choose about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// In direct conversations.
    pub direct: DirectPolicy,
    /// In groups.
    pub group: GroupPolicy,
    /// Channels where it is different.
    pub channels: BTreeMap<Channel, SaidPolicies>,
    /// Who runs the agent. They need no approval, and may do more in groups. Ids are in their
    /// [normal form](sender_id).
    pub owners: BTreeSet<(Channel, String)>,
}

impl Default for AdmissionSettings {
    fn default() -> AdmissionSettings {
        AdmissionSettings {
            direct: DirectPolicy::Pairing,
            group: GroupPolicy::Allowlist,
            channels: BTreeMap::new(),
            owners: BTreeSet::new(),
        }
    }
}

/// What is different on one channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SaidPolicies {
    /// In direct conversations.
    pub direct: Option<DirectPolicy>,
    /// In groups.
    pub group: Option<GroupPolicy>,
}

/// What one file says about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SaidAdmission {
    /// Everywhere.
    pub policies: SaidPolicies,
    /// On these channels.
    pub channels: BTreeMap<Channel, SaidPolicies>,
    /// Who runs the agent.
    pub owners: Option<BTreeSet<(Channel, String)>>,
}

impl AdmissionSettings {
    /// The same with what a file says.
    pub(super) fn with(mut self, said: SaidAdmission) -> AdmissionSettings {
        self.direct = said.policies.direct.unwrap_or(self.direct);
        self.group = said.policies.group.unwrap_or(self.group);
        for (channel, policies) in said.channels {
            let here = self.channels.entry(channel).or_default();
            here.direct = policies.direct.or(here.direct);
            here.group = policies.group.or(here.group);
        }
        if let Some(owners) = said.owners {
            self.owners = owners;
        }
        self
    }

    /// Whether a message is of somebody who runs the agent.
    pub fn is_owner(&self, inbound: &Inbound) -> bool {
        sender_id(inbound.sender())
            .is_some_and(|sender| self.owners.contains(&(inbound.channel.clone(), sender)))
    }

    /// Who may speak on a channel.
    pub fn policies(&self, channel: &Channel) -> (DirectPolicy, GroupPolicy) {
        let here = self.channels.get(channel).copied().unwrap_or_default();
        (here.direct.unwrap_or(self.direct), here.group.unwrap_or(self.group))
    }
}

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

/// Somebody asked to be paired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Who, in their normal form.
    pub sender: String,
    /// What they were told.
    pub code: PairingCode,
    /// When, in milliseconds UTC.
    pub asked_at: i64,
}

impl Request {
    /// Whether it still stands. Clocks may be put back; a request does not stand the longer for it.
    pub fn stands(&self, now: i64) -> bool {
        stands(self.asked_at, now)
    }
}

/// Whether what was asked then still stands now.
pub fn stands(asked_at: i64, now: i64) -> bool {
    asked_at.abs_diff(now) <= REQUEST_STANDS.unsigned_abs()
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

/// What approves a sender: eight letters and digits that cannot be taken for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PairingCode([u8; 8]);

/// Without 0, 1, I and O.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

impl PairingCode {
    /// The code of forty random bits.
    pub fn of(random: [u8; 5]) -> PairingCode {
        let bits = random.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        let letter = |at: usize| ALPHABET[(bits >> (35 - 5 * at)) as usize & 31];
        PairingCode(std::array::from_fn(letter))
    }

    /// Reads a code as people type it: in any case, with dashes or spaces.
    pub fn parse(text: &str) -> Option<PairingCode> {
        let letters: Vec<u8> = text
            .bytes()
            .filter(|byte| !matches!(byte, b'-' | b' '))
            .map(|byte| byte.to_ascii_uppercase())
            .collect();
        let code: [u8; 8] = letters.try_into().ok()?;
        code.iter().all(|letter| ALPHABET.contains(letter)).then_some(PairingCode(code))
    }
}

impl fmt::Display for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|letter| write!(f, "{}", char::from(*letter)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::inbound::Chat;
    use super::super::names::AgentId;
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

//! Requests to be paired, and the codes that answer them.

use std::fmt;

/// How long a request to be paired stands, in milliseconds.
pub const REQUEST_STANDS: i64 = 60 * 60 * 1000;

/// How many requests may be open on one channel of an agent.
pub const MOST_REQUESTS: usize = 3;

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

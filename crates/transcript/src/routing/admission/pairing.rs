//! Pairing requests and their codes.

use std::fmt;

/// The lifetime of a pairing request in milliseconds: one hour.
pub const REQUEST_LIFETIME: i64 = 60 * 60 * 1000;

/// Maximum number of open requests on one channel of an agent.
pub const MOST_REQUESTS: usize = 3;

/// A pairing request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The sender, in normal form.
    pub sender: String,
    /// The code that the sender received.
    pub code: PairingCode,
    /// The time of the request, in milliseconds UTC.
    pub asked_at: i64,
}

impl Request {
    /// Returns whether the request has not expired. A clock that is set back does not extend it.
    pub fn is_open(&self, now: i64) -> bool {
        is_open_at(self.asked_at, now)
    }
}

/// Returns whether a request made at `asked_at` has not expired.
pub fn is_open_at(asked_at: i64, now: i64) -> bool {
    asked_at.abs_diff(now) <= REQUEST_LIFETIME.unsigned_abs()
}

/// A code that approves a sender: eight letters and digits that are hard to confuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PairingCode([u8; 8]);

/// All letters and digits but 0, 1, I and O.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

impl PairingCode {
    /// Returns the code for forty random bits.
    pub fn of(random: [u8; 5]) -> PairingCode {
        let bits = random.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        let letter = |at: usize| ALPHABET[(bits >> (35 - 5 * at)) as usize & 31];
        PairingCode(std::array::from_fn(letter))
    }

    /// Parses a typed code, case-insensitive, with or without dashes or spaces.
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

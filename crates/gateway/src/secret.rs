//! Random secrets: tokens, cookies and codes.
//!
//! A secret is kept only as its hash. It has 256 random bits, which are too many to guess, so a
//! fast hash is enough.

use std::fmt;

use subtle::ConstantTimeEq;

/// The number of random bytes of a secret.
const BYTES: usize = 32;

/// A secret, as hexadecimal digits. Never printed by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

/// The hash of a secret.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SecretHash([u8; 32]);

impl Secret {
    /// Returns a new random secret.
    pub(crate) fn new() -> Result<Secret, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Secret(hex(&bytes)))
    }

    /// Returns the secret as text.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Returns the hash that is kept.
    pub(crate) fn hash(&self) -> SecretHash {
        SecretHash::of(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl SecretHash {
    fn of(text: &str) -> SecretHash {
        SecretHash(blake3::derive_key("quipu 2026 secrets of the gateway", text.as_bytes()))
    }

    /// Returns whether `text` is the secret. Takes the same time for every text of its length.
    pub(crate) fn is_of(&self, text: &str) -> bool {
        SecretHash::of(text).0.ct_eq(&self.0).into()
    }

    /// Returns the hash as hexadecimal digits.
    pub(crate) fn to_hex(self) -> String {
        hex(&self.0)
    }

    /// Parses a hash from hexadecimal digits.
    pub(crate) fn from_hex(digits: &str) -> Option<SecretHash> {
        Some(SecretHash(*blake3::Hash::from_hex(digits).ok()?.as_bytes()))
    }
}

/// Returns bytes as hexadecimal digits.
fn hex(bytes: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_has_its_hash() {
        let (one, other) = (Secret::new().unwrap(), Secret::new().unwrap());
        assert_eq!(one.text().len(), 2 * BYTES);
        assert_ne!(one, other);
        let hash = SecretHash::from_hex(&one.hash().to_hex()).unwrap();
        assert!(hash.is_of(one.text()));
        for wrong in [other.text(), "", &one.text()[1..], &one.text().to_uppercase()] {
            assert!(!hash.is_of(wrong));
        }
        assert!(SecretHash::from_hex("ab").is_none());
        assert!(!format!("{one:?}").contains(one.text()));
    }
}

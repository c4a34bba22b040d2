//! The link that signs a browser in. It works once, within two minutes.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::tokens::{Scope, TokenError, TokenFolder};
use crate::secret::{Secret, SecretHash};

/// The time in which the link works.
const VALID_FOR: Duration = Duration::from_secs(120);

/// The time after which a browser deletes the cookie, unless the server sends it again. It equals
/// `IDLE_TIME` of `tokens`.
const COOKIE_SECONDS: u32 = 12 * 60 * 60;

/// The code of a link that was not used yet.
#[derive(Debug, Default)]
pub(crate) struct SignIn {
    code: Mutex<Option<(SecretHash, Instant)>>,
}

impl SignIn {
    /// Returns a new code, which replaces the one before.
    pub(crate) fn new_code(&self) -> Result<String, TokenError> {
        let secret = Secret::new().map_err(TokenError::Random)?;
        *self.code.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((secret.hash(), Instant::now() + VALID_FOR));
        Ok(secret.text().to_owned())
    }

    /// Exchanges the code for the token of a browser. The code cannot be used again.
    pub(crate) fn redeem(
        &self,
        code: &str,
        now: Instant,
        tokens: &TokenFolder,
    ) -> Option<Result<String, TokenError>> {
        let mut kept = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        let is_right = kept.as_ref().is_some_and(|(hash, end)| now < *end && hash.is_of(code));
        is_right.then(|| {
            *kept = None;
            tokens.create_cookie(Scope::Write)
        })
    }
}

/// Returns the value of `Set-Cookie`. Scripts cannot read the cookie, and other sites cannot use it.
pub(crate) fn set_cookie(name: &str, value: &str, is_secure: bool) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={COOKIE_SECONDS}{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_works_once_and_for_two_minutes() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = TokenFolder::beside(&folder.path().join("ledger.db"));
        let sign_in = SignIn::default();
        let now = Instant::now();
        assert!(sign_in.redeem("", now, &tokens).is_none());
        let code = sign_in.new_code().unwrap();
        assert!(sign_in.redeem("wrong", now, &tokens).is_none());
        assert!(sign_in.redeem(&code, now + Duration::from_secs(121), &tokens).is_none());
        let cookie = sign_in.redeem(&code, now, &tokens).unwrap().unwrap();
        assert!(tokens.find_cookie(&cookie).is_some());
        assert!(sign_in.redeem(&code, now, &tokens).is_none());
        // A new code ends the one before.
        let (first, second) = (sign_in.new_code().unwrap(), sign_in.new_code().unwrap());
        assert!(sign_in.redeem(&first, now, &tokens).is_none());
        assert!(sign_in.redeem(&second, now, &tokens).is_some());
    }
}

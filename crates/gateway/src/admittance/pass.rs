//! By what a client came in, for connections that outlive its request.

use super::{Admittance, Comer, Denial, Shown};

/// What a client had shown when it came in.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) enum Pass {
    /// Nothing: it needed nothing but its network or certificate.
    #[default]
    Nothing,
    /// The password of a user, who had this hash.
    Password { user: String, hash: String },
    /// What the service at this address asked for.
    Service(String),
}

impl Admittance {
    /// Whether the certificate of a client opens the site.
    pub(crate) fn by_certificate(&self, vouchers: Option<&[u64]>) -> Result<(), Denial> {
        let opens = self.config.has_certificate(vouchers);
        if opens { Ok(()) } else { Err(Denial::NoCertificate) }
    }

    /// What a client shows, if it comes in with it.
    pub(crate) fn pass_of(&self, comer: Comer, shown: &Shown) -> Pass {
        if let Some(forward) = self.forward_for(comer.ip) {
            return Pass::Service(forward.config.url.to_string());
        }
        match shown {
            Shown::Password(login) if self.config.needs_password(comer.ip) => {
                let hash = self.config.users.hash_of(&login.user).unwrap_or_default();
                Pass::Password { user: login.user.clone(), hash: hash.to_owned() }
            }
            _ => Pass::Nothing,
        }
    }

    /// Whether a client that came in with this would still come in: its user exists, with the same password, or the same
    /// service decides.
    pub(crate) fn still_opens_to(&self, comer: Comer, pass: &Pass) -> bool {
        if let Some(forward) = self.forward_for(comer.ip) {
            return matches!(pass, Pass::Service(url) if *url == forward.config.url.to_string());
        }
        if !self.config.needs_password(comer.ip) {
            return true;
        }
        let Pass::Password { user, hash } = pass else { return false };
        self.config.users.hash_of(user) == Some(hash.as_str())
    }
}

//! Files of users and hashes of their passwords, as `htpasswd` writes them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::PasswordVerifier;
use argon2::password_hash::phc::PasswordHash;
use sha_crypt::ShaCrypt;

/// Larger than any real file.
const LONGEST_FILE: usize = 1 << 20;

/// Hashes that cost more than these keep a processor busy for seconds, and clients may ask for them.
const COSTLIEST_BCRYPT: u32 = 14;
const COSTLIEST_ARGON2_KIB: u32 = 256 << 10;
const COSTLIEST_ARGON2_PASSES: u32 = 16;
const COSTLIEST_SHA_CRYPT: u32 = 1_000_000;

/// The users of a file.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Users(Arc<BTreeMap<String, Hash>>);

/// The hash of a password, in the form that names its function.
#[derive(Clone, PartialEq, Eq)]
enum Hash {
    Bcrypt(String),
    Argon2(String),
    ShaCrypt(String),
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} users", self.0.len())
    }
}

impl Users {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|error| format!("cannot read it: {error}"))?;
        if bytes.len() > LONGEST_FILE {
            return Err("it is larger than 1 MiB".to_owned());
        }
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Reads the text of a file: `user:hash` in each line; empty lines and those with `#` are comments.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut users = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (user, hash) = line
                .split_once(':')
                .filter(|(user, _)| !user.is_empty())
                .ok_or_else(|| format!("line {number}: it is not `user:hash`"))?;
            let hash = Hash::parse(hash).map_err(|why| format!("line {number}: {why}"))?;
            if users.insert(user.to_owned(), hash).is_some() {
                return Err(format!("line {number}: user `{user}` is in it twice"));
            }
        }
        if users.is_empty() {
            return Err("it has no user: add one by `htpasswd -B FILE USER`".to_owned());
        }
        Ok(Self(Arc::new(users)))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether this is the password of a user. Needs as much time for a user who does not exist.
    pub fn check(&self, user: &str, password: &[u8]) -> bool {
        match (self.0.get(user), self.0.values().next()) {
            (Some(hash), _) => hash.is_of(password),
            (None, Some(other)) => {
                let _ = other.is_of(password);
                false
            }
            (None, None) => false,
        }
    }
}

fn affordable(function: &str, what: &str, has: u32, most: u32) -> Result<(), String> {
    if has <= most {
        return Ok(());
    }
    Err(format!(
        "the {what} of its {function} hash is {has}, and clients could keep this machine busy with it: hash the \
         password again with {most} at most"
    ))
}

impl Hash {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("its {what} hash is damaged");
        if ["$2a$", "$2b$", "$2y$"].iter().any(|mark| text.starts_with(mark)) {
            let parsed = text.parse::<bcrypt::HashParts>().map_err(|_| wrong("bcrypt"))?;
            affordable("bcrypt", "cost", parsed.get_cost(), COSTLIEST_BCRYPT)?;
            return Ok(Self::Bcrypt(text.to_owned()));
        }
        if text.starts_with("$argon2") {
            let parsed = PasswordHash::new(text).ok();
            let whole = parsed.filter(|it| it.salt.is_some() && it.hash.is_some());
            let whole = whole.ok_or_else(|| wrong("argon2"))?;
            let number = |name: &str| whole.params.get_decimal(name).unwrap_or(1);
            affordable("argon2", "memory in KiB", number("m"), COSTLIEST_ARGON2_KIB)?;
            affordable("argon2", "number of passes", number("t"), COSTLIEST_ARGON2_PASSES)?;
            return Ok(Self::Argon2(text.to_owned()));
        }
        if text.starts_with("$5$") || text.starts_with("$6$") {
            let hash = Self::ShaCrypt(text.to_owned());
            let rounds = text.split('$').nth(2).and_then(|it| it.strip_prefix("rounds="));
            let rounds = rounds.map_or(Ok(1), |it| it.parse().map_err(|_| wrong("SHA-crypt")))?;
            affordable("SHA-crypt", "number of rounds", rounds, COSTLIEST_SHA_CRYPT)?;
            let length = text.rsplit('$').next().map_or(0, str::len);
            let is_whole = length == if text.starts_with("$5$") { 43 } else { 86 };
            return if is_whole { Ok(hash) } else { Err(wrong("SHA-crypt")) };
        }
        Err("its hash is not bcrypt, argon2 or SHA-crypt (`$5$`, `$6$`): others are guessed too fast. \
             `htpasswd -B FILE USER` writes one with bcrypt"
            .to_owned())
    }

    fn is_of(&self, password: &[u8]) -> bool {
        match self {
            Self::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            Self::Argon2(hash) => {
                Argon2::default().verify_password(password, hash.as_str()).is_ok()
            }
            Self::ShaCrypt(hash) => {
                ShaCrypt::default().verify_password(password, hash.as_str()).is_ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of the authors: `crypt_blowfish`, the argon2 reference implementation's test.c, and Drepper's
    /// "Unix crypt using SHA-256 and SHA-512".
    const KNOWN: [(&str, &str); 6] = [
        ("U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"),
        ("U*U*", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK"),
        (
            "password",
            "$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$wWKIMhR9lyDFvRz9YTZweHKfbftvj+qf+YFY4NeBbtA",
        ),
        (
            "password",
            "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        ),
        ("Hello world!", "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"),
        (
            "Hello world!",
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
        ),
    ];

    #[test]
    fn published_hashes_have_their_passwords_and_no_others() {
        for (password, hash) in KNOWN {
            let users = Users::parse(&format!("# people\n\nann:{hash}\n"));
            let users = users.unwrap_or_else(|why| panic!("{hash}: {why}"));
            assert!(users.check("ann", password.as_bytes()), "{hash}");
            for (user, password) in [("ann", "Password"), ("ann", ""), ("bob", password)] {
                assert!(!users.check(user, password.as_bytes()), "{hash}");
            }
        }
    }

    #[test]
    fn weak_and_damaged_hashes_are_refused_with_their_line() {
        for (line, why) in [
            ("ann", "not `user:hash`"),
            (":$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "not `user:hash`"),
            ("ann:secret", "not bcrypt"),
            ("ann:$apr1$x8ZQ/...$7vwQ9nZxJ3Hj5HzT2nFWJ/", "not bcrypt"),
            ("ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "not bcrypt"),
            ("ann:$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyu", "bcrypt hash is damaged"),
            ("ann:$argon2id$v=19$m=65536", "argon2 hash is damaged"),
            ("ann:$5$saltstring$5B8vYYiY", "SHA-crypt hash is damaged"),
            ("ann:$2y$31$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "hash is 31"),
            (
                "ann:$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
                "is 4194304",
            ),
            (
                "ann:$5$rounds=999999999$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
                "hash is 999999999",
            ),
        ] {
            let said = Users::parse(&format!("# people\n{line}\n")).unwrap_err();
            assert!(said.starts_with("line 2: ") && said.contains(why), "{line}: {said}");
        }
        assert!(Users::parse("# empty\n").unwrap_err().contains("no user"));
        let twice = format!("ann:{}\nann:{}\n", KNOWN[0].1, KNOWN[1].1);
        assert!(Users::parse(&twice).unwrap_err().contains("twice"));
    }
}

//! Files of users and hashes of their passwords, as `htpasswd` writes them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{Error, PasswordVerifier};
use argon2::{Algorithm, Argon2, MIN_SALT_LEN, Params, Version};
use sha_crypt::ShaCrypt;

/// Larger than any real file.
const LONGEST_FILE: usize = 1 << 20;

/// Hashes that cost more than these keep a processor busy for seconds, and clients may ask for them.
const COSTLIEST_BCRYPT: u32 = 14;
const COSTLIEST_ARGON2_KIB: u32 = 256 << 10;
const COSTLIEST_ARGON2_PASSES: u32 = 16;
const COSTLIEST_SHA_CRYPT: u32 = 1_000_000;

/// The cheapest that these functions allow.
const CHEAPEST_BCRYPT: u32 = 4;
const CHEAPEST_SHA_CRYPT: u32 = 1000;
const DEFAULT_SHA_CRYPT: u32 = 5000;

/// One unit of bcrypt's cost needs as much time as so many rounds of SHA-crypt, about half a microsecond each; so does
/// one KiB in one pass of argon2, as one round. Roughly: these only order hashes.
const ROUNDS_OF_BCRYPT: u64 = 80;

/// The users of a file.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Users(Arc<BTreeMap<String, Hash>>);

/// The hash of a password.
#[derive(Clone, PartialEq, Eq)]
struct Hash {
    function: Function,
    /// In the form that names its function.
    text: String,
    /// About how long it takes, in rounds of SHA-crypt.
    cost: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    Bcrypt,
    Argon2,
    ShaCrypt,
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

    /// Whether this is the password of a user. For one who does not exist, it needs as much time as for the one with the
    /// costliest hash.
    pub fn check(&self, user: &str, password: &[u8]) -> bool {
        let hash = self.0.get(user);
        let is_of_hash = hash.or_else(|| self.costliest()).is_some_and(|it| it.is_of(password));
        hash.is_some() && is_of_hash
    }

    fn costliest(&self) -> Option<&Hash> {
        self.0.values().max_by_key(|hash| hash.cost)
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

fn damaged(function: &str) -> String {
    format!("its {function} hash is damaged, and matches no password: write it again")
}

impl Hash {
    fn parse(text: &str) -> Result<Self, String> {
        if ["$2a$", "$2b$", "$2y$"].iter().any(|mark| text.starts_with(mark)) {
            Self::bcrypt(text)
        } else if text.starts_with("$argon2") {
            Self::argon2(text)
        } else if text.starts_with("$5$") || text.starts_with("$6$") {
            Self::sha_crypt(text)
        } else {
            Err("its hash is not bcrypt, argon2 or SHA-crypt (`$5$`, `$6$`): others are guessed too fast. \
                 `htpasswd -B FILE USER` writes one with bcrypt"
                .to_owned())
        }
    }

    fn bcrypt(text: &str) -> Result<Self, String> {
        let wrong = || damaged("bcrypt");
        let cost = text.parse::<bcrypt::HashParts>().map_err(|_| wrong())?.get_cost();
        affordable("bcrypt", "cost", cost, COSTLIEST_BCRYPT)?;
        if cost < CHEAPEST_BCRYPT {
            return Err(wrong());
        }
        let cost = ROUNDS_OF_BCRYPT << cost;
        Ok(Self { function: Function::Bcrypt, text: text.to_owned(), cost })
    }

    fn argon2(text: &str) -> Result<Self, String> {
        let wrong = || damaged("argon2");
        let hash = PasswordHash::new(text).map_err(|_| wrong())?;
        let params = Params::try_from(&hash).map_err(|_| wrong())?;
        let (memory, passes) = (params.m_cost(), params.t_cost());
        affordable("argon2", "memory in KiB", memory, COSTLIEST_ARGON2_KIB)?;
        affordable("argon2", "number of passes", passes, COSTLIEST_ARGON2_PASSES)?;
        let is_whole = hash.salt.as_ref().is_some_and(|salt| salt.len() >= MIN_SALT_LEN)
            && hash.hash.is_some()
            && Algorithm::try_from(hash.algorithm.as_str()).is_ok()
            && hash.version.is_none_or(|version| Version::try_from(version).is_ok());
        if !is_whole {
            return Err(wrong());
        }
        let cost = u64::from(memory) * u64::from(passes);
        Ok(Self { function: Function::Argon2, text: text.to_owned(), cost })
    }

    fn sha_crypt(text: &str) -> Result<Self, String> {
        let wrong = || damaged("SHA-crypt");
        let mut fields: Vec<&str> = text.split('$').skip(1).collect();
        let rounds = fields.get(1).and_then(|it| it.strip_prefix("rounds="));
        let cost = rounds.map_or(Ok(DEFAULT_SHA_CRYPT), |it| it.parse().map_err(|_| wrong()))?;
        affordable("SHA-crypt", "number of rounds", cost, COSTLIEST_SHA_CRYPT)?;
        if rounds.is_some() {
            fields.remove(1);
        }
        let [id, salt, hash] = fields[..] else { return Err(wrong()) };
        // Whether any password matches can be seen from the error of a wrong one, with as few rounds as there can be.
        let cheap = format!("${id}$rounds={CHEAPEST_SHA_CRYPT}${salt}${hash}");
        let verified = ShaCrypt::default().verify_password(b"", cheap.as_str());
        let is_valid = matches!(verified, Ok(()) | Err(Error::PasswordInvalid));
        let is_whole = hash.len() == if id == "5" { 43 } else { 86 };
        if cost < CHEAPEST_SHA_CRYPT || !is_valid || !is_whole {
            return Err(wrong());
        }
        Ok(Self { function: Function::ShaCrypt, text: text.to_owned(), cost: cost.into() })
    }

    fn is_of(&self, password: &[u8]) -> bool {
        let text = self.text.as_str();
        match self.function {
            Function::Bcrypt => bcrypt::verify(password, text).unwrap_or(false),
            Function::Argon2 => Argon2::default().verify_password(password, text).is_ok(),
            Function::ShaCrypt => ShaCrypt::default().verify_password(password, text).is_ok(),
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
    fn who_does_not_exist_costs_as_much_as_the_costliest_hash() {
        const SHA: &str = "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5";
        let bcrypt =
            |cost| format!("$2y${cost}$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW");
        let sha = |rounds: u32| SHA.replace("$5$", &format!("$5$rounds={rounds}$"));
        let argon = |memory: u32| {
            format!(
                "$argon2id$v=19$m={memory},t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
            )
        };
        for (hashes, costliest) in [
            ([bcrypt("05"), bcrypt("11"), bcrypt("10")], 1),
            ([SHA.to_owned(), sha(1000), sha(100_000)], 2),
            ([argon(65_536), argon(8), SHA.to_owned()], 0),
            ([SHA.to_owned(), bcrypt("12"), argon(19_456)], 1),
        ] {
            let text = format!("ann:{}\nbob:{}\nzed:{}\n", hashes[0], hashes[1], hashes[2]);
            let users = Users::parse(&text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert!(users.costliest().unwrap().text == hashes[costliest], "{text}");
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
            (
                "ann:$2y$03$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
                "bcrypt hash is damaged",
            ),
            (
                "ann:$argon2id$v=99$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
                "argon2 hash is damaged",
            ),
            (
                "ann:$argon2id$v=19$m=0,t=0,p=0$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
                "argon2 hash is damaged",
            ),
            (
                "ann:$argon2id$v=19$m=65536,t=2,p=1$c29tZXM$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
                "argon2 hash is damaged",
            ),
            (
                "ann:$argon2z$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
                "argon2 hash is damaged",
            ),
            (
                "ann:$5$rubbish$rubbish$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
                "SHA-crypt hash is damaged",
            ),
            (
                "ann:$5$rubbish$!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!",
                "SHA-crypt hash is damaged",
            ),
            (
                "ann:$5$rounds=10$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
                "SHA-crypt hash is damaged",
            ),
            (
                "ann:$5$rounds=x$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
                "SHA-crypt hash is damaged",
            ),
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

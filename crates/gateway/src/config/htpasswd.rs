//! Files of users and hashes of their passwords, as `htpasswd` writes them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{Error, PasswordVerifier};
use argon2::{Algorithm, Argon2, MIN_SALT_LEN, Params, Version};
use sha_crypt::ShaCrypt;

use super::named_file;

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

/// A password is checked against one hash of each kind: more kinds would only make that slower.
const MOST_KINDS: usize = 4;

/// The users of a file.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Users(Arc<Known>);

#[derive(PartialEq, Eq, Default)]
struct Known {
    hashes: BTreeMap<String, Hash>,
    /// One hash of each kind: all hashes of a kind need the same time.
    kinds: Vec<Hash>,
}

/// The hash of a password.
#[derive(Clone, PartialEq, Eq)]
struct Hash {
    function: Function,
    /// In the form that names its function.
    text: String,
    /// The function with its costs.
    kind: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    Bcrypt,
    Argon2,
    ShaCrypt,
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} users", self.0.hashes.len())
    }
}

impl Users {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let bytes = named_file::read(path, "Write one with `htpasswd -B -c FILE USER`")?;
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
        let mut kinds: Vec<Hash> = Vec::new();
        for hash in users.values() {
            if kinds.iter().all(|it| it.kind != hash.kind) {
                kinds.push(hash.clone());
            }
        }
        if kinds.len() > MOST_KINDS {
            let named: Vec<&str> = kinds.iter().map(|it| it.kind.as_str()).collect();
            return Err(format!(
                "its hashes are of {} kinds ({}), and every password is checked against one of each, so that the time \
                 does not tell who exists: hash the passwords again with the same function and cost ({MOST_KINDS} \
                 kinds at most)",
                kinds.len(),
                named.join(", ")
            ));
        }
        Ok(Self(Arc::new(Known { hashes: users, kinds })))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.hashes.len()
    }

    /// Whether this is the password of a user. Computes the same kinds of hashes for every user, whether it exists or
    /// not: so the time does not tell who exists, nor whose hash is cheap.
    pub fn check(&self, user: &str, password: &[u8]) -> bool {
        self.check_by(user, |hash| hash.is_of(password))
    }

    fn check_by(&self, user: &str, mut is_of: impl FnMut(&Hash) -> bool) -> bool {
        let hash = self.0.hashes.get(user);
        let mut is_right = false;
        for kind in &self.0.kinds {
            let own = hash.filter(|it| it.kind == kind.kind);
            let matches = is_of(own.unwrap_or(kind));
            is_right |= own.is_some() && matches;
        }
        is_right
    }

    /// The hash of a user's password.
    pub(crate) fn hash_of(&self, user: &str) -> Option<&str> {
        self.0.hashes.get(user).map(|hash| hash.text.as_str())
    }

    /// How many kinds of hashes there are.
    pub fn kinds(&self) -> usize {
        self.0.kinds.len()
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
        let kind = format!("bcrypt {cost}");
        Ok(Self { function: Function::Bcrypt, text: text.to_owned(), kind })
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
        let kind =
            format!("{} m={memory} t={passes} p={}", hash.algorithm.as_str(), params.p_cost());
        Ok(Self { function: Function::Argon2, text: text.to_owned(), kind })
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
        let kind = format!("SHA-crypt ${id}$ rounds={cost}");
        Ok(Self { function: Function::ShaCrypt, text: text.to_owned(), kind })
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

    /// The kinds of hashes that a check of a user computes.
    fn computed(users: &Users, user: &str, is_right: bool) -> Vec<String> {
        let mut kinds = Vec::new();
        let admitted = users.check_by(user, |hash| {
            kinds.push(hash.kind.clone());
            is_right
        });
        assert_eq!(admitted, is_right && users.hash_of(user).is_some(), "{user}");
        kinds
    }

    #[test]
    fn the_same_kinds_of_hashes_are_computed_for_every_user_whether_it_exists_or_not() {
        const SHA: &str = "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5";
        let bcrypt = |cost: &str| {
            format!("$2y${cost}$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW")
        };
        let sha = |rounds: u32| SHA.replace("$5$", &format!("$5$rounds={rounds}$"));
        let argon = |memory: u32| {
            format!(
                "$argon2id$v=19$m={memory},t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
            )
        };
        for (hashes, kinds) in [
            ([bcrypt("05"), bcrypt("11"), bcrypt("10")], 3),
            ([bcrypt("10"), bcrypt("10"), bcrypt("10")], 1),
            ([SHA.to_owned(), sha(5000), sha(100_000)], 2),
            ([argon(65_536), argon(8), SHA.to_owned()], 3),
            ([SHA.to_owned(), bcrypt("12"), argon(19_456)], 3),
        ] {
            let text = format!("ann:{}\nbob:{}\nzed:{}\n", hashes[0], hashes[1], hashes[2]);
            let users = Users::parse(&text).unwrap_or_else(|why| panic!("{text}: {why}"));
            let of_a_stranger = computed(&users, "eve", true);
            assert_eq!((of_a_stranger.len(), users.kinds()), (kinds, kinds), "{text}");
            for user in ["ann", "bob", "zed"] {
                for is_right in [true, false] {
                    assert_eq!(computed(&users, user, is_right), of_a_stranger, "{user}: {text}");
                }
            }
        }
        let lines: Vec<String> =
            (5..10).map(|cost| format!("u{cost}:{}", bcrypt(&format!("{cost:02}")))).collect();
        assert!(
            Users::parse(&lines.join("\n")).unwrap_err().contains("5 kinds"),
            "each costs time"
        );
    }

    #[test]
    fn a_hash_of_one_kind_does_not_open_for_the_password_of_another() {
        let users = Users::parse(&format!("ann:{}\nbob:{}\n", KNOWN[0].1, KNOWN[4].1)).unwrap();
        for (user, password, is_right) in [
            ("ann", KNOWN[0].0, true),
            ("ann", KNOWN[4].0, false),
            ("bob", KNOWN[4].0, true),
            ("bob", KNOWN[0].0, false),
            ("eve", KNOWN[0].0, false),
            ("eve", KNOWN[4].0, false),
        ] {
            assert_eq!(users.check(user, password.as_bytes()), is_right, "{user} {password}");
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

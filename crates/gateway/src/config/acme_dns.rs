//! `[tls.acme.dns]`: proofs by records in DNS (dns-01), which nightwatt adds and removes by itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nightwatt_energy::duration_text;
use serde::Deserialize;

use super::{Wrong, named_file, wrong};
use crate::authority::{Authority, is_name};

/// No file of a key is longer.
const LONGEST: usize = 64 << 10;

/// How records in DNS are changed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DnsConfig {
    /// The primary server of the zone, which takes updates (RFC 2136): `ns.example.org`, `10.0.0.1:53`.
    pub server: Option<String>,
    /// The file of the key that signs updates (TSIG), as `tsig-keygen` or `keymgr -t` writes it.
    pub key_file: Option<PathBuf>,
    /// A program that adds and removes records, instead of a server: name and arguments.
    pub hook: Option<Vec<String>>,
    /// Limit for one run of it.
    #[serde(default = "default_hook_timeout", with = "duration_text")]
    pub hook_timeout: Duration,
    /// Servers that must have the record before the authority is asked to look; default: `server`.
    pub check: Option<Vec<String>>,
    /// How long to wait for that.
    #[serde(default = "default_propagation", with = "duration_text")]
    pub propagation: Duration,
    /// The key in `key_file`, which is read with the configuration.
    #[serde(skip)]
    pub key: Option<TsigKey>,
}

/// A key shared with a server (RFC 8945), for HMAC-SHA256.
#[derive(Clone, PartialEq, Eq)]
pub struct TsigKey {
    /// Its name, in lower case and without the final dot.
    pub name: String,
    /// The secret.
    pub secret: Vec<u8>,
}

impl std::fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TsigKey").field("name", &self.name).finish_non_exhaustive()
    }
}

fn default_hook_timeout() -> Duration {
    Duration::from_mins(1)
}

fn default_propagation() -> Duration {
    Duration::from_mins(2)
}

impl TsigKey {
    /// Reads a key as BIND has it (`key "name" { algorithm hmac-sha256; secret "…"; };`), or in one line
    /// (`hmac-sha256:name:secret`, in a comment too, as Knot writes it).
    pub fn parse(text: &str) -> Result<Self, String> {
        let line = text.lines().map(|line| line.trim_start_matches(['#', ' ']).trim());
        let parts = line.filter_map(|line| {
            let (algorithm, rest) = line.split_once(':')?;
            let (name, secret) = rest.split_once(':')?;
            algorithm.starts_with("hmac-").then_some([algorithm, name, secret])
        });
        let [algorithm, name, secret] = match parts.take(1).last() {
            Some(parts) => parts.map(str::to_owned),
            None => Self::of_bind(text)?,
        };
        if !algorithm.trim_end_matches('.').eq_ignore_ascii_case("hmac-sha256") {
            return Err(format!(
                "its algorithm is `{algorithm}`, and nightwatt signs by hmac-sha256 only: make a key by \
                 `tsig-keygen -a hmac-sha256 NAME`"
            ));
        }
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if !is_name(&name) {
            return Err(format!("`{name}` is not a name of a key"));
        }
        let secret = STANDARD.decode(&secret).ok().filter(|it| !it.is_empty());
        Ok(Self { name, secret: secret.ok_or("its secret is not base64")? })
    }

    fn of_bind(text: &str) -> Result<[String; 3], String> {
        let text: String =
            text.lines().map(|line| without_comment(line).to_owned() + " ").collect();
        let spaced = text.replace(['{', '}', ';'], " ").replace('"', " ");
        let mut words = spaced.split_whitespace();
        let mut after = |word: &str| {
            words.by_ref().find(|it| *it == word)?;
            words.next().map(str::to_owned)
        };
        let found = (|| Some([after("key")?, after("algorithm")?, after("secret")?]))();
        let [name, algorithm, secret] = found.ok_or(
            "it has no `key \"NAME\" { algorithm hmac-sha256; secret \"…\"; };`, as `tsig-keygen` writes",
        )?;
        Ok([algorithm, name, secret])
    }

    fn read(path: &Path) -> Result<Self, String> {
        let bytes = named_file::read(path, "Write the key there, as `tsig-keygen NAME` prints it")?;
        let text = String::from_utf8(bytes).ok().filter(|it| it.len() <= LONGEST);
        Self::parse(&text.ok_or("it is not a file of a key")?)
    }
}

/// A line without what `//` begins. In quotes it begins nothing: one in a hundred secrets has it.
fn without_comment(line: &str) -> &str {
    let is_outside = |(at, _): &(usize, &str)| line[..*at].matches('"').count().is_multiple_of(2);
    line.match_indices("//").find(is_outside).map_or(line, |(at, _)| &line[..at])
}

impl DnsConfig {
    pub(super) fn check(&self) -> Result<(), Wrong> {
        match (&self.server, &self.hook) {
            (Some(_), None) => {}
            (None, Some(hook)) if !hook.is_empty() => {}
            _ => {
                let text = "write `server` with `key_file` (a server that takes updates), or `hook` (a program that \
                            changes records), one of the two";
                return wrong("tls.acme.dns", text);
            }
        }
        if self.server.is_some() != self.key_file.is_some() {
            let text = "`server` takes signed updates only: write both `server` and `key_file`";
            return wrong("tls.acme.dns", text);
        }
        let checked = self.check.iter().flatten().map(|it| ("check", it));
        for (key, server) in self.server.iter().map(|it| ("server", it)).chain(checked) {
            if Authority::parse(server).is_none() {
                let text = format!(
                    "`{server}` is not where a server can be: `ns.example.org`, `10.0.0.1:53`"
                );
                return wrong(format!("tls.acme.dns.{key}"), text);
            }
        }
        Ok(())
    }

    /// Reads the file of its key.
    pub(super) fn read(&mut self) -> Result<(), Wrong> {
        let Some(path) = &self.key_file else { return Ok(()) };
        let key = TsigKey::read(path)
            .map_err(|why| named_file::wrong("tls.acme.dns.key_file", path, &why))?;
        self.key = Some(key);
        Ok(())
    }

    /// The longest time that the records of so many names may take, one after another.
    pub(crate) fn takes(&self, names: u32) -> Duration {
        let servers = u32::try_from(self.checked().len()).unwrap_or(u32::MAX);
        let each = self.propagation.saturating_mul(servers).saturating_add(self.hook_timeout);
        each.saturating_mul(names)
    }

    /// The servers that must have a record before the authority is asked to look.
    pub(crate) fn checked(&self) -> Vec<&str> {
        match &self.check {
            Some(servers) => servers.iter().map(String::as_str).collect(),
            None => self.server.iter().map(String::as_str).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_records_of_each_name_may_take_the_hook_and_all_servers_their_time() {
        let text =
            "hook = [\"h\"]\nhook_timeout = \"1m\"\npropagation = \"4m\"\ncheck = [\"a\", \"b\"]";
        let dns: DnsConfig = toml::from_str(text).unwrap();
        assert_eq!(dns.takes(3), Duration::from_mins(3 * (1 + 2 * 4)));
        let alone: DnsConfig = toml::from_str("hook = [\"h\"]").unwrap();
        assert_eq!(alone.takes(2), Duration::from_mins(2), "no server is asked");
    }

    #[test]
    fn keys_are_read_as_bind_and_knot_write_them() {
        // RFC 4648, 10: "foobar".
        let key = TsigKey { name: "acme.example".to_owned(), secret: b"foobar".to_vec() };
        for text in [
            "key \"ACME.example\" {\n\talgorithm hmac-sha256;\n\tsecret \"Zm9vYmFy\";\n};\n",
            "// mine\nkey acme.example. { algorithm HMAC-SHA256; secret \"Zm9vYmFy\"; };",
            "# hmac-sha256:acme.example:Zm9vYmFy\nkey:\n  - id: acme.example\n",
            "hmac-sha256:acme.example.:Zm9vYmFy",
        ] {
            assert_eq!(TsigKey::parse(text).as_ref(), Ok(&key), "{text}");
        }
        let slashes = "key \"a.b\" { algorithm hmac-sha256; secret \"////\"; }; // mine";
        assert_eq!(TsigKey::parse(slashes).map(|it| it.secret), Ok(vec![0xff; 3]));
        for (text, why) in [
            ("", "has no `key"),
            ("key \"a.b\" { algorithm hmac-sha512; secret \"Zm9vYmFy\"; };", "hmac-sha256 only"),
            ("hmac-md5:a.b:Zm9vYmFy", "hmac-sha256 only"),
            ("hmac-sha256:a.b:Zm9vYmF", "not base64"),
            ("hmac-sha256:a b:Zm9vYmFy", "not a name of a key"),
        ] {
            assert!(TsigKey::parse(text).unwrap_err().contains(why), "{text}");
        }
        assert!(!format!("{key:?}").contains("102"), "no secret is printed: {key:?}");
    }
}

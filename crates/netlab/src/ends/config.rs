//! What the ends of a link are, as the user says it. Pure.
//!
//! ```toml
//! [sender]
//! kind = "ssh"
//! host = "10.0.0.1"
//! card = "eth1"
//!
//! [receiver]
//! kind = "host"
//! card = "eth1"
//! address = "10.1.0.2"
//! ```

use nightwatt_environments::{Common, EnvironmentConfig, KindConfig, host, ssh};
use serde::Deserialize;
use toml::{Table, Value};

use super::Error;

/// What the two ends of a link are.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum EndsConfig {
    /// Two networks of their own on this machine.
    #[default]
    Namespaces,
    /// Two guests, joined by a private wire: the sender and the receiver.
    Guests(Box<[EndConfig; 2]>),
    /// Two machines, joined by the network that is there.
    Hosts(Box<[EndConfig; 2]>),
}

/// One end.
#[derive(Debug, Clone, PartialEq)]
pub struct EndConfig {
    /// Where its programs run.
    pub environment: EnvironmentConfig,
    /// The other end reaches it here.
    pub address: Option<String>,
    /// The card that the link is emulated on. Unless it is named nothing is emulated: all else that goes
    /// out of it is slowed down as well.
    pub card: Option<String>,
    /// Our own program, as it is called there. Otherwise it is carried there.
    pub program: Option<String>,
    /// The meters are those of this machine.
    pub is_metered: bool,
}

/// The keys of an end that its environment does not know.
const OWN: [&str; 4] = ["address", "card", "program", "metered"];

/// What makes an end of a guest, or of a machine.
const HINT: &str = "docs/tcp-lab.md says what ends there are";

impl EndConfig {
    /// As the command line has it: `here`, or `ssh:USER@HOST:PORT`, where user and port may be left out.
    pub fn from_words(name: &str, words: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            Error::Options(format!("`{words}` is no end: {why}; write `here` or `ssh:USER@HOST`"))
        };
        let kind = if words == "here" {
            KindConfig::Host(host::Config {})
        } else {
            let at = words.strip_prefix("ssh:").ok_or_else(|| wrong("no `ssh:`"))?;
            let (user, rest) = match at.rsplit_once('@') {
                Some((user, rest)) => (Some(user.to_owned()), rest),
                None => (None, at),
            };
            // An address of IPv6 has colons of its own, and stands in brackets where a port follows.
            let bare = |host: &str| host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let (host, port) = match rest.rsplit_once(':') {
                Some((host, port)) if host.ends_with(']') || !host.contains(':') => {
                    let port = port.parse().map_err(|_| wrong("no port behind the colon"))?;
                    (bare(host), Some(port))
                }
                _ => (bare(rest), None),
            };
            if host.is_empty() || user.as_ref().is_some_and(String::is_empty) {
                return Err(wrong("no host"));
            }
            if host.starts_with('-') {
                return Err(wrong("ssh would take that for an option"));
            }
            let login = ssh::Login { user, port, ..ssh::Login::default() };
            KindConfig::Ssh(ssh::Config { host, login })
        };
        let environment = EnvironmentConfig { common: Common::named(name), kind };
        Self::of(environment, Table::new()).map_err(|why| wrong(&why))
    }

    fn from_table(name: &str, mut table: Table) -> Result<Self, String> {
        let own = OWN.iter().filter_map(|key| Some(((*key).to_owned(), table.remove(*key)?)));
        let own = own.collect();
        if table.insert("name".to_owned(), Value::String(name.to_owned())).is_some() {
            return Err("it has a name already, so leave `name` out".to_owned());
        }
        let environment = table.try_into::<EnvironmentConfig>();
        Self::of(environment.map_err(|error| error.message().to_owned())?, own)
    }

    fn of(environment: EnvironmentConfig, own: Table) -> Result<Self, String> {
        #[derive(Deserialize, Default)]
        struct Own {
            address: Option<String>,
            card: Option<String>,
            program: Option<String>,
            metered: Option<bool>,
        }
        let Own { address, card, program, metered } =
            own.try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
        if environment.common.copies > 1 || environment.common.within.is_some() {
            return Err("there is one of it, and it is not `within` anything".to_owned());
        }
        let is_here = matches!(environment.kind, KindConfig::Host(_));
        let is_metered = metered.unwrap_or(is_here);
        let is_name = |name: &String| {
            name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.@".contains(c)) && name.len() < 16
        };
        if let Some(card) = card.as_ref().filter(|card| !is_name(card)) {
            return Err(format!("`{card}` is no name of a card"));
        }
        Ok(Self { environment, address, card, program, is_metered })
    }

    /// Whether this end is this machine.
    pub fn is_here(&self) -> bool {
        matches!(self.environment.kind, KindConfig::Host(_))
    }

    fn kind(&self) -> &'static str {
        self.environment.kind.name()
    }
}

impl EndsConfig {
    /// From a file with a table `sender` and a table `receiver`.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Both {
            sender: Table,
            receiver: Table,
        }
        let wrong = |why: &str| Error::Options(format!("{file}: {}; {HINT}", why.trim()));
        let both: Both = toml::from_str(text).map_err(|error| wrong(&error.to_string()))?;
        let end = |name, table| {
            EndConfig::from_table(name, table).map_err(|why| wrong(&format!("`{name}`: {why}")))
        };
        Self::of(end("sender", both.sender)?, end("receiver", both.receiver)?)
    }

    /// What these two are together.
    pub fn of(sender: EndConfig, receiver: EndConfig) -> Result<Self, Error> {
        let ends = Box::new([sender, receiver]);
        let kinds = ends.each_ref().map(EndConfig::kind);
        let refuse = |why: &str| Err(Error::Options(format!("the ends of a link: {why}; {HINT}")));
        match kinds {
            ["qemu", "qemu"] => {
                if ends.iter().any(|it| it.address.is_some() || it.card.is_some()) {
                    return refuse(
                        "guests are given a card and an address of their own; leave both out",
                    );
                }
                if ends.iter().any(|it| it.is_metered) {
                    return refuse(
                        "meters are of the machine on which the guests run, both of them; leave `metered` out",
                    );
                }
                Ok(Self::Guests(ends))
            }
            ["ssh", "ssh" | "host"] | ["host", "ssh"] => {
                if ends.iter().all(|it| it.is_metered) {
                    return refuse("a meter is of one machine; leave `metered` out at one of them");
                }
                Ok(Self::Hosts(ends))
            }
            ["host", "host"] => refuse(
                "one of them is another machine; without any ends, both are networks on this one",
            ),
            [one, other] => refuse(&format!(
                "two of kind `qemu`, or two of kind `ssh` or `host` (this machine), and not `{one}` and `{other}`"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of a guest.
    const GUEST: &str = "kind = \"qemu\"\ndisk = \"d\"";

    fn words(text: &str) -> Result<ssh::Config, String> {
        match EndConfig::from_words("sender", text).map_err(|error| error.to_string())? {
            EndConfig {
                environment: EnvironmentConfig { kind: KindConfig::Ssh(config), .. },
                ..
            } => Ok(config),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn a_machine_is_named_as_ssh_does_it() {
        let all = words("ssh:root@10.0.0.1:2222").unwrap();
        assert_eq!((all.host.as_str(), all.login.port), ("10.0.0.1", Some(2222)));
        assert_eq!(all.login.user.as_deref(), Some("root"));
        let bare = words("ssh:box").unwrap();
        assert_eq!((bare.host.as_str(), bare.login), ("box", ssh::Login::default()));
        assert_eq!(words("ssh:[fd00::1]:22").unwrap().host, "fd00::1");
        assert_eq!(words("ssh:fd00::1").unwrap().login.port, None, "no port without brackets");
        for wrong in ["box", "ssh:", "ssh:@box", "ssh:box:x", "tcp:box", "ssh:-oProxyCommand=id"] {
            assert!(words(wrong).unwrap_err().contains("ssh:USER@HOST"), "{wrong}");
        }
        let here = EndConfig::from_words("receiver", "here").unwrap();
        assert!(here.is_metered, "the meters are of this machine");
    }

    #[test]
    fn a_file_says_what_environments_know_and_what_links_need() {
        let text = "[sender]\nkind = \"ssh\"\nhost = \"a\"\ncard = \"eth1\"\naddress = \"10.0.0.1\"\n\
                    [receiver]\nkind = \"host\"\nprogram = \"/opt/nightwatt\"";
        let EndsConfig::Hosts(ends) = EndsConfig::from_toml("f", text).unwrap() else {
            panic!("two machines")
        };
        assert_eq!(ends[0].card.as_deref(), Some("eth1"));
        assert_eq!(ends[1].program.as_deref(), Some("/opt/nightwatt"));
        assert_eq!([ends[0].is_metered, ends[1].is_metered], [false, true]);
        let guests = format!("[sender]\n{GUEST}\n[receiver]\n{GUEST}\naccel = \"tcg\"");
        assert!(matches!(EndsConfig::from_toml("f", &guests), Ok(EndsConfig::Guests(_))));
    }

    #[test]
    fn ends_that_cannot_be_joined_are_refused_with_the_reason() {
        let ssh = "kind = \"ssh\"\nhost = \"a\"";
        let guest = |more: &str| format!("{GUEST}\n{more}");
        for (sender, receiver, said) in [
            ("kind = \"host\"", "kind = \"host\"", "another machine"),
            (GUEST, ssh, "`qemu` and `ssh`"),
            ("kind = \"podman\"", "kind = \"podman\"", "two of kind"),
            (&guest("card = \"eth1\""), GUEST, "leave both out"),
            (&guest("metered = true"), GUEST, "both of them"),
            ("kind = \"host\"", "kind = \"ssh\"\nhost = \"a\"\nmetered = true", "one machine"),
            (ssh, "kind = \"ssh\"\nhost = \"a\"\ncard = \"a b\"", "`a b`"),
            (ssh, "kind = \"ssh\"\nhost = \"a\"\ncrad = \"x\"", "crad"),
            (ssh, "kind = \"ssh\"\nhost = \"a\"\nname = \"x\"", "leave `name` out"),
            (ssh, "kind = \"ssh\"\nhost = \"a\"\ncopies = 2", "one of it"),
        ] {
            let text = format!("[sender]\n{sender}\n[receiver]\n{receiver}");
            let error = EndsConfig::from_toml("f", &text).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("docs/tcp-lab.md"), "{error}");
        }
        assert!(EndsConfig::from_toml("f", "[sender]\nkind = \"host\"").is_err(), "one alone");
    }
}

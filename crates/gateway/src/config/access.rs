//! `[site.access]`: who may come in, and who may wake the server.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::Deserialize;

use super::client_certificates::Vouchers;
use super::forward_auth::ForwardAuthConfig;
use super::htpasswd::Users;
use super::{
    Config, Network, OddEvents, SiteConfig, Wrong, holidays, named_file, read_holidays, wrong,
};

/// The rules for the clients of a site. They hold for all of its paths.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessConfig {
    /// Only clients of these networks come in; default: all.
    pub allow: Option<Vec<Network>>,
    /// Clients of these do not, even if `allow` has them.
    pub deny: Vec<Network>,
    /// A file of users and hashes of their passwords: clients need one (HTTP Basic).
    pub htpasswd: Option<PathBuf>,
    /// A service that decides about each request, instead of passwords here; default: none.
    pub forward: Option<ForwardAuthConfig>,
    /// A file of authorities: clients need a certificate of one of them.
    pub certificate_ca: Option<PathBuf>,
    /// What the password is for, shown by browsers; default: the site's name.
    pub realm: Option<String>,
    /// Clients of these networks need no password.
    pub without_password: Vec<Network>,
    /// Only clients of these networks wake the server; default: all.
    pub wake: Option<Vec<Network>>,
    /// Clients of these do not wake it, even if `wake` has them.
    pub never_wake: Vec<Network>,
    /// Clients of these are monitors: they are answered with what the proxy knows.
    pub monitors: Vec<Network>,
    /// The users in that file.
    #[serde(skip)]
    pub users: Users,
    /// The authorities in the other file.
    #[serde(skip)]
    pub vouchers: Vouchers,
}

fn is_in(networks: &[Network], client: Option<IpAddr>) -> bool {
    client.is_some_and(|client| networks.iter().any(|network| network.contains(client)))
}

fn may_be_in(networks: &[Network], client: Option<IpAddr>) -> bool {
    if client.is_some() { is_in(networks, client) } else { !networks.is_empty() }
}

/// Of clients whose address is not certain, nothing good is assumed.
impl AccessConfig {
    /// Whether clients at an address come in.
    pub(crate) fn lets_in(&self, client: Option<IpAddr>) -> bool {
        let allowed = self.allow.as_ref().is_none_or(|allow| is_in(allow, client));
        allowed && !may_be_in(&self.deny, client)
    }

    /// Whether clients at an address have to show a password.
    pub(crate) fn needs_password(&self, client: Option<IpAddr>) -> bool {
        self.htpasswd.is_some() && !self.is_without_password(client)
    }

    /// Whether clients at an address need to show neither a password nor what a service asks for.
    pub(crate) fn is_without_password(&self, client: Option<IpAddr>) -> bool {
        is_in(&self.without_password, client)
    }

    /// Whether one of the authorities that vouch for a client opens the site.
    pub(crate) fn has_certificate(&self, vouchers: Option<&[u64]>) -> bool {
        let is_ours = |numbers: &[u64]| numbers.iter().any(|it| self.vouchers.have(*it));
        self.certificate_ca.is_none() || vouchers.is_some_and(is_ours)
    }

    /// Whether clients at an address may wake the server.
    pub(crate) fn may_wake(&self, client: Option<IpAddr>) -> bool {
        let allowed = self.wake.as_ref().is_none_or(|wake| is_in(wake, client));
        allowed && !may_be_in(&self.never_wake, client)
    }

    /// Whether clients at an address are monitors.
    pub(crate) fn is_monitor(&self, client: Option<IpAddr>) -> bool {
        is_in(&self.monitors, client)
    }

    /// The networks whose clients have more rights than others.
    pub fn favoured(&self) -> impl Iterator<Item = &Network> {
        let named = self.allow.iter().chain(&self.wake).flatten();
        named.chain(&self.without_password)
    }

    /// Whether clients at an address have more rights than others.
    pub(crate) fn favours(&self, client: IpAddr) -> bool {
        self.lets_in(Some(client)) && self.favoured().any(|network| network.contains(client))
    }

    /// Warns of lists that have all addresses of one family, and none of the other.
    pub fn one_family(&self) -> Vec<String> {
        let lists = [
            ("allow", self.allow.as_deref().unwrap_or_default()),
            ("deny", self.deny.as_slice()),
            ("without_password", self.without_password.as_slice()),
            ("wake", self.wake.as_deref().unwrap_or_default()),
            ("never_wake", self.never_wake.as_slice()),
            ("monitors", self.monitors.as_slice()),
        ];
        let half = |key: &str, networks: &[Network]| {
            let by_ipv4 = networks.iter().find(|it| it.is_all())?.is_ipv4();
            let (all, none, add) =
                if by_ipv4 { ("IPv4", "IPv6", "::/0") } else { ("IPv6", "IPv4", "0.0.0.0/0") };
            networks.iter().all(|it| it.is_ipv4() == by_ipv4).then(|| {
                format!(
                    "`{key}` has all addresses of {all} and none of {none}: if it is for all clients, add `{add}`"
                )
            })
        };
        lists.into_iter().filter_map(|(key, networks)| half(key, networks)).collect()
    }

    /// Warns of monitors that have to log in: the list alone does not let them in.
    pub fn monitors_that_log_in(&self) -> Option<String> {
        if self.htpasswd.is_none() && self.forward.is_none() {
            return None;
        }
        let is_open = |it: &&Network| self.without_password.iter().any(|open| it.is_within(open));
        let closed = self.monitors.iter().filter(|it| !is_open(it)).map(ToString::to_string);
        let closed = closed.collect::<Vec<_>>().join(", ");
        (!closed.is_empty()).then(|| {
            format!(
                "`monitors` log in as other clients do: if those of {closed} cannot, name them in `without_password` \
                 too"
            )
        })
    }

    fn check_passwords(&self) -> Result<(), Wrong> {
        if self.realm.is_some() && self.htpasswd.is_none() {
            let text = "`realm` has no effect without `htpasswd`, the file of passwords";
            return wrong("realm", text);
        }
        if !self.without_password.is_empty() && self.htpasswd.is_none() && self.forward.is_none() {
            let text = "`without_password` has no effect without `htpasswd`, the file of passwords, or `forward`";
            return wrong("without_password", text);
        }
        if self.htpasswd.is_some() && self.forward.is_some() {
            let text = "`htpasswd` and `forward` both ask for a password: leave one of them out";
            return wrong("htpasswd", text);
        }
        let forward = self.forward.as_ref().map_or(Ok(()), ForwardAuthConfig::check);
        forward.map_err(|it| it.within("forward"))
    }

    fn check(&self, config: &Config) -> Result<(), Wrong> {
        for (key, networks) in [("allow", &self.allow), ("wake", &self.wake)] {
            if networks.as_ref().is_some_and(Vec::is_empty) {
                let text = format!(
                    "`{key}` is empty, which no client satisfies: leave it out for all clients, or name networks, \
                     as in `{key} = [\"192.168.0.0/16\", \"fd00::/8\"]`"
                );
                return wrong(key, text);
            }
        }
        self.check_passwords()?;
        let plain = |c: char| c == ' ' || c.is_ascii_graphic() && !matches!(c, '"' | '\\');
        if let Some(realm) =
            self.realm.as_ref().filter(|it| it.is_empty() || !it.chars().all(plain))
        {
            let text = format!(
                "`realm` is `{realm}`: write printable ASCII characters without quotes and backslashes"
            );
            return wrong("realm", text);
        }
        if self.certificate_ca.is_some() && config.tls.is_none() {
            let text = "`certificate_ca` needs TLS, by which clients show their certificates: add a `[tls]` table";
            return wrong("certificate_ca", text);
        }
        if config.gate.is_some() {
            let text = "another proxy asks by `[gate]`, and its clients do not come through here: let that proxy \
                        control the access, and leave out `[site.access]` or `[gate]`";
            return wrong("", text);
        }
        Ok(())
    }
}

impl SiteConfig {
    /// Checks its rules of access.
    pub(super) fn check_access(&self, config: &Config) -> Result<(), Wrong> {
        let Some(access) = &self.access else { return Ok(()) };
        if let Some(tcp) = config.tcp.iter().find(|tcp| tcp.on == self.name) {
            let text = format!(
                "`[site.access]` does not hold for connections to `{}`, and these could wake the server: put that \
                 `[[tcp]]` service on a site or machine without `[site.access]`; it has an `allow` of its own",
                tcp.name
            );
            return wrong("access", text);
        }
        if let Some(udp) = config.udp.iter().find(|udp| udp.on == self.name) {
            let text = format!(
                "`[site.access]` does not hold for datagrams to `{}`, and these could wake the server: put that \
                 `[[udp]]` service on a site or machine without `[site.access]`; it has an `allow` of its own",
                udp.name
            );
            return wrong("access", text);
        }
        if access.forward.is_some() && self.hosts.is_empty() {
            let text = "`forward` needs `hosts`: without them the client chooses the name by which the service finds \
                        its rules, and could take one that is open to all. Write the names of this site, as in \
                        `hosts = [\"cloud.example.org\"]`";
            return wrong("access.forward", text);
        }
        access.check(config).map_err(|it| it.within("access"))
    }

    /// Reads the files of its holidays, users and authorities, if it has them.
    pub(super) fn read_files(&mut self, odd: OddEvents) -> Result<(), Wrong> {
        let scenario = self.scenario.as_mut();
        let read = scenario.map_or(Ok(()), |scenario| read_holidays(scenario, odd));
        read.map_err(|text| holidays::wrong(&text))?;
        self.read_access()
    }

    fn read_access(&mut self) -> Result<(), Wrong> {
        let Some(access) = &mut self.access else { return Ok(()) };
        if let Some(path) = &access.certificate_ca {
            access.vouchers = Vouchers::read(path)
                .map_err(|why| named_file::wrong("access.certificate_ca", path, &why))?;
        }
        let Some(path) = &access.htpasswd else { return Ok(()) };
        access.users =
            Users::read(path).map_err(|why| named_file::wrong("access.htpasswd", path, &why))?;
        Ok(())
    }
}

impl Config {
    /// Certificates of clients are accepted from the authorities of all sites.
    pub(super) fn gather_authorities(&mut self) {
        let vouchers = self.site.iter().filter_map(|site| site.access.as_ref());
        let authorities = vouchers.flat_map(|access| access.vouchers.all()).cloned().collect();
        if let Some(tls) = &mut self.tls {
            tls.client_authorities = authorities;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &str) -> Result<AccessConfig, String> {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\norigin = \"http://127.0.0.1:1\"\n\
             power.simulated = {{}}\n[site.access]\n{lines}\n"
        );
        let config = Config::parse(&text, "test.toml").map_err(|error| error.to_string())?;
        Ok(config.site[0].access.clone().unwrap())
    }

    #[test]
    fn deny_and_never_wake_have_the_last_word() {
        let access = parse(
            "allow = [\"10.0.0.0/8\", \"fd00::/8\"]\ndeny = [\"10.6.0.0/16\"]\nwake = [\"10.0.0.0/9\"]\n\
             never_wake = [\"10.0.0.9\"]\nmonitors = [\"10.0.0.8\"]",
        )
        .unwrap();
        for (client, comes_in, wakes) in [
            ("10.0.0.1", true, true),
            ("::ffff:10.0.0.1", true, true),
            ("10.0.0.9", true, false),
            ("10.200.0.1", true, false),
            ("10.6.1.1", false, true),
            ("11.0.0.1", false, false),
            ("fd00::1", true, false),
            ("::1", false, false),
        ] {
            let client = client.parse().ok();
            assert_eq!(
                (access.lets_in(client), access.may_wake(client)),
                (comes_in, wakes),
                "{client:?}"
            );
        }
        let monitor = "10.0.0.8".parse().ok();
        assert!(access.is_monitor(monitor));
        assert!(!access.needs_password(monitor), "there are none");
    }

    #[test]
    fn a_client_that_is_not_certain_has_the_rights_of_all() {
        for (lines, comes_in, wakes) in [
            ("", true, true),
            ("allow = [\"0.0.0.0/0\", \"::/0\"]", false, true),
            ("deny = [\"10.0.0.0/8\"]", false, true),
            ("wake = [\"10.0.0.0/8\"]", true, false),
            ("never_wake = [\"10.0.0.0/8\"]", true, false),
            ("monitors = [\"0.0.0.0/0\"]", true, true),
        ] {
            let access = parse(lines).unwrap();
            assert_eq!((access.lets_in(None), access.may_wake(None)), (comes_in, wakes), "{lines}");
            assert!(!access.is_monitor(None), "{lines}");
        }
        let access = parse("htpasswd = \"/x\"\nwithout_password = [\"0.0.0.0/0\"]").unwrap();
        assert!(access.needs_password(None));
    }

    #[test]
    fn a_list_with_all_addresses_of_one_family_alone_is_warned_of() {
        for (lines, warned) in [
            ("never_wake = [\"0.0.0.0/0\"]", &["`never_wake` has all addresses of IPv4"][..]),
            ("deny = [\"::/0\", \"fd00::/8\"]", &["`deny` has all addresses of IPv6"]),
            (
                "allow = [\"0.0.0.0/0\"]\nwake = [\"::ffff:0:0/96\"]",
                &["`allow` has all addresses of IPv4", "`wake` has all addresses of IPv4"],
            ),
            ("never_wake = [\"0.0.0.0/0\", \"::/0\"]", &[]),
            ("allow = [\"0.0.0.0/0\", \"fd00::/8\"]", &[]),
            ("monitors = [\"10.0.0.0/8\"]", &[]),
            ("", &[]),
        ] {
            let said = parse(lines).unwrap().one_family();
            assert_eq!(said.len(), warned.len(), "{lines}: {said:?}");
            for (said, warned) in said.iter().zip(warned) {
                assert!(said.starts_with(warned), "{lines}: {said}");
            }
        }
    }

    #[test]
    fn monitors_that_have_to_log_in_are_warned_of() {
        let monitors = "monitors = [\"10.0.0.8\", \"10.1.0.0/16\", \"fd00::8\"]";
        for (lines, warned) in [
            ("", None),
            ("htpasswd = \"/x\"", Some("10.0.0.8/32, 10.1.0.0/16, fd00::8/128")),
            (
                "forward = { url = \"http://127.0.0.1:1/\" }",
                Some("10.0.0.8/32, 10.1.0.0/16, fd00::8/128"),
            ),
            // A half of a network is not all of it.
            (
                "htpasswd = \"/x\"\nwithout_password = [\"10.0.0.0/24\", \"10.1.0.0/17\"]",
                Some("10.1.0.0/16, fd00::8/128"),
            ),
            ("htpasswd = \"/x\"\nwithout_password = [\"10.0.0.0/8\", \"::/0\"]", None),
        ] {
            // A service of `forward` needs `hosts`, which `parse` leaves out.
            let access: AccessConfig = toml::from_str(&format!("{monitors}\n{lines}")).unwrap();
            let said = access.monitors_that_log_in();
            let expected = warned.map(|it| format!("if those of {it} cannot"));
            assert_eq!(said.is_some(), expected.is_some(), "{lines}: {said:?}");
            let said = said.unwrap_or_default();
            assert!(said.contains(&expected.unwrap_or_default()), "{lines}: {said}");
        }
    }

    #[test]
    fn without_rules_all_come_in_and_wake() {
        let access = parse("").unwrap();
        let client = "192.0.2.1".parse().ok();
        assert!(access.lets_in(client) && access.may_wake(client) && !access.is_monitor(client));
    }

    #[test]
    fn what_has_no_effect_or_shuts_all_out_is_refused_with_its_line() {
        for (lines, place, why) in [
            ("allow = []", "test.toml:7:", "which no client satisfies"),
            ("wake = []", "test.toml:7:", "which no client satisfies"),
            ("deny = [\"10.0.0.0/33\"]", "test.toml:7:", "is not a network"),
            ("deny = [\"example.org\"]", "test.toml:7:", "is not a network"),
            ("realm = \"x\"", "test.toml:7:", "without `htpasswd`"),
            ("without_password = [\"::1\"]", "test.toml:7:", "without `htpasswd`"),
            ("htpasswd = \"/x\"\nrealm = 'say \"x\"'", "test.toml:8:", "without quotes"),
            ("network = []", "test.toml:7:", "unknown key"),
        ] {
            let said = parse(lines).unwrap_err();
            assert!(said.starts_with(place) && said.contains(why), "{lines}: {said}");
        }
    }

    #[test]
    fn a_tcp_service_on_a_site_with_rules_is_refused() {
        let text = "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\norigin = \"http://127.0.0.1:1\"\n\
                    power.simulated = {}\n[[tcp]]\nname = \"ssh\"\nlisten = [\"127.0.0.1:0\"]\n\
                    origin = \"127.0.0.1:22\"\non = \"blog\"\n";
        let config = |text: &str| Config::parse(text, "test.toml").map_err(|it| it.to_string());
        assert_eq!(config(text).map(drop), Ok(()));
        let closed = text.replace("[[tcp]]", "[site.access]\ndeny = [\"10.0.0.0/8\"]\n[[tcp]]");
        let said = config(&closed).unwrap_err();
        assert!(said.contains("`[site.access]` does not hold for connections to `ssh`"), "{said}");
    }

    #[test]
    fn the_users_are_read_with_the_file_and_a_bad_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let users = folder.path().join("users");
        let file = folder.path().join("nightwatt.toml");
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\norigin = \"http://127.0.0.1:1\"\n\
             power.simulated = {{}}\n[site.access]\nhtpasswd = \"{}\"\n",
            users.display()
        );
        std::fs::write(&file, text).unwrap();
        let said = Config::load(&file).unwrap_err().to_string();
        assert!(said.contains("nightwatt.toml:7:") && said.contains("cannot read it"), "{said}");
        std::fs::write(&users, "ann:secret\n").unwrap();
        let said = Config::load(&file).unwrap_err().to_string();
        assert!(said.contains("users: line 1: ") && said.contains("htpasswd -B"), "{said}");
        let hash = "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5";
        std::fs::write(&users, format!("ann:{hash}\n")).unwrap();
        let config = Config::load(&file).unwrap();
        let access = config.site[0].access.as_ref().unwrap();
        assert!(access.users.check("ann", b"Hello world!"));
        let shown = format!("{config:?}");
        assert!(!shown.contains("5B8vYYiY"), "a hash is shown nowhere");
    }
}

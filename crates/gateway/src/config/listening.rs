//! Whether all that is listened for can be: two sockets of Linux never share a port of one address, and one
//! for all addresses has those of each.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Config, TcpOrigin, own};
use crate::authority::Authority;

/// Two values that do not go together.
pub(super) struct Clash {
    /// Their dotted keys.
    pub(super) keys: [String; 2],
    /// What is wrong and what would be right.
    pub(super) text: String,
}

/// Something that is listened for.
struct Listener {
    /// Dotted key of the address.
    key: String,
    address: SocketAddr,
    is_tcp: bool,
    /// Sites are answered for there.
    is_site: bool,
    what: String,
}

impl Listener {
    /// Does what goes to one of these come here?
    fn is_reached_at(&self, addresses: &[SocketAddr]) -> bool {
        addresses.iter().any(|at| own::reaches(self.address, *at, |ip| ip.is_loopback()))
    }
}

/// Every address of a configuration.
fn listeners(config: &Config) -> Vec<Listener> {
    let http = config.listen.iter().enumerate().map(|(at, address)| Listener {
        key: format!("listen.{at}"),
        address: *address,
        is_tcp: false,
        is_site: true,
        what: "HTTP".to_owned(),
    });
    let tls = config.tls.iter().flat_map(|tls| tls.listen.iter().enumerate());
    let tls = tls.map(|(at, address)| Listener {
        key: format!("tls.listen.{at}"),
        address: *address,
        is_tcp: false,
        is_site: true,
        what: "TLS".to_owned(),
    });
    let admin = config.admin.iter().map(|admin| Listener {
        key: "admin.listen".to_owned(),
        address: admin.listen,
        is_tcp: false,
        is_site: false,
        what: "`admin`".to_owned(),
    });
    let tcp = config.tcp.iter().enumerate().flat_map(|(service, tcp)| {
        tcp.listen.iter().enumerate().map(move |(at, address)| Listener {
            key: format!("tcp.{service}.listen.{at}"),
            address: *address,
            is_tcp: true,
            is_site: false,
            what: format!("`{}`", tcp.name),
        })
    });
    let gate = config.gate.iter().flat_map(|gate| gate.listen.iter().enumerate());
    let gate = gate.map(|(at, address)| Listener {
        key: format!("gate.listen.{at}"),
        address: *address,
        is_tcp: false,
        is_site: false,
        what: "`gate`".to_owned(),
    });
    http.chain(tls).chain(admin).chain(tcp).chain(gate).collect()
}

/// Can all of it be listened for, and does no service and no site lead back here?
pub(super) fn check(config: &Config) -> Result<(), Clash> {
    let all = listeners(config);
    for (at, later) in all.iter().enumerate() {
        for first in &all[..at] {
            if let Some(text) = clash(first, later) {
                return Err(Clash { keys: [later.key.clone(), first.key.clone()], text });
            }
        }
    }
    services_lead_elsewhere(config, &all)?;
    datagrams_lead_elsewhere(config)?;
    sites_lead_elsewhere(config, &all)
}

fn services_lead_elsewhere(config: &Config, all: &[Listener]) -> Result<(), Clash> {
    for (index, tcp) in config.tcp.iter().enumerate() {
        let origins = origins(config, &tcp.on, &tcp.origin);
        if let Some(own) = all.iter().find(|it| it.is_tcp && it.is_reached_at(&origins)) {
            let text = format!(
                "`origin` is where nightwatt itself listens, for {}: its connections would loop \
                 forever. Write where the service listens; on this machine that is another port",
                own.what
            );
            return Err(Clash { keys: [format!("tcp.{index}.origin"), own.key.clone()], text });
        }
    }
    Ok(())
}

/// Does no service of datagrams lead back here?
fn datagrams_lead_elsewhere(config: &Config) -> Result<(), Clash> {
    for (index, udp) in config.udp.iter().enumerate() {
        let origins = origins(config, &udp.on, &udp.origin);
        let reached = |own: &SocketAddr| {
            origins.iter().any(|at| own::reaches(*own, *at, |ip| ip.is_loopback()))
        };
        for (other, it) in config.udp.iter().enumerate() {
            let Some(at) = it.listen.iter().position(reached) else { continue };
            let text = format!(
                "`origin` is where nightwatt itself listens, for `{}`: its datagrams would loop forever. Write \
                 where the service listens; on this machine that is another port",
                it.name
            );
            let keys = [format!("udp.{index}.origin"), format!("udp.{other}.listen.{at}")];
            return Err(Clash { keys, text });
        }
    }
    Ok(())
}

fn sites_lead_elsewhere(config: &Config, all: &[Listener]) -> Result<(), Clash> {
    for (index, site) in config.site.iter().enumerate() {
        let servers = site.server.iter().enumerate();
        let servers =
            servers.map(|(at, it)| (format!("site.{index}.server.{at}.origin"), &it.origin));
        let alone =
            (site.server.is_empty()).then(|| (format!("site.{index}.origin"), &site.origin));
        let paths = site.path.iter().enumerate().filter_map(|(at, path)| {
            Some((format!("site.{index}.path.{at}.origin"), path.origin.as_ref()?))
        });
        for (key, origin) in alone.into_iter().chain(servers).chain(paths) {
            let Some(Authority { host, port: Some(port) }) = Authority::parse(&origin.authority)
            else {
                continue;
            };
            let at = addresses(host, port);
            if let Some(own) = all.iter().find(|it| it.is_site && it.is_reached_at(&at)) {
                let text = format!(
                    "`origin` is where nightwatt itself listens, for {}: its requests would loop \
                     forever. Write where the server listens; on this machine that is another port",
                    own.what
                );
                return Err(Clash { keys: [key, own.key.clone()], text });
            }
        }
    }
    Ok(())
}

/// Why two cannot both be listened for.
fn clash(first: &Listener, later: &Listener) -> Option<String> {
    let Listener { address, what, .. } = first;
    let (one, other) = (address.ip().to_canonical(), later.address.ip().to_canonical());
    if address.port() != later.address.port() || address.port() == 0 {
        return None;
    }
    if one == other {
        // Names in TLS may tell services apart.
        let shared = first.is_tcp && later.is_tcp;
        let text = format!("{what} is listened for at {address}: take another address or port");
        return (!shared).then_some(text);
    }
    let overlaps =
        one.is_ipv4() == other.is_ipv4() && (one.is_unspecified() || other.is_unspecified());
    overlaps.then(|| {
        format!(
            "{what} is listened for at {address}, and {} overlaps that: Linux gives the port to one of \
             them. Leave one out, or write the addresses of this machine one by one",
            later.address
        )
    })
}

/// Where a service is, as far as that can be known without asking for names.
fn origins(config: &Config, on: &str, origin: &TcpOrigin) -> Vec<SocketAddr> {
    let site = config.site.iter().find(|site| site.name == on);
    let servers = site.into_iter().flat_map(|site| {
        let pool = site.server.iter().map(|server| &server.origin);
        std::iter::once(&site.origin).chain(pool)
    });
    let hosts: Vec<&str> = match &origin.host {
        Some(host) => vec![host],
        None => servers.filter_map(|it| Some(Authority::parse(&it.authority)?.host)).collect(),
    };
    hosts.into_iter().flat_map(|host| addresses(host, origin.port)).collect()
}

/// The addresses of a host, as far as they can be known without asking for names.
fn addresses(host: &str, port: u16) -> Vec<SocketAddr> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let addresses = match bare.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) if bare.trim_end_matches('.').eq_ignore_ascii_case("localhost") => {
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        }
        Err(_) => Vec::new(),
    };
    addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(top: &str, tables: &str) -> String {
        let text = format!(
            "{top}\n[[site]]\nname = \"blog\"\norigin = \"http://10.0.0.5:8080\"\n\
             power.simulated = {{}}\n{tables}"
        );
        Config::parse(&text, "x").map_or_else(|error| error.to_string(), |_| "fine".to_owned())
    }

    fn service(name: &str, listen: &str, origin: &str) -> String {
        format!(
            "[[tcp]]\nname = \"{name}\"\non = \"blog\"\nlisten = [\"{listen}\"]\norigin = \"{origin}\"\n"
        )
    }

    #[test]
    fn addresses_that_overlap_are_told_with_both_lines() {
        let http = "listen = [\"127.0.0.1:80\"]";
        for (a, b) in [
            ("0.0.0.0:22", "127.0.0.1:22"),
            ("127.0.0.1:22", "0.0.0.0:22"),
            ("[::]:22", "[::1]:22"),
            ("0.0.0.0:22", "[::ffff:127.0.0.1]:22"),
        ] {
            let said = parse(http, &(service("a", a, ":22") + &service("b", b, ":22")));
            assert!(said.contains("x:14:") && said.contains("overlaps"), "{a} {b}: {said}");
            for line in [format!("9 | listen = [\"{a}\"]"), format!("14 | listen = [\"{b}\"]")] {
                // The number has the width of the line's own.
                assert!(said.contains(line.trim_start()), "{line} in {said}");
            }
        }
        for (top, tables) in [
            ("listen = [\"0.0.0.0:80\", \"127.0.0.1:80\"]", String::new()),
            ("listen = [\"127.0.0.1:80\"]\nadmin = \"127.0.0.1:80\"", String::new()),
            (
                "listen = [\"127.0.0.1:80\"]\nadmin = \"127.0.0.1:81\"",
                service("a", "0.0.0.0:81", ":22"),
            ),
            (http, service("a", "127.0.0.1:80", ":22")),
            (http, service("a", "0.0.0.0:80", ":22")),
        ] {
            let said = parse(top, &tables);
            assert!(said.contains("is listened for at"), "{top} {tables}: {said}");
        }
    }

    #[test]
    fn addresses_that_do_not_overlap_are_fine() {
        let http = "listen = [\"127.0.0.1:80\"]";
        for (a, b) in [
            ("0.0.0.0:22", "[::]:22"),
            ("127.0.0.1:22", "[::]:22"),
            ("127.0.0.1:22", "127.0.0.2:22"),
            ("0.0.0.0:22", "127.0.0.1:23"),
            ("0.0.0.0:0", "127.0.0.1:0"),
        ] {
            let tables = service("a", a, ":2222") + &service("b", b, ":2222");
            assert_eq!(parse(http, &tables), "fine", "{a} {b}");
        }
    }

    #[test]
    fn a_site_whose_server_is_said_to_be_where_nightwatt_listens_is_refused() {
        for (listen, origin, says) in [
            ("0.0.0.0:80", "http://127.0.0.1", "loop forever"),
            ("0.0.0.0:80", "http://localhost:80", "loop forever"),
            ("[::]:8080", "http://127.0.0.1:8080", "loop forever"),
            ("10.0.0.5:80", "http://10.0.0.5", "loop forever"),
            ("0.0.0.0:443", "https://localhost", "loop forever"),
            ("0.0.0.0:80", "http://127.0.0.1:8080", "fine"),
            ("10.0.0.5:80", "http://127.0.0.1", "fine"),
            ("0.0.0.0:80", "http://server.example", "fine"),
        ] {
            let text = format!(
                "listen = [\"{listen}\"]\n[[site]]\nname = \"blog\"\norigin = \"{origin}\"\n\
                 power.simulated = {{}}\n"
            );
            let said = Config::parse(&text, "x");
            let said = said.map_or_else(|error| error.to_string(), |_| "fine".to_owned());
            assert!(said.contains(says), "{listen} {origin}: {said}");
            assert!(says == "fine" || said.contains("x:4:"), "{said}");
        }
    }

    #[test]
    fn a_path_whose_origin_is_where_nightwatt_listens_is_refused() {
        for (origin, says) in [
            ("http://127.0.0.1:8081", "loop forever"),
            ("http://localhost:8081", "loop forever"),
            ("http://10.0.0.5:8081", "fine"),
            ("http://127.0.0.1:9000", "fine"),
        ] {
            let path = format!("[[site.path]]\nprefix = \"/api/\"\norigin = \"{origin}\"\n");
            let said = parse("listen = [\"127.0.0.1:80\", \"127.0.0.1:8081\"]", &path);
            assert!(said.contains(says), "{origin}: {said}");
            let has_both = said.contains("x:8:") && said.contains("1 | listen = [");
            assert!(says == "fine" || has_both, "{origin}: {said}");
        }
    }

    #[test]
    fn a_service_that_is_said_to_be_where_nightwatt_listens_is_refused() {
        let http = "listen = [\"127.0.0.1:80\"]";
        for (listen, origin, says) in [
            ("0.0.0.0:22", "127.0.0.1:22", "loop forever"),
            ("0.0.0.0:22", "localhost:22", "loop forever"),
            ("[::]:22", "127.0.0.1:22", "loop forever"),
            ("127.0.0.1:22", "127.0.0.1:22", "loop forever"),
            ("10.0.0.5:22", ":22", "loop forever"),
            ("0.0.0.0:22", "0.0.0.0:22", "loop forever"),
            ("0.0.0.0:22", ":22", "fine"),
            ("0.0.0.0:22", "127.0.0.1:2222", "fine"),
            ("192.0.2.1:22", "127.0.0.1:22", "fine"),
            ("0.0.0.0:22", "[::1]:22", "fine"),
            ("0.0.0.0:22", "server.example:22", "fine"),
        ] {
            let said = parse(http, &service("a", listen, origin));
            assert!(said.contains(says), "{listen} {origin}: {said}");
        }
    }
}

//! What this machine can find out about the server.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use super::PowerChoice;

/// A server that does not answer within this time counts as not answering.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Exists while systemd runs the machine (`sd_booted(3)`).
pub(super) const SYSTEMD: &str = "/run/systemd/system";

/// What was found out about a server.
#[derive(Debug, Clone)]
pub(super) struct Server {
    /// `http://host:port`, or `https`.
    pub(super) origin: String,
    pub(super) address: SocketAddr,
    answers: bool,
    mac: Option<String>,
}

/// What is wrong with a URL that is not an origin.
fn no_origin(url: &str) -> String {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    match rest.split_once('/') {
        Some((_, path)) if !path.is_empty() => {
            format!("`{url}` is not an origin: leave out the path `/{path}`")
        }
        _ => format!(
            "`{url}` is not an origin: write http:// (or https://), host and port, as http://10.0.0.5:8080"
        ),
    }
}

impl Server {
    /// Looks up the server of this URL; `http://` may be left out.
    pub(super) fn find(url: &str) -> Result<Self, String> {
        let url = with_scheme(url.trim_end_matches('/'));
        let url = &*url;
        let parts = url.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"));
        let parts = parts.filter(|(_, authority)| !authority.contains(['/', '?', '#', '@']));
        let Some((scheme, authority)) = parts else {
            return Err(no_origin(url));
        };
        let uri = url.parse::<http::Uri>().map_err(|error| format!("`{url}`: {error}"))?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = match (uri.port(), uri.port_u16()) {
            (Some(_), None | Some(0)) => {
                return Err(format!("`{authority}` has no port that can be"));
            }
            (_, port) => port.unwrap_or(if scheme == "https" { 443 } else { 80 }),
        };
        let found = (host, port).to_socket_addrs();
        let found = found.map_err(|error| format!("cannot resolve `{host}`: {error}"))?;
        let address = found.into_iter().next().ok_or_else(|| format!("`{host}` has no address"))?;
        let answers = TcpStream::connect_timeout(&address, TIMEOUT).is_ok();
        // After the connection attempt, the ARP table has the address if it is on the local network.
        let table = std::fs::read_to_string("/proc/net/arp").unwrap_or_default();
        let mac = neighbour(&table, address.ip());
        Ok(Self { origin: format!("{scheme}://{authority}"), address, answers, mac })
    }

    /// How the server is woken and put to sleep unless the user says otherwise. On this machine it is a unit rather
    /// than a process: a process is a child of nightwatt, confined like nightwatt and stopped with it
    /// (docs/operate.md).
    pub(super) fn power(&self, has_systemd: bool) -> PowerChoice {
        match (self.address.ip().is_loopback(), has_systemd) {
            (false, _) => PowerChoice::Agent,
            (true, true) => PowerChoice::Systemd,
            (true, false) => PowerChoice::Process,
        }
    }

    /// The listener that would get what is meant for the server.
    pub(super) fn listener_at_it(&self, listen: &[SocketAddr]) -> Option<SocketAddr> {
        let server = self.address;
        let is_at_it = |own: &&SocketAddr| {
            let is_here = own.ip().is_unspecified() && server.ip().to_canonical().is_loopback();
            own.port() == server.port() && (own.ip() == server.ip() || is_here)
        };
        listen.iter().find(is_at_it).copied()
    }

    /// A name for it: the first label of the host name in the origin, or else its address.
    pub(super) fn host(&self) -> String {
        let uri = self.origin.parse::<http::Uri>().unwrap_or_default();
        let host = uri.host().unwrap_or_default();
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) if address == Ipv6Addr::LOCALHOST => "localhost".to_owned(),
            Ok(address) => address.to_string(),
            Err(_) => host.split('.').next().unwrap_or_default().to_owned(),
        }
    }

    pub(super) fn mac(&self) -> Option<&str> {
        self.mac.as_deref()
    }

    /// Describes the findings.
    pub(super) fn words(&self) -> String {
        let answers = if self.answers { "takes connections" } else { "does not answer now" };
        let mac = match &self.mac {
            Some(mac) => format!("; its card is {mac}"),
            None => String::new(),
        };
        format!("{} {answers}{mac}", self.address)
    }
}

/// The URL of what listens here: by the address with port 80, or else the first; or, if that is any address, by the one
/// from which this machine reaches others. Finding that out sends nothing.
pub(super) fn own_url(listen: &[SocketAddr]) -> String {
    let chosen = listen.iter().find(|it| it.port() == 80).or(listen.first());
    let port = chosen.map_or(80, SocketAddr::port);
    let ip = match chosen.map(SocketAddr::ip) {
        Some(ip) if !ip.is_unspecified() => Some(ip),
        _ => outward(),
    };
    let host = match ip {
        None => "localhost".to_owned(),
        Some(IpAddr::V4(ip)) => ip.to_string(),
        Some(IpAddr::V6(ip)) => format!("[{ip}]"),
    };
    if port == 80 { format!("http://{host}") } else { format!("http://{host}:{port}") }
}

/// The address from which this machine reaches others (192.0.2.1 belongs to no machine: RFC 5737).
fn outward() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    socket.local_addr().ok().map(|it| it.ip()).filter(|it| !it.is_unspecified())
}

fn with_scheme(url: &str) -> Cow<'_, str> {
    if url.is_empty() || url.contains("://") {
        Cow::Borrowed(url)
    } else {
        Cow::Owned(format!("http://{url}"))
    }
}

/// The MAC address for an IP address, from the kernel's neighbour table (`proc(5)`, `/proc/net/arp`). An entry without
/// an answer has a MAC address of zeros.
fn neighbour(table: &str, address: IpAddr) -> Option<String> {
    let address = address.to_string();
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let is_it = fields.next()? == address;
        let mac = fields.nth(2)?;
        (is_it && mac != "00:00:00:00:00:00").then(|| mac.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
IP address       HW type     Flags       HW address            Mask     Device
10.0.0.5         0x1         0x2         52:54:00:12:34:56     *        eth0
10.0.0.6         0x1         0x0         00:00:00:00:00:00     *        eth0
10.0.0.50        0x1         0x2         52:54:00:12:34:57     *        eth0
";

    #[test]
    fn a_server_of_this_machine_is_a_unit_where_systemd_runs() {
        let at = |address: &str| Server {
            origin: format!("http://{address}"),
            address: address.parse().unwrap(),
            answers: false,
            mac: None,
        };
        for here in ["127.0.0.1:80", "[::1]:80"] {
            assert_eq!(at(here).power(true), PowerChoice::Systemd);
            assert_eq!(at(here).power(false), PowerChoice::Process);
        }
        assert_eq!(at("10.0.0.5:80").power(true), PowerChoice::Agent);
        assert_eq!(at("10.0.0.5:80").power(false), PowerChoice::Agent);
    }

    #[test]
    fn what_listens_here_has_the_url_that_a_browser_names() {
        let of = |listen: &[&str]| {
            own_url(&listen.iter().map(|it| it.parse().unwrap()).collect::<Vec<_>>())
        };
        assert_eq!(of(&["127.0.0.1:8080"]), "http://127.0.0.1:8080");
        assert_eq!(of(&["10.0.0.1:80", "10.0.0.1:8080"]), "http://10.0.0.1");
        assert_eq!(of(&["127.0.0.1:8080", "10.0.0.1:80"]), "http://10.0.0.1");
        assert_eq!(of(&["[::1]:8080"]), "http://[::1]:8080");
        let anywhere = of(&["0.0.0.0:80", "[::]:80"]);
        assert!(!anywhere.contains("0.0.0.0") && !anywhere.contains(":80"), "{anywhere}");
    }

    #[test]
    fn an_origin_without_a_scheme_is_http() {
        let server = Server::find("127.0.0.2:9").unwrap();
        assert_eq!(server.origin, "http://127.0.0.2:9");
        assert_eq!(Server::find("https://127.0.0.2:9/").unwrap().origin, "https://127.0.0.2:9");
        for wrong in ["", "ftp://127.0.0.2:9", "127.0.0.2:9/path"] {
            assert!(Server::find(wrong).unwrap_err().contains("is not an origin"), "{wrong}");
        }
    }

    #[test]
    fn a_neighbour_that_has_answered_has_a_card() {
        let of = |address: &str| neighbour(TABLE, address.parse().unwrap());
        assert_eq!(of("10.0.0.5").as_deref(), Some("52:54:00:12:34:56"));
        assert_eq!(of("10.0.0.6"), None);
        assert_eq!(of("10.0.0.7"), None);
        assert_eq!(neighbour("", "10.0.0.5".parse().unwrap()), None);
    }
}

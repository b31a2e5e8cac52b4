//! Established TCP connections to ports of this machine. Those of this proxy, which it counts itself, and those of
//! monitors do not count.

use std::collections::HashSet;
use std::net::SocketAddr;

use nightwatt_host::Host;
use nightwatt_host::connections::{Connection, connections, own_sockets};

use crate::config::{InUseConfig, Network, SiteConfig};

/// A connection by the addresses of its ends.
#[derive(PartialEq, Eq, Hash)]
struct Ends {
    from: SocketAddr,
    to: SocketAddr,
}

/// The ports of a probe.
#[derive(Debug)]
pub(super) struct Ports {
    host: Host,
    looked_at: Vec<u16>,
    except: Vec<Network>,
}

impl Ports {
    /// What the configuration names. Monitors of `[site.access]` are excepted too.
    pub(super) fn new(config: &InUseConfig, site: &SiteConfig) -> Self {
        let monitors = site.access.iter().flat_map(|access| &access.monitors);
        Self {
            host: Host::default(),
            looked_at: config.ports.clone(),
            except: config.except.iter().chain(monitors).copied().collect(),
        }
    }

    /// How many connections there are, for people; nothing if there are none.
    pub(super) fn count(&self) -> Result<Option<String>, String> {
        let before = connections(&self.host)?;
        let own = own_sockets(&self.host);
        let own = own.map_err(|error| format!("cannot list /proc/self/fd: {error}"))?;
        let after = connections(&self.host)?;
        let count = self.others(&before, &own, &after);
        Ok((count > 0).then(|| format!("TCP connections: {count}")))
    }

    /// The connections that count: open in both tables, between which our `own` sockets were listed. One of ours that
    /// is open in both is among these; one that we closed meanwhile is not open in the second, at least at our end.
    fn others(&self, before: &[Connection], own: &HashSet<u64>, after: &[Connection]) -> usize {
        let before: HashSet<&Connection> = before.iter().collect();
        // Ends on this machine that are ours, or closing: what is at their other end is no use. A port alone does not
        // identify an end: one port can have connections to several servers.
        let ends = before.iter().copied().chain(after);
        let ends = ends.filter(|it| !it.is_open || own.contains(&it.inode));
        let ends: HashSet<Ends> = ends.map(|it| Ends { from: it.local, to: it.peer }).collect();
        let counts = |it: &&Connection| {
            it.is_open
                && before.contains(it)
                && self.looked_at.contains(&it.local.port())
                && !own.contains(&it.inode)
                && !ends.contains(&Ends { from: it.peer, to: it.local })
                && !self.except.iter().any(|network| network.contains(it.peer.ip()))
        };
        after.iter().filter(counts).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(ports: &[u16], except: &[&str]) -> Ports {
        let except = except.iter().map(|it| it.parse().unwrap()).collect();
        Ports { host: Host::default(), looked_at: ports.to_vec(), except }
    }

    fn connection(local: &str, peer: &str, inode: u64) -> Connection {
        let (local, peer) = (local.parse().unwrap(), peer.parse().unwrap());
        Connection { local, peer, inode, is_open: true }
    }

    #[test]
    fn connections_of_the_proxy_of_monitors_and_to_other_ports_do_not_count() {
        let own = HashSet::from([7, 9]);
        let all = [
            // The proxy at the server: both ends of it.
            connection("127.0.0.1:8096", "127.0.0.1:50000", 5),
            connection("127.0.0.1:50000", "127.0.0.1:8096", 7),
            // A client of the proxy, if that listens at the same port.
            connection("10.0.0.2:8096", "10.0.0.77:40000", 9),
            // A monitor, a television, and a shell.
            connection("10.0.0.2:8096", "10.0.0.8:41000", 11),
            connection("10.0.0.2:8096", "10.0.0.9:42000", 12),
            connection("10.0.0.2:22", "10.0.0.9:43000", 13),
        ];
        assert_eq!(ports(&[8096], &["10.0.0.8"]).others(&all, &own, &all), 1);
        assert_eq!(ports(&[8096, 22], &[]).others(&all, &own, &all), 3);
        assert_eq!(ports(&[443], &[]).others(&all, &own, &all), 0);
        assert_eq!(ports(&[8096], &[]).others(&all, &HashSet::new(), &all), 4);
    }

    #[test]
    fn a_connection_of_ours_that_opens_or_closes_meanwhile_does_not_count() {
        let it = ports(&[8096], &[]);
        let server = connection("127.0.0.1:8096", "127.0.0.1:50000", 5);
        let ours = connection("127.0.0.1:50000", "127.0.0.1:8096", 7);
        // Closed before our sockets were listed, which no process has any more.
        let closing = Connection { inode: 0, is_open: false, ..ours };
        let none = HashSet::new();
        assert_eq!(it.others(&[server, ours], &none, &[server, closing]), 0);
        assert_eq!(
            it.others(&[server, ours], &none, &[Connection { is_open: false, ..server }]),
            0
        );
        assert_eq!(it.others(&[server, ours], &none, &[]), 0);
        // Opened after that.
        assert_eq!(it.others(&[], &none, &[server, ours]), 0);
        // The same ends, but another connection.
        assert_eq!(it.others(&[server], &none, &[Connection { inode: 6, ..server }]), 0);
        assert_eq!(it.others(&[server, ours], &none, &[server, ours]), 1, "of another program");
    }

    #[test]
    fn a_client_counts_although_its_port_has_another_connection_that_is_ours_or_closing() {
        let it = ports(&[8096], &[]);
        let client = connection("127.0.0.1:50000", "127.0.0.1:8096", 6);
        let server = connection("127.0.0.1:8096", "127.0.0.1:50000", 5);
        let other = connection("127.0.0.1:50000", "127.0.0.1:9000", 7);
        let all = [client, server, other];
        assert_eq!(it.others(&all, &HashSet::from([7]), &all), 1);
        let all = [client, server, Connection { inode: 0, is_open: false, ..other }];
        assert_eq!(it.others(&all, &HashSet::new(), &all), 1);
        assert_eq!(it.others(&all, &HashSet::from([6]), &all), 0, "this one is ours");
    }

    #[test]
    fn a_real_connection_that_closes_between_the_looks_does_not_count() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let it = ports(&[port], &[]);
        let ours = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut served, _) = listener.accept().unwrap();
        // As if the server were another process: its end is not ours, and our end is closed.
        let none = HashSet::new();
        let before = connections(&Host::default()).unwrap();
        assert_eq!(it.others(&before, &none, &before), 1);
        drop(ours);
        assert_eq!(std::io::Read::read(&mut served, &mut [0]).unwrap(), 0, "it is closed");
        let after = connections(&Host::default()).unwrap();
        assert_eq!(it.others(&before, &none, &after), 0);
    }

    #[test]
    fn a_real_connection_of_another_process_counts_and_one_of_ours_does_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let it = ports(&[port], &[]);
        let _ours = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let _served = listener.accept().unwrap();
        assert_eq!(it.count(), Ok(None));
        // Its end at the port is ours, as is its listener: so both ends are in another process, and count for it.
        let all = connections(&Host::default()).unwrap();
        assert_eq!(it.others(&all, &HashSet::new(), &all), 1);
    }
}

//! Established TCP connections to ports of this machine. Those of this proxy, which it counts itself, and those of
//! monitors do not count.

use std::collections::HashSet;
use std::net::SocketAddr;

use nightwatt_host::Host;
use nightwatt_host::connections::{Connection, established, own_sockets};

use crate::config::{InUseConfig, Network, SiteConfig};

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
        let all = established(&self.host)?;
        let own = own_sockets(&self.host);
        let own = own.map_err(|error| format!("cannot list /proc/self/fd: {error}"))?;
        let count = self.others(&all, &own);
        Ok((count > 0).then(|| format!("TCP connections: {count}")))
    }

    fn others(&self, all: &[Connection], own: &HashSet<u64>) -> usize {
        let ours = all.iter().filter(|it| own.contains(&it.inode));
        let ours: HashSet<SocketAddr> = ours.map(|it| it.local).collect();
        let counts = |it: &&Connection| {
            self.looked_at.contains(&it.local.port())
                && !own.contains(&it.inode)
                && !ours.contains(&it.peer)
                && !self.except.iter().any(|network| network.contains(it.peer.ip()))
        };
        all.iter().filter(counts).count()
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
        Connection { local: local.parse().unwrap(), peer: peer.parse().unwrap(), inode }
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
        assert_eq!(ports(&[8096], &["10.0.0.8"]).others(&all, &own), 1);
        assert_eq!(ports(&[8096, 22], &[]).others(&all, &own), 3);
        assert_eq!(ports(&[443], &[]).others(&all, &own), 0);
        assert_eq!(ports(&[8096], &[]).others(&all, &HashSet::new()), 4);
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
        let all = established(&Host::default()).unwrap();
        assert_eq!(it.others(&all, &HashSet::new()), 1);
    }
}

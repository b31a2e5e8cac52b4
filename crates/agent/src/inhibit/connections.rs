//! TCP connections to ports of this machine, sshd's among them (`/proc/net/tcp`, proc(5)).

use std::collections::BTreeMap;

use nightwatt_host::Host;
use nightwatt_host::connections::established;

use super::{Inhibitions, counted};
use crate::config::Inhibit;

pub(super) fn check(host: &Host, config: &Inhibit) -> Inhibitions {
    let Inhibit { ssh_ports: ssh, ports, ports_except, .. } = config;
    if ssh.is_empty() && ports.is_empty() {
        return Ok(Vec::new());
    }
    let mut connected: BTreeMap<u16, usize> = BTreeMap::new();
    for connection in established(host)? {
        let port = connection.local.port();
        if ssh.contains(&port) || !ports_except.contains(&connection.peer.ip()) {
            *connected.entry(port).or_default() += 1;
        }
    }
    let count = |ports: &[u16]| ports.iter().filter_map(|port| connected.get(port)).sum::<usize>();
    let mut reasons = Vec::new();
    match count(ssh) {
        0 => {}
        sessions => reasons.push(counted(sessions, "SSH session")),
    }
    for port in ports.iter().filter(|port| !ssh.contains(port)) {
        if let Some(connections) = connected.get(port) {
            reasons.push(format!("{} to port {port}", counted(*connections, "connection")));
        }
    }
    Ok(reasons)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn of(ssh: &[u16], ports: &[u16]) -> Inhibit {
        Inhibit { ssh_ports: ssh.to_vec(), ports: ports.to_vec(), ..Inhibit::default() }
    }

    #[test]
    fn connections_that_listen_or_have_ended_do_not_count() {
        // Recorded; port 22 is 0016.
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("proc/net")).unwrap();
        fs::write(
            dir.path().join("proc/net/tcp"),
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             \x20  0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 647 1\n\
             \x20  1: 0200000A:0016 0100000A:9A5C 01 00000000:00000000 02:000AB0AD 00000000     0        0 20482 4\n\
             \x20  2: 0200000A:0016 0100000A:9A5E 06 00000000:00000000 03:00000E53 00000000     0        0 0 3\n\
             \x20  3: 0200000A:8287 0100000A:0016 01 00000000:00000000 03:00000ED2 00000000     0        0 0 3\n",
        )
        .unwrap();
        fs::write(
            dir.path().join("proc/net/tcp6"),
            "  sl  local_address                         remote_address                        st\n\
             \x20  0: 0000000000000000FFFF00000200000A:0016 0000000000000000FFFF00000100000A:CA9A 01 00000000:00000000\n",
        )
        .unwrap();
        let host = Host::at(dir.path());
        let check = |host: &Host, ssh: &[u16], ports: &[u16]| check(host, &of(ssh, ports));
        assert_eq!(check(&host, &[22], &[]).unwrap(), ["2 SSH sessions"]);
        assert_eq!(check(&host, &[22], &[22, 5432]).unwrap(), ["2 SSH sessions"]);
        assert_eq!(check(&host, &[], &[22]).unwrap(), ["2 connections to port 22"]);
        assert_eq!(check(&host, &[2222], &[80]).unwrap(), Vec::<String>::new());
        let except = |address: &str| Inhibit {
            ports_except: vec![address.parse().unwrap()],
            ..of(&[], &[22])
        };
        // Both connections are from 10.0.0.1, one of them by an address that maps IPv4.
        assert_eq!(super::check(&host, &except("10.0.0.1")).unwrap(), Vec::<String>::new());
        assert_eq!(super::check(&host, &except("10.0.0.3")).unwrap(), ["2 connections to port 22"]);
    }

    #[test]
    fn a_real_connection_is_seen_as_long_as_it_lasts() {
        // Below the ephemeral ports of the kernel: connections from those would be counted too.
        let mut ports = 20_000..30_000;
        let listener = ports.find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let host = Host::default();
        let check = |host: &Host, ssh: &[u16], ports: &[u16]| check(host, &of(ssh, ports));
        assert_eq!(check(&host, &[], &[port]).unwrap(), Vec::<String>::new());
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let server = listener.accept().unwrap();
        assert_eq!(check(&host, &[], &[port]).unwrap(), [format!("1 connection to port {port}")]);
        drop((client, server));
        assert_eq!(check(&host, &[], &[port]).unwrap(), Vec::<String>::new());
    }
}

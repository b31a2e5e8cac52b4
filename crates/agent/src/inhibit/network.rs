//! What goes through network interfaces (`/proc/net/dev`, proc(5)). The agent's own messages are in it:
//! a few hundred bytes an order.

use nightwatt_host::Host;

/// Bytes received and sent since boot, by these interfaces, or all but the loopback.
pub(super) fn read(host: &Host, interfaces: &[String]) -> Result<u64, String> {
    let text = host
        .read("/proc/net/dev")
        .map_err(|error| format!("cannot read /proc/net/dev: {error}"))?;
    let counted = |name: &str| {
        if interfaces.is_empty() { name != "lo" } else { interfaces.iter().any(|it| it == name) }
    };
    let all: Vec<_> = text.lines().filter_map(parse).collect();
    let is_there = |wanted: &&String| all.iter().any(|(name, _)| name == *wanted);
    if let Some(missing) = interfaces.iter().find(|wanted| !is_there(wanted)) {
        return Err(format!(
            "there is no network interface `{missing}` in /proc/net/dev; `network_interfaces` names it"
        ));
    }
    Ok(all.iter().filter(|(name, _)| counted(name)).map(|(_, bytes)| bytes).sum())
}

/// Name and bytes of an interface.
fn parse(line: &str) -> Option<(String, u64)> {
    let (name, numbers) = line.split_once(':')?;
    let mut numbers = numbers.split_whitespace();
    let received: u64 = numbers.next()?.parse().ok()?;
    let sent: u64 = numbers.nth(7)?.parse().ok()?;
    Some((name.trim().to_owned(), received.wrapping_add(sent)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn bytes_of_both_directions_are_added_and_the_loopback_left_out() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("proc/net")).unwrap();
        fs::write(
            dir.path().join("proc/net/dev"),
            "Inter-|   Receive                                                |  Transmit\n\
             \x20face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n\
             \x20   lo: 227579780259 56896343    0    0    0     0          0         0 227579780259 56896343    0    0    0     0       0          0\n\
             \x20 eth0: 1000 10 0 0 0 0 0 0 500 5 0 0 0 0 0 0\n\
             wlan0:70 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n",
        )
        .unwrap();
        let host = Host::at(dir.path());
        assert_eq!(read(&host, &[]), Ok(1577));
        assert_eq!(read(&host, &["wlan0".to_owned()]), Ok(77));
        // A missing interface is an error: its traffic is unknown, not zero.
        let missing = read(&host, &["wlan0".to_owned(), "eth1".to_owned()]).unwrap_err();
        assert!(missing.contains("no network interface `eth1`"), "{missing}");
        assert_eq!(read(&host, &["lo".to_owned()]), Ok(455_159_560_518));
    }
}

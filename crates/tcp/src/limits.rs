//! What this machine allows: descriptors, local ports, congestion controls.

use std::fs::read_to_string;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CapabilitySet;

use crate::error::Error;

/// Descriptors kept for everything else: outputs, logs, the loop's own.
const KEPT: u64 = 64;

/// Raises the soft limit on descriptors to the hard one; gives for how many connections that is.
pub(crate) fn descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    allowed.unwrap_or(u64::MAX).saturating_sub(KEPT)
}

/// Makes room for a client's connections at once, or returns what is too few.
pub(crate) fn prepare(connections: u64) -> Result<(), Error> {
    let allowed = descriptors();
    if allowed < connections {
        return Err(Error::Descriptors {
            wanted: connections,
            needed: connections + KEPT,
            allowed: allowed + KEPT,
        });
    }
    let range = read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    match local_ports(&range) {
        Some(ports) if ports < connections => Err(Error::Ports { wanted: connections, ports }),
        _ => Ok(()),
    }
}

/// Ports that connections to one address may come from: `32768 60999`.
fn local_ports(range: &str) -> Option<u64> {
    let mut ends = range.split_whitespace().map(|end| end.parse::<u64>().ok());
    let (first, last) = (ends.next()??, ends.next()??);
    Some((last + 1).saturating_sub(first))
}

/// The congestion controls that this process may select, as the kernel lists them: those that it has ready, or,
/// without `CAP_NET_ADMIN`, those that it allows to all.
pub(crate) fn congestions() -> String {
    let may_take_any = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN));
    let which = if may_take_any { "available" } else { "allowed" };
    let listed = read_to_string(format!("/proc/sys/net/ipv4/tcp_{which}_congestion_control"));
    listed.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_ports_is_read_as_the_kernel_writes_it() {
        assert_eq!(local_ports("32768\t60999\n"), Some(28_232));
        assert_eq!(local_ports(""), None);
    }

    #[test]
    fn the_soft_limit_on_descriptors_is_raised_to_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        assert_eq!(descriptors(), hard.saturating_sub(KEPT));
        assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), hard);
        let error = prepare(u64::MAX - KEPT).unwrap_err().to_string();
        assert!(error.contains("`--connections`"), "{error}");
    }
}

//! The host names that sites answer for.

use std::collections::HashSet;

use super::{SiteConfig, Wrong, wrong};
use crate::authority::{Authority, host_name};

impl SiteConfig {
    /// `taken` has the hosts of the sites before this one.
    pub(super) fn check_hosts(&self, taken: &mut HashSet<String>) -> Result<(), Wrong> {
        if self.hosts.is_empty() && !taken.insert("hosts".to_owned()) {
            return wrong("hosts", "only one site can do without `hosts`: name this one's");
        }
        for host in &self.hosts {
            let is_host = Authority::parse(host)
                .is_some_and(|it| it.host == host && !it.is_misspelt_address());
            if !is_host || host_name(host).is_empty() {
                let text = format!(
                    "`{host}` is not a host name: write it without scheme, port and path, as in \
                     `blog.example.org`, and letters beyond ASCII as DNS has them (`xn--...`)"
                );
                return wrong("hosts", text);
            }
            if !taken.insert(format!("host {}", host_name(host))) {
                let text = format!("two sites claim the host `{host}`: it can belong to one only");
                return wrong("hosts", text);
            }
        }
        Ok(())
    }
}

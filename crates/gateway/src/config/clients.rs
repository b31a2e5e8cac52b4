//! Checks the rules of `[site.clients]`.

use nightwatt_traffic::classifier::ClassifierConfig;

use super::{Wrong, wrong};

/// Rejects rules about clients that can never match.
pub(super) fn check_clients(clients: &ClassifierConfig) -> Result<(), Wrong> {
    for (key, paths) in [
        ("webhook_paths", &clients.webhook_paths),
        ("monitor_paths", &clients.monitor_paths),
        ("known_paths", &clients.known_paths),
    ] {
        let is_wrong = |path: &&String| !path.starts_with('/') || path.contains(['?', '#']);
        if let Some(path) = paths.iter().find(is_wrong) {
            let text =
                format!("`{path}` is no path: it must begin with `/`, and have no `?` or `#`");
            return wrong(format!("clients.{key}"), text);
        }
    }
    if !(0.0..=1.0).contains(&clients.scanner_share) {
        let text =
            format!("`scanner_share` is {}, but a share is from 0 to 1", clients.scanner_share);
        return wrong("clients.scanner_share", text);
    }
    if clients.clients == 0 {
        return wrong("clients.clients", "`clients` is 0: nothing could be remembered of a client");
    }
    Ok(())
}

//! The layers inside `gateway`, from the lowest to the highest. A file may import from its own layer and from lower
//! ones.

/// The crate that has them.
pub(crate) const LAYERED: &str = "gateway";

/// A layer, and the modules in it: each with the modules inside it, unless these are named themselves.
pub(crate) struct Layer {
    pub(crate) name: &'static str,
    modules: &'static [&'static str],
}

/// Modules are where they belong, not where their imports of today would put them.
pub(crate) const LAYERS: [Layer; 9] = [
    Layer {
        name: "config",
        modules: &[
            "authority",
            "config",
            "dns_update",
            "error",
            "hand_over_error",
            "containers::labels",
            "in_use::judge",
            "live",
            "private",
            "secrets",
            "state_dir",
        ],
    },
    Layer {
        name: "observe",
        modules: &[
            "access_log",
            "metrics::tally",
            "datagrams::tally",
            "magic_packets::tally",
            "passthrough::tally",
            "places",
            "repeated_warnings",
            "status",
            "wake_cause",
        ],
    },
    Layer {
        name: "cache",
        modules: &["disk_cache", "shared_fetches", "refresh_queue", "store", "prefetch_queue"],
    },
    Layer { name: "upstream", modules: &["body", "origin", "request_body"] },
    Layer {
        name: "power",
        modules: &[
            "common",
            "jobs",
            "ledger_file",
            "lessons",
            "machine",
            "metering",
            "dashboard_history",
            "pool",
            "shadow",
            "supervisor",
        ],
    },
    Layer {
        name: "request",
        modules: &[
            "accept",
            "answers",
            "accounting",
            "admittance",
            "client_facts",
            "client_limits",
            "clients",
            "compress",
            "exchange",
            "facts",
            "forward",
            "forwarded",
            "health",
            "hit",
            "hold",
            "https",
            "in_use",
            "mark",
            "mirror",
            "paths",
            "presence",
            "proofs",
            "slow_path",
            "question",
            "fast_path",
            "refusing",
            "request_rules",
            "serving",
            "site",
            "tunnel",
            "waiting_page",
        ],
    },
    Layer {
        name: "front",
        modules: &[
            "client_hello",
            "datagrams",
            "front",
            "gate",
            "greeting",
            "http2",
            "listen",
            "passthrough",
            "ports",
            "proxy_protocol",
            "tls",
        ],
    },
    Layer {
        name: "renewal",
        modules: &[
            "in_use::watch",
            "mirror::crawl",
            "mirror::fetch",
            "mirror::pass",
            "own_request",
            "refresh",
            "warm_up",
        ],
    },
    Layer {
        name: "operate",
        modules: &[
            "acme",
            "admin",
            "containers",
            "control",
            "crate",
            "gateway",
            "hand_over",
            "inspect",
            "job_runner",
            "look_over",
            "magic_packets",
            "metrics",
            "opening",
            "reload",
            "retiring",
            "running",
            "successor",
            "webhooks",
        ],
    },
];

/// The index of the layer of a module, or of the innermost module around it that has one.
pub(crate) fn layer_of(module: &str) -> Option<usize> {
    let entry = entry_of(module)?;
    LAYERS.iter().position(|layer| layer.modules.contains(&entry))
}

/// The entry of the table for a module, or for the innermost module around it that has one.
pub(crate) fn entry_of(module: &str) -> Option<&'static str> {
    let mut entries = LAYERS.iter().flat_map(|layer| layer.modules.iter().copied());
    let entry = entries.find(|entry| *entry == module);
    entry.or_else(|| entry_of(module.rsplit_once("::")?.0))
}

/// Entries of the table that name no module of these.
pub(crate) fn stale(modules: &[String]) -> impl Iterator<Item = &'static str> {
    let entries = LAYERS.iter().flat_map(|layer| layer.modules.iter().copied());
    entries.filter(|entry| !modules.iter().any(|module| module == entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_in_the_layer_of_the_innermost_entry() {
        let name = |module| layer_of(module).map(|layer| LAYERS[layer].name);
        assert_eq!(name("metrics::tally"), Some("observe"));
        assert_eq!(name("metrics::disk"), Some("operate"));
        assert_eq!(name("disk_cache::writer"), Some("cache"));
        assert_eq!(name("brand_new::part"), None);
        assert_eq!(entry_of("disk_cache::writer"), Some("disk_cache"));
        assert_eq!(entry_of("in_use::watch"), Some("in_use::watch"));
    }

    #[test]
    fn entries_without_a_module_are_stale() {
        let modules: Vec<String> =
            LAYERS.iter().flat_map(|it| it.modules).map(|it| (*it).into()).collect();
        assert_eq!(stale(&modules).count(), 0);
        assert!(stale(&modules[1..]).eq(modules[..1].iter().map(String::as_str)));
    }
}

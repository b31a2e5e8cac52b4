//! Which files are pure: they have no clock, file, socket or thread.

/// Crates without clock, files and sockets, and such modules of others. A module called `pure` is one without being
/// named here.
const PURE: [&str; 31] = [
    "crates/agent/src/announcer",
    "crates/agent/src/authentication",
    "crates/agent/src/dead_man",
    "crates/agent/src/protocol",
    "crates/agent/src/sequence",
    "crates/energy/src/",
    "crates/gateway/src/acme/schedule",
    "crates/gateway/src/containers/labels",
    "crates/gateway/src/disk_cache/budget",
    "crates/gateway/src/disk_cache/record",
    "crates/gateway/src/dns_update",
    "crates/gateway/src/gate/traffic",
    "crates/gateway/src/in_use/judge",
    "crates/gateway/src/tls/validity",
    "crates/gateway/src/webhooks/watch",
    "crates/host/src/text",
    "crates/httpcache/src/",
    "crates/load/src/generate/answer_reader",
    "crates/mirror/src/coding",
    "crates/mirror/src/discover",
    "crates/netlab/src/check/verdict",
    "crates/netlab/src/ends/config",
    "crates/netlab/src/helps/change",
    "crates/netlab/src/helps/result",
    "crates/netlab/src/probe/message",
    "crates/netlab/src/relay/line",
    "crates/policy/src/",
    "crates/report/src/",
    "crates/sim/src/",
    "crates/transfer/src/wire",
    "crates/workloads/src/",
];

/// Whether the file is in one of them.
pub(crate) fn is_pure(path: &str) -> bool {
    let mut parts = path.split('/');
    let is_source = parts.next() == Some("crates") && parts.nth(1) == Some("src");
    let is_named = PURE.iter().any(|entry| has(entry, path));
    is_named || is_source && parts.any(|part| part == "pure" || part == "pure.rs")
}

/// Entries of the list that name none of these files.
pub(crate) fn stale<'a>(
    paths: impl Iterator<Item = &'a str> + Clone,
) -> impl Iterator<Item = &'static str> {
    PURE.into_iter().filter(move |entry| !paths.clone().any(|path| has(entry, path)))
}

/// Whether an entry is the crate of this file, or its module or one around it.
fn has(entry: &str, path: &str) -> bool {
    let rest = path.strip_prefix(entry);
    rest.is_some_and(|rest| entry.ends_with('/') || rest == ".rs" || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_pure_with_all_inside_it_and_no_other() {
        assert!(is_pure("crates/energy/src/civil.rs"));
        assert!(is_pure("crates/mirror/src/discover.rs"));
        assert!(is_pure("crates/mirror/src/discover/css.rs"));
        assert!(is_pure("crates/netlab/src/a/pure/b.rs"));
        assert!(!is_pure("crates/mirror/src/discovered.rs"));
        assert!(!is_pure("crates/netlab/src/purely.rs"));
        assert!(!is_pure("crates/pure/src/a.rs"));
    }

    #[test]
    fn entries_that_name_no_file_are_stale() {
        let file = |entry: &str| match entry.strip_suffix('/') {
            Some(folder) => format!("{folder}/lib.rs"),
            None => format!("{entry}.rs"),
        };
        let files: Vec<String> = PURE.iter().map(|entry| file(entry)).collect();
        assert_eq!(stale(files.iter().map(String::as_str)).count(), 0);
        assert!(stale(files[1..].iter().map(String::as_str)).eq([PURE[0]]));
        let longer = [format!("{}_more.rs", PURE[0])];
        assert_eq!(stale(longer.iter().map(String::as_str)).count(), PURE.len());
    }
}

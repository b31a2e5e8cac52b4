//! What all crates share is written once: words that only one place may use.

use super::Finding;
use crate::sources::Source;

/// Where in a file a word counts.
#[derive(Clone, Copy)]
enum In {
    Code,
    Literals,
}

/// A word, and where it belongs.
struct Home {
    word: &'static str,
    part: In,
    /// The beginning of the paths that may use it.
    place: &'static str,
    advice: &'static str,
}

const HOMES: [Home; 8] = [
    Home {
        word: "fs::rename",
        part: In::Code,
        place: "crates/host/src/files/successor.rs",
        advice: "replace files with `nightwatt_host::files::replace`",
    },
    Home {
        word: "rustls_native_certs",
        part: In::Code,
        place: "crates/host/src/tls.rs",
        advice: "get the settings of TLS from `nightwatt_host::tls`",
    },
    Home {
        word: "webpki_roots",
        part: In::Code,
        place: "crates/host/src/tls.rs",
        advice: "get the settings of TLS from `nightwatt_host::tls`",
    },
    Home {
        word: "ureq",
        part: In::Code,
        place: "crates/host/src/http",
        advice: "ask devices and web servers with `nightwatt_host::http`",
    },
    Home {
        word: "struct Secret",
        part: In::Code,
        place: "crates/host/src/secret.rs",
        advice: "use `nightwatt_host::secret::Secret`",
    },
    Home {
        word: "146_097",
        part: In::Code,
        place: "crates/energy/src/civil.rs",
        advice: "compute dates with `nightwatt_energy::civil`",
    },
    Home {
        word: "/redfish/v1",
        part: In::Literals,
        place: "crates/bmc/src/redfish",
        advice: "ask controllers with `nightwatt_bmc::redfish`",
    },
    Home {
        word: "lanplus",
        part: In::Literals,
        place: "crates/bmc/src/ipmitool.rs",
        advice: "get the arguments of ipmitool from `nightwatt_bmc::ipmitool`",
    },
];

/// Finds these words in other places than theirs. Tests may use them.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|it| !it.is_test && it.path.starts_with("crates/")) {
        for home in HOMES.iter().filter(|home| !source.path.starts_with(home.place)) {
            let text = match home.part {
                In::Code => &source.code,
                In::Literals => &source.literals,
            };
            for (index, _) in text.lines().enumerate().filter(|(_, line)| has(line, home.word)) {
                findings.push(Finding {
                    path: source.path.clone(),
                    line: index + 1,
                    rule: "home",
                    weight: 1,
                    advice: format!("`{}` belongs into {}: {}", home.word, home.place, home.advice),
                });
            }
        }
    }
    findings
}

/// Whether the word is there, and not a part of a longer one.
fn has(line: &str, word: &str) -> bool {
    let is_inside = |c: Option<char>| c.is_some_and(crate::code::is_word);
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !is_inside(before.chars().next_back()) && !is_inside(after.chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{File, sources};

    fn found(path: &str, text: &str) -> usize {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        check(&sources(&[file])).len()
    }

    #[test]
    fn words_with_a_home_are_found_elsewhere() {
        let certificates = "fn roots() {\n    rustls_native_certs::load_native_certs();\n}\n";
        assert_eq!(found("crates/host/src/tls.rs", certificates), 0);
        assert_eq!(found("crates/power/src/roots.rs", certificates), 1);
        assert_eq!(found("crates/power/tests/power/main.rs", certificates), 0);
        assert_eq!(
            found("crates/meters/src/b.rs", "const A: &str = \"/redfish/v1/Chassis\";\n"),
            1
        );
        let renamed = "fn put() {\n    std::fs::rename(&new, path)?;\n    self.rename(place)\n}\n";
        assert_eq!(found("crates/host/src/files/successor.rs", renamed), 0);
        assert_eq!(found("crates/agent/src/daemon.rs", renamed), 1);
        assert_eq!(found("crates/meters/src/b.rs", "/// `/redfish/v1/`\nstruct SecretError;\n"), 0);
    }
}

//! What scanners ask for.

use aho_corasick::AhoCorasick;

/// Parts of paths that scanners try on every site, whatever runs there; found in any case and
/// anywhere in the path. Only what people do not have by chance: a rule that hits a page of the
/// site would leave its visitors in front of a sleeping server.
const USUAL: [&str; 40] = [
    "/.aws/",
    "/.ds_store",
    "/.env",
    "/.git/",
    "/.hg/",
    "/.htpasswd",
    "/.ssh/",
    "/.svn/",
    "/.vscode/",
    "/_ignition/",
    "/actuator/",
    "/adminer",
    "/autodiscover/",
    "/boaform",
    "/cgi-bin/",
    "/ecp/current/",
    "/eval-stdin.php",
    "/evox/about",
    "/geoserver/web",
    "/gponform",
    "/hnap1",
    "/jenkins/",
    "/manager/html",
    "/muieblackcat",
    "/myadmin",
    "/nmaplowercheck",
    "/owa/auth",
    "/phpinfo",
    "/phpmyadmin",
    "/pma/",
    "/remote/login",
    "/setup.cgi",
    "/solr/admin",
    "/telescope/requests",
    "/vendor/phpunit",
    "/w00tw00t",
    "/wp-admin",
    "/wp-content/plugins/",
    "/wp-login.php",
    "/xmlrpc.php",
];

/// The rules, and which of them this site has shown to be wrong.
#[derive(Debug)]
pub(crate) struct ScannerPaths {
    rules: AhoCorasick,
    /// By rule: a path of it exists here. Never true of the operator's own rules.
    exists: Vec<bool>,
    known: Vec<String>,
}

impl ScannerPaths {
    /// The usual rules and the operator's own; paths that start with one of `known` match none.
    pub(crate) fn new(own: &[String], known: &[String]) -> Self {
        // An empty part is in every path: somebody left a list half filled in.
        let own = own.iter().map(String::as_str).filter(|part| !part.is_empty());
        let rules: Vec<&str> = USUAL.into_iter().chain(own).collect();
        Self {
            exists: vec![false; rules.len()],
            rules: AhoCorasick::builder()
                .ascii_case_insensitive(true)
                .build(rules)
                .expect("far fewer and shorter patterns than the automaton's limit"),
            known: known.iter().filter(|path| !path.is_empty()).cloned().collect(),
        }
    }

    /// Whether a path is one that scanners ask for and that is not known to exist here.
    pub(crate) fn hit(&self, path: &str) -> bool {
        let mut hits = self.rules.find_overlapping_iter(path);
        hits.any(|hit| !self.exists[hit.pattern()])
            && !self.known.iter().any(|known| path.starts_with(known))
    }

    /// The site has such a path after all: the usual rules that it matches are off for good.
    pub(crate) fn answered(&mut self, path: &str) {
        for hit in self.rules.find_overlapping_iter(path) {
            let rule = hit.pattern().as_usize();
            self.exists[rule] |= rule < USUAL.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_holds_until_the_site_answers_such_a_path() {
        let mut paths = ScannerPaths::new(&[], &[]);
        assert!(paths.hit("/wp-login.php"));
        assert!(paths.hit("//blog/WP-login.php"));
        assert!(!paths.hit("/"));
        paths.answered("/blog/wp-login.php");
        assert!(!paths.hit("/wp-login.php"));
        assert!(paths.hit("/.env"));
    }

    #[test]
    fn the_operator_has_the_last_word() {
        let mut paths = ScannerPaths::new(&["/old-shop/".to_owned()], &["/cgi-bin/".to_owned()]);
        paths.answered("/old-shop/cart");
        assert!(paths.hit("/old-shop/cart"));
        assert!(!paths.hit("/cgi-bin/guestbook"));
    }
}

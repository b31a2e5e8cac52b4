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

/// Which rules a path hits; [`Existing`] knows which of them count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Hits {
    /// By place in [`USUAL`].
    usual: u64,
    /// One of the operator's own.
    own: bool,
    /// The operator says that the path exists.
    known: bool,
}

/// Bit of the operator's own rules, which no answer proves wrong.
pub(crate) const OWN_RULE: u64 = 1 << 63;

impl Hits {
    /// The rules that make a scanner of the client, until the site shows that they are wrong here: a bit for
    /// each usual one, and [`OWN_RULE`].
    pub(crate) const fn rules(self) -> u64 {
        if self.known { 0 } else { self.usual | self.own_rule() }
    }

    /// [`OWN_RULE`], if the operator names the path.
    pub(crate) const fn own_rule(self) -> u64 {
        if self.own && !self.known { OWN_RULE } else { 0 }
    }
}

/// The usual rules that this site has shown to be wrong.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Existing(u64);

impl Existing {
    /// Whether one of these rules still holds: the site is not known to have such a path.
    pub(crate) const fn counts(self, rules: u64) -> bool {
        rules & !self.0 != 0
    }

    /// The site has such a path after all: the usual rules that it matches are off for good.
    pub(crate) const fn answered(&mut self, hits: Hits) {
        self.0 |= hits.usual;
    }
}

/// The rules.
#[derive(Debug)]
pub(crate) struct ScannerPaths {
    usual: AhoCorasick,
    /// Which two characters (letters in lower case) follow the slash that each usual rule starts
    /// with, one bit each: tells nearly every path that none of them can be in it.
    starts: Box<[u64; 1024]>,
    own: Option<AhoCorasick>,
    known: Vec<String>,
}

impl ScannerPaths {
    /// The usual rules and the operator's own; paths that start with one of `known` match none.
    pub(crate) fn new(own: &[String], known: &[String]) -> Self {
        // An empty part is in every path: it comes from a list that was left half filled in.
        let own: Vec<&str> =
            own.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        let mut starts = Box::new([0; 1024]);
        for rule in USUAL {
            let (word, bit) = place(rule.as_bytes()[1], rule.as_bytes()[2]);
            starts[word] |= bit;
        }
        Self {
            usual: automaton(&USUAL),
            starts,
            own: (!own.is_empty()).then(|| automaton(&own)),
            known: known.iter().filter(|path| !path.is_empty()).cloned().collect(),
        }
    }

    /// Which rules a path hits.
    pub(crate) fn hits(&self, path: &str) -> Hits {
        let mut hits = Hits::default();
        if self.may_hit(path.as_bytes()) {
            for hit in self.usual.find_overlapping_iter(path) {
                hits.usual |= 1 << hit.pattern().as_u32();
            }
        }
        hits.own = self.own.as_ref().is_some_and(|own| own.is_match(path));
        if hits.usual != 0 || hits.own {
            hits.known = self.known.iter().any(|known| path.starts_with(known));
        }
        hits
    }

    fn may_hit(&self, path: &[u8]) -> bool {
        path.windows(3).any(|three| {
            three[0] == b'/' && {
                let (word, bit) = place(three[1], three[2]);
                self.starts[word] & bit != 0
            }
        })
    }
}

fn automaton(rules: &[&str]) -> AhoCorasick {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(rules)
        .expect("far fewer and shorter patterns than the automaton's limit")
}

/// Where two characters have their bit.
const fn place(first: u8, second: u8) -> (usize, u64) {
    let pair = (first.to_ascii_lowercase() as usize) << 8 | second.to_ascii_lowercase() as usize;
    (pair / 64, 1 << (pair % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Existing {
        const fn hit_by(self, hits: Hits) -> bool {
            self.counts(hits.rules())
        }
    }

    #[test]
    fn a_rule_holds_until_the_site_answers_such_a_path() {
        let paths = ScannerPaths::new(&[], &[]);
        let mut existing = Existing::default();
        assert!(existing.hit_by(paths.hits("/wp-login.php")));
        assert!(existing.hit_by(paths.hits("//blog/WP-login.php")));
        assert!(!existing.hit_by(paths.hits("/")));
        existing.answered(paths.hits("/blog/wp-login.php"));
        assert!(!existing.hit_by(paths.hits("/wp-login.php")));
        assert!(existing.hit_by(paths.hits("/.env")));
    }

    #[test]
    fn the_operator_has_the_last_word() {
        let paths = ScannerPaths::new(&["/old-shop/".to_owned()], &["/cgi-bin/".to_owned()]);
        let mut existing = Existing::default();
        existing.answered(paths.hits("/old-shop/cart"));
        assert!(existing.hit_by(paths.hits("/old-shop/cart")));
        assert!(!existing.hit_by(paths.hits("/cgi-bin/guestbook")));
    }

    #[test]
    fn every_usual_rule_hits_where_it_stands() {
        let paths = ScannerPaths::new(&[], &[]);
        for (index, rule) in USUAL.iter().enumerate() {
            for path in [(*rule).to_owned(), format!("/a/b{}x", rule.to_ascii_uppercase())] {
                assert_ne!(paths.hits(&path).usual & 1 << index, 0, "{path}");
            }
        }
    }
}

//! Redirects of `[[site.path]]` that lead back to where they began.

use std::collections::HashSet;
use std::net::SocketAddr;

use super::path::REST;
use super::{Config, PathConfig, SiteConfig, Wrong, wrong};
use crate::authority::{Authority, host_name};

/// Only a path that grows with each redirect becomes longer than this.
const LONGEST: usize = 8192;

/// Stands for what clients write behind a prefix.
const SOMETHING: &str = "nightwatt-example";

/// Paths for which a table is.
fn samples(path: &PathConfig) -> Vec<String> {
    let below = path.prefix.iter().map(|it| format!("{}/{SOMETHING}", it.trim_end_matches('/')));
    std::iter::once(path.name().to_owned()).chain(below).collect()
}

impl SiteConfig {
    /// Checks that every redirect leads to something that is not redirected.
    pub(super) fn check_redirects(&self, config: &Config) -> Result<(), Wrong> {
        let mut ended = HashSet::new();
        let mut starts = self.path.iter().flat_map(samples);
        let Some(way) = starts.find_map(|start| self.endless(start, config, &mut ended)) else {
            return Ok(());
        };
        let names: Vec<String> =
            way.iter().map(|at| format!("`{}`", self.path[*at].name())).collect();
        let text = format!(
            "clients are redirected for ever, from {}: write an address that no redirect of this site is for",
            names.join(" to ")
        );
        wrong(format!("path.{}.redirect", way.first().unwrap_or(&0)), text)
    }

    /// The tables that redirect a path in a circle, the first of them also at the end; nothing if its redirects end.
    /// `ended` has paths from which they end.
    fn endless(
        &self,
        start: String,
        config: &Config,
        ended: &mut HashSet<String>,
    ) -> Option<Vec<usize>> {
        let (mut path, mut way, mut seen) = (start, Vec::new(), HashSet::new());
        while path.len() <= LONGEST && !ended.contains(&path) {
            let next = self.redirected(&path);
            let next = next.and_then(|(at, to)| Some((at, self.path_here(&to, config)?)));
            let Some((at, next)) = next else {
                ended.extend(seen);
                return None;
            };
            way.push(at);
            if !seen.insert(std::mem::replace(&mut path, next)) {
                break;
            }
        }
        if ended.contains(&path) {
            return None;
        }
        let last = way.pop()?;
        let first = way.iter().rposition(|at| *at == last)?;
        way.push(last);
        Some(way.split_off(first))
    }

    /// The table that redirects a path, and where to.
    fn redirected(&self, path: &str) -> Option<(usize, String)> {
        let fitting = self.path.iter().enumerate().filter(|(_, it)| it.is_for(path));
        let (at, best) = fitting.max_by_key(|(_, it)| (it.exact.is_some(), it.name().len()))?;
        let redirect = best.redirect.as_ref()?;
        let rest = path.strip_prefix(best.name()).unwrap_or_default();
        Some((at, redirect.replace(REST, rest.trim_start_matches(['/', '\\']))))
    }

    /// The path of an address at which nightwatt itself answers for this site; nothing if it is another one. Browsers
    /// resolve steps (`..`) before they ask.
    fn path_here(&self, target: &str, config: &Config) -> Option<String> {
        let tls = config.tls.iter().flat_map(|tls| tls.listen.iter().map(SocketAddr::port));
        let public = config.tls.iter().filter_map(|tls| tls.port);
        let is_ours = |scheme: &str, port: Option<u16>| match scheme {
            "http" => config.listen.iter().any(|it| it.port() == port.unwrap_or(80)),
            _ => tls.chain(public).any(|it| it == port.unwrap_or(443)),
        };
        self.path_at(target, is_ours)
            .filter(|path| !path.split('/').any(|it| matches!(it, "." | "..")))
    }

    /// The path of an address with a name of this site and such a scheme and port, or without them.
    fn path_at(
        &self,
        target: &str,
        is_here: impl FnOnce(&str, Option<u16>) -> bool,
    ) -> Option<String> {
        let path = match target.split_once("://").filter(|_| !target.starts_with('/')) {
            None => target,
            Some((scheme, rest)) => {
                let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
                let Authority { host, port } = Authority::parse(&rest[..end])?;
                let is_named = self.hosts.iter().any(|ours| host_name(ours) == host_name(host));
                (is_named && is_here(&scheme.to_ascii_lowercase(), port)).then_some(&rest[end..])?
            }
        };
        let path = path.split(['?', '#']).next().unwrap_or_default();
        Some(if path.is_empty() { "/".to_owned() } else { path.to_owned() })
    }

    /// Whether `sign_in` of `[site.access.forward]` seems to be on the site itself, whose rules of access hold for all
    /// paths. Behind a port that is neither usual nor ours is another program.
    pub fn signs_in_here(&self, config: &Config) -> bool {
        let forward = self.access.as_ref().and_then(|access| access.forward.as_ref());
        let place = forward.and_then(|forward| forward.sign_in.as_deref());
        let mut ours = config.listen.iter().map(SocketAddr::port);
        place.is_some_and(|place| {
            let is_here = |_: &str, port: Option<u16>| {
                port.is_none_or(|port| matches!(port, 80 | 443) || ours.any(|it| it == port))
            };
            self.path_at(place, is_here).is_some() || self.path_here(place, config).is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(tables: &[(&str, &str)]) -> Result<(), String> {
        let tables: Vec<String> = tables
            .iter()
            .map(|(name, answer)| format!("[[site.path]]\n{name}\n{answer}\n"))
            .collect();
        let text = format!(
            "listen = [\"127.0.0.1:8080\"]\n[[site]]\nname = \"blog\"\nhosts = [\"blog.example\"]\n\
             origin = \"http://127.0.0.1:1\"\npower.simulated = {{}}\n{}[tls]\nlisten = [\"127.0.0.1:8443\"]\n\
             port = 443\ncertificate = [{{ chain = \"/c.pem\", key = \"/k.pem\" }}]\n",
            tables.concat()
        );
        Config::parse(&text, "x").map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn redirects_in_a_circle_are_refused_with_all_of_their_paths() {
        let (a, b) = ("exact = \"/a\"", "exact = \"/b\"");
        let below = "prefix = \"/a/\"";
        for (tables, way, line) in [
            (&[(a, "redirect = \"/a\"")][..], "`/a` to `/a`", 9),
            (&[(a, "redirect = \"/a?again#x\"")], "`/a` to `/a`", 9),
            (&[(below, "redirect = \"/a/b/{rest}\"")], "`/a/` to `/a/`", 9),
            (&[(below, "redirect = \"/a/{rest}/{rest}\"")], "`/a/` to `/a/`", 9),
            (&[("prefix = \"/\"", "redirect = \"https://blog.example/{rest}\"")], "`/` to `/`", 9),
            (&[(a, "redirect = \"/b\""), (b, "redirect = \"/a\"")], "`/a` to `/b` to `/a`", 9),
            (
                &[
                    (a, "redirect = \"http://Blog.example.:8080/b\""),
                    (b, "redirect = \"https://blog.example/a\""),
                ],
                "`/a` to `/b` to `/a`",
                9,
            ),
            (
                &[("exact = \"/in\"", "redirect = \"/b\""), (b, "redirect = \"/b\"")],
                "`/b` to `/b`",
                12,
            ),
        ] {
            let said = parse(tables).err().unwrap_or_default();
            let is_named = said.contains(&format!("redirected for ever, from {way}: "));
            assert!(is_named && said.starts_with(&format!("x:{line}:")), "{tables:?}: {said}");
        }
    }

    #[test]
    fn a_page_for_the_log_in_is_on_the_site_by_its_path_or_one_of_its_hosts() {
        let is_here = |place: &str| {
            let text = format!(
                "listen = [\"127.0.0.1:8080\"]\n[[site]]\nname = \"blog\"\nhosts = [\"blog.example\"]\n\
                 origin = \"http://127.0.0.1:1\"\npower.simulated = {{}}\n[site.access.forward]\n\
                 url = \"http://127.0.0.1:9091/auth\"\n{place}\n"
            );
            let config = Config::parse(&text, "x").unwrap();
            config.site[0].signs_in_here(&config)
        };
        assert!(is_here("sign_in = \"/oauth2/start?rd={url}\""));
        assert!(is_here("sign_in = \"https://BLOG.example/login?rd={url}\""));
        assert!(!is_here("sign_in = \"https://auth.blog.example/login?rd={url}\""));
        assert!(!is_here("sign_in = \"http://blog.example:4180/oauth2/start\""));
        assert!(!is_here(""));
    }

    /// Port 443 may be a `[[tcp]]` service, or another program.
    #[test]
    fn a_redirect_to_tls_that_is_not_ours_is_no_circle() {
        let text = "listen = [\"127.0.0.1:80\"]\n[[site]]\nname = \"blog\"\nhosts = [\"blog.example\"]\n\
                    origin = \"http://127.0.0.1:1\"\npower.simulated = {}\n[[site.path]]\nprefix = \"/\"\n\
                    redirect = \"https://blog.example/{rest}\"\n";
        assert!(Config::parse(text, "x").is_ok());
        let circle = text.replace("https://", "http://");
        let said = Config::parse(&circle, "x").unwrap_err().to_string();
        assert!(said.contains("redirected for ever, from `/` to `/`"), "{said}");
    }

    #[test]
    fn a_long_chain_of_redirects_that_ends_is_fine() {
        let table = |at| format!("[[site.path]]\nexact = \"/{at}\"\nredirect = \"/{}\"\n", at + 1);
        let tables = (0..1000).map(table).collect::<Vec<_>>().concat();
        let text = format!(
            "listen = [\"127.0.0.1:80\"]\n[[site]]\nname = \"blog\"\norigin = \"http://127.0.0.1:1\"\n\
             power.simulated = {{}}\n{tables}"
        );
        assert!(Config::parse(&text, "x").is_ok());
        let said =
            Config::parse(&text.replace("\"/1000\"", "\"/0\""), "x").unwrap_err().to_string();
        assert!(said.contains("`/998` to `/999` to `/0`"), "{said}");
    }

    #[test]
    fn redirects_that_end_are_fine() {
        for tables in [
            &[("exact = \"/a\"", "redirect = \"/a/\"")][..],
            &[("prefix = \"/a/\"", "redirect = \"/{rest}\"")],
            &[("exact = \"/a\"", "redirect = \"http://blog.example:9000/a\"")],
            // Another program has port 80, which has no redirect to here.
            &[("exact = \"/a\"", "redirect = \"http://blog.example/a\"")],
            &[("exact = \"/a\"", "redirect = \"/a/../b\"")],
            &[("prefix = \"/\"", "redirect = \"https://www.example/{rest}\"")],
            &[("prefix = \"/a\"", "redirect = \"/a/b\""), ("exact = \"/a/b\"", "text = \"x\"")],
            &[
                ("prefix = \"/a/\"", "redirect = \"/b/b/c/{rest}\""),
                ("prefix = \"/b/\"", "redirect = \"/{rest}\""),
            ],
            &[("exact = \"/a\"", "redirect = \"/login?to=https://blog.example/a\"")],
        ] {
            assert_eq!(parse(tables), Ok(()), "{tables:?}");
        }
    }
}

//! What crawlers look for first: `/robots.txt`, and the sitemaps that it names. They are fetched whenever
//! the server wakes, since a crawler that cannot read them stays away from the whole site.

use http::Uri;
use nightwatt_httpcache::vary::OWN_ENCODINGS;

use super::Period;
use super::order::Order;
use crate::authority::Authority;

/// Where rules for crawlers are (RFC 9309).
pub(crate) const ROBOTS: &str = "/robots.txt";

/// Where a sitemap is, if `robots.txt` names none.
const USUAL: &str = "/sitemap.xml";

/// Sitemaps of a host.
const MOST: usize = 8;

impl Period<'_> {
    /// Fetches them for every host by which the site was asked for.
    pub(super) async fn fetch_crawler_files(&self) {
        let site = self.site();
        let [with_gzip, plain] = OWN_ENCODINGS;
        for base in site.wishes.bases() {
            let Some(robots) = site.rules.key.key(&base, ROBOTS) else { continue };
            // As it is: it is read here. With a coding: for those who ask with one.
            let orders = [plain, with_gzip].map(|coding| Order::fetch(robots.clone(), coding));
            self.carry_out(orders.into()).await;
            let rules = self.stored(&robots, plain).map(|found| found.object.body.clone());
            let rules = String::from_utf8_lossy(rules.as_deref().unwrap_or_default()).into_owned();
            let (_, authority, _) = robots.parts();
            let keys = sitemaps(&rules, authority).into_iter();
            let keys = keys.filter_map(|target| site.rules.key.key(&base, &target));
            self.carry_out(keys.map(|key| Order::fetch(key, with_gzip)).collect()).await;
        }
    }
}

/// The sitemaps of `host` that a robots.txt names, as paths.
fn sitemaps(robots: &str, host: &str) -> Vec<String> {
    let named = robots.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("sitemap").then(|| value.trim())
    });
    let ours = Authority::parse(host);
    let ours = ours.as_ref().map(|it| it.host);
    let mut targets: Vec<String> = named
        .filter_map(|url| {
            let url: Uri = url.parse().ok()?;
            let theirs = url.host().zip(ours);
            // A path alone is no address, but often meant as one.
            theirs
                .is_none_or(|(theirs, ours)| theirs.eq_ignore_ascii_case(ours))
                .then(|| url.path_and_query().map(ToString::to_string))
                .flatten()
        })
        .take(MOST)
        .collect();
    if targets.is_empty() {
        targets.push(USUAL.to_owned());
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sitemaps_are_those_of_the_same_host_that_robots_txt_names() {
        let robots = "User-agent: *\nDisallow: /admin\n\
                      Sitemap: https://Blog.test/wp-sitemap.xml\n\
                      sitemap : https://cdn.test/other.xml\n\
                      SITEMAP:/news/sitemap.xml?page=1\n\
                      Sitemap: not an address\n";
        let named = ["/wp-sitemap.xml", "/news/sitemap.xml?page=1"];
        assert_eq!(sitemaps(robots, "blog.test"), named);
        assert_eq!(sitemaps(robots, "blog.test:8080"), named);
        assert_eq!(sitemaps("", "blog.test"), ["/sitemap.xml"]);
        let many = "Sitemap: http://blog.test/s.xml\n".repeat(100);
        assert_eq!(sitemaps(&many, "blog.test").len(), MOST);
    }
}

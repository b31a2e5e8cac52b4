//! Files that crawlers request first: `/robots.txt`, the sitemaps that it names, and those that an index of sitemaps
//! names. They are fetched whenever the server wakes, since a crawler that cannot read them avoids the whole site.

use std::collections::BTreeSet;

use http::{HeaderMap, Uri};
use nightwatt_httpcache::vary::OWN_ENCODINGS;
use nightwatt_mirror::coding::{self, Coding};
use nightwatt_mirror::discover::{self, LONGEST_SITEMAP, LinkKind};

use super::Period;
use super::order::Order;
use crate::authority::Authority;
use crate::request_rules::ROBOTS;

/// The path of the sitemap, if `robots.txt` names none.
const USUAL: &str = "/sitemap.xml";

/// Maximum number of sitemaps of a host from `robots.txt`.
const MOST: usize = 8;

/// Maximum number of sitemaps of a host from its indexes.
const MOST_OF_INDEXES: usize = 64;

impl Period<'_> {
    /// Fetches them for every host under which the site was requested.
    pub(super) async fn fetch_crawler_files(&self) {
        let site = self.site();
        let [with_gzip, plain] = OWN_ENCODINGS;
        for base in site.prefetch_queue.bases() {
            let Some(robots) = site.rules.key.key(&base, ROBOTS) else { continue };
            // Without a coding, since it is parsed here; and with one, for clients that accept it.
            let orders = [plain, with_gzip].map(|coding| Order::fetch(robots.clone(), coding));
            self.carry_out(orders.into()).await;
            let rules = self.stored(&robots, plain).map(|found| found.object.body.clone());
            let rules = String::from_utf8_lossy(rules.as_deref().unwrap_or_default()).into_owned();
            let (_, authority, _) = robots.parts();
            let named = sitemaps(&rules, authority);
            self.fetch_sitemaps(&base, &named).await;
            let mut further = BTreeSet::new();
            for target in &named {
                let Some(key) = site.rules.key.key(&base, target) else { continue };
                let Some(found) = self.stored(&key, with_gzip) else { continue };
                let object = &found.object;
                further.extend(indexed(object.stored.headers(), target, &object.body, authority));
            }
            further.retain(|target| !named.contains(target));
            let further: Vec<String> = further.into_iter().take(MOST_OF_INDEXES).collect();
            self.fetch_sitemaps(&base, &further).await;
        }
    }

    async fn fetch_sitemaps(&self, base: &str, targets: &[String]) {
        let [with_gzip, _] = OWN_ENCODINGS;
        let keys = targets.iter().filter_map(|it| self.site().rules.key.key(base, it));
        self.carry_out(keys.map(|key| Order::fetch(key, with_gzip)).collect()).await;
    }
}

/// The sitemaps of `host` that this one names, if it is an index, as paths. An index never names another index.
fn indexed(headers: &HeaderMap, target: &str, body: &[u8], host: &str) -> Vec<String> {
    let unpacked = match Coding::of_answer(headers) {
        Some(Coding::Identity) => None,
        Some(coding) => coding::unpack(coding, body, LONGEST_SITEMAP).ok(),
        None => return Vec::new(),
    };
    let path = target.split('?').next().unwrap_or_default();
    let links = discover::discover(headers, path, unpacked.as_deref().unwrap_or(body)).links;
    let named = links.iter().filter(|link| link.kind == LinkKind::Sitemap);
    named.filter_map(|link| target_of(&link.reference, host)).collect()
}

/// The sitemaps of `host` that a robots.txt names, as paths.
fn sitemaps(robots: &str, host: &str) -> Vec<String> {
    let named = robots.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("sitemap").then(|| value.trim())
    });
    let mut targets: Vec<String> =
        named.filter_map(|url| target_of(url, host)).take(MOST).collect();
    if targets.is_empty() {
        targets.push(USUAL.to_owned());
    }
    targets
}

/// Path and query of a URL of `host`. A path alone is not a URL, but often meant as one.
fn target_of(url: &str, host: &str) -> Option<String> {
    let url: Uri = url.parse().ok()?;
    let theirs = url.host().zip(Authority::parse(host));
    let is_ours = theirs.is_none_or(|(theirs, ours)| theirs.eq_ignore_ascii_case(ours.host));
    is_ours.then(|| url.path_and_query().map(ToString::to_string)).flatten()
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

    #[test]
    fn sitemaps_of_an_index_are_those_of_the_same_host() {
        let index = "<?xml version='1.0'?><sitemapindex xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>\
                     <sitemap><loc>https://blog.test/post-sitemap.xml</loc></sitemap>\
                     <sitemap><loc>https://cdn.test/other-sitemap.xml</loc></sitemap>\
                     <sitemap><loc>https://blog.test/page-sitemap.xml?a=1&amp;b=2</loc></sitemap>\
                     </sitemapindex>";
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "text/xml; charset=UTF-8".parse().unwrap());
        let named = ["/post-sitemap.xml", "/page-sitemap.xml?a=1&b=2"];
        let of =
            |headers: &HeaderMap, body: &[u8]| indexed(headers, "/sitemap.xml", body, "blog.test");
        assert_eq!(of(&headers, index.as_bytes()), named);
        let sitemap = index.replace("sitemapindex", "urlset").replace("sitemap>", "url>");
        assert!(of(&headers, sitemap.as_bytes()).is_empty(), "pages are not fetched here");
        let packed = coding::pack(Coding::Gzip, index.as_bytes(), coding::Effort::Store).unwrap();
        headers.insert("content-encoding", "gzip".parse().unwrap());
        assert_eq!(of(&headers, &packed), named);
        assert!(of(&headers, b"not gzip").is_empty());
    }
}

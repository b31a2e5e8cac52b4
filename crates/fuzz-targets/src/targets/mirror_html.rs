//! Links of a page: whatever comes is read to its end, what is found is bounded, and what becomes an address
//! of the site stays one.

use http::{HeaderMap, HeaderValue};
use nightwatt_mirror::discover::{LONGEST_REFERENCE, MOST_LINKS, discover};
use nightwatt_mirror::pure::address::{Address, Site};
use nightwatt_mirror::pure::refused_addresses::{Origin, PatternRules, page_of, refusal};

/// Runs the target on one input.
pub fn run(page: &[u8]) {
    read("text/html", page);
}

/// Reads a document of a kind, and resolves its links.
pub(super) fn read(kind: &'static str, document: &[u8]) {
    let mut headers = HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let found = discover(&headers, "/folder/page.xml.gz", document);
    assert!(found.links.len() <= MOST_LINKS);
    let site = Site::new("https://example.org").expect("it is one");
    let own = site.base().join("/folder/page").expect("it is one");
    let base = found.base.as_ref().and_then(|base| own.join(base).ok()).unwrap_or(own);
    for link in &found.links {
        assert!(!link.reference.is_empty() && link.reference.len() <= LONGEST_REFERENCE);
        let Ok(address) = site.resolve(&base, &link.reference) else { continue };
        assert_eq!(Address::new(address.as_str()), Some(address.clone()));
        assert_eq!(site.address_of(&site.url(&address)), Ok(address.clone()));
        let rules = PatternRules::default();
        // What may be fetched because clients ask for it may be fetched because of a link.
        let as_requested = refusal(&address, Origin::Requested, &rules);
        assert!(as_requested.is_some() || refusal(&address, Origin::Linked, &rules).is_none());
        let _ = page_of(&address);
    }
}

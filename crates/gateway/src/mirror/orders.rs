//! `nightwatt mirror`: orders about mirrors over the control socket.

use std::sync::Arc;

use nightwatt_mirror::pure::address::{Address, Site};
use serde::{Deserialize, Serialize};

use super::Mirror;
use super::status::Explained;
use crate::status::MirrorStatus;

/// An order about mirrors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MirrorOrder {
    /// Report their state.
    Status,
    /// Content has changed: pages with one of these prefixes are not served before they are confirmed.
    Refresh {
        /// Prefixes of paths; if empty, all pages.
        places: Vec<String>,
    },
    /// Fetch what is due at once, and wake servers for that.
    Fetch,
    /// Report whether an address is mirrored, and why not.
    Explain {
        /// Path and query, or a whole URL.
        address: String,
    },
}

/// The answer to an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MirrorReply {
    /// To `status`.
    Status(Vec<MirrorStatus>),
    /// To `fetch`, and to `refresh` while a mirror is not open.
    Done,
    /// To `refresh`.
    Outdated {
        /// Number of mirrored pages that are to be confirmed.
        pages: usize,
    },
    /// To `explain`.
    Explained(Explained),
}

/// Executes an order on these mirrors.
pub(crate) async fn obey(
    mirrors: &[&Arc<Mirror>],
    order: &MirrorOrder,
) -> Result<MirrorReply, String> {
    match order {
        MirrorOrder::Status => {
            Ok(MirrorReply::Status(mirrors.iter().map(|it| it.status()).collect()))
        }
        MirrorOrder::Refresh { places } => {
            let all = ["/".to_owned()];
            let places = if places.is_empty() { &all } else { places.as_slice() };
            let places: Result<Vec<Address>, String> =
                places.iter().map(|it| address(it)).collect();
            let places: Arc<[String]> = places?.iter().map(Address::to_string).collect();
            let mut pages = Some(0);
            for mirror in mirrors {
                let outdated = mirror.outdate(Arc::clone(&places)).await;
                pages = pages.zip(outdated).map(|(all, pages)| all + pages);
            }
            Ok(pages.map_or(MirrorReply::Done, |pages| MirrorReply::Outdated { pages }))
        }
        MirrorOrder::Fetch => {
            for mirror in mirrors {
                mirror.fetch_now();
            }
            Ok(MirrorReply::Done)
        }
        MirrorOrder::Explain { address } => explain(mirrors, address),
    }
}

fn explain(mirrors: &[&Arc<Mirror>], text: &str) -> Result<MirrorReply, String> {
    let not_open = || "the mirror is not open yet: ask again in a moment".to_owned();
    let is_url = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    let (mirror, address) = if is_url {
        // The URL names the site.
        let mut read = mirrors.iter().filter_map(|it| Some((it, it.address_of(text)?))).peekable();
        read.peek().ok_or_else(not_open)?;
        let own = read.find_map(|(mirror, address)| Some((*mirror, address.ok()?)));
        own.ok_or_else(|| {
            format!(
                "`{text}` is no page of a mirrored site: `nightwatt mirror status` shows their URLs"
            )
        })?
    } else {
        let address = address(text)?;
        let [mirror] = mirrors else {
            return Err("there are several sites: name one by `--site`".to_owned());
        };
        (*mirror, address)
    };
    mirror.explain(&address).map(MirrorReply::Explained).ok_or_else(not_open)
}

/// The address of a path. Letters that cannot be sent are escaped, as browsers do it: `/café`.
fn address(text: &str) -> Result<Address, String> {
    let wrong = || format!("`{text}` is no path: it must begin with `/`, as in `/about.html`");
    let path = text.starts_with('/').then_some(text).ok_or_else(wrong)?;
    let escaped = |path| {
        let site = Site::new("http://site.invalid").ok()?;
        site.resolve(site.base(), path).ok()
    };
    Address::new(path).or_else(|| escaped(path)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_as_people_write_it() {
        let of = |text| address(text).map(|it| it.to_string());
        assert_eq!(of("/caf\u{e9}?x=\u{e4}").as_deref(), Ok("/caf%C3%A9?x=%C3%A4"));
        assert_eq!(of("/a b").as_deref(), Ok("/a%20b"));
        assert_eq!(of("//a/../b").as_deref(), Ok("//a/../b"), "what can be sent stays as it is");
        for wrong in ["about.html", "", "ftp://x/", "//exa mple/x"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}

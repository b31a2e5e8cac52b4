//! `nightwatt mirror`: orders about mirrors over the control socket.

use std::sync::Arc;

use nightwatt_mirror::pure::address::Address;
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
        /// Path and query.
        address: String,
    },
}

/// The answer to an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MirrorReply {
    /// To `status`.
    Status(Vec<MirrorStatus>),
    /// To `refresh` and `fetch`.
    Done,
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
            for place in places {
                address(place)?;
            }
            for mirror in mirrors {
                for place in places {
                    mirror.outdate(place.clone()).await;
                }
            }
            Ok(MirrorReply::Done)
        }
        MirrorOrder::Fetch => {
            for mirror in mirrors {
                mirror.fetch_now();
            }
            Ok(MirrorReply::Done)
        }
        MirrorOrder::Explain { address: text } => {
            let address = address(text)?;
            let [mirror] = mirrors else {
                return Err("there are several sites: name one by `--site`".to_owned());
            };
            let explained = mirror.explain(&address).map(MirrorReply::Explained);
            explained.ok_or_else(|| "the mirror is not open yet: ask again in a moment".to_owned())
        }
    }
}

fn address(text: &str) -> Result<Address, String> {
    let wrong = || format!("`{text}` is no path: it must begin with `/`, as in `/about.html`");
    Address::new(text).ok_or_else(wrong)
}

//! `nightwatt mirror`: what the operator asks of mirrors over the control socket.

use std::sync::Arc;

use nightwatt_mirror::pure::address::Address;
use serde::{Deserialize, Serialize};

use super::Mirror;
use super::status::{Explained, MirrorStatus};

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MirrorOrder {
    /// How are they?
    Status,
    /// Content has changed: what begins with one of these is not given before it is confirmed.
    Refresh {
        /// Paths; none: all.
        places: Vec<String>,
    },
    /// Is this address mirrored, and why not?
    Explain {
        /// Path and query.
        address: String,
    },
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MirrorReply {
    /// To `status`.
    Status(Vec<MirrorStatus>),
    /// To `refresh`.
    Done,
    /// To `explain`.
    Explained(Explained),
}

/// Does what is ordered, of these mirrors.
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
        MirrorOrder::Explain { address: text } => {
            let address = address(text)?;
            let [mirror] = mirrors else {
                return Err("say which site, by `--site`".to_owned());
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

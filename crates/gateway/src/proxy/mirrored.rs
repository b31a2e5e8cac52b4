//! A request and the mirror of its site.

use std::sync::Arc;

use http::{Response, StatusCode};
use nightwatt_httpcache::CacheKey;
use nightwatt_model::policy::admission::{Cached, ClientClass, Want};
use nightwatt_model::policy::lifecycle::Phase;

use super::Asked;
use crate::access::Answered;
use crate::body::Answer;
use crate::hit::{Found, head_of};
use crate::mirror::{Asking, Given, Mirror};

impl Asked<'_> {
    /// The mirror's answer while the server is not awake, if no cache has a better one.
    pub(super) async fn mirrored(
        &self,
        mirror: &Arc<Mirror>,
        key: Option<&CacheKey>,
        found: Option<&Found>,
    ) -> Option<Response<Answer>> {
        let (_, _, key_target) = key?.parts();
        let is_needed = !self.gateway.observe && Self::cached(found) != Cached::Fresh;
        if !is_needed || self.site().supervisor.phase_now() == Phase::Awake {
            return None;
        }
        let is_stale = Self::cached(found) == Cached::Stale;
        let asking = Asking {
            request: head_of(self.facts, self.parts),
            key_target,
            sender: self.sender,
            client: self.facts.budget,
            newer_than: found.filter(|_| is_stale).map(|it| it.object.stored.times().received),
            // Crawlers would forget the path. Who has put a proof on the server links to it nowhere.
            may_be_absent: !is_stale
                && self.class != ClientClass::Crawler
                && self.want() != Want::Proof,
        };
        mirror.answer(&asking).await
    }

    /// How the mirror's answer counts.
    pub(super) fn mirror_answer(response: Response<Answer>) -> (Response<Answer>, Answered) {
        let is_known = response.status() == StatusCode::NOT_MODIFIED;
        (response, if is_known { Answered::NotModified } else { Answered::Mirror })
    }

    /// The mirror learns what is asked for.
    pub(super) fn teach(&self, mirror: &Mirror, answered: Answered, response: &Response<Answer>) {
        if matches!(
            answered,
            Answered::Server
                | Answered::Held
                | Answered::Cache
                | Answered::Stale
                | Answered::NotModified
                | Answered::Mirror
        ) {
            mirror.learn(&Given {
                request: head_of(self.facts, self.parts),
                client: self.facts.budget,
                sender: self.sender,
                status: response.status(),
                headers: response.headers(),
            });
        }
    }
}

//! A request and the mirror of its site.

use std::sync::Arc;

use http::{Response, StatusCode};
use nightwatt_httpcache::{CacheKey, Stored, Usability};
use nightwatt_policy::admission::{Cached, ClientClass, Want};
use nightwatt_policy::lifecycle::Phase;

use super::SiteRequest;
use crate::access_log::Answered;
use crate::body::Answer;
use crate::hit::{Found, head_of};
use crate::mirror::{AnsweredRequest, CacheRequest, Mirror, MirrorRequest};

impl SiteRequest<'_> {
    /// The mirror's answer while the server is not awake, unless a cache has a better one.
    pub(super) async fn mirrored(
        &self,
        mirror: &Arc<Mirror>,
        key: Option<&CacheKey>,
        found: Option<&Found>,
    ) -> Option<Response<Answer>> {
        let (_, _, key_target) = key?.parts();
        let is_needed = !self.serving.observe && Self::cached(found) != Cached::Fresh;
        if !is_needed || self.site().supervisor.phase_now() == Phase::Awake {
            return None;
        }
        let is_stale = Self::cached(found) == Cached::Stale;
        let asking = MirrorRequest {
            request: head_of(self.facts, self.parts),
            key_target,
            sender: self.sender,
            client: self.facts.budget,
            newer_than: found.filter(|_| is_stale).map(|it| it.object.stored.times().received),
            // A crawler would forget the path, and no page links to a proof of ownership.
            may_be_absent: !is_stale
                && self.class != ClientClass::Crawler
                && self.want() != Want::Proof,
        };
        mirror.answer(&asking).await
    }

    /// How a stored answer may be used, by what the mirror knows.
    pub(super) fn limited(
        &self,
        key: &CacheKey,
        usability: Usability,
        stored: &Stored,
    ) -> Usability {
        let mirror = self.site().mirror.as_ref().filter(|_| !self.serving.observe);
        let targets = [self.facts.target.as_str(), key.parts().2];
        let request = CacheRequest { targets, client: self.facts.budget };
        mirror.map_or(usability, |it| it.limited(usability, stored, request))
    }

    /// The mirror's answer, and how it is logged.
    pub(super) fn mirror_answer(response: Response<Answer>) -> (Response<Answer>, Answered) {
        let is_known = response.status() == StatusCode::NOT_MODIFIED;
        (response, if is_known { Answered::NotModified } else { Answered::Mirror })
    }

    /// Lets the mirror learn from the answer.
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
            if self.facts.trusted {
                mirror.reported(&self.facts.base);
            }
            mirror.learn(&AnsweredRequest {
                request: head_of(self.facts, self.parts),
                client: self.facts.budget,
                sender: self.sender,
                is_human: self.class == ClientClass::Human,
                status: response.status(),
                headers: response.headers(),
                is_from_server: matches!(answered, Answered::Server | Answered::Held),
            });
        }
    }
}

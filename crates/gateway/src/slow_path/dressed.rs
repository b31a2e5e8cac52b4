//! What is done with a request and its answer beside caching and waking: other answers by path, and compression.

use http::header::CACHE_CONTROL;
use http::{HeaderValue, Response};
use nightwatt_http1::Incoming;

use super::SiteRequest;
use crate::access_log::Answered;
use crate::accounting::How;
use crate::body::Answer;
use crate::https;
use crate::paths::PathRule;
use crate::request_rules::OwnPath;

impl SiteRequest<'_> {
    /// Answers a request.
    pub(super) async fn answer(&self, body: Incoming) -> (Response<Answer>, How) {
        let site = self.site();
        let is_bare = site.paths.is_none() && site.compressor.is_none();
        if is_bare {
            return self.answer_plainly(body).await;
        }
        let rule = site.path_rule(self.facts.path());
        // Boxed, since few sites have tables by path.
        let (mut response, how) = match rule {
            Some(rule) => Box::pin(self.answer_by(rule, body)).await,
            None => self.answer_plainly(body).await,
        };
        let Some(compressor) = &site.compressor else { return (response, how) };
        let (target, is_sent) =
            (&self.facts.target, matches!(how.answered, Answered::Server | Answered::Held));
        let is_stored = matches!(
            how.answered,
            Answered::Cache | Answered::Stale | Answered::NotModified | Answered::Mirror
        );
        if is_sent || is_stored {
            compressor.mark(self.parts, target, &mut response);
        }
        if is_sent {
            response = compressor.pass(self.parts, target, self.sender, response);
        }
        (response, how)
    }

    async fn answer_by(&self, rule: &PathRule, body: Incoming) -> (Response<Answer>, How) {
        let is_redirected =
            https::redirect(&self.serving.config, &self.site().config, self.facts).is_some();
        let is_state = OwnPath::of(&self.site().config, self.facts.path()) == Some(OwnPath::State);
        let own = if is_redirected || is_state || rule.config.asks_server() {
            None
        } else {
            rule.answer(self.facts, &self.parts.headers).await
        };
        let (mut response, how) = match own {
            Some(mut response) => {
                if self.site().admittance.is_some() {
                    // Caches in front of this proxy do not ask who may come in.
                    let private = HeaderValue::from_static("private");
                    response.headers_mut().entry(CACHE_CONTROL).or_insert(private);
                }
                (response, How::by_itself(self.class, Answered::Path))
            }
            None => self.answer_plainly(body).await,
        };
        rule.change_answer(response.headers_mut());
        (response, how)
    }
}

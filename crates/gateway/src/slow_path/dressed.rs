//! What is done with a request and its answer beside caching and waking: other answers by path, and compression.

use http::header::CACHE_CONTROL;
use http::{HeaderValue, Response, StatusCode};
use nightwatt_http1::Incoming;

use super::SiteRequest;
use crate::access_log::Answered;
use crate::accounting::How;
use crate::body::Answer;
use crate::compress::{Compressor, WholeAnswer};
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
        if let Some(compressor) = &site.compressor {
            response = self.compressed(compressor, rule, how.answered, response);
        }
        // After that, which it does not decide: caches in front of this proxy do not ask who may come in.
        if how.answered == Answered::Path && site.admittance.is_some() {
            let private = HeaderValue::from_static("private");
            response.headers_mut().entry(CACHE_CONTROL).or_insert(private);
        }
        (response, how)
    }

    fn compressed(
        &self,
        compressor: &Compressor,
        rule: Option<&PathRule>,
        answered: Answered,
        mut response: Response<Answer>,
    ) -> Response<Answer> {
        let (target, status) = (&self.facts.target, response.status());
        // Not our sentences about files: those may still become pages or problem details.
        let is_file = answered == Answered::Path
            && rule.is_some_and(|it| it.config.folder.is_some())
            && (status.is_success() || status == StatusCode::NOT_MODIFIED);
        let is_sent = is_file || matches!(answered, Answered::Server | Answered::Held);
        let is_stored = matches!(
            answered,
            Answered::Cache | Answered::Stale | Answered::NotModified | Answered::Mirror
        );
        if is_sent || is_stored {
            compressor.mark(self.parts, target, &mut response);
        }
        if is_sent {
            response = compressor.pass(self.parts, target, self.sender, response);
        }
        response
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
            Some(response) => (response, How::by_itself(self.class, Answered::Path)),
            None => self.answer_plainly(body).await,
        };
        rule.change_answer(response.headers_mut());
        if let Some(whole) = response.extensions_mut().get_mut::<WholeAnswer>() {
            rule.change_answer(&mut whole.headers);
        }
        (response, how)
    }
}

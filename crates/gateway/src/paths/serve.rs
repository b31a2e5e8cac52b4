//! What a path is answered with, if not by the server.

use http::header::{ALLOW, CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Method, Response, StatusCode};

use super::{PathRule, files};
use crate::answers;
use crate::body::Answer;
use crate::config::REST_OF_PATH;
use crate::facts::Facts;
use crate::request_rules::path_of;

/// The type of a fixed text.
const PLAIN: &str = "text/plain; charset=utf-8";

impl PathRule {
    /// The answer without the server; nothing if the server answers.
    pub(crate) async fn answer(
        &self,
        facts: &Facts,
        headers: &http::HeaderMap,
    ) -> Option<Response<Answer>> {
        if let Some(place) = &self.config.redirect {
            return Some(self.redirect(place, facts));
        }
        let is_read = matches!(facts.method, Method::GET | Method::HEAD);
        if let Some(text) = &self.config.text {
            return Some(self.text(text, &facts.method));
        }
        let folder = self.folder.as_ref()?;
        if !is_read {
            let text = "Here are files, which can be read only.";
            let mut response = answers::sentence(StatusCode::METHOD_NOT_ALLOWED, text);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Some(response);
        }
        let within = self.within(&facts.target).to_owned();
        let at = facts.path();
        let folder_url = || {
            let query = facts.target.get(path_of(at).len()..).unwrap_or_default();
            format!("{at}/{query}")
        };
        let found = folder.open(within).await;
        Some(files::respond(found, &facts.method, headers, folder_url))
    }

    fn redirect(&self, place: &str, facts: &Facts) -> Response<Answer> {
        let place = place.replace(REST_OF_PATH, self.rest(&facts.target));
        let status = self.config.status.unwrap_or(308);
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::PERMANENT_REDIRECT);
        let Ok(location) = HeaderValue::from_str(&place) else {
            return answers::sentence(StatusCode::BAD_REQUEST, "This path leads nowhere.");
        };
        let mut response = answers::sentence(status, &format!("This is at {place} now."));
        response.headers_mut().insert(LOCATION, location);
        response
    }

    fn text(&self, text: &str, method: &Method) -> Response<Answer> {
        let is_head = *method == Method::HEAD;
        let body = if is_head { Answer::empty() } else { Answer::whole(text.to_owned()) };
        let mut response = Response::new(body);
        let status = self.config.status.unwrap_or(200);
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
        let kind = self.config.content_type.as_deref().unwrap_or(PLAIN);
        let kind = HeaderValue::from_str(kind).unwrap_or(HeaderValue::from_static(PLAIN));
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }
}

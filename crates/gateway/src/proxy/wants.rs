//! What a request is for, and what it counts as.

use http::request::Parts;
use http::{HeaderValue, Method};
use nightwatt_model::policy::admission::{ClientClass, Want};
use nightwatt_traffic::{Verdict, clf};

use crate::facts::Facts;
use crate::gateway::Gateway;
use crate::journal::WakeCause;
use crate::request_rules::OwnPath;
use crate::site::Site;
use crate::warm_up::ROBOTS;

/// The class of a request's client, and why it has that class.
pub(crate) fn judge(site: &Site, gateway: &Gateway, facts: &Facts) -> Verdict {
    site.judge(gateway.clock.now(), &facts.for_classifier())
}

/// What a request asks for, as far as admission cares.
pub(crate) fn want(site: &Site, facts: &Facts, parts: &Parts, class: ClientClass) -> Want {
    let is_read = matches!(facts.method, Method::GET | Method::HEAD);
    match OwnPath::of(&site.config, facts.path()) {
        Some(OwnPath::Health) if is_read => return Want::Health,
        Some(OwnPath::Icon) => return Want::Icon,
        Some(OwnPath::Health | OwnPath::State | OwnPath::Challenge) | None => {}
    }
    if facts.path() == ROBOTS {
        return Want::Robots;
    }
    let field = |name| parts.headers.get(name).map(HeaderValue::as_bytes);
    let navigates = navigates(field(FETCH_DEST))
        && field("sec-fetch-mode").is_none_or(|mode| mode == b"navigate")
        && !SCRIPTS.iter().any(|name| parts.headers.contains_key(*name));
    let opens = facts.method == Method::GET && facts.accepts_html && navigates;
    if opens && class == ClientClass::Human { Want::Page } else { Want::Other }
}

/// What a browser wants an answer for.
pub(crate) const FETCH_DEST: &str = "sec-fetch-dest";

/// Fields by which libraries of scripts tell that they fetch a part of a page. (Browsers send `Sec-Fetch-*` by TLS
/// only.)
const SCRIPTS: [&str; 6] =
    ["x-requested-with", "hx-request", "turbo-frame", "x-inertia", "x-pjax", "x-fragment"];

/// Scripts that fetch HTML fragments say so; what says nothing is an old browser.
pub(crate) fn navigates(fetch_dest: Option<&[u8]>) -> bool {
    fetch_dest.is_none_or(|dest| matches!(dest, b"document" | b"iframe"))
}

/// The request as the cause of a wake-up.
pub(crate) fn wake_cause(facts: &Facts, class: ClientClass) -> WakeCause {
    WakeCause::Request {
        id: facts.id.clone(),
        client: facts.client.to_string(),
        class: class.as_str().to_owned(),
        agent: facts.agent.as_deref().map(clf::escaped),
        line: clf::escaped(&format!("{} {}", facts.method, facts.target)),
    }
}

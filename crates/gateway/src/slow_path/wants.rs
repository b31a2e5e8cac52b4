//! What a request wants, and its class.

use http::HeaderValue;
use http::request::Parts;
use nightwatt_policy::admission::{ClientClass, Want};
use nightwatt_traffic::{Rule, Verdict, clf};

use crate::facts::Facts;
use crate::request_rules::{self, Wanting};
use crate::serving::Serving;
use crate::site::Site;
use crate::wake_cause::WakeCause;

/// The class of a request's client, and why it has that class.
pub(crate) fn judge(site: &Site, serving: &Serving, facts: &Facts) -> Verdict {
    let client = facts.certain_client();
    let is_monitor = site.admittance.as_ref().is_some_and(|it| it.config().is_monitor(client));
    if is_monitor {
        return Verdict { rule: Rule::MonitorNetworks, recognised: true, until: None };
    }
    site.judge(serving.clock.now(), &facts.for_classifier())
}

/// What a request wants, for admission.
pub(crate) fn want(site: &Site, facts: &Facts, parts: &Parts, class: ClientClass) -> Want {
    let request = Wanting {
        method: &facts.method,
        path: facts.path(),
        accepts_html: facts.accepts_html,
        class,
    };
    request_rules::want(&site.config, request, |name| {
        parts.headers.get(name).map(HeaderValue::as_bytes)
    })
}

/// The request as the cause of a wake-up.
pub(crate) fn wake_cause(facts: &Facts, class: ClientClass) -> WakeCause {
    WakeCause::Request {
        id: facts.id.clone(),
        client: facts.address.clone(),
        class: class.as_str().to_owned(),
        agent: facts.agent.as_deref().map(clf::escaped),
        line: clf::escaped(&format!("{} {}", facts.method, facts.target)),
    }
}

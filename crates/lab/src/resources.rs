//! What caches may do with the requests of a log.

use nightwatt_model::scenario::CacheRule;
use nightwatt_sim::{Resource, Shelf};
use nightwatt_traffic::scan::Logged;

/// The resources of a log, as far as the scenario's cache has room for them.
#[derive(Debug)]
pub(crate) struct Resources(Shelf);

impl Resources {
    pub(crate) fn new(rule: &CacheRule) -> Self {
        Self(Shelf::new(rule.size_mb << 20))
    }

    /// What a request asks for, by the rules of the log-backed origin of `demo` and `replay`: answers
    /// to GET with these statuses may be stored, and no others.
    pub(crate) fn of(&mut self, logged: &Logged<'_>) -> Resource {
        let is_get = logged.method == "GET";
        let storable =
            is_get && matches!(logged.status, 200 | 203 | 204 | 300 | 301 | 304 | 404 | 410);
        let key = logged.traits.target;
        let place = self.0.place(key, logged.bytes, storable);
        Resource { key, place, is_read: is_get || logged.method == "HEAD", storable }
    }
}

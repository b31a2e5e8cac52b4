//! What caches may do with the requests of a log.

use nightwatt_sim::{Mirrorable, Resource, Slot};
use nightwatt_traffic::scan::Logged;

/// What a request asks for, by the rules of the log-backed origin of `demo` and `replay`: answers to
/// GET with these statuses may be stored, and no others.
pub(crate) fn resource_of(logged: &Logged<'_>) -> Resource {
    let is_get = logged.method == "GET";
    let stored = matches!(logged.status, 200 | 203 | 204 | 300 | 301 | 304 | 404 | 410);
    Resource {
        key: logged.traits.target,
        slot: Slot::NONE,
        bytes: logged.bytes,
        is_read: is_get || logged.method == "HEAD",
        storable: is_get && stored,
        mirror: Mirrorable::NOTHING,
    }
}

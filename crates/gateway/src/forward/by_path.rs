//! What the path of a request changes.

use std::sync::Arc;

use super::Forwarding;
use crate::config::Limits;
use crate::origin::OriginPool;

impl Forwarding<'_> {
    /// The limits of its path.
    pub(super) fn limits(&self) -> &Limits {
        let path = self.site().path_rule(self.facts.path());
        path.map_or(&self.site().limits, |it| &it.limits)
    }

    /// The port of the server for its path.
    pub(super) fn origin(&self) -> &Arc<OriginPool> {
        let path = self.site().path_rule(self.facts.path());
        path.and_then(|it| it.origin.as_ref()).unwrap_or(&self.site().origin)
    }
}

//! Stub.
use serde::Deserialize;

use crate::Error;
use crate::start::Start;
use crate::started::Started;

/// Stub.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {}
impl Config {
    pub(crate) fn start(&self, start: Start<'_>) -> Result<Started, Error> {
        Err(start.refuse("not yet"))
    }
}

//! The keys `password_file` and `password_env`, of which a driver has one.

use std::path::Path;

/// Rejects a configuration that has both.
pub(crate) fn check(file: Option<&Path>, variable: Option<&str>) -> Result<(), String> {
    match (file, variable) {
        (Some(_), Some(_)) => {
            Err("`password_file` and `password_env` are both given: one is enough".to_owned())
        }
        _ => Ok(()),
    }
}

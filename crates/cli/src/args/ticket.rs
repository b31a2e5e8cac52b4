//! The ticket of a receiver that listens. It is a secret, and never on a command line.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nightwatt_host::secret::{Secret, SecretError};
use nightwatt_transfer::net::Ticket;

use crate::errors::Failure;

/// The variable of the environment that may hold it.
const VARIABLE: &str = "NIGHTWATT_TICKET";

/// The ticket in the first line of a file, or else in the environment.
pub(crate) fn read(file: Option<&Path>) -> Result<Ticket, Failure> {
    let secret = match file {
        Some(path) => Secret::from_file(path),
        None => Secret::from_env(VARIABLE),
    };
    let secret = secret.map_err(|error| {
        let failure = match &error {
            SecretError::File { .. } => Failure::usage(&error),
            SecretError::NoLine(path) => {
                Failure::new(format!("there is no ticket in the first line of {}", path.display()))
            }
            SecretError::NoVariable(name) => {
                Failure::new(format!("there is no ticket in the environment's `{name}`"))
            }
        };
        failure.into_usage().hint(
            "`nightwatt receive --listen` prints a ticket: give its file with `--ticket-file`, or set NIGHTWATT_TICKET",
        )
    })?;
    secret.reveal().parse().map_err(|error| Failure::usage(&error))
}

/// Writes it for this user alone.
pub(crate) fn write(path: &Path, ticket: &Ticket) -> Result<(), Failure> {
    let written = || {
        let mut file =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        writeln!(file, "{}", ticket.reveal())
    };
    written().map_err(|error| Failure::because(format!("cannot write {}", path.display()), &error))
}

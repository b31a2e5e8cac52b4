//! The structured log: one line per event on stderr, as text or as JSON.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::args::{LogArgs, LogFormat};
use crate::errors::Failure;

/// Starts logging. `--log-level` takes precedence over `RUST_LOG`, and that over `info`.
pub(crate) fn start(args: &LogArgs) -> Result<(), Failure> {
    let from_environment = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|it| !it.is_empty());
    let (origin, directives) = match (&args.log_level, from_environment) {
        (Some(level), _) => ("--log-level", level.clone()),
        (None, Some(filter)) => ("RUST_LOG", filter),
        (None, None) => ("", "info".to_owned()),
    };
    let filter = EnvFilter::builder().parse(&directives).map_err(|error| {
        Failure::because(format!("{origin}: `{directives}` is not a log filter"), &error)
            .into_usage()
            .hint("write a level (`error`, `warn`, `info`, `debug`, `trace`), or levels by module as in `info,nightwatt_gateway=debug`")
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // A closed stderr is no reason to stop serving.
        .log_internal_errors(false);
    match args.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

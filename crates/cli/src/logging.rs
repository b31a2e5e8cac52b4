//! The structured log: one line per event on stderr, as text or as JSON.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::args::{LogArgs, LogFormat};
use crate::errors::Failure;

const HINT: &str = "write error, warn, info, debug or trace, or a filter such as info,nightwatt_gateway::forward=trace";

/// Starts logging. `--log-level` takes precedence over `RUST_LOG`, and that over `info`.
pub(crate) fn start(args: &LogArgs) -> Result<(), Failure> {
    let filter = filter(args.log_level.as_deref(), "info")?;
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

/// Starts logging for a command that ends by itself: its warnings, or what `RUST_LOG` asks for. The user is there, so
/// lines have no time.
pub(crate) fn start_warnings() -> Result<(), Failure> {
    tracing_subscriber::fmt()
        .with_env_filter(filter(None, "warn")?)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .without_time()
        .with_target(false)
        .log_internal_errors(false)
        .init();
    Ok(())
}

/// By the option, else by `RUST_LOG`, else `usual`.
fn filter(level: Option<&str>, usual: &str) -> Result<EnvFilter, Failure> {
    let from_environment = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|it| !it.is_empty());
    let (origin, directives) = match (level, from_environment) {
        (Some(level), _) => ("--log-level", level.to_owned()),
        (None, Some(filter)) => ("RUST_LOG", filter),
        (None, None) => ("", usual.to_owned()),
    };
    if let Some(word) = unknown_level(&directives) {
        let text = format!("{origin}: there is no level `{word}`");
        return Err(Failure::new(text).into_usage().hint(HINT));
    }
    EnvFilter::builder().parse(&directives).map_err(|error| {
        Failure::because(format!("{origin}: `{directives}` is not a log filter"), &error)
            .into_usage()
            .hint(HINT)
    })
}

/// A word of a filter that can only be a level, and is not one. `EnvFilter` takes it for the name of a module, and then
/// nothing else is logged.
fn unknown_level(directives: &str) -> Option<&str> {
    // Fields of spans may have commas between them.
    if directives.contains('{') {
        return None;
    }
    let words = directives.split(',').map(str::trim);
    let mut words = words.filter(|it| !it.is_empty() && !it.contains(['=', '[']));
    words.find(|it| it.parse::<LevelFilter>().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_word_is_a_level() {
        for good in [
            "info",
            "WARN",
            "off",
            "info,nightwatt_gateway::forward=trace",
            "nightwatt_gateway=debug, error",
            "[request]=trace,info",
            "info,[request{id}]=trace",
        ] {
            assert_eq!(unknown_level(good), None, "{good}");
            assert!(EnvFilter::builder().parse(good).is_ok(), "{good}");
        }
        for (bad, word) in [
            ("foo", "foo"),
            ("waarn", "waarn"),
            ("info,nightwatt_gateway", "nightwatt_gateway"),
            ("x=debug, inf", "inf"),
        ] {
            assert_eq!(unknown_level(bad), Some(word), "{bad}");
        }
    }
}

//! How to log.

use clap::ValueEnum;

/// How to log.
#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// How the log on stderr is written: text or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace or off, or a filter by module such as
    /// `info,nightwatt_gateway::forward=trace` [default: `RUST_LOG`, or info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

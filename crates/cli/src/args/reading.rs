//! How to read access logs: options that every command with a log shares.

use nightwatt_traffic::{ClientFrom, Format, Pattern, Reading};

/// How access logs are to be read.
#[derive(Debug, clap::Args)]
pub(crate) struct ReadingArgs {
    /// Format of the logs [default: detected from their first lines]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Their format as nginx's `log_format` or Apache's `LogFormat` has it
    #[arg(long, value_name = "STRING", conflicts_with = "format")]
    log_format: Option<Pattern>,
    #[arg(long, value_name = "WHICH", default_value_t, help = client_from_help())]
    client_from: ClientFrom,
}

fn client_from_help() -> String {
    format!(
        "Which entry of a chain of forwarded addresses is the client: {} (the left-most public address), {}, {}, \
         or a number from the left",
        ClientFrom::Public,
        ClientFrom::First,
        ClientFrom::Last
    )
}

impl ReadingArgs {
    /// The options that were given.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let client_from = self.client_from != ClientFrom::default();
        let given = [
            ("--format", self.format.is_some()),
            ("--log-format", self.log_format.is_some()),
            ("--client-from", client_from),
        ];
        given.into_iter().filter_map(|(name, is_given)| is_given.then_some(name)).collect()
    }

    pub(crate) fn reading(&self) -> Reading {
        Reading {
            format: self.format,
            pattern: self.log_format.clone(),
            client_from: self.client_from,
        }
    }
}

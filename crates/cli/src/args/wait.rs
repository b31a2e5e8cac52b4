//! Whether a command waits for what it orders.

use std::time::Duration;

use crate::values;

/// `wake` and `sleep`.
#[derive(Debug, clap::Args)]
pub(crate) struct WaitArgs {
    /// Wait until this is done; exit status 1 if that fails
    #[arg(long)]
    pub(crate) wait: bool,
    /// Longest time to wait
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = values::some_time, requires = "wait")]
    pub(crate) timeout: Duration,
}

//! Where the configuration is.

use std::path::PathBuf;

use clap::ValueHint;

/// Where the configuration is.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// The configuration [default: nightwatt.toml, else /etc/nightwatt/nightwatt.toml]
    #[arg(short, long, value_name = "FILE", default_value_os_t = default_config(), hide_default_value = true, value_hint = ValueHint::FilePath)]
    pub(crate) config: PathBuf,
}

impl ConfigArgs {
    /// The configuration that is used without `-c`, if there is one.
    pub(crate) fn found() -> Option<PathBuf> {
        Some(default_config()).filter(|path| path.exists())
    }
}

/// The configuration in this folder, or else the one that the packages install.
fn default_config() -> PathBuf {
    let (here, installed) =
        (PathBuf::from("nightwatt.toml"), PathBuf::from("/etc/nightwatt/nightwatt.toml"));
    if !here.exists() && installed.exists() { installed } else { here }
}

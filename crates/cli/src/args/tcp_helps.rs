//! `tcp helps`.

use super::tcp_lab::TcpRunsArgs;

/// `tcp helps`.
#[derive(Debug, clap::Args)]
pub(crate) struct TcpHelpsArgs {
    /// Changes to try: tso, gso, gro, checksum (together: `tso+gro`), coalescing[=US], pacing[=RATE],
    /// buffers[=BYTES], busy-poll[=US]
    #[arg(value_name = "CHANGE,..", default_value = nightwatt_netlab::helps::USUAL)]
    pub(crate) changes: String,
    /// Links by their names in the table: `d`, `a,d`, or `all`; `none` for a link without emulation
    #[arg(long, value_name = "NAMES", default_value = "none")]
    pub(crate) scenario: String,
    /// Short form: 1 connection of 10,000 segments, five pairs of runs of two seconds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Figure to which `--precision` applies, by its name in `--json`
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    pub(crate) until: String,
    /// Report differences up to this share as no difference
    #[arg(long, value_name = "SHARE", default_value_t = 0.03)]
    pub(crate) margin: f64,
    /// Switch TSO, GSO and GRO off where they are not the change to try, so that each packet is one frame
    /// [default: on, as far as the cards support them]
    #[arg(long)]
    pub(crate) single_frames: bool,
    #[command(flatten)]
    pub(crate) runs: TcpRunsArgs,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  nightwatt tcp helps --quick                             all changes between two cards, ten minutes
  nightwatt tcp helps tso+gso+gro,pacing --scenario d,g   over 10 and 100 Mbit/s
  nightwatt tcp helps buffers=64k,buffers=4M -c 100 --html helps.html
  nightwatt tcp lab clean                                 undo what a killed run left behind

Docs: docs/tcp-helps.md";

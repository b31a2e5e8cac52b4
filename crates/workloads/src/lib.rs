//! What the tools that people load machines with print, read: figures with units, operations and
//! times, so that energy can be divided by what was done.
//!
//! ```text
//! Output (stdout, stderr, files) ─► Tool::read, or a reader of `custom` ─► Outcome | ReadError
//! ```
//!
//! To add a tool: one file, and one line in [`TOOLS`]. Nothing here is guessed: a unit that is not
//! known, a decimal comma or a `nan` is an error, and what casts doubt on a figure is a warning.

pub mod custom;
mod error;
mod json;
mod number;
mod outcome;
mod output;
mod quote;
mod text;
mod tool;

// One file per tool.
mod bonnie;
mod fio;
mod httperf;
mod idle;
mod ioping;
mod iperf2;
mod iperf3;
mod linpack;
mod longbottom;
mod nightwatt_load;
mod none;
mod oha;
mod openmp_mflops;
mod pgbench;
mod stress_ng;
mod sysbench;
mod wrk;

pub use error::ReadError;
pub use outcome::{Better, Figure, Operations, Outcome, Percentile, unit};
pub use output::Output;
pub use tool::Tool;

/// All tools that are known.
pub const TOOLS: &[Tool] = &[
    pgbench::TOOL,
    sysbench::TOOL,
    ioping::TOOL,
    fio::TOOL,
    iperf2::TOOL,
    iperf3::TOOL,
    httperf::TOOL,
    wrk::TOOL,
    oha::TOOL,
    nightwatt_load::TOOL,
    bonnie::TOOL,
    linpack::TOOL,
    openmp_mflops::TOOL,
    stress_ng::TOOL,
    idle::TOOL,
    none::TOOL,
];

/// The tool of that name.
pub fn tool(name: &str) -> Result<&'static Tool, ReadError> {
    TOOLS.iter().find(|tool| tool.name == name).ok_or_else(|| {
        let known: Vec<_> = TOOLS.iter().map(|tool| format!("`{}`", tool.name)).collect();
        ReadError::NoTool { name: name.to_owned(), known: known.join(", ") }
    })
}

//! What is decided and computed without a clock, without input and output: first of all, which codec a block is sent
//! with.
//!
//! ```text
//!   arm       codecs and levels, and what is assumed of them before anything was measured
//!   bill      what a block costs: time, bytes and watts to one figure
//!   estimate  what each arm costs and yields, learnt from blocks and samples; the link
//!   budget    how much may be spent on trying arms
//!   compress  the policy
//!   rivals    other policies: one fixed arm, the published algorithm, zstd's way, the oracle
//!   trace     what each arm cost and yielded, block by block
//!   replay    runs policies over a trace; comparison does it with all of them
//!   law       the published table, as a law
//!   layout    all files one behind the other
//!   ranges    sets of ranges: what is there, what is missing
//!   exclude   patterns of what is left out
//!   grain     how finely times are kept
//!   paths     which paths and links are accepted from another machine
//!   shown     its texts, for a terminal
//! ```

pub mod arm;
pub mod bill;
pub mod budget;
pub mod comparison;
pub mod compress;
pub mod estimate;
pub mod exclude;
pub mod grain;
pub mod law;
pub mod layout;
pub mod paths;
pub mod policy;
pub mod ranges;
pub mod replay;
pub mod rivals;
pub mod shown;
pub mod trace;

#[cfg(test)]
mod tests;

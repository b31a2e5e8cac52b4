//! `nightwatt-sched`: a scheduler by operations per joule, for Linux kernels with sched_ext (6.18 and later).
//!
//! ```text
//! load ─► kernel (bpf/sched.bpf.c) ─► load::Session ─► trace::Trace (a CSV line for each decision)
//!              ▲ counters, power, OPJ      └─► counts::Counts (text, JSON)
//! run ─────────┘ a command under SCHED_EXT
//! ```
//!
//! The kernel's half links to functions that the kernel exports to GPL programs only, so this package is GPL-2.0-only,
//! and a program of its own.

mod check;
mod counts;
mod error;
mod kernel;
mod launch;
mod load;
mod operations;
mod os;
mod power;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Schedule tasks by operations per joule, on a kernel with sched_ext
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Load(load::Args),
    Run(launch::Args),
    Check(check::Args),
}

const EXAMPLES: &str = "\
Examples:
  nightwatt-sched check                          can this kernel do it?
  nightwatt-sched load                           until Ctrl-C
  nightwatt-sched run -- make -j4                in another terminal: what it schedules

Only what `run` starts is scheduled; all other tasks stay with the kernel's own scheduler.
Docs: docs/sched-ext.md";

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Load(args) => load::run(&args),
        Command::Run(args) => launch::run(&args),
        Command::Check(args) => check::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}

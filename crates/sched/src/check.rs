//! `nightwatt-sched check`: whether this kernel accepts the scheduler, and how much its verifier checks.

use std::fmt::Write as _;
use std::fs;
use std::os::fd::AsFd as _;

use libbpf_rs::Program;
use libbpf_rs::query::ProgInfoIter;
use serde::Serialize;

use crate::error::Error;
use crate::kernel::{self, Loaded, Settings};

/// Load the scheduler's programs without starting it, and print how much the kernel's verifier had to check
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The kernel's answer.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Checked {
    kernel: String,
    /// The scheduler that is loaded now, if there is one.
    loaded: Option<String>,
    programs: Vec<CheckedProgram>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct CheckedProgram {
    name: String,
    /// Instructions that the verifier has followed; it gives up at a million.
    verified_instructions: u32,
}

/// Loads, and unloads again.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let settings =
        Settings { quantum_ns: 4_000_000, bound_quanta: 50, policy: 2, counts: true, traces: true };
    let loaded = Loaded::load(settings)?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let programs = loaded.object().progs().map(|program| {
        let failed = kernel::refused("ask for a program");
        let id = Program::id_from_fd(program.as_fd()).map_err(&failed)?;
        let info = ProgInfoIter::default().find(|it| it.id == id);
        Ok(CheckedProgram {
            name: program.name().to_string_lossy().into_owned(),
            verified_instructions: info.map_or(0, |it| it.verified_insns),
        })
    });
    let checked = Checked {
        kernel: kernel.trim().to_owned(),
        loaded: kernel::loaded_scheduler(),
        programs: programs.collect::<Result<_, Error>>()?,
    };
    if args.json {
        println!("{}", serde_json::to_string(&checked).unwrap_or_default());
    } else {
        println!("{}", checked.text());
    }
    Ok(())
}

impl Checked {
    fn text(&self) -> String {
        let mut text = format!("Linux {} accepts the scheduler", self.kernel);
        if let Some(name) = &self.loaded {
            let _ = write!(text, "; `{name}` is loaded now");
        }
        for CheckedProgram { name, verified_instructions } in &self.programs {
            let _ = write!(text, "\n  {name}: {verified_instructions} instructions verified");
        }
        text
    }
}

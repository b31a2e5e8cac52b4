//! Stacks of sections: what ran in which, and its energy; and as lines that flame graphs are drawn from.

use std::fmt::Write;

use nightwatt_energy::quantity::Joules;
use serde::Serialize;

use super::target;

/// What ran in a stack of sections, and in none inside of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StackReport {
    /// Its sections, the outermost first; none of watched threads outside of all.
    pub sections: Vec<String>,
    /// CPU time, s.
    pub on_cpu_s: f64,
    /// Energy by every channel, in the order of `channels`, J. All stacks together are what each channel
    /// has in `sections_j` and `outside_j`.
    pub joules: Vec<Joules>,
}

/// A line for each stack: see [`CaliperReport::folded`](super::CaliperReport::folded).
pub(super) fn lines(
    command: &[String],
    pids: &[u32],
    stacks: &[StackReport],
    channel: Option<usize>,
) -> String {
    let program = command.first().map_or_else(
        || target::named(pids),
        |program| program.rsplit('/').next().unwrap_or(program).to_owned(),
    );
    let mut text = String::new();
    for stack in stacks {
        let joules = channel.and_then(|channel| stack.joules.get(channel));
        let value = joules.map_or(stack.on_cpu_s, |joules| joules.get()) * 1e6;
        let frames = stack.sections.iter().fold(program.replace(';', ":"), |frames, section| {
            frames + ";" + &section.replace(';', ":")
        });
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{frames} {value:.0}");
    }
    text
}

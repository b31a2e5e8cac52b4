//! Stacks of sections: what ran in which, and its energy; and as lines that flame graphs are drawn from.

use std::fmt::Write;

use nightwatt_model::quantity::Joules;
use serde::Serialize;

use super::result::{CaliperReport, Seen};

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

impl Seen<'_> {
    /// Those in which something ran, the most CPU time first.
    pub(super) fn stacks(&self) -> Vec<StackReport> {
        let stack = |(node, time): (usize, &std::time::Duration)| StackReport {
            sections: self
                .tree
                .path(node)
                .into_iter()
                .filter_map(|section| Some(self.sections.get(section)?.name.clone()))
                .collect(),
            on_cpu_s: time.as_secs_f64(),
            joules: self
                .channels()
                .map(|(_, channel, _)| {
                    channel.shares.nodes().get(node).copied().unwrap_or_default()
                })
                .collect(),
        };
        let nodes = self.used.nodes.iter().enumerate().filter(|(_, time)| !time.is_zero());
        let mut stacks: Vec<StackReport> = nodes.map(stack).collect();
        stacks.sort_by(|one, other| other.on_cpu_s.total_cmp(&one.on_cpu_s));
        stacks
    }
}

impl CaliperReport {
    /// A line for each stack, `program;outer;inner 1234`, as `flamegraph.pl`, inferno and speedscope
    /// read it: microjoules by the main channel, or microseconds of CPU time where there is none.
    pub fn folded(&self) -> String {
        lines(&self.command, self.pid, &self.stacks, self.main_channel())
    }
}

/// See [`CaliperReport::folded`].
pub(super) fn lines(
    command: &[String],
    pid: Option<u32>,
    stacks: &[StackReport],
    channel: Option<usize>,
) -> String {
    let program = command.first().map_or_else(
        || pid.map_or_else(String::new, |pid| format!("process {pid}")),
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

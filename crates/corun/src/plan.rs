//! What is run: a plan file, or commands on the command line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use nightwatt_compare::pure::experiment::{Cell, Design, Restart, Rule};
use nightwatt_compare::{Reader, Subject, Wrong};
use nightwatt_energy::duration_text;
use nightwatt_energy::stats::sequential::{LEAST_RUNS, MOST_RUNS};
use nightwatt_host::ConfigError;
use nightwatt_meters::MeterSpec;
use serde::Deserialize;

use crate::pure::groups::MOST_JOBS;
use crate::pure::placement::Share;

/// More groups than that would run for weeks.
const MOST_GROUPS: usize = 1_000;

/// The figure that runs are repeated for: the time until all jobs of a group are finished.
pub(crate) const SECONDS: &str = "seconds";

/// The plan file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    /// Heading of the report; default: the file's name.
    title: Option<String>,
    /// Differences up to this share do not matter.
    #[serde(default = "three_percent")]
    margin: f64,
    /// The channel that energy is read from, as `METER/CHANNEL`; default: the one that covers most of the machine.
    energy: Option<String>,
    /// Meters, as `--meter` has them; default: those of this machine.
    #[serde(default)]
    meters: Vec<String>,
    /// Time between two readings: `"100 ms"`.
    interval: Option<String>,
    /// Of the random order.
    #[serde(default = "one")]
    seed: u64,
    /// What jobs share that run at the same time.
    #[serde(default)]
    share: Share,
    /// CPUs of each job.
    #[serde(default = "one_cpu")]
    cpus_each: usize,
    /// Sizes of the groups that are run, besides each job alone and all together.
    #[serde(default = "pairs")]
    sizes: Vec<usize>,
    #[serde(default)]
    runs: RunsFile,
    #[serde(default)]
    job: Vec<JobFile>,
}

/// Repetitions and times.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RunsFile {
    /// Minimum number of runs of each group.
    pub(crate) least: u32,
    /// Maximum number of runs of each group.
    pub(crate) most: u32,
    /// Half of the 95 % interval of the time is to be within this share of the mean.
    pub(crate) precision: f64,
    /// How many times a failed run is tried again.
    pub(crate) retries: u32,
    /// A run that takes longer has failed.
    #[serde(with = "duration_text")]
    pub(crate) time_limit: Duration,
    /// The machine rests for this time before each run.
    #[serde(with = "duration_text")]
    pub(crate) rest: Duration,
}

impl Default for RunsFile {
    fn default() -> Self {
        Self {
            least: 5,
            most: 20,
            precision: 0.03,
            retries: 1,
            time_limit: Duration::from_mins(30),
            rest: Duration::ZERO,
        }
    }
}

impl RunsFile {
    fn check(&self) -> Result<(), Wrong> {
        let Self { least, most, precision, .. } = *self;
        let wrong = |key: &str, message: String| Err(Wrong::new(key, message));
        if least < LEAST_RUNS {
            return wrong(
                "runs.least",
                format!("`least` is {LEAST_RUNS} or more, and not {least}"),
            );
        }
        if most > MOST_RUNS {
            return wrong("runs.most", format!("`most` is {MOST_RUNS} at most, and not {most}"));
        }
        if most < least {
            let message = format!("`least` is {least}, and `most` only {most}");
            // The line of the one that is written.
            let is_usual = most == Self::default().most;
            return wrong(if is_usual { "runs.least" } else { "runs.most" }, message);
        }
        if !(precision > 0.0 && precision < 1.0) {
            let message = format!(
                "`precision` is a share above 0 and below 1, as 0.03 for 3 %, and not {precision}"
            );
            return wrong("runs.precision", message);
        }
        if self.time_limit.is_zero() {
            return wrong("runs.time_limit", "`time_limit` has to be above 0".to_owned());
        }
        Ok(())
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobFile {
    name: String,
    command: String,
    /// Lines that are run before, outside of the measured time.
    #[serde(default)]
    prepare: Vec<String>,
    /// Whose output it is, if that has operations: `nightwatt compare --tools` lists them.
    tool: Option<String>,
    /// For the tools `regex` and `json`: how their output is read.
    read: Option<toml::Table>,
}

const fn three_percent() -> f64 {
    0.03
}

const fn one() -> u64 {
    1
}

const fn one_cpu() -> usize {
    1
}

fn pairs() -> Vec<usize> {
    vec![2]
}

/// A plan that was read and checked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Heading of the report.
    pub title: String,
    text: String,
    pub(crate) margin: f64,
    pub(crate) energy: Option<String>,
    pub(crate) meters: Vec<MeterSpec>,
    pub(crate) interval: Option<Duration>,
    seed: u64,
    pub(crate) share: Share,
    pub(crate) cpus_each: usize,
    pub(crate) runs: RunsFile,
    pub(crate) jobs: Vec<Job>,
    /// Jobs that run together, by their places in ascending order: first each alone.
    pub(crate) groups: Vec<Vec<usize>>,
}

/// A job.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) prepare: Vec<String>,
    pub(crate) reader: Option<Reader>,
}

impl Plan {
    /// Reads a plan file; `name` is what errors call it, `title` the heading if the plan has none.
    pub fn read(name: &str, title: &str, text: &str) -> Result<Self, ConfigError> {
        let file: PlanFile = toml::from_str(text)
            .map_err(|error| ConfigError::syntax::<PlanFile>(name, text, &error))?;
        let plan = Self::of(file, title, text);
        plan.map_err(|it| ConfigError::value(name, text, &it.key, it.text))
    }

    /// The plan of commands on the command line. The first words of each are its name. `prepare` has one line for all of
    /// them, or one for each, or none.
    pub fn of_commands(
        commands: &[Vec<String>],
        prepare: &[String],
    ) -> Result<Self, CommandLineError> {
        let (jobs, lines) = (commands.len(), prepare.len());
        if lines > 1 && lines != jobs {
            return Err(CommandLineError::Prepare { lines, jobs });
        }
        let line = |words: &Vec<String>| match &words[..] {
            [line] => line.clone(),
            words => nightwatt_environments::shell::join(words),
        };
        let commands: Vec<String> = commands.iter().map(line).collect();
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let mut text = String::new();
        for (place, (name, line)) in names(&commands).iter().zip(&commands).enumerate() {
            let _ = writeln!(text, "[[job]]\nname = {}\ncommand = {}", quoted(name), quoted(line));
            if let Some(line) = prepare.get(place).or(prepare.first()) {
                let _ = writeln!(text, "prepare = [{}]", quoted(line));
            }
            text.push('\n');
        }
        Ok(Self::read("the command line", "jobs of the command line", &text)?)
    }

    fn of(file: PlanFile, title: &str, text: &str) -> Result<Self, Wrong> {
        let count = file.job.len();
        let wrong = |key: &str, message: &str| Err(Wrong::new(key, message));
        if !(2..=MOST_JOBS).contains(&count) {
            let message = format!("{count} jobs: give 2 to {MOST_JOBS}, each as a `[[job]]`");
            return Err(Wrong::new("job", message));
        }
        if !(file.margin > 0.0 && file.margin < 1.0) {
            return wrong("margin", "`margin` is a share below 1: 3 % is written 0.03");
        }
        if file.cpus_each == 0 {
            return wrong("cpus_each", "`cpus_each` is 1 or more");
        }
        if file.sizes.iter().any(|size| !(2..=count).contains(size)) {
            return wrong("sizes", &format!("`sizes` are from 2 to the number of jobs, {count}"));
        }
        file.runs.check()?;
        let meter = |(index, text): (usize, &String)| {
            let wrong = |error: String| Wrong::new(format!("meters.{index}"), error);
            let spec: MeterSpec = text.parse().map_err(|error| wrong(format!("{error}")))?;
            nightwatt_meters::driver(&spec.driver).map_err(|error| wrong(error.to_string()))?;
            Ok(spec)
        };
        let meters = file.meters.iter().enumerate().map(meter).collect::<Result<_, Wrong>>()?;
        let interval = file.interval.as_deref().map(duration_text::parse).transpose();
        let interval = interval.map_err(|error| Wrong::new("interval", error))?;
        if interval.is_some_and(|interval| interval.is_zero()) {
            return wrong("interval", "`interval` has to be above 0");
        }
        let groups = groups(count, &file.sizes);
        if groups.len() > MOST_GROUPS {
            let message =
                format!("{} groups are more than {MOST_GROUPS}: leave some out", groups.len());
            return wrong("sizes", &message);
        }
        Ok(Self {
            title: file.title.unwrap_or_else(|| title.to_owned()),
            text: text.to_owned(),
            margin: file.margin,
            energy: file.energy,
            meters,
            interval,
            seed: file.seed,
            share: file.share,
            cpus_each: file.cpus_each,
            runs: file.runs,
            jobs: jobs(file.job)?,
            groups,
        })
    }

    /// What its results are of.
    pub fn subject(&self) -> Subject<'_> {
        Subject { text: &self.text, cells: self.groups.len(), key: None }
    }

    /// A group in words: `a + b`.
    pub fn name_of(&self, group: &[usize]) -> String {
        let names: Vec<&str> = group.iter().map(|job| self.jobs[*job].name.as_str()).collect();
        names.join(" + ")
    }

    /// The groups as an experiment. They are one comparison, so that every block has all of them.
    pub(crate) fn design(&self) -> Design {
        let RunsFile { least, most, precision, retries, .. } = self.runs;
        let cells = (0..self.groups.len()).map(|environment| Cell { environment, comparison: 0 });
        Design {
            environments: self.groups.iter().map(|group| self.name_of(group)).collect(),
            baseline: 0,
            comparisons: vec!["together".to_owned()],
            cells: cells.collect(),
            groups: (0..self.groups.len()).collect(),
            main: SECONDS.to_owned(),
            rule: Rule {
                min: least,
                max: most,
                share: precision,
                retries,
                give_up_after: 3,
                restart: Restart::Run,
                seed: self.seed,
            },
        }
    }
}

/// What is wrong with commands on the command line.
#[derive(Debug, thiserror::Error)]
pub enum CommandLineError {
    /// As in a plan file.
    #[error(transparent)]
    Plan(#[from] ConfigError),
    /// Neither one for all nor one for each.
    #[error("{lines} `--prepare` for {jobs} commands: give one for all, or one for each")]
    Prepare {
        /// How many there are.
        lines: usize,
        /// How many commands.
        jobs: usize,
    },
}

/// The first words of each command: two, or as many as tell it from all others. Equal ones are numbered.
fn names(commands: &[String]) -> Vec<String> {
    let words: Vec<Vec<&str>> =
        commands.iter().map(|line| line.split_whitespace().collect()).collect();
    let mut names: Vec<String> = Vec::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for own in &words {
        let is_shared = |count: usize| {
            words.iter().any(|it| it != own && it.iter().take(count).eq(own.iter().take(count)))
        };
        let count = (2..own.len()).find(|count| !is_shared(*count)).unwrap_or(own.len());
        let name = own[..count.min(own.len())].join(" ");
        let same = counts.entry(name.clone()).or_default();
        *same += 1;
        names.push(if *same == 1 { name } else { format!("{name} #{same}") });
    }
    names
}

fn jobs(files: Vec<JobFile>) -> Result<Vec<Job>, Wrong> {
    let mut jobs: Vec<Job> = Vec::new();
    for (index, file) in files.into_iter().enumerate() {
        let key = |key: &str| format!("job.{index}.{key}");
        if jobs.iter().any(|other| other.name == file.name) {
            let message = format!("`{}` is there twice; jobs need different names", file.name);
            return Err(Wrong::new(key("name"), message));
        }
        if file.name.trim().is_empty() || file.command.trim().is_empty() {
            return Err(Wrong::new(key("command"), "a job needs a name and a command"));
        }
        let reader = file.tool.as_ref().map(|tool| Reader::of(tool, file.read.as_ref()));
        let reader = reader.transpose().map_err(|it| it.within(format_args!("job.{index}")))?;
        let JobFile { name, command, prepare, .. } = file;
        jobs.push(Job { name, command, prepare, reader });
    }
    Ok(jobs)
}

/// Each job alone, all groups of these sizes, and all together.
fn groups(jobs: usize, sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut sizes: Vec<usize> = sizes.iter().copied().chain([1, jobs]).collect();
    sizes.sort_unstable();
    sizes.dedup();
    // As bits; there are at most 14 jobs.
    let mut all: Vec<Vec<usize>> = (1..1_u32 << jobs)
        .filter(|set| sizes.contains(&(set.count_ones() as usize)))
        .map(|set| (0..jobs).filter(|job| set >> job & 1 == 1).collect())
        .collect();
    all.sort_by_key(|group| (group.len(), group.clone()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str =
        "[[job]]\nname = 'a'\ncommand = 'true'\n[[job]]\nname = 'b'\ncommand = 'true'\n";

    fn refusal(text: &str) -> String {
        Plan::read("jobs.toml", "jobs", text).unwrap_err().to_string()
    }

    #[test]
    fn each_job_is_run_alone_in_pairs_and_with_all() {
        assert_eq!(groups(2, &[2]), [vec![0], vec![1], vec![0, 1]]);
        let all = groups(4, &[2]);
        // 4 alone, 4 x 3 / 2 pairs, all.
        assert_eq!((all.len(), all.last().unwrap()), (4 + 6 + 1, &vec![0, 1, 2, 3]));
        assert_eq!(groups(5, &[2, 3]).len(), 5 + 10 + 10 + 1);
        let plan = Plan::read("jobs.toml", "jobs", TWO).unwrap();
        assert_eq!((plan.name_of(&plan.groups[2]), plan.title.as_str()), ("a + b".into(), "jobs"));
    }

    #[test]
    fn commands_are_jobs_with_names_of_their_own() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let commands = [vec!["echo 'a b' | wc".to_owned()], words("sleep 1"), words("sleep 1")];
        let plan = Plan::of_commands(&commands, &[]).unwrap();
        let jobs: Vec<(&str, &str)> =
            plan.jobs.iter().map(|job| (job.name.as_str(), job.command.as_str())).collect();
        let expected =
            [("echo 'a", "echo 'a b' | wc"), ("sleep 1", "sleep 1"), ("sleep 1 #2", "sleep 1")];
        assert_eq!(jobs, expected, "one word is a line of the shell, several are words");
        let words = [vec!["printf".to_owned(), "a b".to_owned()], words("true")];
        let of_commands = |commands: &[Vec<String>]| Plan::of_commands(commands, &[]);
        assert_eq!(of_commands(&words).unwrap().jobs[0].command, "printf 'a b'");
        assert!(of_commands(&words[..1]).unwrap_err().to_string().contains("1 jobs"));
    }

    #[test]
    fn names_have_as_many_words_as_tell_them_apart() {
        let named =
            |commands: &[&str]| names(&commands.iter().map(|it| (*it).into()).collect::<Vec<_>>());
        assert_eq!(named(&["xz -k a", "xz -k b"]), ["xz -k a", "xz -k b"]);
        assert_eq!(named(&["xz -k a b", "make -j1 all"]), ["xz -k", "make -j1"]);
        assert_eq!(
            named(&["cc -O2 -c x.c -o x", "cc -O2 -c y.c -o y"]),
            ["cc -O2 -c x.c", "cc -O2 -c y.c"]
        );
        assert_eq!(named(&["xz -k", "xz -k a", "true"]), ["xz -k", "xz -k a", "true"]);
        assert_eq!(named(&["a b c", "a b c", "a b d"]), ["a b c", "a b c #2", "a b d"]);
    }

    #[test]
    fn a_line_prepares_all_commands_or_each_has_its_own() {
        let commands = [vec!["xz a".to_owned()], vec!["make b".to_owned()]];
        let prepared = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            Plan::of_commands(&commands, &lines)
                .map(|plan| plan.jobs.into_iter().map(|job| job.prepare).collect::<Vec<_>>())
        };
        assert_eq!(prepared(&[]).unwrap(), [[""; 0]; 2]);
        assert_eq!(prepared(&["rm -f \"a.xz\""]).unwrap(), [["rm -f \"a.xz\""]; 2]);
        assert_eq!(
            prepared(&["rm a.xz", "make -C b clean"]).unwrap(),
            [["rm a.xz"], ["make -C b clean"]]
        );
        let said = prepared(&["a", "b", "c"]).unwrap_err().to_string();
        assert!(said.contains("3 `--prepare` for 2 commands"), "{said}");
    }

    #[test]
    fn mistakes_are_reported_with_their_line_and_what_would_be_right() {
        for (text, parts) in [
            (String::new(), &["0 jobs", "[[job]]"][..]),
            (TWO.replace("'b'", "'a'"), &["jobs.toml:5", "`a` is there twice"]),
            (format!("margin = 3\n{TWO}"), &["jobs.toml:1", "`margin`", "0.03"]),
            (format!("sizes = [3]\n{TWO}"), &["jobs.toml:1", "from 2 to the number of jobs, 2"]),
            (format!("share = 'l4'\n{TWO}"), &["jobs.toml:1", "`l3`"]),
            (format!("cpus_each = 0\n{TWO}"), &["jobs.toml:1", "1 or more"]),
            (format!("meters = ['sundial']\n{TWO}"), &["jobs.toml:1", "sundial"]),
            (format!("colour = 1\n{TWO}"), &["jobs.toml:1", "colour"]),
            (format!("{TWO}tool = 'x'\n"), &["jobs.toml:7", "`x`"]),
            (format!("{TWO}tool = 'regex'\n"), &["`regex` needs a `read`"]),
            (format!("interval = '0s'\n{TWO}"), &["jobs.toml:1", "`interval`", "above 0"]),
            (format!("interval = 'soon'\n{TWO}"), &["jobs.toml:1", "soon"]),
            (
                format!("[runs]\ntime_limit = '0s'\n{TWO}"),
                &["jobs.toml:2", "`runs.time_limit`", "above 0"],
            ),
            (format!("[runs]\nleast = 2\n{TWO}"), &["jobs.toml:2", "`runs.least`", "3 or more"]),
            (format!("[runs]\nleast = 30\n{TWO}"), &["jobs.toml:2", "`most` only 20"]),
            (format!("[runs]\nmost = 4\n{TWO}"), &["jobs.toml:2", "`least` is 5"]),
            (format!("[runs]\nmost = 1001\n{TWO}"), &["jobs.toml:2", "`runs.most`", "1000"]),
            (
                format!("[runs]\nprecision = 0\n{TWO}"),
                &["jobs.toml:2", "`runs.precision`", "above 0"],
            ),
        ] {
            let said = refusal(&text);
            for part in parts {
                assert!(said.contains(part), "{part:?} is not in {said}");
            }
        }
    }
}

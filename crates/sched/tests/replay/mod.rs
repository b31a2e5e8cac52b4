//! Decisions of the kernel's half, once more by the pure policy.

use std::collections::BTreeMap;
use std::time::Duration;

use nightwatt_corun::pure::run_queue::{Policy, QUANTUM, RunQueue};

/// A line of a trace.
#[derive(Debug)]
pub(crate) struct Line {
    what: String,
    cpu: u32,
    task: usize,
    quantum: u32,
    /// `None` of a new task.
    pub(crate) opj: Option<u64>,
    rank: Option<usize>,
}

impl Line {
    pub(crate) fn is_add(&self) -> bool {
        self.what == "add"
    }
}

/// What was replayed.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    pub(crate) picks: u64,
    pub(crate) promotions: u64,
}

/// All whole lines: the loader may be writing the last one.
pub(crate) fn read(text: &str) -> Vec<Line> {
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [what, cpu, task, quantum, opj, rank] = fields[..] else { panic!("{line}") };
        Line {
            what: what.to_owned(),
            cpu: cpu.parse().unwrap(),
            task: task.parse().unwrap(),
            quantum: quantum.parse().unwrap(),
            opj: (opj != "new").then(|| opj.parse().unwrap()),
            rank: (!rank.is_empty()).then(|| rank.parse().unwrap()),
        }
    };
    whole.lines().skip(1).map(line).collect()
}

/// Panics at the first decision that is another one.
#[track_caller]
pub(crate) fn replay(lines: &[Line], bound_quanta: Option<u64>) -> Replayed {
    let policy = match bound_quanta {
        Some(bound) => Policy::Bounded(QUANTUM * bound as u32),
        None => Policy::Published,
    };
    let mut queues: BTreeMap<u32, RunQueue> = BTreeMap::new();
    let mut replayed = Replayed::default();
    for (number, line) in lines.iter().enumerate() {
        let queue = queues.entry(line.cpu).or_insert_with(|| RunQueue::new(policy.rules()));
        let now: Duration = QUANTUM * line.quantum;
        match line.what.as_str() {
            "add" => queue.add(line.task, line.opj.map_or(f64::INFINITY, |it| it as f64), now),
            "remove" | "move" => assert!(queue.remove(line.task), "{number}: {line:?}"),
            "pick" => {
                let mut drawn = None;
                let pick = queue.pick_by(now, |tasks| {
                    let rank = line.rank.unwrap_or_else(|| panic!("{number}: no rank in {line:?}"));
                    assert!(rank < tasks, "{number}: {line:?} of {tasks}");
                    drawn = Some(rank);
                    rank
                });
                assert_eq!(pick.map(|it| it.task), Some(line.task), "{number}: {line:?}");
                assert_eq!(drawn, line.rank, "{number}: a promotion that is not due: {line:?}");
                replayed.picks += 1;
                replayed.promotions += u64::from(drawn.is_some());
            }
            _ => panic!("{number}: {line:?}"),
        }
    }
    replayed
}

#[test]
fn a_trace_that_breaks_the_rules_is_found() {
    let trace = |picks: [&str; 2]| {
        let text = format!(
            "what,cpu,task,quantum,opj,rank\nadd,0,1,0,10,\nadd,0,2,0,30,\npick,0,{},1,0,{}\n",
            picks[0], picks[1]
        );
        let lines = read(&text);
        std::panic::catch_unwind(|| replay(&lines, None).picks).ok()
    };
    assert_eq!(trace(["2", ""]), Some(1), "the highest");
    assert_eq!(trace(["1", ""]), None, "not the highest");
    assert_eq!(trace(["1", "0"]), None, "a promotion comes only after two quanta");
    assert!(read("what,cpu\nadd,0,1").is_empty(), "half a line");
}

use super::*;

fn plan(text: &str) -> Plan {
    PlanFile::read("plan.toml", "plan", text).unwrap()
}

fn refusal(text: &str) -> String {
    PlanFile::read("plan.toml", "plan", text).unwrap_err().to_string()
}

const HOST: &str = "[[environment]]\nname = 'host'\nkind = 'host'\n";
const JAIL: &str = "[[environment]]\nname = 'jail'\nkind = 'bubblewrap'\nroot = 'host'\n";
const IDLE: &str = "[[workload]]\nname = 'idle'\ntool = 'idle'\ncommand = 'sleep 1'\n";

#[test]
fn every_environment_meets_every_workload_and_every_value() {
    let factor = "[[factor]]\nname = 'threads'\nvalues = [1, 2, 5]\n";
    let threads = "[[workload]]\nname = 'x'\ntool = 'idle'\ncommand = 'x -j {threads}'\n";
    let plan = plan(&[HOST, JAIL, factor, threads, IDLE].concat());
    // 2 environments x (3 values of the one that has the word + 1 of the other).
    assert_eq!(plan.cells.len(), 8);
    let of = |comparison: &str| {
        let is_its = |cell: &&Cell| plan.name_of_comparison(cell) == comparison;
        plan.cells.iter().filter(is_its).map(|it| plan.name_on_axis(it)).collect::<Vec<_>>()
    };
    assert_eq!(of("x, threads 5"), ["host", "jail"]);
    assert_eq!(of("idle"), ["host", "jail"], "nothing to vary where no line has the word");
    let setups = |text: &str| {
        let design = plan_of(text).design();
        design.groups.iter().collect::<std::collections::BTreeSet<_>>().len()
    };
    let same = setups(&[HOST, factor, threads].concat());
    assert_eq!(same, 1, "one server serves all of the sweep");
    let serve = "serve = 'server {threads}'\n";
    assert_eq!(setups(&[HOST, factor, threads, serve].concat()), 3, "each has its own server");
}

fn plan_of(text: &str) -> Plan {
    plan(text)
}

#[test]
fn an_option_that_the_baseline_lacks_makes_variants_to_be_compared_with_it() {
    let factor = "[[factor]]\nname = 'memory'\noption = 'memory'\nvalues = ['64 MiB', '128 MiB']\n\
                  environments = ['jail']\n";
    let plan = plan(&[HOST, JAIL, factor, IDLE].concat());
    let names: Vec<String> = plan.cells.iter().map(|cell| plan.name_on_axis(cell)).collect();
    assert_eq!(names, ["host", "jail, memory 64 MiB", "jail, memory 128 MiB"]);
    assert!(plan.cells.iter().all(|cell| plan.name_of_comparison(cell) == "idle"));
    let memory = |cell: &Cell| plan.config(cell).unwrap().common.memory.map(|it| it.0);
    let memories: Vec<Option<u64>> = plan.cells.iter().map(memory).collect();
    assert_eq!(memories, [None, Some(64 << 20), Some(128 << 20)]);
}

#[test]
fn values_of_a_factor_can_be_what_is_compared() {
    let text = "compare = 'governor'\nbaseline = 'performance'\n";
    let factor = "[[factor]]\nname = 'governor'\nsetting = { kind = 'governor' }\n\
                  values = ['powersave', 'performance']\n";
    let plan = plan(&[text, HOST, JAIL, factor, IDLE].concat());
    let design = plan.design();
    assert_eq!(design.environments, ["governor powersave", "governor performance"]);
    assert_eq!(design.baseline, 1);
    assert_eq!(design.comparisons, ["idle, host", "idle, jail"]);
}

#[test]
fn mistakes_are_told_with_their_line_and_what_would_be_right() {
    for (text, parts) in [
        (String::new(), &["no environment is given", "[[environment]]"][..]),
        (HOST.to_owned(), &["[[workload]]"]),
        ([HOST, HOST, IDLE].concat(), &["plan.toml:5", "there twice"]),
        ([HOST, "colour = 'red'\n", IDLE].concat(), &["colour"]),
        (HOST.replace("'host'\n", "'hosts'\n") + IDLE, &["no kind `hosts`", "podman"]),
        (
            [HOST, &IDLE.replace("'idle'\ncommand", "'pgbenchh'\ncommand")].concat(),
            &["pgbenchh", "`pgbench`"],
        ),
        (
            [HOST, &IDLE.replace("sleep 1", "sleep {time}")].concat(),
            &["plan.toml:7", "`{time}`", "{{time}}"],
        ),
        (["margin = 3\n", HOST, IDLE].concat(), &["plan.toml:1", "0.03"]),
        (["[runs]\nleast = 1\n", HOST, IDLE].concat(), &["plan.toml:2", "3 runs"]),
        (
            ["[runs]\nleast = 9\nmost = 5\n", HOST, IDLE].concat(),
            &["plan.toml:3", "below `least`, 9"],
        ),
        ([HOST, "within = 'host'\n", IDLE].concat(), &["plan.toml:4", "within itself"]),
        ([HOST, IDLE, "[client]\nkind = 'ssh'\nhost = 'x'\n"].concat(), &["by `address` how"]),
        (["interval = '0s'\n", HOST, IDLE].concat(), &["plan.toml:1", "some time"]),
        (["meters = ['sundial']\n", HOST, IDLE].concat(), &["plan.toml:1", "sundial", "`rapl`"]),
        (
            ["baseline = 'jail'\n", HOST, JAIL, IDLE, "environments = ['host']\n"].concat(),
            &["baseline"],
        ),
        (["compare = 'x'\n", HOST, IDLE].concat(), &["plan.toml:1", "neither"]),
        (["baseline = 'x'\n", HOST, IDLE].concat(), &["plan.toml:1", "`x` is not one"]),
        ([HOST, IDLE, "ready = 'true'\n"].concat(), &["plan.toml:8", "no `serve`"]),
        ([HOST, IDLE, "environments = ['x']\n"].concat(), &["`x` is not in the plan, but host"]),
        (
            [HOST, IDLE, "[[factor]]\nname = 'port'\nvalues = [1]\n"].concat(),
            &["plan.toml:9", "no name"],
        ),
        (
            [HOST, IDLE, "[[factor]]\nname = 'n'\nvalues = [1, 2]\n"].concat(),
            &["plan.toml:9", "no line"],
        ),
        ([HOST, "within = 'x'\n", IDLE].concat(), &["no environment `x`"]),
        (
            [HOST, &IDLE.replace("tool = 'idle'", "tool = 'regex'")].concat(),
            &["`regex` needs a `read`"],
        ),
    ] {
        let said = refusal(&text);
        for part in parts {
            assert!(said.contains(part), "{part:?} is not in what was said of {text:?}:\n{said}");
        }
    }
}

#[test]
fn more_combinations_than_anybody_wants_are_refused_before_they_are_made() {
    let factor = |name: char| {
        format!("[[factor]]\nname = '{name}'\nvalues = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n")
    };
    let line = IDLE.replace("sleep 1", "{a} {b} {c} {d} {e} {f} {g} {h} {i}");
    let factors: String = ('a'..='i').map(factor).collect();
    let said = refusal(&[HOST, &factors, &line].concat());
    assert!(said.contains("more than 10000 combinations"), "{said}");
}

#[test]
fn the_plans_that_come_with_nightwatt_are_plans() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "toml") {
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.display().to_string();
            PlanFile::read(&name, "title", &text).unwrap_or_else(|error| panic!("{error}"));
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn combinations_that_would_have_one_name_are_refused() {
    let factor = "[[factor]]\nname = 't'\nvalues = [1, 2]\nworkloads = ['db']\n";
    let workload = |name: &str, word: &str| {
        format!("[[workload]]\nname = '{name}'\ntool = 'idle'\ncommand = 'x {word}'\n")
    };
    let said = refusal(&[HOST, factor, &workload("db", "{t}"), &workload("db, t 1", "")].concat());
    assert!(said.contains("both be called `db, t 1`"), "{said}");
    plan(&[HOST, factor, &workload("db", "{t}"), &workload("db, t 3", "")].concat());
}

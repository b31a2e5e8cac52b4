//! The outputs in README.md and docs are those of the program: figures may differ, words may not.
//!
//! `tools/vm/guide` compares all of docs/guide.md in a guest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::harness::{House, Plan, eventually, program, shared_data};

const README: &str = "README.md";
const TOUR: &str = "docs/tour.md";
const FLEET: &str = "docs/fleet.md";

/// Commands whose output a test below compares, by page.
const TESTED: &[(&str, &str)] = &[
    (README, "nightwatt analyze"),
    (README, "nightwatt fleet size"),
    (README, "nightwatt run"),
    (README, "nightwatt status"),
    (TOUR, "nightwatt analyze"),
    (TOUR, "nightwatt check"),
    (TOUR, "nightwatt fleet size"),
    (TOUR, "nightwatt run"),
    (TOUR, "nightwatt stay-awake"),
    (TOUR, "nightwatt sleep"),
    (TOUR, "nightwatt reproduce O10"),
    (FLEET, "nightwatt fleet size"),
    (FLEET, "nightwatt fleet fit"),
];

/// Commands whose output no test compares with the page, and why.
const NOT_HERE: &[(&str, &str, &str)] = &[
    (README, "curl", "the output is curl's"),
    (README, "sudo nightwatt compare", "it needs PostgreSQL, nginx, wrk, podman and minutes"),
    ("docs/compare.md", "sudo nightwatt compare", "the same"),
    ("docs/dashboard.md", "curl", "the output is curl's; the dashboard's tests make this request"),
    ("docs/meters.md", "make bench-meters", "a benchmark"),
    (
        "docs/meters/checks.md",
        "nightwatt meters --spectrum",
        "its recording is not in the repository",
    ),
    ("docs/mirror.md", "curl", "the output is curl's; the mirror's tests make this request"),
    ("docs/packages.md", "packaging/", "the scripts are run by `make nightly`"),
    ("docs/tcp-helps.md", "nightwatt tcp helps", "minutes, as root; lane netlab"),
    ("docs/tcp-lab.md", "nightwatt tcp lab", "minutes, as root; lane netlab"),
    ("docs/tls.md", "curl", "the output is curl's; the gateway's tests make this request"),
    (FLEET, "nightwatt fleet docs/examples/fleet.toml", "a minute of simulation"),
    (TOUR, "make demo", "demo.rs has its words"),
    (TOUR, "for p in", "four demos"),
    (TOUR, "nightwatt demo --log", "a week of a log"),
    (TOUR, "jq", "the output is jq's, of that week"),
    (TOUR, "sudo nightwatt doctor", "findings of one machine"),
    (TOUR, "nightwatt doctor", "findings of one network"),
    (TOUR, "nightwatt serve", "a session with a figure in each line; observe.rs has its words"),
    (TOUR, "curl", "the output is curl's"),
    (TOUR, "nightwatt status", "the state of that session; README's is tested"),
    (TOUR, "sleep 9", "the state of that session"),
    (TOUR, "nightwatt agent", "the agent of one machine"),
    (TOUR, "nightwatt replay", "replay.rs has its words"),
    (TOUR, "sudo nightwatt caliper", "it needs root and the machine's own functions"),
    (TOUR, "sudo nightwatt compare", "it needs PostgreSQL, nginx, wrk, podman and minutes"),
    (TOUR, "sudo nightwatt tcp lab", "minutes, as root; lane netlab"),
];

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("the page is there")
}

/// A line that stands for any number of lines.
const LEFT_OUT: &str = "…";

/// The output that a page shows for the command that begins with `command`.
fn shown(name: &str, command: &str) -> (String, Vec<String>) {
    let all = commands(&page(name));
    let found = all.into_iter().find(|(line, _)| line.starts_with(command));
    found.unwrap_or_else(|| panic!("{name} does not show `{command}`"))
}

/// The commands of a page, each with the output that is shown for it.
fn commands(page: &str) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    let mut is_console = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_console = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_console) {
            commands.push((command.to_owned(), Vec::new()));
        } else if let Some(command) = line.strip_prefix("# ").filter(|_| is_console) {
            commands.push((command.to_owned(), Vec::new()));
        } else if let Some((_, output)) = commands.last_mut().filter(|_| is_console) {
            output.push(line.to_owned());
        }
    }
    commands
}

/// A line without its figures and their units.
fn words(line: &str) -> String {
    let is_figure = |word: &&str| {
        let word = word.trim_matches(|it: char| "(),.:−+".contains(it));
        word.starts_with(|it: char| it.is_ascii_digit())
            || ["J", "Wh", "kWh", "±", "%"].contains(&word)
    };
    line.split_whitespace().filter(|word| !is_figure(word)).collect::<Vec<_>>().join(" ")
}

/// Fails unless `output` has the lines that are shown, in their order, with nothing between them that
/// is not left out visibly.
fn agrees(shown: &[String], output: &str) {
    let mut rest = output.lines().map(words);
    let mut may_skip = false;
    for line in shown {
        if line.trim() == LEFT_OUT {
            may_skip = true;
            continue;
        }
        if may_skip && line.trim().is_empty() {
            continue;
        }
        // The rest of a line may be left out.
        let (begin, is_cut) = line.strip_suffix(LEFT_OUT).map_or((&**line, false), |it| (it, true));
        let wanted = words(begin);
        let is_it = |it: &String| if is_cut { it.starts_with(&wanted) } else { *it == wanted };
        let found = if may_skip { rest.find(is_it) } else { rest.next() };
        assert!(found.is_some_and(|it| is_it(&it)), "the page shows `{line}`, printed:\n{output}");
        may_skip = false;
    }
}

/// What a command printed. `run` prints to stderr, since stdout is its command's.
fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(output.status.success(), "{err}");
    format!("{out}{err}")
}

/// Runs a command of a page in a folder with the log that it names.
fn printed(line: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = "yuvi_in_nginx_2012-03.log.gz";
    for name in ["access.log.gz", log] {
        if line.contains(name) {
            let from = shared_data()?.join("logs").join(log);
            fs::copy(from, folder.path().join(name)).expect("the log is copied");
        }
    }
    let arguments = line.split_whitespace().skip(1);
    Some(text(&program().args(arguments).current_dir(folder.path()).output().expect("it runs")))
}

/// Runs the command of a page, and compares.
fn is_shown_as_printed(name: &str, command: &str) {
    let (line, shown) = shown(name, command);
    match printed(&line) {
        Some(output) => agrees(&shown, output.trim_start()),
        None => println!("skipped: `{line}` needs the log of NIGHTWATT_DATA"),
    }
}

#[test]
fn an_analysis_is_shown_as_it_is_printed() {
    is_shown_as_printed(README, "nightwatt analyze");
    is_shown_as_printed(TOUR, "nightwatt analyze");
}

#[test]
fn the_size_of_a_pool_is_shown_as_it_is_printed() {
    for name in [README, TOUR, FLEET] {
        is_shown_as_printed(name, "nightwatt fleet size");
    }
}

#[test]
fn a_fit_of_service_times_is_shown_as_it_is_printed() {
    is_shown_as_printed(FLEET, "nightwatt fleet fit");
}

#[test]
fn a_claim_is_shown_as_it_is_printed() {
    is_shown_as_printed(TOUR, "nightwatt reproduce O10");
}

#[test]
fn energy_of_a_command_is_shown_as_it_is_printed_without_a_meter() {
    for name in [README, TOUR] {
        let (line, shown) = shown(name, "nightwatt run");
        let output = printed(&line).expect("it needs no log");
        if output.contains("measured") {
            println!("skipped: {name} shows a machine without meters, and this one has some");
            return;
        }
        agrees(&shown, output.trim_start());
    }
}

#[test]
fn a_mistake_in_a_configuration_is_shown_as_it_is_printed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let above = "\n".repeat(11);
    let text = format!("{above}[scenario.sla]\nshares = 0.1\n");
    fs::write(folder.path().join("nightwatt.toml"), text).expect("it is written");
    let (line, shown) = shown(TOUR, "nightwatt check");
    let arguments = line.split_whitespace().skip(1);
    let output = program().args(arguments).current_dir(folder.path()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    agrees(&shown, &String::from_utf8_lossy(&output.stderr));
}

#[test]
fn orders_are_shown_as_they_are_answered() {
    let house = House::build(&Plan::default());
    let gateway = house.serve(&[]);
    for order in ["stay-awake", "sleep"] {
        let (line, shown) = shown(TOUR, &format!("nightwatt {order}"));
        let line = line.replace(" -c nightwatt.toml", "");
        let arguments: Vec<&str> = line.split_whitespace().skip(1).collect();
        if order == "sleep" {
            gateway.until("awake");
        }
        assert_eq!(text(&gateway.order(&arguments)).trim_end(), shown.join("\n"));
    }
}

#[test]
fn the_state_of_a_site_is_shown_as_it_is_printed() {
    let plan = Plan { policy: "learned".to_owned(), ..Plan::default() };
    let house = House::build(&plan);
    // Sleeps that pay at once, so that there is a saving soon.
    house.reconfigure("min_on = \"0\"", "min_on = \"0\"\nswitch_j = 0.1");
    let gateway = house.serve(&[]);
    // It is still awake when it is looked at.
    for (order, state) in [("stay-awake", "awake"), ("sleep", "asleep"), ("stay-awake", "awake")] {
        gateway.order(&[order]);
        gateway.until(state);
    }
    eventually("there is a saving", || gateway.status()["ledger"]["saving"].as_f64());
    let output = text(&gateway.order(&["status"]));
    // Its name is another one.
    let (_, shown) = shown(README, "nightwatt status");
    let lines: Vec<String> = shown.iter().map(|it| it.replace("127.0.0.1", "site")).collect();
    for line in lines.iter().filter(|it| it.trim() != LEFT_OUT) {
        let wanted = words(line);
        assert!(output.lines().any(|it| words(it) == wanted), "`{line}` is not in\n{output}");
    }
}

/// Pages of README and docs, decisions apart.
fn pages(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(folder)).expect("the folder is there") {
        let path = folder.join(entry.expect("an entry").file_name());
        if root().join(&path).is_dir() {
            if !path.ends_with("decisions") {
                pages(&path, found);
            }
        } else if path.extension().is_some_and(|it| it == "md") {
            found.push(path.display().to_string());
        }
    }
}

#[test]
fn every_output_is_compared_by_a_test_or_there_is_a_reason() {
    let mut names = vec![README.to_owned()];
    pages(Path::new("docs"), &mut names);
    let tested = TESTED.iter().copied();
    let mut known: Vec<(&str, &str, bool)> = tested
        .chain(NOT_HERE.iter().map(|it| (it.0, it.1)))
        .map(|(page, it)| (page, it, false))
        .collect();
    for name in &names {
        for (line, output) in commands(&page(name)) {
            let entry = known.iter_mut().find(|(page, it, _)| page == name && line.starts_with(it));
            match entry {
                Some((.., is_used)) => *is_used = true,
                None if output.iter().all(|it| it.trim().is_empty()) => {}
                None => panic!("no test compares what {name} shows for `{line}`"),
            }
        }
    }
    let stale: Vec<_> = known.iter().filter(|(.., is_used)| !is_used).collect();
    assert!(stale.is_empty(), "the pages no longer show {stale:?}");
    assert!(NOT_HERE.iter().all(|(.., why)| !why.is_empty()));
}

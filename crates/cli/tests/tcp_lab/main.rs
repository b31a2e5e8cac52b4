//! `nightwatt tcp lab` as it is: real networks, a real link, and nothing left of it. Needs root.
//!
//! A loaded machine carries less and later than is wanted: links are accepted all the same, and what is
//! asserted of them is what no load can make different.

mod helps;
mod hosts;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_needs::programs;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Whatever has not happened by then does not happen.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Names the folder of lists.
const LISTS: &str = "NIGHTWATT_TCP_LISTS";

/// One at a time where all run in one process: they are to have the machine for themselves. (cargo-nextest runs
/// each in a process of its own, and as many at once as its configuration says.)
static TURN: Mutex<()> = Mutex::new(());

/// A laboratory whose lists of what is to be undone are its own: `clean` of one does not know of the others.
struct Rig {
    folder: TempDir,
    /// The two folders of lists: `tcp lab` has others than these two where nothing names one.
    lists: Lists,
    _turn: Option<MutexGuard<'static, ()>>,
}

/// Where lists are of what is to be undone: here, and on other machines.
struct Lists {
    /// Given to the program.
    variable: Option<PathBuf>,
    here: PathBuf,
    elsewhere: PathBuf,
}

impl Lists {
    fn own(folder: &Path) -> Self {
        let own = folder.join("lists");
        Self { here: own.join("run"), elsewhere: own.join("lasting"), variable: Some(own) }
    }

    /// Those of a user who names none. `clean` undoes what any other laboratory has left there, so
    /// at most one test has these.
    fn usual() -> Self {
        Self {
            variable: None,
            here: "/run/nightwatt-tcp-lab".into(),
            elsewhere: "/var/lib/nightwatt-tcp-lab".into(),
        }
    }
}

impl Rig {
    /// Says why a test is skipped.
    fn new() -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Self { _turn: Some(turn), ..Self::beside_others()? }.into()
    }

    /// The same for one that may run beside others.
    fn beside_others() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: networks of their own need root");
            return None;
        }
        if !programs(&["ip", "tc", "nft", "ethtool", "pgrep"]) {
            return None;
        }
        if !Path::new("/dev/net/tun").exists() {
            eprintln!("skipped: no /dev/net/tun");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("nightwatt-test-").tempdir().unwrap();
        fs::create_dir(folder.path().join("temporary")).unwrap();
        let lists = Lists::own(folder.path());
        Some(Self { folder, lists, _turn: None })
    }

    fn with_usual_lists(self) -> Self {
        Self { lists: Lists::usual(), ..self }
    }

    fn journal(&self, pid: u32) -> PathBuf {
        self.lists.here.join(format!("{pid}.journal"))
    }

    /// Of what is changed on other machines.
    fn lasting_journal(&self, pid: u32) -> PathBuf {
        self.lists.elsewhere.join(format!("{pid}.journal"))
    }

    /// What it makes is made here.
    fn temporary(&self) -> PathBuf {
        self.folder.path().join("temporary")
    }

    fn lab(&self, arguments: &[&str]) -> Command {
        self.command(&[&["tcp", "lab"], arguments].concat())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nightwatt"));
        command.args(arguments).env("PATH", nightwatt_needs::path());
        command.env_remove("RUST_LOG").env("TMPDIR", self.temporary()).stdin(Stdio::null());
        match &self.lists.variable {
            Some(own) => command.env(LISTS, own),
            None => command.env_remove(LISTS),
        };
        command
    }

    /// Runs a scenario for as short as can be, and gives what came of it.
    fn measured(&self, scenario: &str, more: &[&str]) -> Value {
        let short = ["--scenario", scenario, "--json", "--accept-link", "--longest", "1s"];
        let often = ["--most", "3", "--connections", "1", "--segments", "10", "-m", "model"];
        self.reported(&[&short[..], &often, more].concat())
    }

    /// Runs the laboratory to its end, after which nothing of it may be left, and gives what it has printed.
    fn reported(&self, arguments: &[&str]) -> Value {
        let (output, pid) = finished(self.lab(arguments));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}", output.status);
        self.nothing_is_left(pid, "after its end");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    /// A table with a link of so many Mbit/s, which loses 2 % of its frames in each direction.
    fn lossy(&self, megabits: u32) -> String {
        self.table(&format!("lossy,{megabits},2,0"))
    }

    /// A table with this link.
    fn table(&self, link: &str) -> String {
        let table = self.folder.path().join("table.csv");
        let head = "scenario,bandwidth_mbit_s,extra_loss_percent,extra_delay_ms";
        fs::write(&table, format!("{head}\n{link}\n")).unwrap();
        table.display().to_string()
    }

    /// All that a run of this process could leave.
    fn inventory(&self, pid: u32) -> BTreeSet<String> {
        let mark = format!("nightwatt-{pid}-");
        let mut found = BTreeSet::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let read = |name| fs::read(entry.path().join(name)).unwrap_or_default();
            let state = String::from_utf8_lossy(&read("status")).into_owned();
            let is_over = state.contains("\nState:\tZ") || entry.file_name() == *pid.to_string();
            let text = [read("environ"), read("cmdline"), read("cgroup")].concat();
            // One that is about to be gone has left its cgroup, and its memory.
            let text = String::from_utf8_lossy(&text).into_owned();
            let text: String = text.lines().filter(|it| !it.ends_with(" (deleted)")).collect();
            if !is_over && text.contains(&mark) {
                found.insert(format!("process {}", entry.file_name().display()));
            }
        }
        let groups =
            output(Command::new("find").args(["/sys/fs/cgroup", "-name", &format!("{mark}*")]));
        found.extend(groups.lines().map(|line| format!("cgroup {line}")));
        let files = fs::read_dir(self.temporary()).unwrap().flatten();
        found.extend(files.map(|file| format!("file {}", file.path().display())));
        let links = output(nightwatt_needs::command("ip").args(["-o", "link"]));
        let ours = |line: &&str| line.contains("link0");
        found.extend(links.lines().filter(ours).map(|line| format!("link {line}")));
        let journals = [self.journal(pid), self.lasting_journal(pid)].into_iter();
        found.extend(
            journals.filter(|it| it.exists()).map(|it| format!("journal {}", it.display())),
        );
        found
    }

    fn nothing_is_left(&self, pid: u32, when: &str) {
        let left = self.inventory(pid);
        assert!(left.is_empty(), "left {when}: {left:#?}");
    }

    /// Sends a signal while connections are under way.
    fn is_ended(&self, mut command: Command, signal: Signal) {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        until("connections are under way", || is_fetching(pid));
        assert!(self.inventory(pid).len() > 4, "while it runs there is something to be found");
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
        assert!(!child.wait().unwrap().success());
        until("all is undone", || !self.journal(pid).exists());
        self.nothing_is_left(pid, &format!("after {signal:?}"));
    }
}

fn finished(mut command: Command) -> (Output, u32) {
    let child: Child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let pid = child.id();
    (child.wait_with_output().unwrap(), pid)
}

fn output(command: &mut Command) -> String {
    String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
}

/// Has this laboratory started a client?
fn is_fetching(lab: u32) -> bool {
    !started(lab, "tcp\0fetch\0").is_empty()
}

/// What this laboratory has started with these words.
fn started(lab: u32, words: &str) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let read = |name| fs::read(entry.path().join(name)).unwrap_or_default();
        let [environ, line] = [read("environ"), read("cmdline")]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        line.contains(words) && environ.contains(&format!("nightwatt-{lab}-"))
    });
    processes.filter_map(|it| Pid::from_raw(it.file_name().to_str()?.parse().ok()?)).collect()
}

/// Who would undo all if this process were killed.
fn guardians(pid: u32) -> Vec<Pid> {
    let found =
        output(Command::new("pgrep").args(["-P", &pid.to_string(), "-f", "nightwatt-guardian"]));
    found.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
}

/// Polls until this is so: there is no event for it.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let (stop, deadline) = (Stop::new().unwrap(), monotonic() + TIMEOUT);
    while !is_so() {
        assert!(monotonic() < deadline, "in vain: {what}");
        stop.wait_until(monotonic() + Duration::from_millis(20));
    }
}

fn number(of: &Value, at: &str) -> f64 {
    of.pointer(at).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {at} in {of}"))
}

/// What holds of every link, however busy the machine is.
fn is_sound(result: &Value, megabits: f64) {
    let link = &result["scenarios"][0]["link"];
    for direction in ["/directions/0/rate", "/directions/1/rate"] {
        let rate = number(link, direction) / 1e6;
        assert!(rate <= 1.05 * megabits && rate > 0.5 * megabits, "{rate} of {megabits} Mbit/s");
    }
    let cell = &result["scenarios"][0]["cells"][0];
    assert_eq!(cell["runs"].as_array().unwrap().len(), 3);
    for run in cell["runs"].as_array().unwrap() {
        // Frames on cards, segments in TCP's books, and what was lost on purpose: to the last one.
        assert_eq!(run["disagreements"].as_array().unwrap().len(), 0, "{run}");
        assert_eq!(run["congestion"], "cubic");
        assert!(number(run, "/figures/rate") <= 1.05e6 * megabits, "{run}");
        assert!(
            number(run, "/figures/sender_cpu") > 0.0 && number(run, "/figures/receiver_cpu") > 0.0
        );
        let payload = number(run, "/figures/goodput");
        assert!(payload <= 1e6 * megabits * 1.05, "no more than the link carries: {run}");
    }
    assert_eq!(result["energy_is_modelled"], true, "never as if it were measured");
    let notes = result["notes"].to_string();
    assert!(notes.contains("not told apart by side"), "{notes}");
}

#[test]
fn a_link_that_no_machine_carries_is_refused_and_said_to_be() {
    let Some(rig) = Rig::new() else { return };
    let table = rig.table("fast,90000,0,0");
    let (output, pid) = finished(rig.lab(&["--table", &table, "--quick", "--json", "-m", "model"]));
    assert_eq!(output.status.code(), Some(1));
    rig.nothing_is_left(pid, "after its end");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("scenario fast: the link is refused: ") && said.contains("90000"),
        "{said}"
    );
    assert!(said.contains("--accept-link"), "{said}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["scenarios"][0]["cells"].as_array().unwrap().len(), 0, "nothing was run");
    // Of three and of five runs, by the worst rule there is.
    let factor = number(&result, "/rule/factor");
    assert!(factor > 1.0 && factor < 2.0, "{factor}");
    assert_eq!((&result["rule"]["min"], &result["rule"]["max"]), (&3.into(), &5.into()));
}

#[test]
fn a_connection_over_ten_megabits_lives_as_long_as_its_segments_take() {
    let Some(rig) = Rig::new() else { return };
    let runs = rig.folder.path().join("runs.jsonl");
    let result = rig.measured("d", &["--runs", &runs.display().to_string()]);
    is_sound(&result, 10.0);
    let kept = fs::read_to_string(&runs).unwrap();
    assert_eq!(kept.lines().count(), 3, "each run was written as it came: {kept}");
    let first: Value = serde_json::from_str(kept.lines().next().unwrap()).unwrap();
    assert_eq!(first["run"], result["scenarios"][0]["cells"][0]["runs"][0]);
    let scenario = &result["scenarios"][0];
    assert_eq!(scenario["emulation"]["rate"], "tbf");
    // Ten frames of 1526 bytes (payload, 20 + 32 of TCP and IP each, 14 of Ethernet) at 10 Mbit/s take
    // 12.2 ms, of which two may go at once: 9.8 ms. There is no upper bound on a busy machine.
    let lifetime = number(scenario, "/cells/0/figures/lifetime/mean");
    assert!(lifetime > 9.7e-3, "{lifetime}");
    assert!(number(scenario, "/cells/0/figures/frames/mean") > 12.0, "ten, and answers to them");
    for name in ["energy", "power", "idle_power", "active", "energy_per_segment"] {
        number(scenario, &format!("/cells/0/figures/{name}/mean"));
    }
    // By cpuidle's counters, by the tracepoint, or by both: whatever the kernel and this binary have.
    let notes = result["notes"].to_string();
    let counted = ["wake_ups", "traced_wake_ups"].map(|name| {
        let mean = scenario.pointer(&format!("/cells/0/figures/{name}/mean"));
        mean.map(|it| it.as_f64().filter(|it| it.is_finite()).expect("a finite number"))
    });
    if counted.iter().all(Option::is_none) && notes.contains("power:cpu_idle") {
        eprintln!(
            "skipped: wake-ups, which neither cpuidle nor the tracepoint counts here: {notes}"
        );
        return;
    }
    assert!(counted.iter().any(Option::is_some), "no wake-ups: {notes}");
}

#[test]
fn a_load_that_cannot_be_run_is_told_and_the_others_are_run() {
    let Some(rig) = Rig::new() else { return };
    let over = ["--scenario", "d", "--json", "--accept-link", "--longest", "1s", "-m", "model"];
    let loads = ["--connections", "1", "--segments", "10", "--congestion", "nonesuch,reno"];
    let (output, pid) = finished(rig.lab(&[&over[..], &loads, &["--most", "3"]].concat()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "not all was run: {said}");
    rig.nothing_is_left(pid, "after its end");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [none, reno] = [0, 1].map(|at| &result["scenarios"][0]["cells"][at]);
    assert_eq!((&none["congestion"], &reno["congestion"]), (&"nonesuch".into(), &"reno".into()));
    assert_eq!(none["runs"].as_array().unwrap().len(), 0, "{none}");
    let why = none["failures"][0].as_str().unwrap();
    assert!(why.contains("its kernel has: "), "{why}");
    assert_eq!(reno["runs"].as_array().unwrap().len(), 3, "{reno}");
    assert!(result["notes"].to_string().contains("its kernel has: "), "{}", result["notes"]);
}

/// The CPUs are asked 5000 times a second each, which interrupts them as often with nothing on the link; other
/// work of this machine does not.
#[test]
fn what_asks_the_cpus_where_their_time_goes_is_not_charged_to_connections() {
    const HZ: f64 = 5000.0;
    let Some(rig) = Rig::new() else { return };
    let short = ["--scenario", "d", "--json", "--accept-link", "--longest", "1s", "--most", "3"];
    let load = ["--connections", "1", "--segments", "10", "-m", "model", "--where=5000"];
    let stacks = tempfile::NamedTempFile::new().unwrap();
    let folded = ["--folded", stacks.path().to_str().unwrap()];
    let (output, _) = finished(rig.lab(&[&short[..], &load, &folded].concat()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("cannot say where the time goes") {
        eprintln!("skipped: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    for run in result["scenarios"][0]["cells"][0]["runs"].as_array().unwrap() {
        let figure = |name: &str| number(run, &format!("/figures/{name}"));
        let more = figure("interrupts") * figure("connections_per_second");
        assert!(more < 0.5 * HZ * cpus, "{more} more interrupts in a second, as if idle had none");
    }
    categories_share_all_of_it_out(&result["scenarios"][0]["cells"][0]);
    stacks_are_the_cpus_time(&std::fs::read_to_string(stacks.path()).unwrap(), &result);
}

/// Of the energy of a connection; or none has any of it, where the machine was too busy to tell.
fn categories_share_all_of_it_out(cell: &Value) {
    let os = cell["kernel_time"]["os"].as_array().unwrap();
    if cell["kernel_time"]["changing_energy"].is_null() {
        assert!(os.iter().all(|it| it["energy"].is_null()), "some have: {os:?}");
        eprintln!("this machine was busy with something else: nothing was shared out");
        return;
    }
    let parts: f64 = os.iter().map(|it| number(it, "/energy/mean")).sum();
    let energy = number(cell, "/figures/energy/mean");
    assert!(
        (parts - energy).abs() <= 1e-9 * energy.abs(),
        "{parts} J by category, {energy} J in all"
    );
}

/// Each stack is of the link and the load, and all of them are what was seen at work.
fn stacks_are_the_cpus_time(folded: &str, result: &Value) {
    let runs = result["scenarios"][0]["cells"][0]["runs"].as_array().unwrap();
    let seen = |run: &Value| {
        let period = number(run, "/kernel_time/period_s");
        1e6 * period * number(run, "/kernel_time/samples/busy")
    };
    let seen: f64 = runs.iter().map(seen).sum();
    let (mut told, mut reading) = (0.0, 0.0);
    for line in folded.lines() {
        let (stack, time) = line.rsplit_once(' ').unwrap();
        assert!(stack.starts_with("scenario d;1 connection of 10 segments, cubic;"), "{line}");
        let time: f64 = time.parse().unwrap();
        told += time;
        if stack.contains(";nightwatt;") && stack.contains(";filemap_read") {
            reading += time;
        }
    }
    // Names of functions are read from programs before anything is counted: it is no work of connections.
    assert!(reading < 0.1 * told, "{reading} of {told} us went into reading files");
    // A line of each run is rounded to a microsecond.
    let rounded = (folded.lines().count() * runs.len()) as f64;
    assert!((told - seen).abs() <= rounded, "{told} us in stacks, {seen} seen");
}

#[test]
fn a_relay_delays_the_round_trip_by_as_much_as_is_wanted() {
    let Some(rig) = Rig::new() else { return };
    let result = rig.measured("f", &["--wake-energy", "0.0001"]);
    is_sound(&result, 10.0);
    let scenario = &result["scenarios"][0];
    let delay = scenario["emulation"]["delay"].as_str().unwrap();
    assert!(["relay", "netem"].contains(&delay), "{delay}");
    let round_trip = number(scenario, "/link/round_trip");
    assert!((0.010..0.020).contains(&round_trip), "{round_trip}, and not twice 10 ms");
    assert!(number(scenario, "/cells/0/figures/least_round_trip/mean") >= 0.010);
    // The handshake and the first window take two round trips, and ten frames their 9.8 ms.
    assert!(number(scenario, "/cells/0/figures/lifetime/mean") > 0.0298);
    if delay == "relay" {
        assert!(
            number(scenario, "/cells/0/figures/relay_cpu/mean") > 0.0,
            "its cost is told apart"
        );
        let [there, back] = [0, 1].map(|way| &scenario["relayed"]["ways"][way]);
        for way in [there, back] {
            // What came within the last 5 ms is still on its way when it ends.
            let count = |name: &str| way[name].as_u64().unwrap();
            let under_way = count("frames") - count("left");
            assert!(under_way < 100 && count("dropped") + count("lost") == 0, "{way}");
        }
    }
    assert_eq!(result["wake_joules"], 1e-4);
}

#[test]
fn planted_losses_are_found_by_the_probe_by_the_rule_and_by_tcp() {
    let Some(rig) = Rig::new() else { return };
    // As scenario b, at a rate that any machine carries, and lossy enough to be seen in a second.
    let table = rig.lossy(100);
    let length = ["--longest", "1s", "--most", "3", "--connections", "1", "--segments", "1000"];
    let over = ["--table", &table, "--scenario", "lossy", "--json", "--accept-link", "-m", "model"];
    let result = rig.reported(&[&over[..], &length].concat());
    is_sound(&result, 100.0);
    let scenario = &result["scenarios"][0];
    for way in 0..2 {
        let told = &scenario["link"]["directions"][way]["loss"];
        let (sent, lost) = (number(told, "/sent"), number(told, "/lost"));
        // Five standard deviations of a binomial.
        let off = 5.0 * (sent * 0.02 * 0.98).sqrt();
        assert!((lost - 0.02 * sent).abs() < off, "{lost} of {sent}");
    }
    for run in scenario["cells"][0]["runs"].as_array().unwrap() {
        // Five standard deviations of a binomial: a busy machine carries fewer frames.
        let came = number(run, "/completed") * number(run, "/figures/sender_frames");
        let off = 5.0 * (0.02 * 0.98 / came).sqrt();
        assert!((number(run, "/figures/loss") - 0.02).abs() < off, "{run}");
    }
    let cell = &scenario["cells"][0]["figures"];
    let (planted, again) = (number(cell, "/loss/mean"), number(cell, "/retransmitted/mean"));
    assert!(again > 0.5 * planted, "TCP has sent them again: {again} of {planted}");
}

#[test]
fn a_capture_of_each_run_says_the_same_as_kernels_cards_and_the_rule_that_loses_frames() {
    let Some(rig) = Rig::new() else { return };
    if nightwatt_needs::program("tcpdump").is_none() {
        return;
    }
    let table = rig.lossy(50);
    // A connection that has lost its first packet takes a second longer. Ten segments never fill a queue, which
    // would drop what no capture sees.
    let length = ["--longest", "3s", "--most", "3", "--connections", "1", "--segments", "10"];
    let over = ["--table", &table, "--scenario", "lossy", "--json", "--accept-link", "-m", "model"];
    let result = rig.reported(&[&over[..], &length, &["--capture"]].concat());
    let scenario = &result["scenarios"][0];
    let mut captures = Vec::new();
    for run in scenario["cells"][0]["runs"].as_array().unwrap() {
        assert_eq!(run["disagreements"].as_array().unwrap().len(), 0, "{run}");
        captures.push(&run["capture"]);
    }
    if scenario["emulation"]["loss"] != "nftables" {
        eprintln!("skipped: what netem loses comes to no capture");
        return;
    }
    let whole: Vec<&Value> = captures.into_iter().filter(|it| it["is_whole"] == true).collect();
    if whole.is_empty() {
        eprintln!("skipped: tcpdump could not keep up on this machine");
        return;
    }
    for capture in &whole {
        for pair in
            ["frames_sent", "bytes_sent", "frames_received", "retransmitted_segments", "lost"]
        {
            // Counters are read within what is captured; what falls between is bounded by the report itself, whose
            // disagreements are looked at above.
            let of = |who: &str| number(capture, &format!("/{pair}/{who}"));
            assert!(of("capture") >= of("kernel"), "{pair}: {capture}");
        }
        // Of one that was cut off at the end the sender may not have known yet when it was asked.
        let of = |name: &str| capture[name].as_u64().unwrap();
        assert_eq!(of("equal") + of("unknown"), of("compared"), "none differs: {capture}");
    }
    let sum = |at: &str| whole.iter().map(|it| number(it, at)).sum::<f64>();
    assert!(sum("/equal") > sum("/unknown"), "{whole:?}");
    let (sent, lost) = (sum("/frames_sent/capture"), sum("/lost/capture"));
    // Five standard deviations of a binomial.
    assert!((lost - 0.02 * sent).abs() < 5.0 * (sent * 0.02 * 0.98).sqrt(), "{lost} of {sent}");
    // Two in three of those lost have data; that less than one in four were sent again is no chance of so many.
    let again = sum("/retransmitted_segments/capture");
    assert!(lost < 20.0 || again > 0.25 * lost, "{whole:?}");
}

#[test]
fn packets_over_a_fast_link_are_counted_one_by_one() {
    let Some(rig) = Rig::new() else { return };
    let table = rig.folder.path().join("table.csv");
    // So fast that the kernel sends as many at once as a card takes.
    fs::write(
        &table,
        "scenario,bandwidth_mbit_s,extra_loss_percent,extra_delay_ms\nfast,1000,0,0\n",
    )
    .unwrap();
    let result = rig.measured("fast", &["--table", &table.display().to_string()]);
    for way in ["/directions/0", "/directions/1"] {
        let link = &result["scenarios"][0]["link"];
        let bytes = number(link, &format!("{way}/frame_bytes"));
        // A full frame: 1500 of IP and 14 of Ethernet.
        assert!((1500.0..=1514.0).contains(&bytes), "{link}");
    }
}

#[test]
fn interrupted_or_killed_in_the_middle_nothing_is_left() {
    let Some(rig) = Rig::new().map(Rig::with_usual_lists) else { return };
    let lab = || rig.lab(&["--scenario", "f", "--accept-link", "--quick", "-m", "model"]);
    rig.is_ended(lab(), Signal::INT);
    rig.is_ended(lab(), Signal::KILL);
    let (cleaned, _) = finished(rig.lab(&["clean"]));
    assert!(cleaned.status.success());
    let said = String::from_utf8_lossy(&cleaned.stdout).into_owned();
    assert!(said.starts_with("0 things"), "the guardian had undone all of it: {said}");
}

#[test]
fn what_a_guardian_could_not_undo_is_undone_by_clean() {
    let Some(rig) = Rig::new() else { return };
    let arguments = ["--scenario", "d", "--accept-link", "--quick", "-m", "model"];
    // The networks themselves may be gone, too, with the processes that keep them.
    for is_kept in [true, false] {
        let mut child =
            rig.lab(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        until("connections are under way", || is_fetching(pid));
        // As when a user kills all processes of that name: the guardian first.
        for guardian in guardians(pid) {
            let _ = kill_process(guardian, Signal::KILL);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if !is_kept {
            let keepers = || started(pid, "sleep\x002147483647\0");
            assert!(keepers().len() >= 2, "of a network each");
            for keeper in keepers() {
                kill_process(keeper, Signal::KILL).unwrap();
            }
            until("they are gone", || keepers().is_empty());
        }
        assert!(rig.journal(pid).exists(), "nobody has undone anything");
        let (cleaned, _) = finished(rig.lab(&["clean"]));
        let said = String::from_utf8_lossy(&cleaned.stdout).into_owned();
        assert!(cleaned.status.success() && said.contains("undone"), "{is_kept}: {cleaned:?}");
        assert!(!said.starts_with("0 "), "{said}");
        rig.nothing_is_left(pid, "after `clean`");
    }
}

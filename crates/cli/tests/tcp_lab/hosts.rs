//! Two machines behind ssh: two networks of this machine, each with an sshd.
//!
//! They wait for slow links most of the time, and run beside each other and one of the others.

use std::fs;
use std::process::{Child, Command, Stdio};

use nightwatt_needs::programs;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Rig, finished, guardians, number, output, until};

/// Whose card is slowed down.
const CARD: &str = "nwt0";

/// Two networks with a pair of cards between them. They go with the processes that keep them.
struct Hosts {
    keepers: [Child; 2],
}

impl Hosts {
    /// Says why a test is skipped.
    fn new(rig: &Rig) -> Option<Self> {
        if !programs(&["sshd", "ssh", "ssh-keygen"]) {
            return None;
        }
        // As root it wants this folder, which a package's unit makes.
        let _ = fs::create_dir_all("/run/sshd");
        for name in ["host", "id"] {
            let mut keygen = Command::new("ssh-keygen");
            output(
                keygen
                    .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                    .arg(rig.folder.path().join(name)),
            );
        }
        let keeper = || {
            let mut command = Command::new("unshare");
            command.args(["--net", "sleep", "2147483647"]).stdin(Stdio::null());
            command.spawn().unwrap()
        };
        let hosts = Self { keepers: [keeper(), keeper()] };
        let [sender, receiver] = hosts.keepers.each_ref().map(Child::id);
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        until("both have networks of their own", || {
            let of = |pid| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
            [sender, receiver].iter().all(|pid| of(*pid).is_some_and(|it| it != own))
        });
        hosts.run(0, &format!("ip link add {CARD} type veth peer name {CARD} netns {receiver}"));
        for end in [0, 1] {
            let address = format!("ip address add 10.7.0.{}/30 dev {CARD}", end + 1);
            // A card with a flag off that its group's short name would switch on.
            let flag = format!("ethtool -K {CARD} tx-tcp-mangleid-segmentation off");
            hosts.run(end, &format!("{address}; ip link set {CARD} up; ip link set lo up; {flag}"));
        }
        Some(hosts)
    }

    fn enter(&self, end: usize) -> String {
        format!("nsenter --net=/proc/{}/ns/net", self.keepers[end].id())
    }

    fn run(&self, end: usize, line: &str) -> String {
        let line = format!("{} /bin/sh -c '{line}'", self.enter(end));
        output(Command::new("/bin/sh").args(["-c", &line]).env("PATH", nightwatt_needs::path()))
    }

    /// The file that names them as ends, with so much more of each.
    fn file(&self, rig: &Rig, more: &str) -> String {
        let path = |name: &str| rig.folder.path().join(name).display().to_string();
        let table = |end: usize| {
            let sshd = format!(
                "{} /usr/sbin/sshd -i -f /dev/null -h {} -o StrictModes=no -o UsePAM=no -o PidFile=none \
                 -o PermitRootLogin=yes -o AuthorizedKeysFile={} -o LogLevel=QUIET",
                self.enter(end),
                path("host"),
                path("id.pub")
            );
            format!(
                "kind = \"ssh\"\nhost = \"10.7.0.{}\"\nuser = \"root\"\nkey = \"{}\"\nconfig = \"/dev/null\"\n\
                 known_hosts = \"/dev/null\"\nscratch = \"{}\"\n{more}\n\
                 ssh_arguments = [\"-o\", \"StrictHostKeyChecking=no\", \"-o\", \"ProxyCommand={sshd}\"]\n",
                end + 1,
                path("id"),
                rig.temporary().display(),
            )
        };
        let text = format!("[sender]\n{}\n[receiver]\n{}", table(0), table(1));
        fs::write(path("ends.toml"), text).unwrap();
        path("ends.toml")
    }

    /// What may be changed on an end, as it is now.
    fn settings(&self) -> Vec<String> {
        let line = format!(
            "tc qdisc show dev {CARD}; nft list ruleset; cat /proc/sys/net/ipv4/tcp_no_metrics_save; \
             ethtool -k {CARD}; ip -4 -o address show {CARD}"
        );
        [0, 1].map(|end| self.run(end, &line)).to_vec()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for keeper in &mut self.keepers {
            let _ = keeper.kill();
            let _ = keeper.wait();
        }
    }
}

/// In the file of ends: the cards may be slowed down.
fn named() -> String {
    format!("card = \"{CARD}\"")
}

/// The same, and our program is there already: to carry it takes what a debug build is long.
fn named_and_there() -> String {
    format!("{}\nprogram = \"{}\"", named(), env!("CARGO_BIN_EXE_nightwatt"))
}

const SHORT: [&str; 10] = [
    "--connections",
    "1",
    "--segments",
    "10",
    "--accept-link",
    "--longest",
    "1s",
    "--most",
    "9",
    "--json",
];

fn measured(rig: &Rig, arguments: &[&str]) -> Value {
    // Three runs are the least, and sure enough.
    let sure = ["--precision", "1000"];
    let (output, pid) = finished(rig.lab(&[arguments, &SHORT[..], &sure].concat()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    rig.nothing_is_left(pid, "after its end");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// A table of one link, that any machine carries. A loss takes seconds to be measured.
fn table(rig: &Rig, loss_percent: u32) -> String {
    let path = rig.folder.path().join("table.csv");
    let head = "scenario,bandwidth_mbit_s,extra_loss_percent,extra_delay_ms";
    fs::write(&path, format!("{head}\nslow,20,{loss_percent},0\n")).unwrap();
    path.display().to_string()
}

#[test]
fn two_machines_are_told_apart_and_are_left_as_they_were() {
    let Some(rig) = Rig::beside_others() else { return };
    let Some(hosts) = Hosts::new(&rig) else { return };
    let before = hosts.settings();
    assert!(before[0].contains("tcp-segmentation-offload: on"), "{before:?}");
    assert!(before[0].contains("tx-tcp-mangleid-segmentation: off"), "{before:?}");
    let file = hosts.file(&rig, &named());
    let result = measured(&rig, &["--ends", &file, "--table", &table(&rig, 4)]);
    assert_eq!(hosts.settings(), before, "nothing is left of it on either");
    let scenario = &result["scenarios"][0];
    assert_eq!(scenario["emulation"]["rate"], "tbf");
    for way in ["/link/directions/0", "/link/directions/1"] {
        let rate = number(scenario, &format!("{way}/rate"));
        assert!((10e6..21e6).contains(&rate), "{rate} of 20 Mbit/s");
        let told = &scenario.pointer(way).unwrap()["loss"];
        let (sent, lost) = (number(told, "/sent"), number(told, "/lost"));
        // Five standard deviations of a binomial.
        assert!((lost - 0.04 * sent).abs() < 5.0 * (sent * 0.04 * 0.96).sqrt(), "{lost} of {sent}");
    }
    let cell = &scenario["cells"][0];
    assert_eq!(cell["runs"].as_array().unwrap().len(), 3, "{cell}");
    for name in
        ["sender_cpu", "receiver_cpu", "sender_active", "receiver_active", "sender_interrupts"]
    {
        number(cell, &format!("/figures/{name}/mean"));
    }
    assert!(number(cell, "/figures/sender_frames/mean") >= 10.0, "ten segments: {cell}");
    // No meter hangs at either, and neither is this machine.
    assert!(cell["figures"]["energy"].is_null() && cell["figures"]["active"].is_null(), "{cell}");
    let notes = result["notes"].to_string();
    assert!(notes.contains("there is no energy"), "{notes}");
    assert_eq!(result["ends"][0]["address"], "10.7.0.1");
}

#[test]
fn a_card_that_nobody_has_named_is_not_slowed_down() {
    let Some(rig) = Rig::beside_others() else { return };
    let Some(hosts) = Hosts::new(&rig) else { return };
    let before = hosts.settings();
    let program = format!("program = \"{}\"", env!("CARGO_BIN_EXE_nightwatt"));
    let file = hosts.file(&rig, &program);
    let result = measured(&rig, &["--ends", &file, "--table", &table(&rig, 0)]);
    assert_eq!(hosts.settings(), before);
    let scenario = &result["scenarios"][0];
    assert!(scenario["emulation"]["bare"].as_str().unwrap().contains("no `card`"), "{scenario}");
    assert!(result["notes"].to_string().contains("nothing is emulated"), "{}", result["notes"]);
    assert_eq!(result["ends"][0]["card"], CARD, "the one that leads to the other end");
}

fn helped(rig: &Rig, arguments: &[&str]) -> (Value, Option<i32>) {
    let short = ["--quick", "--longest", "1s", "--most", "3", "--json"];
    let (output, pid) = finished(rig.command(&[&["tcp", "helps"], arguments, &short[..]].concat()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    rig.nothing_is_left(pid, "after its end");
    let result = serde_json::from_slice(&output.stdout);
    (result.unwrap_or_else(|error| panic!("{error}: {said}")), output.status.code())
}

#[test]
fn what_helps_is_tried_between_two_machines_and_their_cards_are_put_back() {
    let Some(rig) = Rig::beside_others() else { return };
    let Some(hosts) = Hosts::new(&rig) else { return };
    let before = hosts.settings();
    let file = hosts.file(&rig, &named_and_there());
    let (result, code) = helped(&rig, &["tso+gso+gro", "--ends", &file]);
    assert_eq!(hosts.settings(), before);
    assert_eq!(code, Some(0), "{result}");
    let change = &result["links"][0]["changes"][0];
    // A run is of 10,000 segments, and ssh sends some besides.
    assert!(number(change, "/figures/frames/without") >= 10_000.0, "{change}");
    assert!(number(change, "/figures/frames/with") < 5_000.0, "{change}");
    number(change, "/figures/sender_interrupts/without");
    assert_eq!(result["ends"][1]["address"], "10.7.0.2");
    assert!(result["notes"][0].as_str().unwrap().contains("two machines"), "{result}");
}

#[test]
fn a_card_that_nobody_has_named_is_not_switched() {
    let Some(rig) = Rig::beside_others() else { return };
    let Some(hosts) = Hosts::new(&rig) else { return };
    let before = hosts.settings();
    let program = format!("program = \"{}\"", env!("CARGO_BIN_EXE_nightwatt"));
    let (result, code) = helped(&rig, &["tso,coalescing", "--ends", &hosts.file(&rig, &program)]);
    assert_eq!(hosts.settings(), before);
    assert_eq!(code, Some(1), "nothing could be tried: {result}");
    let refused = result["links"][0]["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 2, "{refused:?}");
    for it in refused {
        let why = it["refusals"][0]["why"].as_str().unwrap();
        assert!(why.contains("no `card`") && why.contains("left as it is"), "{why}");
    }
}

/// Starts a run, and waits until its first is over.
fn started(rig: &Rig, hosts: &Hosts) -> Child {
    let runs = rig.folder.path().join("runs.jsonl");
    let file = hosts.file(rig, &named_and_there());
    let arguments =
        ["--ends", &file, "--table", &table(rig, 0), "--runs", &runs.display().to_string()];
    // So many that it is not over when what is looked at on a busy machine has been seen.
    let long = SHORT.map(|it| if it == "9" { "1000" } else { it });
    let arguments = [&arguments[..], &long, &["--precision", "0.000001"]].concat();
    let mut command = rig.lab(&arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("the first run is over", || {
        assert_eq!(child.try_wait().unwrap(), None, "it has ended: {arguments:?}");
        fs::metadata(&runs).is_ok_and(|it| it.len() > 0)
    });
    assert!(hosts.settings()[0].contains("tbf"), "while it runs there is something to be undone");
    child
}

#[test]
fn a_second_laboratory_on_the_same_cards_is_refused_and_leaves_the_firsts_link() {
    let Some(rig) = Rig::beside_others() else { return };
    let Some(hosts) = Hosts::new(&rig) else { return };
    let before = hosts.settings();
    let mut first = started(&rig, &hosts);
    let file = rig.folder.path().join("ends.toml").display().to_string();
    let over = ["--ends", &file, "--table", &table(&rig, 0)];
    let (second, pid) = finished(rig.lab(&[&over[..], &SHORT[..]].concat()));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(said.contains("another run has it"), "{said}");
    assert!(!rig.lasting_journal(pid).exists(), "it has nothing to undo");
    assert_eq!(first.try_wait().unwrap(), None, "the first goes on");
    for end in hosts.settings() {
        assert!(end.contains("tbf 6e77: root"), "its link is there: {end}");
    }
    kill_process(Pid::from_child(&first), Signal::INT).unwrap();
    assert!(!first.wait().unwrap().success());
    assert_eq!(hosts.settings(), before);
    rig.nothing_is_left(first.id(), "after the first's end");
}

#[test]
fn killed_with_its_guardian_what_was_changed_there_is_undone_by_clean() {
    let Some(rig) = Rig::beside_others() else { return };
    let Some(hosts) = Hosts::new(&rig) else { return };
    let before = hosts.settings();
    let mut child = started(&rig, &hosts);
    let pid = child.id();
    for guardian in guardians(pid) {
        let _ = kill_process(guardian, Signal::KILL);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(hosts.settings() != before, "nobody has undone anything");
    assert!(rig.lasting_journal(pid).exists(), "a reboot of this machine would not undo it there");
    let (cleaned, _) = finished(rig.lab(&["clean"]));
    let said = String::from_utf8_lossy(&cleaned.stdout).into_owned();
    assert!(cleaned.status.success() && !said.starts_with("0 "), "{said}");
    assert_eq!(hosts.settings(), before);
    rig.nothing_is_left(pid, "after `clean`");
}

#[test]
fn where_the_connection_breaks_it_ends_and_says_so() {
    let Some(rig) = Rig::beside_others() else { return };
    let Some(hosts) = Hosts::new(&rig) else { return };
    let before = hosts.settings();
    let child = started(&rig, &hosts);
    let pid = child.id();
    // All that sshd has started for us is gone at once, as when the machine goes down.
    let masters =
        output(Command::new("pgrep").args(["-f", &format!("nightwatt-{pid}-.*ControlPersist")]));
    let masters: Vec<Pid> =
        masters.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect();
    assert!(!masters.is_empty());
    for master in masters {
        let _ = kill_process(master, Signal::KILL);
    }
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("does not answer any more"), "{said}");
    // What could be reached again was put back, through a connection of its own.
    assert_eq!(hosts.settings(), before, "{said}");
    rig.nothing_is_left(pid, "after a connection broke");
}

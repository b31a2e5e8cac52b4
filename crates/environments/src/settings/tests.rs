use std::fs;
use std::path::PathBuf;

use super::*;

/// A folder with what a machine has in `/sys` and `/proc`, as a desktop with Intel's driver shows it.
struct Machine {
    folder: tempfile::TempDir,
    stop: Stop,
}

const CPU: &str = "sys/devices/system/cpu";

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap(), stop: Stop::new().unwrap() };
        for (policy, governor) in [("policy0", "powersave"), ("policy1", "performance")] {
            let at = |name: &str| format!("{CPU}/cpufreq/{policy}/{name}");
            machine.put(&at("scaling_governor"), governor);
            machine.put(&at("scaling_available_governors"), "performance powersave");
            machine.put(&at("energy_performance_preference"), "balance_performance");
        }
        machine.put(&format!("{CPU}/intel_pstate/no_turbo"), "0");
        machine.put(&format!("{CPU}/smt/control"), "on");
        machine.put("sys/block/sda/queue/scheduler", "none [mq-deadline] kyber");
        machine.put("proc/sys/net/ipv4/tcp_congestion_control", "cubic");
        machine.put("proc/sys/net/ipv4/tcp_rmem", "4096\u{9}131072\u{9}6291456");
        machine
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), format!("{text}\n")).unwrap();
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap().trim().to_owned()
    }

    fn guard(&self) -> Guard {
        Guard::start(&self.at("journal")).unwrap()
    }
}

fn setting(text: &str) -> Setting {
    toml::from_str(text).unwrap()
}

#[test]
fn each_is_set_and_restored_to_what_it_was() {
    let machine = Machine::new();
    let guard = machine.guard();
    let [zero, one] =
        ["policy0", "policy1"].map(|policy| format!("{CPU}/cpufreq/{policy}/scaling_governor"));
    let governor = setting("kind = \"governor\"");
    assert_eq!(
        governor.read(machine.root(), &machine.stop).unwrap().unwrap(),
        "powersave, performance"
    );
    let set = governor.set(machine.root(), "performance", &guard, &machine.stop).unwrap();
    assert_eq!(
        (machine.get(&zero), machine.get(&one)),
        ("performance".into(), "performance".into())
    );
    set.restore().unwrap();
    assert_eq!((machine.get(&zero), machine.get(&one)), ("powersave".into(), "performance".into()));
    // The setting, a value, its file, what is in it then, and after.
    let cases = [
        ("kind = \"turbo\"", "off", format!("{CPU}/intel_pstate/no_turbo"), "1", "0"),
        ("kind = \"smt\"", "off", format!("{CPU}/smt/control"), "off", "on"),
        (
            "kind = \"sysctl\"\nkey = \"net.ipv4.tcp_congestion_control\"",
            "vegas",
            "proc/sys/net/ipv4/tcp_congestion_control".to_owned(),
            "vegas",
            "cubic",
        ),
        (
            "kind = \"sysctl\"\nkey = \"net.ipv4.tcp_rmem\"",
            "4096  8192 16384",
            "proc/sys/net/ipv4/tcp_rmem".to_owned(),
            "4096 8192 16384",
            "4096 131072 6291456",
        ),
    ];
    for (text, value, file, then, after) in cases {
        let set = setting(text).set(machine.root(), value, &guard, &machine.stop).unwrap();
        assert_eq!(machine.get(&file), then, "{text}");
        drop(set);
        assert_eq!(machine.get(&file), after, "{text}");
    }
}

#[test]
fn where_a_file_shows_choices_the_one_in_brackets_counts() {
    let machine = Machine::new();
    let scheduler = setting("kind = \"file\"\npath = \"/sys/block/sda/queue/scheduler\"");
    assert_eq!(scheduler.read(machine.root(), &machine.stop).unwrap().unwrap(), "mq-deadline");
    let guard = machine.guard();
    // A setting that holds already is left alone: the kernel would write the choices again, this
    // file would not.
    let set = scheduler.set(machine.root(), "mq-deadline", &guard, &machine.stop).unwrap();
    set.restore().unwrap();
    assert_eq!(machine.get("sys/block/sda/queue/scheduler"), "none [mq-deadline] kyber");
}

#[test]
fn the_guardian_restores_what_is_left_however_the_run_ends() {
    let machine = Machine::new();
    let guard = machine.guard();
    let file = format!("{CPU}/cpufreq/policy1/energy_performance_preference");
    let preference = setting("kind = \"preference\"");
    let first = preference.set(machine.root(), "power", &guard, &machine.stop).unwrap();
    let second = preference.set(machine.root(), "performance", &guard, &machine.stop).unwrap();
    assert_eq!((first.before(), second.before()), ("balance_performance", "power"));
    std::mem::forget((first, second));
    guard.finish().unwrap();
    assert_eq!(machine.get(&file), "balance_performance", "the latest first");
}

#[test]
fn what_the_machine_does_not_offer_is_named_with_a_way_out() {
    let machine = Machine::new();
    let guard = machine.guard();
    let empty = tempfile::tempdir().unwrap();
    let error = |text: &str, root: &Path, value: &str| {
        setting(text).set(root, value, &guard, &machine.stop).unwrap_err().to_string()
    };
    let said = error("kind = \"governor\"", empty.path(), "performance");
    assert!(said.contains("cpufreq/policy0/scaling_governor") && said.contains("driver"), "{said}");
    let said = error("kind = \"turbo\"", machine.root(), "yes");
    assert!(said.contains("`on` or `off`"), "{said}");
    machine.put(&format!("{CPU}/smt/control"), "notsupported");
    let said = error("kind = \"smt\"", machine.root(), "off");
    assert!(said.contains("notsupported") && said.contains("firmware"), "{said}");
    let said = error("kind = \"sysctl\"\nkey = \"net.no.such\"", machine.root(), "1");
    assert!(said.contains("proc/sys/net/no/such"), "{said}");
}

#[test]
fn a_value_that_does_not_take_is_an_error_and_undone() {
    let machine = Machine::new();
    let guard = machine.guard();
    let state = machine.at("state");
    fs::write(&state, "one").unwrap();
    let deaf = format!(
        "kind = \"command\"\nset = 'echo changed >>{0}.log'\nread = 'cat {0}'\nrestore = 'echo \"$value\" >>{0}.log'",
        state.display()
    );
    let error = setting(&deaf).set(machine.root(), "two", &guard, &machine.stop).unwrap_err();
    assert!(error.to_string().contains("it is `one`"), "{error}");
    assert_eq!(machine.get("state.log"), "changed\none");
    let willing = format!(
        "kind = \"command\"\nset = 'echo \"$value\" >{0}'\nread = 'cat {0}'",
        state.display()
    );
    let set = setting(&willing).set(machine.root(), "it's two", &guard, &machine.stop).unwrap();
    assert_eq!(machine.get("state"), "it's two");
    set.restore().unwrap();
    assert_eq!(machine.get("state"), "one");
}

#[test]
fn a_plan_that_names_no_such_setting_is_told_so() {
    for text in ["kind = \"colour\"", "kind = \"turbo\"\nlevel = 3", "kind = \"sysctl\""] {
        assert!(toml::from_str::<Setting>(text).is_err(), "{text}");
    }
}

#[test]
fn the_work_of_a_network_card_is_set_and_restored() {
    if !nightwatt_needs::programs(&["ethtool", "ip"]) {
        return;
    }
    let may = std::process::Command::new("unshare").args(["-n", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: only root may make a network");
        return;
    }
    // A card of our own: this test's commands enter its namespace by a line in front.
    let folder = tempfile::tempdir().unwrap();
    let stop = Stop::new().unwrap();
    let guard = Guard::start(&folder.path().join("journal")).unwrap();
    let name = format!("nwt{}", std::process::id());
    let sh = |line: &str| {
        let line = format!("PATH=$PATH:/usr/sbin; {line}");
        std::process::Command::new("sh").args(["-c", &line]).output().unwrap()
    };
    let _removed = guard
        .protect(&format!("PATH=$PATH:/usr/sbin; ip link del {name} 2>/dev/null || true"))
        .unwrap();
    let made = sh(&format!("ip link add {name} type veth peer name {name}p"));
    assert!(made.status.success(), "{made:?}");
    let offload =
        setting(&format!("kind = \"offload\"\ninterface = \"{name}\"\nfeature = \"tso\""));
    let read = || offload.read(Path::new("/"), &stop).unwrap().unwrap();
    assert_eq!(read(), "on", "as veth(4) has it");
    let set = offload.set(Path::new("/"), "off", &guard, &stop).unwrap();
    // By the other name, from ethtool itself.
    let shown = String::from_utf8(sh(&format!("ethtool -k {name}")).stdout).unwrap();
    assert!(shown.contains("tcp-segmentation-offload: off"), "{shown}");
    set.restore().unwrap();
    assert_eq!(read(), "on");
    // The summary says on as long as one part of it is.
    sh(&format!("ethtool -K {name} tx-tcp-segmentation off"));
    let shown = String::from_utf8(sh(&format!("ethtool -k {name}")).stdout).unwrap();
    assert!(shown.contains("\ntcp-segmentation-offload: on"), "{shown}");
    assert_eq!(read(), "off", "what is cut is what counts");
    let fixed =
        setting(&format!("kind = \"offload\"\ninterface = \"{name}\"\nfeature = \"rx-all\""));
    assert!(fixed.set(Path::new("/"), "on", &guard, &stop).is_err(), "it cannot do that");
}

#[test]
fn a_setting_that_somebody_else_changed_is_noticed() {
    let machine = Machine::new();
    let guard = machine.guard();
    let turbo = setting("kind = \"turbo\"");
    let set = turbo.set(machine.root(), "off", &guard, &machine.stop).unwrap();
    let strayed = || turbo.strayed(machine.root(), "off", &machine.stop).unwrap();
    assert_eq!(strayed(), None);
    machine.put(&format!("{CPU}/intel_pstate/no_turbo"), "0");
    assert_eq!(strayed().as_deref(), Some("on"));
    drop(set);
}

#[test]
fn what_a_setting_cannot_be_is_told_before_it_is_set() {
    let machine = Machine::new();
    let check = |text: &str, values: &[&str]| {
        let values: Vec<String> = values.iter().map(|it| (*it).to_owned()).collect();
        setting(text).check(machine.root(), &values, &machine.stop)
    };
    check("kind = \"governor\"", &["performance", "powersave"]).unwrap();
    let said = check("kind = \"governor\"", &["performance", "ondemand"]).unwrap_err().to_string();
    assert!(said.contains("does not take `ondemand` (it takes: performance powersave)"), "{said}");
    check("kind = \"turbo\"", &["on", "off"]).unwrap();
    let said = check("kind = \"turbo\"", &["fast"]).unwrap_err().to_string();
    assert!(said.contains("`fast` is no value of it"), "{said}");
    fs::remove_dir_all(machine.at(&format!("{CPU}/cpufreq"))).unwrap();
    let said = check("kind = \"governor\"", &["performance"]).unwrap_err().to_string();
    assert!(said.contains("this machine has no"), "{said}");
    // No list says what it takes: that shows when it is set.
    check("kind = \"sysctl\"\nkey = \"net.ipv4.tcp_congestion_control\"", &["nonsense"]).unwrap();
}

//! `nightwatt agent`, as a program: its orders, its record, and a machine that is only a folder of files.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{eventually, nightwatt, program, told};

struct House {
    dir: TempDir,
    address: String,
    agent: Option<Child>,
}

impl House {
    fn new(sleep: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let address = nightwatt_needs::free_udp_address().to_string();
        let house = Self { dir, address, agent: None };
        let key = nightwatt(&["agent", "key", "-o", &house.path("agent.key")]);
        assert!(key.status.success(), "{}", told(&key));
        let text = format!(
            "listen = [\"{}\"]\nstate_dir = \"{}\"\n[[proxy]]\nname = \"porch\"\nkey = \
             \"{}\"\n[sleep]\nhow = \"command\"\ncommand = \"{sleep}\"\nwithin = \"200ms\"\n[alarm]\n\
             dead_man = \"0\"\ntimers = []\ncron = false\n[inhibit]\nusers = false\nssh_ports = \
             []\nsystemd = false\nscript = [\"/bin/sh\", \"-c\", \"test ! -e {} || {{ echo a backup \
             runs; exit 1; }}\"]\n",
            house.address,
            house.path("state"),
            house.path("agent.key"),
            house.path("busy"),
        );
        fs::write(house.path("agent.toml"), text).unwrap();
        house
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn start(&mut self) {
        let mut command: Command = program();
        command.args(["agent", "-c", &self.path("agent.toml"), "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        // What comes once it says where it listens waits for it.
        let said = BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).lines().next();
        assert!(said.is_some(), "it does not start");
        self.agent = Some(child);
    }

    fn stop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let pid = Pid::from_raw(agent.id().cast_signed()).unwrap();
            rustix::process::kill_process(pid, Signal::TERM).unwrap();
            assert!(agent.wait().unwrap().success());
        }
    }

    /// Exit status and what is printed.
    fn ask(&self, order: &str) -> (i32, Value) {
        let key = self.path("agent.key");
        let output = nightwatt(&["agent", "ask", &self.address, order, "--key", &key, "--json"]);
        let value = serde_json::from_slice(&output.stdout);
        (output.status.code().unwrap(), value.unwrap_or_else(|_| panic!("{}", told(&output))))
    }

    fn log(&self) -> Vec<Value> {
        let output = nightwatt(&["agent", "log", "-c", &self.path("agent.toml"), "--json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn events(&self) -> Vec<String> {
        self.log().iter().map(|it| it["event"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

#[test]
fn an_agent_obeys_refuses_and_keeps_its_record_over_restarts() {
    let mut house = House::new("true");
    let check = || nightwatt(&["agent", "check", "-c", &house.path("agent.toml")]);
    assert_eq!(check().status.code(), Some(0));
    fs::write(house.path("busy"), "").unwrap();
    let output = check();
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("stays awake:\n  /bin/sh: a backup runs"), "{}", told(&output));
    house.start();
    assert_eq!(house.ask("state").0, 0);
    let (status, said) = house.ask("sleep");
    assert_eq!((status, &said["outcome"]), (1, &Value::from("stays awake")));
    assert_eq!(said["texts"][0], "/bin/sh: a backup runs");
    fs::remove_file(house.path("busy")).unwrap();
    let (status, said) = house.ask("sleep");
    assert_eq!((status, &said["outcome"]), (0, &Value::from("falls asleep")));
    eventually("the record that it did not sleep", || (house.events().len() == 4).then_some(()));
    house.stop();
    house.start();
    let (_, said) = house.ask("state");
    assert!(said["fell_asleep_ms"].is_i64(), "it remembers: {said}");
    house.stop();
    assert_eq!(
        house.events(),
        ["booted", "refused", "suspending", "failed", "stopped", "started", "stopped"]
    );
}

#[test]
fn a_hook_tells_the_agent_that_others_put_the_machine_to_sleep() {
    let mut house = House::new("true");
    house.start();
    for what in ["leaving", "back"] {
        let output = nightwatt(&["agent", "announce", what, "-c", &house.path("agent.toml")]);
        assert!(output.status.success(), "{}", told(&output));
    }
    let entries = house.log();
    assert_eq!(entries[1]["event"], "suspending");
    assert_eq!(entries[1]["how"], Value::Null);
    // How soon the second came decides whether it was called off or over.
    assert_eq!(entries[2]["event"], "failed");
    house.stop();
}

#[test]
fn a_key_is_not_overwritten_and_one_that_all_can_read_is_refused() {
    let house = House::new("true");
    let key = house.path("agent.key");
    let again = nightwatt(&["agent", "key", "-o", &key]);
    assert_eq!(again.status.code(), Some(1));
    assert!(told(&again).contains("hint: a key that is there is not overwritten"));
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let output = nightwatt(&["agent", "-c", &house.path("agent.toml")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("hint: `chmod 600` it"), "{}", told(&output));
    let wrong = house.path("wrong.toml");
    fs::write(
        &wrong,
        "listen = [\"10.0.0.2\"]\n[[proxy]]\nkey = \"k\"\n[sleep]\nhow = \"deeply\"\n",
    )
    .unwrap();
    let output = nightwatt(&["agent", "-c", &wrong]);
    assert_eq!(output.status.code(), Some(2));
    let said = told(&output);
    assert!(said.contains("wrong.toml:5:") && said.contains("is `deeply`, but must be"), "{said}");
}

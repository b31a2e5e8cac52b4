//! A guest on its bridge, as `tools/vm/guest` starts it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const TOOL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/vm/guest");

/// What no test machine has: the machine lacks something.
const LACKS: i32 = 77;

/// A guest, gone with its network when dropped.
pub(crate) struct Guest {
    dir: TempDir,
    /// What `guest up` says of it.
    pub(crate) state: Value,
}

impl Guest {
    /// Starts one; `None` and a line that says why if there can be none here.
    pub(crate) fn up(options: &[&str]) -> Option<Self> {
        // The paths of sockets in it must be short.
        let dir = tempfile::Builder::new().prefix("nwvm").tempdir_in("/tmp").unwrap();
        let owner = std::process::id().to_string();
        let output = tool(&dir, "up", &[&["--owner", &owner], options].concat());
        let state = answer(&output)?;
        Some(Self { dir, state })
    }

    /// The folder of the kernel that Debian's root has, fetched if it is not there yet; `None` as for `up`.
    pub(crate) fn kernel() -> Option<PathBuf> {
        let output = Command::new(TOOL).args(["build", "debian"]).output().unwrap();
        let built = answer(&output)?;
        Some(built["kernel"].as_str().unwrap().into())
    }

    /// A text of its state: `guest/mac`.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.state.pointer(&format!("/{pointer}")).and_then(Value::as_str).unwrap()
    }

    /// A file beside it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A program beside the proxy, in its network.
    pub(crate) fn beside_proxy(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.text("proxy/namespace"), program]);
        command
    }

    /// Runs a script in it, over its serial line; what it printed.
    pub(crate) fn exec(&self, script: &str) -> String {
        let output = tool(&self.dir, "exec", &["--", script]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{script}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Plugs its cable in, or pulls it.
    pub(crate) fn link(&self, state: &str) {
        assert!(tool(&self.dir, "link", &[state]).status.success());
    }

    /// A magic packet from another machine.
    pub(crate) fn send_magic(&self) {
        assert!(tool(&self.dir, "send-magic", &[]).status.success());
    }

    /// Waits for the nth event of a name in its record.
    pub(crate) fn wait(&self, event: &str, nth: usize) -> Value {
        let output =
            tool(&self.dir, "wait", &[event, "--count", &nth.to_string(), "--timeout", "120"]);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{event} {nth}: {complaint}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// All that its record has of these names.
    pub(crate) fn events(&self, names: &[&str]) -> Vec<Value> {
        let record = fs::read_to_string(self.text("events")).unwrap();
        let lines = record.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| names.iter().any(|name| line["event"] == *name)).collect()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        tool(&self.dir, "down", &[]);
    }
}

fn tool(dir: &TempDir, verb: &str, args: &[&str]) -> Output {
    Command::new(TOOL).arg(verb).arg("--dir").arg(dir.path()).args(args).output().unwrap()
}

/// The JSON that it prints; `None` and a line that says why if the machine lacks something.
fn answer(output: &Output) -> Option<Value> {
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(LACKS) {
        eprintln!("{}", complaint.trim());
        return None;
    }
    assert!(output.status.success(), "{complaint}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

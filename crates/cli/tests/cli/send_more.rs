//! Sending without ssh, from stdin, to targets that are full or have coarse times, and by a job.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::thread::{self, JoinHandle};

use nightwatt_gateway::ledger_file::WakeCause;
use serde_json::Value;

use crate::harness::{House, NIGHTWATT, Plan, eventually, nightwatt, program, told};
use crate::send::{arguments, shell, text};

/// A receiver that listens, and where.
struct Listening {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// Read while it runs: a pipe that is full would stop it.
    stdout: JoinHandle<Vec<u8>>,
    address: String,
}

impl Listening {
    fn start(args: &[&str]) -> Self {
        let mut command = program();
        command.args(["receive", "--listen", "127.0.0.1:0"]).args(args);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").and_then(|it| it.split(';').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        let mut out = child.stdout.take().unwrap();
        let stdout = thread::spawn(move || {
            let mut read = Vec::new();
            out.read_to_end(&mut read).unwrap();
            read
        });
        Self { child, stderr, stdout, address }
    }

    /// Waits until it says that it waits for the next sender: until then it has another one.
    fn is_free_again(&mut self) {
        let mut line = String::new();
        while !line.contains("still waiting for the sender") {
            line.clear();
            assert_ne!(self.stderr.read_line(&mut line).unwrap(), 0, "it has ended");
        }
    }

    /// Its exit status, and what it wrote.
    fn end(mut self) -> (Option<i32>, Vec<u8>, String) {
        let mut stderr = String::new();
        let stdout = self.stdout.join().unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), stdout, stderr)
    }
}

/// What `nightwatt` says with this on stdin.
fn fed(args: &[&str], input: &[u8]) -> Output {
    let mut command = program();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_ticket_lets_one_sender_in() {
    let folder = tempfile::tempdir().unwrap();
    let from = text(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (ticket, to) = (path("ticket"), path("to"));
    let receiver = Listening::start(&["--ticket-file", &ticket, "--json", &to]);
    let mode = fs::metadata(&ticket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let address = format!("tls://{}", receiver.address);
    let (file, from) = (from.clone(), from.display().to_string());

    let without = nightwatt(&["send", &from, &address]);
    assert_eq!(without.status.code(), Some(2));
    assert!(told(&without).contains("--ticket-file"), "{}", told(&without));
    // The token is the end of the ticket.
    let mut wrong = fs::read_to_string(&ticket).unwrap().trim().to_owned();
    let last = if wrong.ends_with('0') { "1" } else { "0" };
    wrong.replace_range(wrong.len() - 1.., last);
    fs::write(path("wrong"), wrong).unwrap();
    let refused = nightwatt(&["send", "--ticket-file", &path("wrong"), &from, &address]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(told(&refused).contains("the token of the ticket is wrong"), "{}", told(&refused));
    assert!(!Path::new(&to).join("text").exists());

    let sent = nightwatt(&["send", "--json", "--ticket-file", &ticket, &from, &address]);
    assert_eq!(sent.status.code(), Some(0), "{}", told(&sent));
    assert!(fs::read(Path::new(&to).join("text")).unwrap() == fs::read(&file).unwrap());
    let bill: Value = serde_json::from_slice(&sent.stdout).unwrap();
    let (status, stdout, stderr) = receiver.end();
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("was refused: a wrong token"), "{stderr}");
    let receipt: Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!((&receipt["entries"], &receipt["bytes"]), (&1.into(), &bill["sent"]["total_bytes"]));
    assert_eq!(receipt["energy"], bill["receiver"], "one bill for both ends");
    assert!(receipt["energy"]["joules"].as_f64().unwrap() > 0.0, "{receipt}");
}

#[test]
fn stdin_becomes_a_file_or_another_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..2_000_000_u32).map(|at| (at / 7) as u8).collect();
    let rsh = shell(folder.path()).display().to_string();
    let to = |name: &str| format!("nas:{}", folder.path().join(name).display());
    let by_ssh = ["send", "-e", &rsh, "--remote-program", NIGHTWATT, "--json", "-"];
    let sent = fed(&[&by_ssh[..], &[&to("sub/a.tar")]].concat(), &content);
    assert_eq!(sent.status.code(), Some(0), "{}", told(&sent));
    assert!(fs::read(folder.path().join("sub/a.tar")).unwrap() == content);
    for (more, says) in [
        (vec!["--delete", "nas:x"], "`--delete` has no meaning for stdin"),
        (vec!["nas:backup/"], "names no file"),
        (vec!["/etc/hostname", "nas:x"], "sent alone"),
    ] {
        let refused = fed(&[&by_ssh[..], &more].concat(), b"");
        assert_eq!(refused.status.code(), Some(2), "{more:?}");
        assert!(told(&refused).contains(says), "{}", told(&refused));
    }

    let receiver = Listening::start(&["--insecure", "-"]);
    let address = format!("tcp://{}", receiver.address);
    let careful = fed(&["send", "-", &address], b"");
    assert_eq!(careful.status.code(), Some(2));
    assert!(told(&careful).contains("not encrypted"), "{}", told(&careful));
    let sent = fed(&["send", "--insecure", "--json", "-", &address], &content);
    assert_eq!(sent.status.code(), Some(0), "{}", told(&sent));
    let (status, stdout, stderr) = receiver.end();
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout == content, "{} bytes", stdout.len());
}

/// The faults of a review: a dry run ended the receiver, and a peer that was silent held the port.
#[test]
fn neither_a_dry_run_nor_a_silent_peer_takes_the_receiver_from_its_sender() {
    let folder = tempfile::tempdir().unwrap();
    let from = text(folder.path());
    let file = from.display().to_string();
    let mut receiver = Listening::start(&["--insecure", "-"]);
    let address = format!("tcp://{}", receiver.address);
    let silent = TcpStream::connect(&receiver.address).unwrap();
    let send = ["send", "--insecure", "--json", &file, &address];
    let tried = nightwatt(&[&send[..], &["--dry-run"]].concat());
    assert_eq!(tried.status.code(), Some(0), "{}", told(&tried));
    let tried: Value = serde_json::from_slice(&tried.stdout).unwrap();
    assert_eq!(tried["write"], serde_json::json!(["text"]), "{tried}");
    receiver.is_free_again();
    // A folder is refused, and nothing was written: the receiver waits on.
    let whole = folder.path().display().to_string();
    let refused = nightwatt(&["send", "--insecure", &whole, &address]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(told(&refused).contains("takes one file or stream"), "{}", told(&refused));
    receiver.is_free_again();
    let done = nightwatt(&send);
    assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    let (status, stdout, stderr) = receiver.end();
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout == fs::read(&from).unwrap(), "{} bytes", stdout.len());
    drop(silent);
}

/// The fault of a review: the same command failed without `--dry-run`.
#[test]
fn a_dry_run_names_what_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("secret"), "x").unwrap();
    fs::set_permissions(top.join("secret"), PermissionsExt::from_mode(0o000)).unwrap();
    let arguments = arguments(folder.path(), &top);
    // Root may read everything, unless it gives that right up.
    let run = |more: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-dac_override,-dac_read_search", "--inh-caps=-all"]);
        command.arg(NIGHTWATT).args(&arguments).args(more);
        command.output().unwrap()
    };
    if nightwatt_needs::program("setpriv").is_none() {
        println!("skipped: no setpriv");
        return;
    }
    for more in [&["--dry-run"][..], &[]] {
        let output = run(more);
        assert_eq!(output.status.code(), Some(1), "{more:?} {}", told(&output));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let skipped = json["skipped"][0].as_str().unwrap();
        assert!(skipped.contains("top/secret") && skipped.contains("ermission"), "{skipped}");
    }
}

/// A file system of its own, which is unmounted at the end.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn new(folder: &Path, options: &[&str]) -> Option<Self> {
        let at = folder.join("mounted");
        fs::create_dir_all(&at).unwrap();
        nightwatt_needs::program("mount")?;
        let mounted = Command::new("mount").args(options).arg(&at).output().unwrap();
        if !mounted.status.success() {
            println!("skipped: cannot mount: {}", String::from_utf8_lossy(&mounted.stderr));
            return None;
        }
        Some(Self(at))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn to_mounted(folder: &Path, from: &Path, at: &Path) -> Output {
    let mut arguments = arguments(folder, from);
    let last = arguments.len() - 1;
    arguments[last] = format!("nas:{}", at.join("to").display());
    nightwatt(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The fault of a review: a target that was full already said only `No space left on device`.
#[test]
fn a_full_target_says_how_much_is_to_come_and_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::new(folder.path(), &["-t", "tmpfs", "-o", "size=512k", "none"])
    else {
        return;
    };
    let from = text(folder.path());
    fs::create_dir(mounted.0.join("to")).unwrap();
    let hog = mounted.0.join("hog");
    let fill = |bytes: usize| fs::write(&hog, vec![1; bytes]);
    // Not even the journal fits; then a part of the file does.
    for bytes in [600 << 10, 300 << 10] {
        let _ = fill(bytes);
        let refused = to_mounted(folder.path(), &from, &mounted.0);
        assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
        let says = told(&refused);
        for part in [
            "is full (",
            "are free, and ",
            "kB are still to come)",
            "make room there and send again",
        ] {
            assert!(says.contains(part), "{bytes}: {says}");
        }
    }
    fs::remove_file(&hog).unwrap();
    let length = fs::metadata(&from).unwrap().len();
    let remount = format!("remount,size={}", length + (1 << 20));
    let remounted = Command::new("mount").args(["-o", &remount]).arg(&mounted.0).status();
    assert!(remounted.unwrap().success());
    let done = to_mounted(folder.path(), &from, &mounted.0);
    assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    let bill: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(bill["sent"]["had_bytes"].as_u64().unwrap() > 0, "what had arrived is kept: {bill}");
    assert!(fs::read(mounted.0.join("to/text")).unwrap() == fs::read(&from).unwrap());
}

/// ext4 with small inodes has times to the second, as old file systems and those of NAS devices have.
#[test]
fn a_target_with_coarse_times_does_not_get_everything_again() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    if nightwatt_needs::program("mkfs.ext4").is_none() {
        println!("skipped: no mkfs.ext4");
        return;
    }
    let image = image.display().to_string();
    let made =
        nightwatt_needs::command("mkfs.ext4").args(["-q", "-I", "128", &image]).status().unwrap();
    assert!(made.success());
    let Some(mounted) = Mounted::new(folder.path(), &["-o", "loop", &image]) else { return };
    let from = text(folder.path());
    let wire = |output: &Output| -> u64 {
        assert_eq!(output.status.code(), Some(0), "{}", told(output));
        let bill: Value = serde_json::from_slice(&output.stdout).unwrap();
        bill["sent"]["wire_bytes"].as_u64().unwrap()
    };
    assert!(wire(&to_mounted(folder.path(), &from, &mounted.0)) > 0);
    assert_eq!(wire(&to_mounted(folder.path(), &from, &mounted.0)), 0);
    // A second later it is another file, even if its length is the same.
    let later =
        fs::metadata(&from).unwrap().modified().unwrap() + std::time::Duration::from_secs(1);
    fs::File::options().write(true).open(&from).unwrap().set_modified(later).unwrap();
    assert!(wire(&to_mounted(folder.path(), &from, &mounted.0)) > 0);
}

/// The backup of last night was missed: it is made up for when the gateway starts, and only then.
#[test]
fn a_job_wakes_its_server_and_lets_it_sleep() {
    let folder = tempfile::tempdir().unwrap();
    let from = text(folder.path());
    let arguments = arguments(folder.path(), &from);
    let command = [&[NIGHTWATT.to_owned()][..], &arguments].concat();
    let job = format!(
        "[[job]]\nname = \"backup\"\non = \"site\"\nat = \"00:00\"\ncommand = {}\n\n[[job]]\nname = \
         \"broken\"\non = \"site\"\nat = \"00:00\"\ncommand = [\"/nonexistent/backup\"]\n",
        serde_json::to_string(&command).unwrap()
    );
    let plan = Plan { policy: "always-on".to_owned(), tables: job, ..Plan::default() };
    let house = House::build(&plan);
    fs::create_dir(house.path("state")).unwrap();
    for name in ["backup", "broken"] {
        fs::write(house.path(&format!("state/{name}.job.json")), "{\"day\": 20000}").unwrap();
    }
    let gateway = house.serve(&[]);
    let jobs = || {
        let output = gateway.order(&["status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        status["jobs"].as_array().unwrap().clone()
    };
    let done = eventually("the job has succeeded", || {
        let jobs = jobs();
        (!jobs[0]["succeeded_ms"].is_null() && jobs[1]["failures"] == 1).then_some(jobs)
    });
    assert!(done[1]["problem"].as_str().unwrap().contains("cannot start"), "{}", done[1]);
    assert!(fs::read(folder.path().join("to/text")).unwrap() == fs::read(&from).unwrap());
    gateway.until("asleep");
    let causes: Vec<_> = house.ledger().into_iter().filter_map(|it| it.cause).collect();
    assert!(causes.contains(&WakeCause::Job), "the wake-up is on the ledger: {causes:?}");
    let page = told(&gateway.order(&["status"]));
    assert!(page.contains("job at 00:00, on site") && page.contains("succeeded"), "{page}");
    gateway.stop();
    // A second start does not run it again.
    let before = fs::read(house.path("state/backup.job.json")).unwrap();
    let gateway = house.serve(&[]);
    gateway.until("asleep");
    assert_eq!(fs::read(house.path("state/backup.job.json")).unwrap(), before);
}

//! Over a real ssh and sshd, without a network between them. This program is also the nightwatt on the other machine:
//! cargo gives it `harness = false`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_needs::programs;
use nightwatt_transfer::pure::arm::{Arm, Codec};
use nightwatt_transfer::pure::bill::Bill;
use nightwatt_transfer::receive::{self, Folder};
use nightwatt_transfer::send::{self, Options, SendError, Session, Wanted, walk};
use nightwatt_transfer::ssh::{Remote, Target};
use rustix::time::{ClockId, clock_gettime};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        // As sshd's shell starts it.
        ["receive", "--stdio", "--", folder] => {
            let store = Folder::open(Path::new(folder)).unwrap();
            receive::run(io::stdin(), io::stdout(), store, clock).unwrap();
        }
        // What nextest and cargo ask of each test program; no test of it is ignored.
        args if args.contains(&"--ignored") => {}
        ["--list", ..] => println!("over_ssh: test"),
        _ => over_ssh(),
    }
    ExitCode::SUCCESS
}

fn clock() -> Mono {
    let time = clock_gettime(ClockId::Monotonic);
    Mono(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.try_into().unwrap()))
}

/// What reaches "the other machine": ssh with a key of its own, and for the connection an sshd that serves only it.
fn remote(folder: &Path) -> Remote {
    for name in ["host", "id"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(name));
        assert!(keygen.status().unwrap().success());
    }
    // As root it wants this folder, which a package's unit makes.
    let _ = fs::create_dir_all("/run/sshd");
    fs::copy(folder.join("id.pub"), folder.join("authorized")).unwrap();
    let host_key = fs::read_to_string(folder.join("host.pub")).unwrap();
    fs::write(folder.join("known"), format!("nas {host_key}")).unwrap();
    let sshd = nightwatt_needs::program("sshd").unwrap();
    let (sshd, top) = (sshd.display(), folder.display());
    let serve = format!(
        "{sshd} -i -f /dev/null -h {top}/host -o StrictModes=no -o UsePAM=no -o PidFile=none \
         -o PermitRootLogin=yes -o AuthorizedKeysFile={top}/authorized"
    );
    let config = format!(
        "IdentityFile {top}/id\nIdentitiesOnly yes\nUserKnownHostsFile {top}/known\nBatchMode yes\n\
         LogLevel ERROR\nProxyCommand {serve}\n"
    );
    fs::write(folder.join("config"), config).unwrap();
    let program = std::env::current_exe().unwrap().display().to_string();
    Remote {
        shell: vec!["ssh".into(), "-F".into(), folder.join("config").into_os_string()],
        program,
    }
}

fn sent(remote: &Remote, from: &Path, to: &Path) -> (Session, Result<(), SendError>) {
    let target: Target = format!("nas:{}", to.display()).parse().unwrap();
    let options = Options {
        arms: Arm::usual(),
        bill: Bill::PUBLISHED,
        block: None,
        // What it would choose depends on the measured rate of the link.
        fixed: Some(Arm::new(Codec::Zstd, 3)),
        delete: None,
        attributes: false,
        trial: false,
        session: target.session(&[from.to_owned()]),
        cancelled: Arc::new(AtomicBool::new(false)),
    };
    let started = remote.start(&target).unwrap();
    let mut session = Session::new(walk(&[from.to_owned()], &Wanted::default()).unwrap(), options);
    let close = || started.ending.kill();
    let result =
        send::run(started.reader, started.writer, &close, &mut session, clock, &mut |_| {});
    let _ = started.ending.wait();
    (session, result)
}

fn over_ssh() {
    if !programs(&["sshd", "ssh", "ssh-keygen"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let remote = remote(folder.path());
    let from = folder.path().join("from");
    let to = folder.path().join("it's there");
    fs::create_dir_all(from.join("deep")).unwrap();
    let numbers: Vec<String> = (0..300_000).map(|number: u32| number.to_string()).collect();
    let text = numbers.join(" ");
    fs::write(from.join("deep/text"), &text).unwrap();
    fs::write(from.join("empty"), "").unwrap();

    let (session, result) = sent(&remote, &from, &to);
    result.unwrap();
    assert_eq!(fs::read_to_string(to.join("from/deep/text")).unwrap(), text);
    let report = session.report();
    println!("{} bytes as {}, link {:?}", report.total_bytes, report.wire_bytes, report.link_rate);
    assert!(report.wire_bytes * 2 < report.total_bytes, "it was packed: {report:?}");
    assert!(report.receiver_seconds > 0.0);

    let (again, result) = sent(&remote, &from, &to);
    result.unwrap();
    assert_eq!((again.report().wire_bytes, again.report().had_bytes), (0, text.len() as u64));

    let missing = Remote { program: "/nonexistent/nightwatt".to_owned(), ..remote };
    let (_, result) = sent(&missing, &from, &to);
    assert!(matches!(result, Err(SendError::Cut | SendError::Connection(_))), "{result:?}");
    let left: Vec<PathBuf> = to.read_dir().unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(left, [to.join("from")]);
    println!("sent over {}", remote_version());
}

fn remote_version() -> String {
    let output = Command::new("ssh").arg("-V").output().unwrap();
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

//! Both ends as processes of their own that are killed (T7 of the design). This program is also both of them: cargo
//! gives it `harness = false`.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_transfer::pure::arm::Arm;
use nightwatt_transfer::pure::bill::{Bill, Objective, Overlap, Prices};
use nightwatt_transfer::receive::{self, Folder};
use nightwatt_transfer::send::{self, Options, Report, Session, Wanted, walk};
use nightwatt_transfer::ssh::{Remote, Target};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use rustix::time::{ClockId, clock_gettime};

/// Times that each end is killed at work, unless `NIGHTWATT_KILLS` names another number.
const KILLS: u32 = 12;
/// Length of all blocks, and of what is sent.
const BLOCK: u32 = 64 << 10;
const LENGTH: usize = 12 << 20;

/// The tests, by name.
const KILLED: &str = "killed_on_either_side";
const SPARSE: &str = "a_sparse_file_is_resumed_by_what_is_in_it";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        // As ssh starts it: a host, and a line for its shell.
        ["host", line] => receive(line),
        ["send", from, to] => send(Path::new(from), Path::new(to)),
        // What nextest and cargo ask of each test program; no test of it is ignored.
        args if args.contains(&"--ignored") => {}
        ["--list", ..] => println!("{KILLED}: test\n{SPARSE}: test"),
        args if args.contains(&KILLED) => killed_on_either_side(),
        args if args.contains(&SPARSE) => a_sparse_file_is_resumed_by_what_is_in_it(),
        _ => {
            killed_on_either_side();
            a_sparse_file_is_resumed_by_what_is_in_it();
        }
    }
    ExitCode::SUCCESS
}

fn receive(line: &str) {
    let folder = line.rsplit(' ').next().unwrap();
    let store = Folder::open(Path::new(folder)).unwrap();
    if let Err(error) = receive::run(io::stdin(), io::stdout(), store, clock) {
        eprintln!("receiver: {error}");
    }
}

fn clock() -> Mono {
    time(ClockId::Monotonic)
}

fn time(clock: ClockId) -> Mono {
    let time = clock_gettime(clock);
    Mono(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.try_into().unwrap()))
}

/// Prints the report, whatever came of it.
fn send(from: &Path, to: &Path) {
    let target: Target = format!("host:{}", to.display()).parse().unwrap();
    let prices = Prices { base: Watts(20.0), cpu: Watts(8.0), ..Prices::PUBLISHED };
    let options = Options {
        arms: Arm::usual(),
        bill: Bill { objective: Objective::Whole, overlap: Overlap::Pipelined, prices },
        block: Some(BLOCK),
        fixed: None,
        delete: None,
        attributes: false,
        trial: false,
        session: target.session(&[from.to_owned()]),
        cancelled: Arc::new(AtomicBool::new(false)),
    };
    let shell = vec![std::env::current_exe().unwrap().into_os_string()];
    let started = Remote { shell, program: "nightwatt".to_owned() }.start(&target).unwrap();
    let mut session = Session::new(walk(&[from.to_owned()], &Wanted::default()).unwrap(), options);
    let close = || started.ending.kill();
    let result =
        send::run(started.reader, started.writer, &close, &mut session, clock, &mut |session| {
            // The last line is what was acknowledged when it was killed.
            println!("{}", acknowledged(session.report()));
        });
    if result.is_ok() {
        println!("done {}", session.report().had_bytes);
    }
    let _ = started.ending.wait();
}

fn acknowledged(report: &Report) -> u64 {
    report.had_bytes + report.acknowledged_bytes
}

fn start(from: &Path, to: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("send").arg(from).arg(to).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// The receiver that this sender has started.
fn receiver_of(sender: &Child) -> Option<Pid> {
    let id = sender.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    let child: i32 = children.split_whitespace().next()?.parse().ok()?;
    Pid::from_raw(child)
}

/// The ends that are killed.
const ENDS: [&str; 2] = ["sender", "receiver"];

/// Which of them is killed, and as soon as how many bytes are acknowledged.
#[derive(Debug, Clone, Copy)]
struct Plan {
    end: &'static str,
    moment: u64,
}

/// Kills an end, unless it has ended by then. A sender's exit status shows whether it had.
fn kill(end: &str, sender: &mut Child) -> bool {
    if end == "sender" {
        return sender.kill().is_ok();
    }
    let Some(receiver) = receiver_of(sender) else { return false };
    let stat = fs::read_to_string(format!("/proc/{receiver}/stat")).unwrap_or_default();
    // A process that has ended, and that its parent has not waited for, is a zombie.
    let runs = stat.rsplit(") ").next().is_some_and(|it| !it.is_empty() && !it.starts_with('Z'));
    runs && kill_process(receiver, Signal::KILL).is_ok()
}

/// Sends, and kills an end if that is planned. Gives what the sender printed, and whether the kill met an end at work:
/// one that ran before the sender was done.
fn attempt(from: &Path, to: &Path, plan: Option<Plan>) -> (Vec<String>, bool) {
    let mut sender = start(from, to);
    let stdout = sender.stdout.take().unwrap();
    let mut lines = BufReader::new(stdout).lines().map(Result::unwrap);
    let (mut said, mut is_killed) = (Vec::new(), false);
    if let Some(Plan { end, moment }) = plan {
        for line in lines.by_ref() {
            let is_time = line.parse().is_ok_and(|count: u64| count >= moment);
            said.push(line);
            if is_time {
                is_killed = kill(end, &mut sender);
                break;
            }
        }
    }
    said.extend(lines);
    let status = sender.wait().unwrap();
    let is_done = said.last().is_some_and(|line| line.starts_with("done"));
    if plan.is_some_and(|it| it.end == "sender") {
        is_killed = status.signal() == Some(Signal::KILL.as_raw());
    }
    (said, is_killed && !is_done)
}

/// At how many acknowledged bytes an attempt is killed, if these are there: at once, or some further on.
fn moment(attempt: u64, there: u64) -> u64 {
    let ahead = attempt * 54_321 % (LENGTH as u64 / 8);
    if there > 0 && attempt.is_multiple_of(5) { 0 } else { there + ahead.max(1) }
}

fn killed_on_either_side() {
    let folder = tempfile::tempdir().unwrap();
    let (from, mut to) = (folder.path().join("file"), folder.path().join("to"));
    let mut state = 1_u64;
    let content: Vec<u8> = (0..LENGTH / 8)
        .flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Half of each number is the same, so that there is something to pack.
            (state >> 32).to_le_bytes()
        })
        .collect();
    fs::write(&from, &content).unwrap();
    let wanted: u32 =
        std::env::var("NIGHTWATT_KILLS").ok().and_then(|it| it.parse().ok()).unwrap_or(KILLS);
    let (mut acknowledged, mut kills, mut attempts) = (0, [0_u32; 2], 0_u64);
    loop {
        attempts += 1;
        let most = 40 * u64::from(wanted);
        assert!(attempts < most, "after {attempts} attempts {kills:?} kills met {ENDS:?} at work");
        // In turn, as far as the kills meet them.
        let end = usize::from(kills[1] < kills[0]);
        let plan = || Plan { end: ENDS[end], moment: moment(attempts, acknowledged) };
        let plan = (kills[end] < wanted).then(plan);
        let (said, is_killed) = attempt(&from, &to, plan);
        let numbers = || said.iter().filter_map(|line| line.parse::<u64>().ok());
        // The first figures are from before the receiver has said what it has.
        if let Some(had) = numbers().find(|number| *number > 0) {
            // So what is sent again was on the way, or being packed.
            assert!(had >= acknowledged, "{acknowledged} bytes were acknowledged, {had} are there");
        }
        acknowledged = numbers().fold(acknowledged, u64::max);
        let final_name = to.join("file");
        if final_name.exists() {
            assert_eq!(fs::read(&final_name).unwrap(), content, "half a file under its final name");
        }
        if said.last().is_some_and(|line| line.starts_with("done")) {
            if plan.is_none() {
                break;
            }
            // It was quicker than the kill: once more from the start, in a folder where no receiver is at work.
            to = folder.path().join(format!("to-{attempts}"));
            acknowledged = 0;
        }
        kills[end] += u32::from(is_killed);
    }
    assert_eq!(kills, [wanted; 2]);
    let left: Vec<PathBuf> = to.read_dir().unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(left, [to.join("file")]);
    println!(
        "{attempts} attempts: killed {} times at the sender and {} times at the receiver, all at work",
        kills[0], kills[1]
    );
}

/// 100 GB, of which a little is there, for a sender that is killed after nine tenths: nothing is read or hashed
/// again, so the rest costs what is in it.
fn a_sparse_file_is_resumed_by_what_is_in_it() {
    const LONG: u64 = 100_000_000_000;
    const PARTS: u64 = 100;
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("sparse"), folder.path().join("to"));
    let file = fs::File::create(&from).unwrap();
    file.set_len(LONG).unwrap();
    let part = |number: u64| vec![number as u8 | 1; 128 << 10];
    for number in 0..PARTS {
        file.write_all_at(&part(number), number * (LONG / PARTS)).unwrap();
    }
    let mut sender = start(&from, &to);
    let mut lines = BufReader::new(sender.stdout.take().unwrap()).lines();
    let enough = |line: &String| line.parse().is_ok_and(|count: u64| count > LONG / 10 * 9);
    let acknowledged: u64 =
        lines.find_map(|line| line.ok().filter(enough)).unwrap().parse().unwrap();
    // The next receiver waits no longer than 2 s for the end of this one.
    let receiver = receiver_of(&sender).and_then(|it| pidfd_open(it, PidfdFlags::empty()).ok());
    sender.kill().unwrap();
    sender.wait().unwrap();
    if let Some(receiver) = &receiver {
        let minute = rustix::time::Timespec { tv_sec: 60, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(receiver, PollFlags::IN)], Some(&minute)).unwrap();
        assert_eq!(ended, 1, "the receiver goes on");
    }
    let (cpu, read, began) = (cpu_of_children(), read_so_far(), clock());
    let said = start(&from, &to).wait_with_output().unwrap().stdout;
    let (cpu, wall) = (cpu_of_children().saturating_sub(cpu), clock().since(began));
    let read = read_so_far() - read;
    let said = String::from_utf8(said).unwrap();
    let had: u64 =
        said.lines().last().and_then(|it| it.strip_prefix("done ")).unwrap().parse().unwrap();
    assert!(had >= acknowledged, "{acknowledged} bytes were acknowledged, {had} are there");
    // T7: less than a thousandth of it is read, and both ends compute for less time than the kernel needs for a tenth
    // as many zeros.
    assert!(read < LONG / 1000, "{read} bytes are read at both ends");
    let zeros = cpu_for_zeros(LONG / 100) * 10;
    assert!(cpu < zeros, "{cpu:?} of CPU time at both ends, {zeros:?} for a tenth as many zeros");
    let there = fs::File::open(to.join("sparse")).unwrap();
    assert_eq!(there.metadata().unwrap().len(), LONG);
    assert!(there.metadata().unwrap().blocks() * 512 < 64 << 20, "holes stay holes");
    let mut found = vec![0; 128 << 10];
    for number in 0..PARTS {
        there.read_exact_at(&mut found, number * (LONG / PARTS)).unwrap();
        assert!(found == part(number), "part {number}");
    }
    println!(
        "100 GB, sparse, {had} bytes there: the rest in {wall:?}, {cpu:?} of CPU and {read} bytes read at both ends"
    );
}

/// Bytes that this process and all children that have ended, and theirs, have read, from pipes too.
fn read_so_far() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// CPU time to read so many zeros.
fn cpu_for_zeros(count: u64) -> Duration {
    let (mut zeros, mut piece) = (fs::File::open("/dev/zero").unwrap(), vec![0; 1 << 20]);
    let began = time(ClockId::ProcessCPUTime);
    for _ in 0..count >> 20 {
        zeros.read_exact(&mut piece).unwrap();
    }
    time(ClockId::ProcessCPUTime).since(began)
}

/// CPU time of all children that have ended, and theirs.
fn cpu_of_children() -> Duration {
    // The fields of /proc/self/stat behind the name: the 14th and 15th are the children's, in hundredths of a second.
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[13..15].iter().map(|it| it.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

//! Both ends together, over a socket in this process.

mod changes;
mod faults;
mod mounts;
mod streams;

use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use nightwatt_energy::energy::Energy;
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::time::Mono;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use rustix::time::{ClockId, clock_gettime};

use super::*;
use crate::pure::arm::{Arm, Codec};
use crate::pure::bill::{Bill, Objective, Overlap, Prices};
use crate::receive::{self, Folder, ReceiveError, Received};
use crate::summary::{Basis, Summary, mix};

fn clock() -> Mono {
    let time = clock_gettime(ClockId::Monotonic);
    Mono(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

fn options() -> Options {
    let prices = Prices {
        base: Watts(20.0),
        cpu: Watts(8.0),
        nic: Watts(0.3),
        nic_byte: 2e-9,
        receiver: Watts(0.0),
    };
    Options {
        arms: Arm::usual(),
        bill: Bill { objective: Objective::Whole, overlap: Overlap::Pipelined, prices },
        block: None,
        fixed: None,
        delete: None,
        attributes: false,
        trial: false,
        session: [3; 16],
        cancelled: Arc::new(AtomicBool::new(false)),
    }
}

/// A stream that ends after some bytes, as when a process is killed.
struct Cut<W> {
    inner: W,
    left: usize,
}

impl Write for Cut<UnixStream> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left == 0 {
            let _ = self.inner.shutdown(Shutdown::Both);
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let count = self.inner.write(&bytes[..bytes.len().min(self.left)])?;
        self.left -= count;
        Ok(count)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// This thread may do with files only what their permissions allow their owner.
fn as_an_ordinary_user() {
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(
        CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::FOWNER,
    );
    set_capabilities(None, sets).unwrap();
}

struct Both {
    sent: Result<(), SendError>,
    received: Result<Received, ReceiveError>,
    session: Session,
}

/// Sends until this many bytes were written.
fn transfer(paths: &[PathBuf], to: &Path, options: Options, cut_after: usize) -> Both {
    sent(walk(paths, &Wanted::default()).unwrap(), to, options, cut_after)
}

fn sent(plan: Plan, to: &Path, options: Options, cut_after: usize) -> Both {
    run_both(Session::new(plan, options), to, cut_after)
}

fn run_both(mut session: Session, to: &Path, cut_after: usize) -> Both {
    let (here, there) = UnixStream::pair().unwrap();
    let store = Folder::open(to).unwrap();
    let receiver = thread::spawn(move || {
        as_an_ordinary_user();
        let writer = there.try_clone().unwrap();
        let result = receive::run(there.try_clone().unwrap(), &writer, store, clock);
        let _ = there.shutdown(Shutdown::Both);
        result
    });
    let writer = Cut { inner: here.try_clone().unwrap(), left: cut_after };
    let close = || drop(here.shutdown(Shutdown::Both));
    let reader = here.try_clone().unwrap();
    let sent = run(reader, writer, &close, &mut session, clock, &mut |_| {});
    Both { sent, received: receiver.join().unwrap(), session }
}

fn run_over(
    stream: &UnixStream,
    session: &mut Session,
    watch: &mut dyn FnMut(&Session),
) -> Result<(), SendError> {
    let close = || drop(stream.shutdown(Shutdown::Both));
    let streams = [0, 1].map(|_| stream.try_clone().unwrap());
    let [reader, writer] = streams;
    run(reader, writer, &close, session, clock, watch)
}

fn whole(paths: &[PathBuf], to: &Path, options: Options) -> Both {
    let both = transfer(paths, to, options, usize::MAX);
    assert!(both.sent.is_ok() && both.received.is_ok(), "{:?} {:?}", both.sent, both.received);
    both
}

fn summary(session: &Session) -> Summary {
    let energy = Energy::modelled(Joules(10.0), 0.2, "typical");
    Summary::of(session, options().bill, 1.0, Basis { energy, core_doubt: 0.2 })
}

fn text(length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut text = Vec::new();
    while text.len() < length {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.extend_from_slice(format!("{} ", state >> 20).as_bytes());
    }
    text.truncate(length);
    text
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(next).collect()
}

/// Names below a folder that are not links, with their contents.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in next.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            let metadata = path.symlink_metadata().unwrap();
            if metadata.is_dir() {
                folders.push(path);
            } else if metadata.is_file() {
                all.push((name, fs::read(path).unwrap()));
            }
        }
    }
    all.sort();
    all
}

fn tree(at: &Path) -> PathBuf {
    let top = at.join("tree");
    fs::create_dir_all(top.join("many/deep")).unwrap();
    fs::create_dir(top.join("empty")).unwrap();
    fs::write(top.join("big.txt"), text(700_000, 1)).unwrap();
    fs::write(top.join("nothing"), "").unwrap();
    for number in 0..300 {
        fs::write(top.join(format!("many/{number}")), text(number, 7)).unwrap();
    }
    fs::write(top.join("many/deep/run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(top.join("many/deep/run.sh"), PermissionsExt::from_mode(0o4751)).unwrap();
    symlink("big.txt", top.join("link")).unwrap();
    symlink("../../nothing", top.join("many/deep/up")).unwrap();
    fs::set_permissions(top.join("empty"), PermissionsExt::from_mode(0o500)).unwrap();
    top
}

#[test]
fn a_tree_arrives_as_it_is_and_is_not_sent_twice() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = tree(from.path());
    let both = whole(from_ref(&top), to.path(), options());
    assert_eq!(contents(from.path()), contents(to.path()));
    let received = to.path().join("tree");
    for name in ["big.txt", "many/7", "many/deep/run.sh", "many", "empty"] {
        let [here, there] = [&top, &received].map(|folder| folder.join(name).metadata().unwrap());
        assert_eq!(here.modified().unwrap(), there.modified().unwrap(), "{name}");
        assert_eq!(here.mode() & 0o777, there.mode() & 0o7777, "{name}: permissions, and no more");
    }
    assert_eq!(fs::read_link(received.join("many/deep/up")).unwrap(), Path::new("../../nothing"));
    let receipt = both.session.receipt().unwrap();
    assert_eq!((receipt.rejected_count, receipt.entries), (0, 300 + 9));
    assert!(both.session.report().wire_bytes < both.session.report().total_bytes);
    assert_eq!(both.received.unwrap().receipt, receipt.clone());

    let again = whole(from_ref(&top), to.path(), options());
    let report = again.session.report();
    assert_eq!((report.had_bytes, report.wire_bytes), (report.total_bytes, 0));

    fs::write(top.join("big.txt"), text(500_000, 2)).unwrap();
    let changed = whole(from_ref(&top), to.path(), options());
    assert_eq!(changed.session.report().acknowledged_bytes, 500_000);
    assert_eq!(contents(from.path()), contents(to.path()));
}

#[test]
fn each_arm_can_be_the_only_one() {
    let from = tempfile::tempdir().unwrap();
    let file = from.path().join("file");
    fs::write(&file, text(200_000, 3)).unwrap();
    for arm in
        [Arm::NONE, Arm::new(Codec::Lz4, 0), Arm::new(Codec::Zstd, 19), Arm::new(Codec::Xz, 6)]
    {
        let to = tempfile::tempdir().unwrap();
        let both = whole(from_ref(&file), to.path(), Options { fixed: Some(arm), ..options() });
        assert_eq!(fs::read(to.path().join("file")).unwrap(), text(200_000, 3));
        let used: Vec<Arm> = both.session.report().arms.iter().map(|totals| totals.arm).collect();
        assert_eq!(used, [arm]);
    }
}

#[test]
fn attributes_of_users_arrive() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("file"), "x").unwrap();
    for path in [&top, &top.join("file")] {
        match setxattr(path, "user.note", b"kept", XattrFlags::empty()) {
            Ok(()) => {}
            Err(errno) => {
                println!("skipped: no extended attributes in {}: {errno}", from.path().display());
                return;
            }
        }
    }
    let plan = walk(&[top], &Wanted { attributes: true, ..Wanted::default() }).unwrap();
    let both = sent(plan, to.path(), options(), usize::MAX);
    assert!(both.sent.is_ok() && both.received.is_ok(), "{:?} {:?}", both.sent, both.received);
    for path in ["top", "top/file"] {
        let mut value = [0; 10];
        let length = getxattr(to.path().join(path), "user.note", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"kept", "{path}");
    }
}

#[test]
fn what_is_no_longer_here_is_deleted_there_on_request() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = tree(from.path());
    let old = to.path().join("tree/many/old");
    fs::create_dir_all(old.join("older")).unwrap();
    let outside = to.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for path in [&old.join("older/file"), &old.join("kept.log"), &outside.join("file")] {
        fs::write(path, "x").unwrap();
    }
    symlink(&outside, to.path().join("tree/way")).unwrap();
    let deleting = || Options { delete: Some(vec!["*.log".parse().unwrap()]), ..options() };

    // A file that cannot be written, because a pattern keeps what is in a folder of its name: nothing is deleted.
    fs::create_dir(to.path().join("tree/nothing")).unwrap();
    fs::write(to.path().join("tree/nothing/kept.log"), "x").unwrap();
    let both = whole(from_ref(&top), to.path(), deleting());
    let receipt = both.session.receipt().unwrap();
    assert_eq!((receipt.rejected_count, receipt.removed), (1, 0));
    assert!(old.join("older/file").exists());

    fs::remove_dir_all(to.path().join("tree/nothing")).unwrap();
    let both = whole(from_ref(&top), to.path(), deleting());
    // The file, its folder, and the link; not what the link leads to, and not what a pattern leaves out.
    assert_eq!(both.session.receipt().unwrap().removed, 3);
    let mut here = contents(from.path());
    here.extend([("outside/file".to_owned(), b"x".to_vec())]);
    here.push(("tree/many/old/kept.log".to_owned(), b"x".to_vec()));
    here.sort();
    assert_eq!(contents(to.path()), here);
    assert!(to.path().join("tree/way").symlink_metadata().is_err());
}

/// Part of T7: wherever it is cut, a later attempt goes on, and sends at most the window and one block twice.
#[test]
fn sending_goes_on_where_it_was_cut() {
    let from = tempfile::tempdir().unwrap();
    let top = tree(from.path());
    fs::write(top.join("noise"), noise(900_000)).unwrap();
    let block = 16 << 10;
    let options = || Options { block: Some(block), ..options() };
    for cut in [10, 300, 20_000, 60_000, 200_000, 300_000, 500_000, 800_000, 1_000_000] {
        let to = tempfile::tempdir().unwrap();
        let first = transfer(from_ref(&top), to.path(), options(), cut);
        assert!(first.sent.is_err() && first.received.is_err(), "cut after {cut}");
        for (name, content) in contents(to.path()) {
            let is_own = name.rsplit('/').next().unwrap().starts_with(".nightwatt-");
            assert!(
                is_own || fs::read(from.path().join(&name)).unwrap() == content,
                "half of {name}"
            );
        }
        let second = whole(from_ref(&top), to.path(), options());
        assert_eq!(contents(from.path()), contents(to.path()), "cut after {cut}");
        let (first, second) = (first.session.report(), second.session.report());
        assert!(
            second.had_bytes >= first.acknowledged_bytes,
            "cut after {cut}: {first:?} {second:?}"
        );
        let handed: u64 = first.arms.iter().chain(&second.arms).map(|totals| totals.bytes).sum();
        assert!(handed - second.total_bytes <= 5 * u64::from(block), "cut after {cut}: {handed}");
    }
}

#[test]
fn holes_are_not_sent_and_stay_holes() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("image");
    let file = fs::File::create(&path).unwrap();
    let size = 100_u64 << 30;
    file.set_len(size).unwrap();
    for (place, length) in [(0, 5000), (40_u64 << 30, 300_000), ((90_u64 << 30) + 5, 10)] {
        file.write_all_at(&text(length, 5), place).unwrap();
    }
    let metadata = file.metadata().unwrap();
    let is_sparse =
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)).is_ok_and(|hole| hole < size);
    if metadata.blocks() * 512 >= size || !is_sparse {
        println!("skipped: the file system of {} has no holes", from.path().display());
        return;
    }
    let cut = transfer(from_ref(&path), to.path(), options(), 20_000);
    assert!(cut.sent.is_err());
    let started = clock();
    let both = whole(from_ref(&path), to.path(), options());
    let seconds = clock().since(started).as_secs_f64();
    println!("a sparse file of 100 GiB: {seconds:.3} s after a cut, {:?}", both.session.report());
    let there = fs::File::open(to.path().join("image")).unwrap();
    let metadata = there.metadata().unwrap();
    assert_eq!(metadata.len(), size);
    assert!(metadata.blocks() * 512 < 2 << 20, "{} blocks", metadata.blocks());
    let mut part = vec![0; 300_002];
    there.read_exact_at(&mut part, (40 << 30) - 1).unwrap();
    assert_eq!((part[0], part[300_001], &part[1..300_001]), (0, 0, text(300_000, 5).as_slice()));
}

/// What grew is written as long as it was listed: the fault of a review was that a log was never backed up.
#[test]
fn a_file_that_changes_or_goes_is_not_written() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = |name: &str| from.path().join(name);
    for name in ["stays", "grows", "shrinks", "goes", "changes"] {
        fs::write(path(name), text(200_000, 4)).unwrap();
    }
    let paths = ["grows", "shrinks", "goes", "changes", "stays"].map(path).to_vec();
    let mut session = Session::new(walk(&paths, &Wanted::default()).unwrap(), options());
    fs::OpenOptions::new().append(true).open(path("grows")).unwrap().write_all(b"more").unwrap();
    fs::File::options().write(true).open(path("shrinks")).unwrap().set_len(70_000).unwrap();
    fs::remove_file(path("goes")).unwrap();
    let changed = path("stays").metadata().unwrap().modified().unwrap() + Duration::from_secs(1);
    fs::File::options().write(true).open(path("changes")).unwrap().set_modified(changed).unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    let store = Folder::open(to.path()).unwrap();
    let receiver =
        thread::spawn(move || receive::run(there.try_clone().unwrap(), &there, store, clock));
    run_over(&here, &mut session, &mut |_| {}).unwrap();
    let receipt = receiver.join().unwrap().unwrap().receipt;
    assert_eq!((receipt.rejected_count, session.report().stale), (3, 3));
    // The fault of a review: what was not written counted as sent.
    let report = session.report();
    assert_eq!((report.rejected_bytes, report.acknowledged_bytes), (600_000, 400_000));
    let content = text(200_000, 4);
    assert_eq!(
        contents(to.path()),
        [("grows".to_owned(), content.clone()), ("stays".to_owned(), content)]
    );
    let summary = summary(&session);
    assert_eq!((summary.grown.as_slice(), session.report().grown), (&["grows".to_owned()][..], 1));
    assert!(summary.text().contains("grew       1 meanwhile"), "{}", summary.text());
    // It has the time that was listed, so it is sent again, and whole.
    let again = whole(&[path("grows")], to.path(), options());
    assert_eq!(again.session.report().acknowledged_bytes, 200_004);
    assert_eq!(fs::read(to.path().join("grows")).unwrap(), fs::read(path("grows")).unwrap());
}

#[test]
fn a_receiver_that_is_something_else_is_an_error() {
    let (here, mut there) = UnixStream::pair().unwrap();
    let other = thread::spawn(move || {
        there.write_all(b"bash: nightwatt: command not found\n").unwrap();
        let mut rest = Vec::new();
        let _ = there.read_to_end(&mut rest);
    });
    let mut session = Session::new(Plan::default(), options());
    let error = run_over(&here, &mut session, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("no nightwatt"), "{error}");
    assert!(error.to_string().contains("it sent `bash: nightwatt: command not found`"), "{error}");
    other.join().unwrap();
}

#[test]
fn what_does_not_get_smaller_is_counted_as_sent_plain() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("noise");
    fs::write(&path, noise(300_000)).unwrap();
    let fixed = Some(Arm::new(Codec::Gzip, 6));
    let both = whole(from_ref(&path), to.path(), Options { fixed, ..options() });
    let report = both.session.report();
    let sent = report.arms.iter().filter(|totals| totals.blocks > 0);
    let arms: Vec<(Arm, u64)> = sent.map(|totals| (totals.arm, totals.bytes)).collect();
    assert_eq!(arms, [(Arm::NONE, 300_000)]);
    // The fault of a review: what gzip took counted as if it had been of none.
    let with_time: Vec<(Arm, u64)> = report
        .arms
        .iter()
        .filter(|totals| totals.cpu_seconds > 0.0)
        .map(|totals| (totals.arm, totals.blocks))
        .collect();
    assert_eq!(with_time, [(Arm::new(Codec::Gzip, 6), 0)]);
    assert_eq!(mix(report), "none 100 %");
}

/// The fault of a review: trials were of no codec.
#[test]
fn codecs_together_took_what_packing_took() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("file");
    fs::write(&path, [text(900_000, 1), noise(300_000)].concat()).unwrap();
    let options = Options { block: Some(64 << 10), ..options() };
    let bill = options.bill;
    let session = whole(from_ref(&path), to.path(), options).session;
    let report = session.report();
    assert!(report.trial_seconds > 0.0, "{report:?}");
    let joules: f64 = summary(&session).codec_joules.iter().map(|it| it.joules).sum();
    let expected = report.cpu_seconds * bill.prices.cpu.get();
    assert!((joules - expected).abs() <= 1e-9 * expected, "{joules} J, {expected} J");
}

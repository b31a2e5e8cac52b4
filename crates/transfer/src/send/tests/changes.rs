//! A second run, after something has changed here or there.

use rustix::fs::{listxattr, removexattr};

use super::*;
use crate::forecast::Forecast;

#[test]
fn a_changed_mode_or_attribute_is_sent_without_the_content() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("secret");
    fs::write(&path, "x").unwrap();
    let there = to.path().join("secret");
    let has_attributes = setxattr(&path, "user.note", b"old", XattrFlags::empty()).is_ok();
    let wanted = Wanted { attributes: has_attributes, ..Wanted::default() };
    // The last mode allows not even the owner to read or write: only root can send such a file.
    let all = [(0o644, b"old"), (0o600, b"old"), (0o444, b"new"), (0o000, b"odd")];
    let count = if rustix::process::geteuid().is_root() { 4 } else { 3 };
    for (mode, note) in all.into_iter().take(count) {
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        if has_attributes {
            setxattr(&path, "user.note", note, XattrFlags::empty()).unwrap();
        }
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let plan = walk(from_ref(&path), &wanted).unwrap();
        let options = Options { attributes: has_attributes, ..options() };
        let both = sent(plan, to.path(), options, usize::MAX);
        assert_eq!(both.session.receipt().unwrap().rejected_count, 0, "{mode:o}");
        let metadata = there.metadata().unwrap();
        assert_eq!(metadata.mode() & 0o7777, mode);
        if has_attributes {
            let mut value = [0; 10];
            let length = getxattr(&there, "user.note", &mut value[..]).unwrap();
            assert_eq!(&value[..length], note);
        }
    }
    if !has_attributes {
        println!("skipped: no extended attributes in {}", from.path().display());
    }
}

/// The fault of a review: a folder like /tmp became one in which all users could remove all files, and each run took
/// the group of a shared folder away.
#[test]
fn a_folder_gets_its_sticky_bit_and_keeps_the_set_gid_bit_that_it_has_there() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir_all(top.join("shared")).unwrap();
    fs::write(top.join("file"), "x").unwrap();
    for (name, mode) in [("", 0o1777), ("shared", 0o2750), ("file", 0o1640)] {
        fs::set_permissions(top.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    let there = to.path().join("top");
    let modes = || {
        let paths = [there.clone(), there.join("shared"), there.join("file")];
        paths.map(|path| path.metadata().unwrap().mode() & 0o7777)
    };
    let run = |trial: bool| {
        let options = Options { trial, ..options() };
        Forecast::of(&whole(from_ref(&top), to.path(), options).session).permissions
    };
    run(false);
    assert_eq!(modes(), [0o1777, 0o750, 0o640]);
    for (name, mode) in [("", 0o3777), ("shared", 0o2750)] {
        fs::set_permissions(there.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    let set = [0o3777, 0o2750, 0o640];
    if modes() != set {
        println!("skipped: this user cannot set the bit in {}", to.path().display());
        return;
    }
    assert_eq!(run(true), [""; 0]);
    run(false);
    assert_eq!(modes(), set);
    fs::set_permissions(&top, PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(there.join("shared"), PermissionsExt::from_mode(0o2700)).unwrap();
    assert_eq!(run(true), ["top", "top/shared"]);
    run(false);
    assert_eq!(modes(), [0o2755, 0o2750, 0o640]);
}

/// The fault of a review: what was removed here stayed there for ever.
#[test]
fn an_attribute_that_was_removed_here_goes_there() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    let path = top.join("file");
    fs::write(&path, "x").unwrap();
    if setxattr(&path, "user.old", b"1", XattrFlags::empty()).is_err() {
        println!("skipped: no extended attributes in {}", from.path().display());
        return;
    }
    setxattr(&top, "user.old", b"1", XattrFlags::empty()).unwrap();
    setxattr(&path, "user.kept", b"2", XattrFlags::empty()).unwrap();
    let run = |attributes: bool, trial: bool| {
        let plan = walk(from_ref(&top), &Wanted { attributes, ..Wanted::default() }).unwrap();
        sent(plan, to.path(), Options { attributes, trial, ..options() }, usize::MAX).session
    };
    let names = |path: &Path| {
        let mut list = [0; 1000];
        let length = listxattr(path, &mut list[..]).unwrap();
        let mut names: Vec<String> = list[..length]
            .split(|byte| *byte == 0)
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .filter(|name| name.starts_with("user."))
            .collect();
        names.sort();
        names
    };
    run(true, false);
    let there = to.path().join("top");
    assert_eq!(names(&there.join("file")), ["user.kept", "user.old"]);
    removexattr(&path, "user.old").unwrap();
    removexattr(&top, "user.old").unwrap();
    run(false, false);
    assert_eq!(names(&there.join("file")), ["user.kept", "user.old"], "they were not asked for");
    assert_eq!(Forecast::of(&run(true, true)).permissions, ["top", "top/file"]);
    run(true, false);
    assert_eq!(names(&there.join("file")), ["user.kept"]);
    assert_eq!(names(&there), [""; 0]);
    assert_eq!(Forecast::of(&run(true, true)).permissions, [""; 0]);
}

#[test]
fn a_file_that_became_a_folder_is_replaced_if_deleting_is_allowed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    let make = |file: &str, folder: &str, link: &str| {
        let _ = fs::remove_dir_all(&top);
        fs::create_dir_all(top.join(folder).join("deep")).unwrap();
        fs::write(top.join(folder).join("deep/inner"), folder).unwrap();
        fs::write(top.join(file), text(100_000, 6)).unwrap();
        symlink("nowhere", top.join(link)).unwrap();
    };
    make("a", "b", "c");
    whole(from_ref(&top), to.path(), options());
    make("b", "c", "a");
    let both = whole(from_ref(&top), to.path(), options());
    // The file b, the folder c, and what is in the folder.
    let receipt = both.session.receipt().unwrap();
    let mut names: Vec<_> = receipt.rejected.iter().map(|it| it.path.as_slice()).collect();
    names.sort_unstable();
    let expected: [&[u8]; 4] = [b"top/b", b"top/c", b"top/c/deep", b"top/c/deep/inner"];
    assert_eq!((names.as_slice(), receipt.rejected_count), (&expected[..], 4), "each once");
    let deleting = Options { delete: Some(Vec::new()), ..options() };
    let both = whole(from_ref(&top), to.path(), deleting.clone());
    assert_eq!(contents(from.path()), contents(to.path()));
    // The link c, and the folder b with two entries in it.
    assert_eq!(both.session.receipt().unwrap().removed, 4);
    make("c", "a", "b");
    whole(from_ref(&top), to.path(), deleting);
    assert_eq!(contents(from.path()), contents(to.path()));
    assert!(to.path().join("top/b").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn a_folder_with_something_that_stays_is_not_replaced_by_a_file_and_loses_nothing() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir_all(&top).unwrap();
    fs::write(top.join("entry"), "a file").unwrap();
    let there = to.path().join("top/entry");
    fs::create_dir_all(there.join("deep")).unwrap();
    for name in ["one", "kept.o", "deep/two"] {
        fs::write(there.join(name), name).unwrap();
    }
    let before = contents(to.path());
    let run = |trial: bool| {
        let delete = Some(vec!["*.o".parse().unwrap()]);
        whole(from_ref(&top), to.path(), Options { delete, trial, ..options() }).session
    };
    let forecast = Forecast::of(&run(true));
    assert_eq!((forecast.refused.len(), forecast.delete.len(), forecast.write.len()), (1, 0, 0));
    assert_eq!(contents(to.path()), before);
    let session = run(false);
    let receipt = session.receipt().unwrap();
    assert_eq!((receipt.rejected_count, receipt.removed), (1, 0));
    assert_eq!(contents(to.path()), before);
}

#[test]
fn what_allows_only_reading_is_kept_up_to_date() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    let allow = |mode: u32| {
        for path in [&top, &top.join("module")] {
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
    };
    fs::create_dir_all(top.join("module")).unwrap();
    for number in 0..40 {
        let path = top.join(format!("module/{number}"));
        fs::write(&path, text(20_000, number)).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    }
    allow(0o555);
    // Files that are complete and have no name yet: what has arrived is kept.
    let options = || Options { block: Some(16 << 10), delete: Some(Vec::new()), ..options() };
    let cut = transfer(from_ref(&top), to.path(), options(), 150_000);
    assert!(cut.sent.is_err());
    let both = whole(from_ref(&top), to.path(), options());
    assert_eq!(both.session.receipt().unwrap().rejected_count, 0, "{:?}", both.session.receipt());
    assert!(both.session.report().had_bytes >= cut.session.report().acknowledged_bytes);
    // A change in a folder of this kind, and one less.
    allow(0o755);
    fs::remove_file(top.join("module/7")).unwrap();
    fs::remove_file(top.join("module/8")).unwrap();
    fs::write(top.join("module/8"), "new").unwrap();
    allow(0o555);
    let both = whole(from_ref(&top), to.path(), options());
    let receipt = both.session.receipt().unwrap();
    assert_eq!((receipt.rejected_count, receipt.removed), (0, 1));
    assert_eq!(contents(from.path()), contents(to.path()));
    let there = to.path().join("top/module");
    assert_eq!(there.metadata().unwrap().mode() & 0o777, 0o555);
    // All of it goes.
    allow(0o755);
    fs::remove_dir_all(top.join("module")).unwrap();
    let both = whole(from_ref(&top), to.path(), options());
    assert_eq!(both.session.receipt().unwrap().removed, 40);
    assert!(!there.exists());
}

/// Whatever a dry run announces is what a run does, and it changes nothing.
#[test]
fn a_dry_run_announces_what_a_run_does() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = tree(from.path());
    whole(from_ref(&top), to.path(), options());
    let received = to.path().join("tree");
    fs::write(top.join("big.txt"), text(1000, 9)).unwrap();
    fs::create_dir_all(top.join("new/deep")).unwrap();
    fs::write(top.join("new/deep/empty"), "").unwrap();
    fs::set_permissions(top.join("many/7"), PermissionsExt::from_mode(0o600)).unwrap();
    fs::remove_file(top.join("link")).unwrap();
    symlink("nothing", top.join("link")).unwrap();
    fs::remove_file(top.join("many/9")).unwrap();
    fs::create_dir_all(received.join("old")).unwrap();
    fs::write(received.join("old/file"), "x").unwrap();
    fs::create_dir(received.join("new")).unwrap();
    fs::write(received.join("new/deep"), "a file").unwrap();

    let run = |trial: bool, delete: bool| {
        let delete = delete.then(Vec::new);
        whole(from_ref(&top), to.path(), Options { delete, trial, ..options() }).session
    };
    let before = contents(to.path());
    let refused = Forecast::of(&run(true, false)).refused;
    // The folder and the file in it.
    assert_eq!((refused.len(), refused[0][0].as_str()), (2, "tree/new/deep"));
    let forecast = Forecast::of(&run(true, true));
    assert_eq!(contents(to.path()), before);
    assert_eq!(fs::read_link(received.join("link")).unwrap(), Path::new("big.txt"));
    let written = ["tree/big.txt", "tree/link", "tree/new/deep", "tree/new/deep/empty"];
    assert_eq!(
        (forecast.write.as_slice(), forecast.write_bytes),
        (&written.map(str::to_owned)[..], 1000)
    );
    assert_eq!(forecast.permissions, ["tree/many/7"]);
    let mut deleted = forecast.delete.clone();
    deleted.sort();
    // The third is a file that becomes a folder.
    assert_eq!(deleted, ["tree/many/9", "tree/new/deep", "tree/old", "tree/old/file"]);
    assert!(forecast.text().contains("4 to write (1.0 kB)"), "{}", forecast.text());

    let session = run(false, true);
    assert_eq!(session.receipt().unwrap().removed, 4);
    assert_eq!(contents(from.path()), contents(to.path()));
    let after = Forecast::of(&run(true, true));
    assert_eq!(
        (after.write.len() + after.permissions.len() + after.delete.len(), after.refused.len()),
        (0, 0)
    );
}

/// The fault of a review: a run that replaced a folder counted 0, and a dry run forgot the folder itself.
#[test]
fn what_an_entry_replaces_counts_as_deleted_in_both_kinds_of_run() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (top, there) = (from.path().join("top"), to.path().join("top"));
    fs::create_dir_all(top.join("was-file")).unwrap();
    fs::write(top.join("was-folder"), "a file").unwrap();
    symlink("nowhere", top.join("became-link")).unwrap();
    for folder in ["was-folder/deep", "became-link"] {
        fs::create_dir_all(there.join(folder)).unwrap();
        fs::write(there.join(folder).join("inner"), "x").unwrap();
    }
    fs::write(there.join("was-file"), "x").unwrap();
    let run = |trial: bool| {
        let delete = Some(Vec::new());
        whole(from_ref(&top), to.path(), Options { delete, trial, ..options() }).session
    };
    let mut announced = Forecast::of(&run(true)).delete;
    announced.sort();
    let expected = [
        "top/became-link",
        "top/became-link/inner",
        "top/was-file",
        "top/was-folder",
        "top/was-folder/deep",
        "top/was-folder/deep/inner",
    ];
    assert_eq!(announced, expected);
    let session = run(false);
    assert_eq!(session.receipt().unwrap().removed, 6);
    assert_eq!(contents(from.path()), contents(to.path()));
}

/// The fault of a review: what could not be written counted as there, and as sent where it was a stream.
#[test]
fn what_is_rejected_counts_as_neither_there_nor_sent() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("fine"), text(500, 1)).unwrap();
    fs::write(top.join("folder"), text(3000, 2)).unwrap();
    fs::create_dir_all(to.path().join("top/folder")).unwrap();
    for (had, sent) in [(0, 500), (500, 0)] {
        let session = whole(from_ref(&top), to.path(), options()).session;
        let report = session.report();
        assert_eq!((report.had_bytes, report.rejected_bytes), (had, 3000));
        assert_eq!((report.acknowledged_bytes, report.total_bytes), (sent, 3500));
        let summary = summary(&session);
        assert_eq!(summary.rejected_count, 1);
        let text = summary.text();
        assert!(text.starts_with(&format!("sent       {sent} B as ")), "{text}");
        assert_eq!(text.contains("was there  500 B"), had > 0, "{text}");
    }
}

/// The fault of a review: a dry run promised what the run then could not write.
#[test]
fn a_dry_run_refuses_what_a_run_cannot_write() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (top, there) = (from.path().join("top"), to.path().join("top"));
    fs::create_dir_all(top.join("sub/deep")).unwrap();
    fs::create_dir_all(there.join("gone")).unwrap();
    for name in ["new", "old", "sub/inner", "sub/deep/inner"] {
        fs::write(top.join(name), name).unwrap();
    }
    symlink("nowhere", top.join("link")).unwrap();
    fs::write(there.join("old"), "another").unwrap();
    // Permissions of a folder of another user do not change by themselves.
    if std::os::unix::fs::chown(&there, Some(65_534), None).is_err() {
        println!("skipped: this user cannot give a folder away");
        return;
    }
    fs::set_permissions(&there, PermissionsExt::from_mode(0o755)).unwrap();
    let run = |trial: bool| {
        let options = Options { delete: Some(Vec::new()), trial, ..options() };
        whole(from_ref(&top), to.path(), options).session
    };
    let sorted = |mut paths: Vec<String>| {
        paths.sort();
        paths
    };
    let forecast = Forecast::of(&run(true));
    let refused = forecast.refused.iter().map(|[path, _]| path.clone()).collect();
    let session = run(false);
    let rejected = session.receipt().unwrap().rejected.iter();
    let rejected = rejected.map(|it| String::from_utf8_lossy(&it.path).into_owned()).collect();
    let all = ["link", "new", "old", "sub", "sub/deep", "sub/deep/inner", "sub/inner"];
    // The folder itself cannot get its time.
    let mut all = all.map(|name| format!("top/{name}")).to_vec();
    all.insert(0, "top".to_owned());
    assert_eq!(sorted(rejected), all);
    assert_eq!(sorted(refused), all);
    assert_eq!((forecast.write.len(), forecast.delete.len()), (0, 0));
}

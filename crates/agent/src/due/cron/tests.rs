use std::fs;

use nightwatt_energy::time::{Mono, Wall};

use super::*;

/// 2026-11-20 12:00 UTC, a Friday (`date -d @1795176000 -u`).
const FRIDAY_NOON: i64 = 1_795_176_000;
const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;

fn after(line: &str) -> Option<i64> {
    let (schedule, _) = job(line, true)?;
    schedule.next(FRIDAY_NOON).map(|at| at - FRIDAY_NOON)
}

#[test]
fn jobs_run_when_crontab_5_says() {
    for (line, expected) in [
        ("* * * * * x", MINUTE),
        ("0 * * * * x", HOUR),
        ("*/15 * * * * x", 15 * MINUTE),
        ("5,50 11-12 * * * x", 5 * MINUTE),
        ("30 3 * * * x", 15 * HOUR + 30 * MINUTE),
        ("0 12 * * * x", DAY),
        ("0 0 * * mon x", 2 * DAY + 12 * HOUR),
        ("0 0 * * 7 x", DAY + 12 * HOUR),
        ("0 0 * * 0 x", DAY + 12 * HOUR),
        ("0 0 1 * * x", 10 * DAY + 12 * HOUR),
        ("@monthly x", 10 * DAY + 12 * HOUR),
        ("@daily x", 12 * HOUR),
        // Day of the month and of the week, both restricted: either suffices.
        ("0 0 25 * sat x", 12 * HOUR),
        // The next 29th of February is in 2028: 467 days after this midnight.
        ("0 0 29 feb * x", 465 * DAY + 12 * HOUR),
        ("0-30/10 13 * * * x", HOUR),
        ("7/20 12 * * * x", 7 * MINUTE),
    ] {
        assert_eq!(after(line), Some(expected), "{line}");
    }
}

#[test]
fn what_is_no_job_is_none() {
    for line in [
        "",
        "# 0 * * * * x",
        "MAILTO=root",
        "@reboot x",
        "60 * * * * x",
        "0 24 * * * x",
        "*/0 * * * * x",
        "5-1 * * * * x",
        "0 0 31 feb * x",
        "a b c d e f",
        "0 0 * * *",
    ] {
        assert_eq!(after(line), None, "{line}");
    }
}

#[test]
fn the_next_job_of_a_machine_is_found_in_all_tables_but_for_those_that_do_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::at(dir.path());
    let write = |path: &str, text: &str| {
        let path = host.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let now = Now { mono: Mono::ZERO, wall: Wall::from_secs(FRIDAY_NOON), utc_offset: 3600 };
    let found = |ignore: &[String]| next(&host, ignore, now).unwrap();
    assert_eq!(found(&[]), None, "no cron at all");
    // As Debian has it: an hourly job over an empty folder, and one that systemd does.
    write(
        "/etc/crontab",
        "SHELL=/bin/sh\n17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly\n",
    );
    write("/etc/cron.hourly/.placeholder", "");
    write("/proc/612/comm", "cron\n");
    write(
        "/etc/cron.d/e2scrub_all",
        "30 * * * 5 root test -e /run/systemd/system || /sbin/e2scrub_all\n",
    );
    write("/run/systemd/system/x", "");
    write("/etc/cron.d/old.dpkg-bak", "* * * * * root never\n");
    assert_eq!(found(&[]), None);
    write("/proc/612/comm", "bash\n");
    // Local time is 13:00. Without a cron that runs there are no jobs.
    write("/var/spool/cron/crontabs/ann", "15 14 * * * backup --all\n");
    write("/etc/cron.d/late", "0 15 * * * www-data report\n");
    assert_eq!(found(&[]), None);
    write("/proc/612/comm", "cron\n");
    assert_eq!(found(&[]), Some((FRIDAY_NOON + 75 * MINUTE, "cron: backup --all".to_owned())));
    let without = found(&["backup*".to_owned()]).unwrap();
    assert_eq!(without, (FRIDAY_NOON + 2 * HOUR, "cron: report".to_owned()));
    write("/etc/cron.hourly/tidy", "");
    assert_eq!(found(&[]).unwrap().0, FRIDAY_NOON + 17 * MINUTE, "the folder is no longer empty");
}

//! Who is logged in: logind's sessions, and where there is no logind, the sessions in utmp.

use std::collections::BTreeSet;

use nightwatt_host::Host;
use serde::Deserialize;

use super::{Inhibitions, counted, systemd};

/// Files that may be utmp.
const FILES: [&str; 2] = ["/run/utmp", "/var/run/utmp"];

/// `USER_PROCESS` of utmp(5).
const USER_PROCESS: i16 = 7;

/// Stops after this many sessions of users.
const MOST: usize = 32;

pub(super) async fn check(host: &Host) -> Inhibitions {
    if let Some(text) = systemd::call(host, "ListSessions").await? {
        let mut users = Vec::new();
        for (user, object) in sessions(&text)? {
            if is_users(&object).await? {
                users.push(user);
            }
            if users.len() == MOST {
                break;
            }
        }
        return Ok(in_use_by(users));
    }
    for file in FILES {
        let Ok(bytes) = std::fs::read(host.path(file)) else { continue };
        let alive = |pid: i32| host.has(format!("/proc/{pid}"));
        return Ok(in_use_by(utmp(&bytes, SIZE, alive)));
    }
    Ok(Vec::new())
}

fn in_use_by(users: Vec<String>) -> Vec<String> {
    let names: BTreeSet<_> = users.into_iter().collect();
    if names.is_empty() {
        return Vec::new();
    }
    let list = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let are = if names.len() == 1 { "is" } else { "are" };
    vec![format!("{} {are} logged in ({list})", counted(names.len(), "user"))]
}

/// Id, number and name of the user, seat, object.
type Session = (String, u32, String, String, String);

#[derive(Deserialize)]
struct Sessions {
    data: (Vec<Session>,),
}

/// Name of the user, and object, of each session.
fn sessions(text: &str) -> Result<Vec<(String, String)>, String> {
    let answer: Sessions = serde_json::from_str(text)
        .map_err(|error| format!("logind lists sessions in a form that is not known: {error}"))?;
    Ok(answer.data.0.into_iter().map(|(_, _, user, _, object)| (user, object)).collect())
}

/// Is it the session of a user, and not that of a login screen, of cron, or of a user's systemd?
async fn is_users(object: &str) -> Result<bool, String> {
    let properties = ["org.freedesktop.login1.Session", "Class", "State"];
    let mut arguments =
        vec!["--system", "--json=short", "get-property", "org.freedesktop.login1", object];
    arguments.extend(properties);
    match systemd::busctl(&arguments).await {
        Ok(text) => Ok(counts(&text.unwrap_or_default())),
        // It has ended meanwhile.
        Err(why) if why.contains(NO_SUCH_OBJECT) => Ok(false),
        Err(why) => Err(why),
    }
}

/// What D-Bus says of an object that is not there (org.freedesktop.DBus.Error.UnknownObject).
const NO_SUCH_OBJECT: &str = "Unknown object";

/// Lines of JSON: the class, and the state.
fn counts(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Property {
        data: String,
    }
    let mut lines =
        text.lines().map(|line| serde_json::from_str::<Property>(line).map(|it| it.data));
    let (Some(Ok(class)), Some(Ok(state))) = (lines.next(), lines.next()) else { return false };
    class.starts_with("user") && state != "closing"
}

/// How long a record is: the kernel's `int` for times where old 32-bit programs share the file, else 64.
const SIZE: usize =
    if cfg!(any(target_arch = "aarch64", target_arch = "riscv64")) { 400 } else { 384 };

/// Names of users in a file of utmp(5) whose process still lives.
fn utmp(bytes: &[u8], size: usize, alive: impl Fn(i32) -> bool) -> Vec<String> {
    let of = |record: &[u8]| {
        let kind = i16::from_ne_bytes(*record.first_chunk()?);
        let pid = i32::from_ne_bytes(*record[4..].first_chunk()?);
        let name = record[44..76].split(|byte| *byte == 0).next().unwrap_or_default();
        (kind == USER_PROCESS && !name.is_empty() && alive(pid))
            .then(|| String::from_utf8_lossy(name).into_owned())
    };
    bytes.chunks_exact(size).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: i16, pid: i32, user: &str) -> Vec<u8> {
        let mut record = vec![0; 384];
        record[..2].copy_from_slice(&kind.to_ne_bytes());
        record[4..8].copy_from_slice(&pid.to_ne_bytes());
        record[44..44 + user.len()].copy_from_slice(user.as_bytes());
        record
    }

    #[test]
    fn users_of_utmp_count_if_their_process_lives() {
        let file = [
            record(2, 0, "reboot"),
            record(7, 100, "ann"),
            record(7, 101, "bob"),
            record(8, 100, "gone"),
            record(7, 100, "ann"),
            record(6, 100, "LOGIN"),
        ]
        .concat();
        let users = utmp(&file, 384, |pid| pid == 100);
        assert_eq!(users, ["ann", "ann"]);
        assert_eq!(in_use_by(users), ["1 user is logged in (ann)"]);
        assert_eq!(in_use_by(vec!["b".into(), "a".into()]), ["2 users are logged in (a, b)"]);
        assert_eq!(utmp(&file[..100], 384, |_| true), Vec::<String>::new(), "cut short");
    }

    #[test]
    fn sessions_of_login_screens_and_of_cron_do_not_count() {
        let text = r#"{"type":"a(susso)","data":[[["4",1000,"ann","","/org/freedesktop/login1/session/_34"]]]}"#;
        assert_eq!(
            sessions(text).unwrap(),
            [("ann".to_owned(), "/org/freedesktop/login1/session/_34".to_owned())]
        );
        let property = |class: &str, state: &str| {
            format!(
                "{{\"type\":\"s\",\"data\":\"{class}\"}}\n{{\"type\":\"s\",\"data\":\"{state}\"}}\n"
            )
        };
        assert!(counts(&property("user", "active")));
        assert!(counts(&property("user", "online")));
        assert!(!counts(&property("user", "closing")));
        for class in ["greeter", "background", "manager", "lock-screen"] {
            assert!(!counts(&property(class, "active")), "{class}");
        }
        assert!(!counts(""));
    }
}

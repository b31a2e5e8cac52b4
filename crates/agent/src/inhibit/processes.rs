//! Processes of given names.

use std::collections::BTreeMap;

use nightwatt_host::Host;
use nightwatt_host::star::fits;

use super::Inhibitions;

pub(super) fn check(host: &Host, patterns: &[String]) -> Inhibitions {
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let cannot = |error| format!("cannot look at the processes: {error}");
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for pid in host.names("/proc").map_err(cannot)? {
        if !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        // Those that ended meanwhile are none.
        let Ok(name) = host.read(format!("/proc/{pid}/comm")) else { continue };
        let line = host.read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let names = names(&name, &line);
        if names.iter().any(|name| patterns.iter().any(|pattern| fits(pattern, name))) {
            *found.entry(names.last().cloned().unwrap_or_default()).or_default() += 1;
        }
    }
    let text = |(name, count): (&String, &usize)| match count {
        1 => format!("a process of `{name}` runs"),
        _ => format!("{count} processes of `{name}` run"),
    };
    Ok(found.iter().map(text).collect())
}

/// The kernel's name, cut after 15 characters, and the program's file name, or that of its script.
fn names(comm: &str, cmdline: &str) -> Vec<String> {
    let mut names = vec![comm.trim_end().to_owned()];
    let base = |argument: &str| argument.rsplit('/').next().unwrap_or_default().to_owned();
    let mut arguments = cmdline.split('\0');
    let program = arguments.next().map(base).filter(|name| !name.is_empty());
    let is_interpreter = program.as_deref().is_some_and(|name| {
        ["python", "perl", "ruby", "sh", "bash", "dash"]
            .iter()
            .any(|it| name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') == *it)
    });
    names.extend(program);
    if is_interpreter {
        let script = arguments.find(|argument| !argument.starts_with('-') && !argument.is_empty());
        names.extend(script.map(base));
    }
    names
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_program_has_the_name_of_its_file_and_a_script_that_of_the_script() {
        assert_eq!(names("rsync\n", "/usr/bin/rsync\0-a\0"), ["rsync", "rsync"]);
        assert_eq!(names("kworker/0:1\n", ""), ["kworker/0:1"]);
        assert_eq!(
            names("borg\n", "/usr/bin/python3.11\0-u\0/usr/bin/borg\0create\0"),
            ["borg", "python3.11", "borg"]
        );
        assert_eq!(
            names("a-name-longer-t\n", "/opt/a-name-longer-than-15\0")[1],
            "a-name-longer-than-15"
        );
    }

    #[test]
    fn processes_of_this_machine_are_found() {
        let host = Host::default();
        assert_eq!(check(&host, &["no-such-program-*".to_owned()]).unwrap(), Vec::<String>::new());
        let mut cat = Command::new("cat");
        let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Only when it has answered is it certainly what it is to be.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let reasons = check(&host, &["ca*t".to_owned()]).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(reasons.iter().any(|reason| reason.contains("of `cat` run")), "{reasons:?}");
    }
}

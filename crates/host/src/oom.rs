//! How many processes the kernel has ended for lack of memory.

use crate::Host;

/// How many processes the kernel's out-of-memory killer has ended in the cgroup of this process; on the whole machine
/// where no cgroup counts them. `None` if the kernel counts neither.
pub fn kills(host: &Host) -> Option<u64> {
    in_cgroup(host).or_else(|| count(&host.read("/proc/vmstat").ok()?))
}

fn in_cgroup(host: &Host) -> Option<u64> {
    let groups = host.read("/proc/self/cgroup").ok()?;
    let mounts = host.read("/proc/self/mounts").ok()?;
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (kind, file) = if controllers.is_empty() {
            ("cgroup2", "memory.events")
        } else if controllers.split(',').any(|it| it == MEMORY) {
            ("cgroup", "memory.oom_control")
        } else {
            return None;
        };
        let at = mounts.lines().find_map(|mount| place_of(mount, kind))?;
        // In a container, what is mounted may be the group itself.
        let folders = [format!("{at}{path}"), at.to_owned()];
        folders.iter().find_map(|folder| count(&host.read(format!("{folder}/{file}")).ok()?))
    })
}

const MEMORY: &str = "memory";

/// Where a line of mounts has the groups of memory of this kind.
fn place_of<'a>(mount: &'a str, kind: &str) -> Option<&'a str> {
    let mut fields = mount.split(' ').skip(1);
    let (at, of, options) = (fields.next()?, fields.next()?, fields.next()?);
    let has_memory = kind == "cgroup2" || options.split(',').any(|it| it == MEMORY);
    (of == kind && has_memory).then_some(at)
}

fn count(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SECOND: &str = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
    const FIRST: &str = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                         cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";

    fn kills_with(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        let host = Host::at(root.path());
        for (path, text) in files {
            let path = host.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        kills(&host)
    }

    #[test]
    fn the_own_group_counts_and_else_the_machine() {
        let machine = ("/proc/vmstat", "nr_free_pages 1\noom_kill 9\n");
        let mounts = format!("{FIRST}{SECOND}");
        let mounts = ("/proc/self/mounts", mounts.as_str());
        // The lines of cgroups(7) and of the kernel's admin-guide/cgroup-v2.rst.
        let second = "low 0\nhigh 0\nmax 3\noom 2\noom_kill 2\noom_group_kill 0\n";
        let of_second = ("/proc/self/cgroup", "0::/user.slice/a\n");
        let events = ("/sys/fs/cgroup/unified/user.slice/a/memory.events", second);
        assert_eq!(kills_with(&[machine, mounts, of_second, events]), Some(2));
        let inside = ("/sys/fs/cgroup/unified/memory.events", second);
        assert_eq!(kills_with(&[machine, mounts, of_second, inside]), Some(2));
        let first = "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n";
        let of_first = ("/proc/self/cgroup", "5:cpu:/\n4:memory:/b\n0::/\n");
        let control = ("/sys/fs/cgroup/memory/b/memory.oom_control", first);
        assert_eq!(kills_with(&[machine, mounts, of_first, control]), Some(4));
        // The root group counts nothing.
        let of_root = ("/proc/self/cgroup", "0::/\n");
        assert_eq!(kills_with(&[machine, mounts, of_root]), Some(9));
        assert_eq!(kills_with(&[mounts, of_root]), None);
        assert_eq!(kills_with(&[]), None);
    }
}

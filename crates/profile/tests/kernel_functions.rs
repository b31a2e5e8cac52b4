//! The table of the kernel's functions against real kernels' symbols: this one's, and those of the kernels
//! that `tools/vm/symbols` has asked (two releases of Debian's).

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use nightwatt_profile::pure::kernel_time::{Category, Os, Table, Tcp};

/// Names of the functions of a kernel.
struct Kernel {
    name: String,
    functions: Vec<String>,
}

fn here() -> Option<Kernel> {
    let text = fs::read_to_string("/proc/kallsyms").ok()?;
    let function = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let is_code = matches!(fields.nth(1)?, "t" | "T" | "w" | "W");
        fields.next().filter(|_| is_code).map(str::to_owned)
    };
    Some(Kernel { name: "here".to_owned(), functions: text.lines().filter_map(function).collect() })
}

/// Files `symbols-VERSION`, a name in each line.
fn others() -> Vec<Kernel> {
    let home = std::env::var("HOME").unwrap_or_default();
    let folder = std::env::var("NIGHTWATT_VM_CACHE");
    let folder =
        folder.map_or_else(|_| PathBuf::from(home).join(".cache/nightwatt/vm"), PathBuf::from);
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let version = name.strip_prefix("symbols-")?.to_owned();
        let text = fs::read_to_string(entry.path()).ok()?;
        Some(Kernel { name: version, functions: text.lines().map(str::to_owned).collect() })
    };
    fs::read_dir(folder).into_iter().flatten().flatten().filter_map(read).collect()
}

#[test]
fn every_line_of_the_table_is_needed_by_some_kernel() {
    let kernels: Vec<Kernel> = here().into_iter().chain(others()).collect();
    if kernels.len() < 3 {
        println!(
            "skipped: symbols of three kernels are needed, there are {}: `make test-vm` has tools/vm/symbols ask guests",
            kernels.len()
        );
        return;
    }
    // The table was made with this one; another one here leaves other lines without need.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if !release.starts_with("6.18.") {
        println!("skipped: one of the three is Linux 6.18, and this is {}", release.trim());
        return;
    }
    let (mut used, mut names) = (HashSet::new(), HashSet::new());
    for kernel in &kernels {
        let before = used.len();
        for name in kernel.functions.iter().filter(|name| names.insert(*name)) {
            used.extend(Table::linux().rule(name).map(|rule| &*rule.pattern));
        }
        let new = used.len() - before;
        println!("{}: {} functions, {new} more lines needed", kernel.name, kernel.functions.len());
    }
    let dead: Vec<&str> = Table::linux()
        .rules()
        .iter()
        .map(|rule| &*rule.pattern)
        .filter(|pattern| !used.contains(pattern))
        .collect();
    assert!(
        dead.is_empty(),
        "no kernel has a function for which these are right: {}",
        dead.join(" ")
    );
}

/// What any kernel with TCP has, by these names since long before 6.1.
#[test]
fn the_ways_that_all_segments_go_have_their_functions_in_every_kernel() {
    let tcp = Category::Tcp;
    let ways = [
        ("tcp_v4_rcv", tcp(Tcp::RxData)),
        ("tcp_sendmsg_locked", tcp(Tcp::TxData)),
        ("tcp_ack", tcp(Tcp::StateMachine)),
        ("tcp_v4_connect", tcp(Tcp::OpenClose)),
        ("ip_rcv", Category::Os(Os::Ip)),
        ("net_rx_action", Category::Os(Os::PacketHandling)),
        ("try_to_wake_up", Category::Os(Os::Scheduler)),
        ("do_idle", Category::Os(Os::Acpi)),
        ("_copy_to_iter", Category::Os(Os::KernelUserInterface)),
        ("_raw_spin_lock", Category::Helper),
    ];
    let kernels: Vec<Kernel> = here().into_iter().chain(others()).collect();
    if kernels.iter().all(|kernel| kernel.functions.is_empty()) {
        println!("skipped: this kernel hides its symbols");
        return;
    }
    for kernel in kernels {
        for (name, category) in ways {
            let is_there = kernel.functions.iter().any(|function| {
                function.split('.').next() == Some(name)
                    && Table::linux().category(function) == Some(category)
            });
            assert!(is_there, "{name} in {}", kernel.name);
        }
    }
}

//! What programs are called.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use nightwatt_energy::samples::Record;
use nightwatt_host::proc_stat::{self, ProcStat};

/// A process of the kernel itself, in its flags (`include/linux/sched.h`).
const PF_KTHREAD: u64 = 0x0020_0000;

/// The program of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// As the kernel calls it; by its number where it ended before anybody asked.
    pub name: String,
    /// Is it a thread of the kernel, or what runs where nothing else does?
    pub is_kernel: bool,
}

/// Those that were seen, by process.
#[derive(Default)]
pub(super) struct Programs(HashMap<u32, Program>);

impl Programs {
    /// Those that there are: one that ends before its first sample is read has its name all the same.
    pub(super) fn find(&mut self) {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.for_each(|pid| drop(self.of(pid).clone()));
    }

    /// The program of a process.
    pub(super) fn of(&mut self, pid: u32) -> &Program {
        self.0.entry(pid).or_insert_with(|| {
            if pid == 0 {
                return Program { name: "swapper".to_owned(), is_kernel: true };
            }
            let stat = proc_stat::read(Path::new(&format!("/proc/{pid}"))).unwrap_or_default();
            parse_stat(&stat)
                .unwrap_or_else(|| Program { name: format!("process {pid}"), is_kernel: false })
        })
    }

    /// What a record says of them: a number may be another program's now.
    pub(super) fn take(&mut self, record: &Record) {
        match record {
            Record::Exec { pid, name } => {
                let program = Program { name: name.clone(), is_kernel: false };
                self.0.insert(*pid, program);
            }
            // Until it becomes another program it has its parent's name.
            Record::Fork { pid, parent, .. } if pid != parent => {
                match self.0.get(parent).cloned() {
                    Some(program) => drop(self.0.insert(*pid, program)),
                    None => drop(self.0.remove(pid)),
                }
            }
            _ => {}
        }
    }
}

/// `4242 (a name) S 1 ...`: proc(5), fields 2 and 9.
fn parse_stat(stat: &str) -> Option<Program> {
    let stat = ProcStat::of(stat)?;
    let flags: u64 = stat.field(9)?;
    Some(Program { name: stat.name.to_owned(), is_kernel: flags & PF_KTHREAD != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_kernel_are_told_by_their_flags() {
        // Flags as Linux 6.18 shows them of itself: field 9.
        let thread = parse_stat("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0").unwrap();
        assert_eq!(thread, Program { name: "kthreadd".to_owned(), is_kernel: true });
        let other = parse_stat("7 (a) b ( c) S 1 7 7 0 -1 4194560 9 0 0 0 2 5").unwrap();
        assert_eq!(other, Program { name: "a) b ( c".to_owned(), is_kernel: false });
        assert_eq!(parse_stat("7 (a"), None);
    }

    #[test]
    fn a_child_has_its_parents_name_until_it_is_another_program() {
        let mut programs = Programs::default();
        let me = std::process::id();
        let mine = programs.of(me).clone();
        assert!(!mine.is_kernel && programs.of(0).is_kernel);
        // A number that nothing has: above the most that Linux gives, 2^22.
        let child = 1 << 23;
        programs.take(&Record::Fork { pid: child, parent: me, thread: child });
        assert_eq!(*programs.of(child), mine);
        programs.take(&Record::Exec { pid: child, name: "prog".to_owned() });
        assert_eq!(programs.of(child).name, "prog");
        programs.take(&Record::Fork { pid: child, parent: child + 1, thread: child });
        assert_eq!(programs.of(child).name, format!("process {child}"));
    }
}

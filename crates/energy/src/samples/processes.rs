//! The watched processes, and what is mapped where in their memory.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::record::{Mapping, Record};

/// A file that code was run from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MappedFile {
    /// Device (major, minor); zeroes of what is no file.
    pub device: (u32, u32),
    /// Its number there; of code that was made as a program ran, the process.
    pub inode: u64,
    /// Its path as the process saw it, or something like `[vdso]`.
    pub name: String,
    /// The process that mapped it first.
    pub pid: u32,
}

/// Memory without a file, as the kernel reports it.
pub const ANONYMOUS: &str = "//anon";

/// Is this memory that holds code made as the program runs? Some runtimes map a file in memory for it.
pub fn is_generated(name: &str) -> bool {
    name == ANONYMOUS || name.starts_with("[anon:") || name.starts_with("/memfd:")
}

/// A place on a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// In a file.
    File {
        /// By its number in [`Processes::files`].
        file: usize,
        /// Bytes from its beginning.
        offset: u64,
    },
    /// In the kernel.
    Kernel(u64),
}

/// What a sample saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleOutcome {
    /// An idle CPU.
    Idle,
    /// A process that is not watched.
    Other,
    /// A watched process there, the outermost place first. Empty if the place is unknown.
    Watched(Vec<Frame>),
    /// No sample: a process was reported, or became another program.
    Nothing,
    /// So many records were lost.
    Lost(u64),
    /// The kernel left samples out.
    Throttled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    end: u64,
    file: usize,
    offset: u64,
}

/// By where it begins.
type Memory = BTreeMap<u64, Part>;

#[derive(Debug, Clone, Default)]
struct Process {
    memory: Memory,
    /// Each by its number: one that starts or ends while they are listed is reported twice. The first
    /// of them may end before the others.
    threads: HashSet<u32>,
}

/// All processes that are watched.
#[derive(Debug, Clone, Default)]
pub struct Processes {
    watched: HashMap<u32, Process>,
    /// Only its children are.
    parent: Option<u32>,
    files: Vec<MappedFile>,
    by_file: HashMap<((u32, u32), u64, String), usize>,
}

impl Processes {
    /// What this process starts from now on is watched, and it is not.
    pub fn watch_children_of(&mut self, pid: u32) {
        self.parent = Some(pid);
    }

    /// A process is watched, and what it starts from now on. It has these threads, and `memory` is
    /// what is mapped there already. Records from before both were listed may follow.
    pub fn watch(
        &mut self,
        pid: u32,
        threads: impl IntoIterator<Item = u32>,
        memory: Vec<Mapping>,
    ) {
        self.watched.entry(pid).or_default().threads = threads.into_iter().collect();
        for mapping in memory {
            self.map(pid, mapping);
        }
    }

    /// All files from which watched processes ran, by their numbers.
    pub fn files(&self) -> &[MappedFile] {
        &self.files
    }

    /// The next record, in the order of times.
    pub fn take(&mut self, record: Record) -> SampleOutcome {
        match record {
            Record::Sample { pid: 0, .. } => SampleOutcome::Idle,
            Record::Sample { pid, kernel, user } => self.sample(pid, &kernel, &user),
            Record::Map { pid, mapping } => {
                if self.watched.contains_key(&pid) {
                    self.map(pid, mapping);
                }
                SampleOutcome::Nothing
            }
            Record::Exec { pid, .. } => {
                if let Some(process) = self.watched.get_mut(&pid) {
                    process.memory.clear();
                    // Whichever thread did it is the only one now, and takes the first one's number.
                    process.threads = HashSet::from([pid]);
                }
                SampleOutcome::Nothing
            }
            Record::Fork { pid, parent, thread } => {
                self.fork(pid, parent, thread);
                SampleOutcome::Nothing
            }
            Record::Exit { pid, thread } => {
                if let Some(process) = self.watched.get_mut(&pid) {
                    process.threads.remove(&thread);
                    if process.threads.is_empty() {
                        self.watched.remove(&pid);
                    }
                }
                SampleOutcome::Nothing
            }
            Record::Lost(count) => SampleOutcome::Lost(count),
            Record::Throttled => SampleOutcome::Throttled,
        }
    }

    fn fork(&mut self, pid: u32, parent: u32, thread: u32) {
        let threads = HashSet::from([thread]);
        if pid == parent {
            if let Some(process) = self.watched.get_mut(&pid) {
                process.threads.insert(thread);
            }
        } else if let Some(process) = self.watched.get(&parent) {
            let memory = process.memory.clone();
            self.watched.insert(pid, Process { memory, threads });
        } else if self.parent == Some(parent) {
            self.watched.insert(pid, Process { memory: Memory::new(), threads });
        }
    }

    fn sample(&self, pid: u32, kernel: &[u64], user: &[u64]) -> SampleOutcome {
        let Some(process) = self.watched.get(&pid) else { return SampleOutcome::Other };
        let mut frames: Vec<Frame> = calls(kernel).map(Frame::Kernel).collect();
        for address in calls(user) {
            // What is no code is no return address either: a program without frame pointers.
            let Some(frame) = place(&process.memory, address) else { break };
            frames.push(frame);
        }
        frames.reverse();
        SampleOutcome::Watched(frames)
    }

    fn map(&mut self, pid: u32, mapping: Mapping) {
        let Mapping { address, length, mut offset, device, inode, name } = mapping;
        let mut key = (device, inode, name);
        if is_generated(&key.2) {
            // Each process has its own, and its names go by addresses.
            key = ((0, 0), pid.into(), ANONYMOUS.to_owned());
            offset = address;
        }
        let known = self.by_file.get(&key).copied();
        let file = known.unwrap_or_else(|| {
            let (device, inode, name) = key.clone();
            self.files.push(MappedFile { device, inode, name, pid });
            self.by_file.insert(key, self.files.len() - 1);
            self.files.len() - 1
        });
        let memory = &mut self.watched.entry(pid).or_default().memory;
        let end = address.saturating_add(length);
        make_room(memory, address, end);
        memory.insert(address, Part { end, file, offset });
    }
}

/// Where each call was, of where it returns to; the innermost place is no call. A call returns behind
/// itself, which may be in the next function.
pub fn calls(stack: &[u64]) -> impl Iterator<Item = u64> {
    let place = |(depth, &address): (usize, &u64)| address.saturating_sub(u64::from(depth > 0));
    stack.iter().enumerate().map(place)
}

/// What is mapped lies over what was there.
fn make_room(memory: &mut Memory, begin: u64, end: u64) {
    let covered: Vec<u64> = memory
        .range(..end)
        .rev()
        .take_while(|(_, part)| part.end > begin)
        .map(|(address, _)| *address)
        .collect();
    for address in covered {
        let Some(part) = memory.remove(&address) else { continue };
        if part.end > end {
            let offset = part.offset + (end - address);
            memory.insert(end, Part { offset, ..part });
        }
        if address < begin {
            memory.insert(address, Part { end: begin, ..part });
        }
    }
}

fn place(memory: &Memory, address: u64) -> Option<Frame> {
    let (begin, part) = memory.range(..=address).next_back()?;
    let offset = part.offset + (address - begin);
    (address < part.end).then_some(Frame::File { file: part.file, offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(address: u64, length: u64, offset: u64, inode: u64) -> Mapping {
        let name = format!("file{inode}");
        Mapping { address, length, offset, device: (8, 1), inode, name }
    }

    fn map(pid: u32, address: u64, length: u64, offset: u64, inode: u64) -> Record {
        Record::Map { pid, mapping: mapping(address, length, offset, inode) }
    }

    fn fork(pid: u32, parent: u32) -> Record {
        Record::Fork { pid, parent, thread: pid }
    }

    fn thread(pid: u32, thread: u32) -> Record {
        Record::Fork { pid, parent: pid, thread }
    }

    fn exit(pid: u32, thread: u32) -> Record {
        Record::Exit { pid, thread }
    }

    fn at(pid: u32, user: &[u64]) -> Record {
        Record::Sample { pid, kernel: Vec::new(), user: user.to_vec() }
    }

    fn frames(places: &[(usize, u64)]) -> SampleOutcome {
        let frame = |&(file, offset): &(usize, u64)| Frame::File { file, offset };
        SampleOutcome::Watched(places.iter().map(frame).collect())
    }

    /// Process 1 watches what it starts; 2 is its child and has a program.
    fn watched() -> Processes {
        let mut processes = Processes::default();
        processes.watch_children_of(1);
        processes.take(fork(2, 1));
        processes.take(map(2, 0x1000, 0x1000, 0x400, 11));
        processes
    }

    #[test]
    fn a_stack_is_told_from_the_outermost_call_by_file_and_offset() {
        let mut processes = watched();
        processes.take(map(2, 0x8000, 0x1000, 0, 12));
        // A call that is a function's last instruction returns behind it: 0x1101 is reported as 0x1100.
        let seen = processes.take(at(2, &[0x8010, 0x1101]));
        assert_eq!(seen, frames(&[(0, 0x500), (1, 0x10)]));
        assert_eq!(processes.files()[1].inode, 12);
        // 0x9000 belongs to no file: no frame pointer led there.
        assert_eq!(processes.take(at(2, &[0x8010, 0x9001, 0x1101])), frames(&[(1, 0x10)]));
        let kernel = Record::Sample { pid: 2, kernel: vec![7], user: vec![0x1100] };
        let both = vec![Frame::File { file: 0, offset: 0x500 }, Frame::Kernel(7)];
        assert_eq!(processes.take(kernel), SampleOutcome::Watched(both));
    }

    #[test]
    fn code_made_as_a_program_runs_is_its_own_and_goes_by_addresses() {
        let mut processes = watched();
        processes.take(fork(3, 2));
        for (pid, name) in
            [(2, ANONYMOUS), (3, "[anon:code]"), (2, "/memfd:doublemapper (deleted)")]
        {
            let begin = if name == ANONYMOUS { 0x5000 } else { 0x9000 };
            let mapping = Mapping { name: name.to_owned(), ..mapping(begin, 0x1000, 0x10, 9) };
            processes.take(Record::Map { pid, mapping });
        }
        assert_eq!(processes.take(at(2, &[0x5123])), frames(&[(1, 0x5123)]));
        assert_eq!(processes.take(at(3, &[0x9123])), frames(&[(2, 0x9123)]));
        assert_eq!(processes.take(at(2, &[0x9004])), frames(&[(1, 0x9004)]));
        assert!(!is_generated("[vdso]") && !is_generated("/usr/bin/node"));
    }

    #[test]
    fn children_of_children_count_and_strangers_do_not() {
        let mut processes = watched();
        processes.take(fork(3, 2));
        assert_eq!(processes.take(at(3, &[0x1100])), frames(&[(0, 0x500)]));
        processes.take(Record::Exec { pid: 3, name: String::new() });
        assert_eq!(processes.take(at(3, &[0x1100])), frames(&[]));
        processes.take(fork(5, 4));
        for (pid, seen) in [
            (0, SampleOutcome::Idle),
            (1, SampleOutcome::Other),
            (4, SampleOutcome::Other),
            (5, SampleOutcome::Other),
        ] {
            assert_eq!(processes.take(at(pid, &[0x1100])), seen);
        }
        // Its first thread may end before its second. Then another process may soon have its number.
        processes.take(thread(2, 20));
        processes.take(exit(2, 2));
        assert_eq!(processes.take(at(2, &[0x1100])), frames(&[(0, 0x500)]));
        processes.take(exit(2, 20));
        assert_eq!(processes.take(at(2, &[0x1100])), SampleOutcome::Other);
    }

    #[test]
    fn threads_that_come_and_go_while_they_are_listed_count_once() {
        let mut processes = Processes::default();
        // Of 21, 22 and 23 the records were written before the list was read: 21 had ended by then.
        processes.watch(2, [2, 22, 23], vec![mapping(0x1000, 0x1000, 0x400, 11)]);
        for record in [thread(2, 21), exit(2, 21), thread(2, 22), thread(2, 23)] {
            processes.take(record);
        }
        // 20 ended before it was looked at, and its record came late.
        for gone in [20, 22, 23] {
            processes.take(exit(2, gone));
        }
        assert_eq!(processes.take(at(2, &[0x1100])), frames(&[(0, 0x500)]));
        processes.take(exit(2, 2));
        assert_eq!(processes.take(at(2, &[0x1100])), SampleOutcome::Other);
    }

    #[test]
    fn a_thread_that_becomes_another_program_is_the_only_one_of_it() {
        let mut processes = watched();
        processes.take(thread(2, 20));
        // The first thread ends, and 20 goes on under its number (`execve(2)`).
        processes.take(exit(2, 2));
        processes.take(Record::Exec { pid: 2, name: String::new() });
        assert_eq!(processes.take(at(2, &[0x1100])), frames(&[]));
        processes.take(exit(2, 2));
        assert_eq!(processes.take(at(2, &[0x1100])), SampleOutcome::Other);
    }

    #[test]
    fn what_is_mapped_over_another_file_hides_that_part_of_it() {
        let mut processes = watched();
        processes.take(map(2, 0x1400, 0x400, 0, 12));
        let expected = [
            (0x13ff, (0, 0x7ff)),
            (0x1400, (1, 0)),
            (0x17ff, (1, 0x3ff)),
            (0x1800, (0, 0xc00)),
            (0x1fff, (0, 0x13ff)),
        ];
        for (address, place) in expected {
            assert_eq!(processes.take(at(2, &[address])), frames(&[place]), "{address:#x}");
        }
        assert_eq!(processes.take(at(2, &[0x2000])), frames(&[]));
    }
}

//! What the kernel's profiler writes (`perf_event_open(2)`), as far as it is of use here.
//!
//! Of all events that are asked for, `sample_type` is IP, TID, TIME and CALLCHAIN, and `sample_id_all`
//! is set: each record but a sample ends in pid, tid and time.

/// Marks in a chain of calls: what follows was in the kernel, in the process, or none of both.
const CONTEXTS: u64 = -4095_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;

/// The mode of a sample, in `misc`.
const MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
/// A process has become another program, in `misc` of its new name.
const EXEC: u16 = 1 << 13;

/// Length of what each record but a sample ends in.
const TRAILER: usize = 16;

/// A file's part in a process's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub length: u64,
    /// What lies there first, in bytes from the file's beginning.
    pub offset: u64,
    /// Device (major, minor) and number of the file; zeroes of what is no file.
    pub device: (u32, u32),
    /// See above.
    pub inode: u64,
    /// Its path as the process sees it, or something like `[vdso]`.
    pub name: String,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// What ran on a CPU.
    Sample {
        /// Its process; 0 where the CPU was idle.
        pid: u32,
        /// Where in the kernel, if it was there: the innermost place, then whereto each call returns, if
        /// these were asked for.
        kernel: Vec<u64>,
        /// Where in the process: the innermost place, then whereto each call returns.
        user: Vec<u64>,
    },
    /// A file was mapped, to be run.
    Map {
        /// The process.
        pid: u32,
        /// What and where.
        mapping: Mapping,
    },
    /// A process became another program.
    Exec {
        /// The process.
        pid: u32,
        /// What it is called now.
        name: String,
    },
    /// A process was started, or a thread of one.
    Fork {
        /// The new one.
        pid: u32,
        /// By whom; by itself where it is a thread.
        parent: u32,
        /// The thread.
        thread: u32,
    },
    /// A thread ended.
    Exit {
        /// Of which process.
        pid: u32,
        /// The thread.
        thread: u32,
    },
    /// There was no room for this many records.
    Lost(u64),
    /// Samples took too long, and the kernel leaves some out.
    Throttled,
}

/// Reads little by little.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn half(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn word(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    fn text(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }
}

impl Record {
    /// A record and its time, ns on the clock that was asked for. `None` for records that are of no use here,
    /// and for malformed ones.
    pub fn parse(kind: u32, misc: u16, bytes: &[u8]) -> Option<(u64, Self)> {
        if kind == 9 {
            return Self::sample(misc, Bytes(bytes));
        }
        let (body, mut trailer) = bytes.split_at_checked(bytes.len().checked_sub(TRAILER)?)?;
        trailer = &trailer[8..];
        let time = Bytes(trailer).word()?;
        let mut body = Bytes(body);
        let record = match kind {
            2 => {
                let _id = body.word()?;
                Self::Lost(body.word()?)
            }
            3 if misc & EXEC != 0 => {
                let (pid, _tid) = (body.half()?, body.half()?);
                Self::Exec { pid, name: String::from_utf8_lossy(body.text()).into_owned() }
            }
            4 | 7 => {
                let (pid, parent, thread) = (body.half()?, body.half()?, body.half()?);
                if kind == 7 {
                    Self::Fork { pid, parent, thread }
                } else {
                    Self::Exit { pid, thread }
                }
            }
            5 => Self::Throttled,
            10 => Self::map(body)?,
            _ => return None,
        };
        Some((time, record))
    }

    fn sample(misc: u16, mut bytes: Bytes<'_>) -> Option<(u64, Self)> {
        let at = bytes.word()?;
        let (pid, _tid) = (bytes.half()?, bytes.half()?);
        let time = bytes.word()?;
        let count = bytes.word()?;
        let (mut kernel, mut user) = (Vec::new(), Vec::new());
        let mut context = 0;
        for _ in 0..count {
            match bytes.word()? {
                mark if mark >= CONTEXTS => context = mark,
                place if context == CONTEXT_USER => user.push(place),
                place if context == CONTEXT_KERNEL => kernel.push(place),
                _ => {}
            }
        }
        if misc & MODE == MODE_KERNEL {
            if kernel.is_empty() {
                kernel.push(at);
            }
        } else {
            kernel.clear();
            if user.is_empty() {
                user.push(at);
            }
        }
        Some((time, Self::Sample { pid, kernel, user }))
    }

    fn map(mut bytes: Bytes<'_>) -> Option<Self> {
        let (pid, _tid) = (bytes.half()?, bytes.half()?);
        let (address, length, offset) = (bytes.word()?, bytes.word()?, bytes.word()?);
        let device = (bytes.half()?, bytes.half()?);
        let (inode, _generation) = (bytes.word()?, bytes.word()?);
        let (_protection, _flags) = (bytes.half()?, bytes.half()?);
        let name = String::from_utf8_lossy(bytes.text()).into_owned();
        Some(Self::Map { pid, mapping: Mapping { address, length, offset, device, inode, name } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `perf_event_open(2)`, "MMAP layout": fields in their order.
    fn bytes(halves: &[u32], words: &[u64], rest: &[u8]) -> Vec<u8> {
        let halves = halves.iter().flat_map(|half| half.to_ne_bytes());
        let words = words.iter().flat_map(|word| word.to_ne_bytes());
        halves.chain(words).chain(rest.iter().copied()).collect()
    }

    /// pid, tid, time.
    fn trailer(time: u64) -> Vec<u8> {
        bytes(&[7, 7], &[time], &[])
    }

    #[test]
    fn a_sample_tells_where_it_was_in_process_and_kernel() {
        let user = [CONTEXT_USER, 0x1000, 0x2000];
        let mut of_kernel = bytes(&[], &[0xffff_ffff_8100_0000], &[]);
        of_kernel.extend(bytes(&[42, 43], &[99, 3, user[0], user[1], user[2]], &[]));
        let (kernel, user) = (vec![0xffff_ffff_8100_0000], vec![0x1000, 0x2000]);
        let sample = Record::Sample { pid: 42, kernel, user };
        assert_eq!(Record::parse(9, MODE_KERNEL, &of_kernel), Some((99, sample)));
        // A record that is cut short anywhere is malformed.
        for length in 0..of_kernel.len() {
            assert_eq!(Record::parse(9, MODE_KERNEL, &of_kernel[..length]), None);
        }
    }

    #[test]
    fn a_mapping_tells_the_file_and_where_it_lies() {
        let mut map = bytes(&[42, 43], &[0x7000, 0x3000, 0x1000], &[]);
        map.extend(bytes(&[8, 1], &[1234, 1], &[]));
        map.extend(bytes(&[5, 2], &[], b"/bin/prog\0\0\0\0\0\0\0"));
        map.extend(trailer(77));
        let mapping = Mapping {
            address: 0x7000,
            length: 0x3000,
            offset: 0x1000,
            device: (8, 1),
            inode: 1234,
            name: "/bin/prog".into(),
        };
        assert_eq!(Record::parse(10, 2, &map), Some((77, Record::Map { pid: 42, mapping })));
    }

    #[test]
    fn a_new_name_is_no_new_program() {
        let of = |halves: &[u32]| [bytes(halves, &[5], &[]), trailer(5)].concat();
        // pid, parent's pid, tid, parent's tid
        let started = Record::Fork { pid: 9, parent: 7, thread: 10 };
        assert_eq!(Record::parse(7, 0, &of(&[9, 7, 10, 8])), Some((5, started)));
        let ended = Record::Exit { pid: 7, thread: 8 };
        assert_eq!(Record::parse(4, 0, &of(&[7, 1, 8, 1])), Some((5, ended)));
        let name = [bytes(&[7, 7], &[], b"prog\0\0\0\0"), trailer(6)].concat();
        assert_eq!(Record::parse(3, 0, &name), None);
        assert_eq!(
            Record::parse(3, EXEC, &name),
            Some((6, Record::Exec { pid: 7, name: "prog".into() }))
        );
        let lost = [bytes(&[], &[1, 20], &[]), trailer(8)].concat();
        assert_eq!(Record::parse(2, 0, &lost), Some((8, Record::Lost(20))));
    }
}

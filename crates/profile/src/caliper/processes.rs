//! Processes that mark their own sections, and the memory that they share with us.
//!
//! That memory is a file, and it is read as one (`pread`), not mapped: whatever its owner does to it
//! can then end no access of ours, and the reads come one after the other in the order they stand in.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::markers::area::{self, Header, RingReader};
use nightwatt_energy::markers::{Mark, Merger, ThreadId};
use nightwatt_energy::time::Mono;
use rustix::fs::SealFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags};
use rustix::process::{Resource, Rlimit};

use super::LOOK_EVERY;
use super::namespaces;
use crate::error::Error;

/// What the shared memory is called.
const NAME: &str = "/memfd:nightwatt-markers (deleted)";

/// Sections by name, of all processes.
const MOST: usize = 256;

/// All of them.
pub(super) struct Processes {
    listener: UnixListener,
    /// As in the environment of what we start: `@name`, an abstract address.
    address: String,
    /// Connected, and nothing said yet.
    callers: Vec<UnixStream>,
    read: Vec<Process>,
    /// Those that ran already.
    wanted: Vec<Wanted>,
    sections: Sections,
    trouble: Trouble,
}

/// What the reader has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Trouble {
    /// Calls in threads for which a process had no ring.
    pub(super) without_ring: u64,
    /// Sections that a process, or we, had no room for.
    pub(super) refused: u64,
    /// Records that made no sense.
    pub(super) torn: u64,
    /// Files that were none of the kind.
    pub(super) strange: u64,
    /// Processes, at the least, for which we had no file to open.
    pub(super) unheard: u64,
    /// Processes whose clock is not ours.
    pub(super) other_clock: u64,
    /// Another nightwatt reads the process.
    pub(super) taken: bool,
    /// Processes that were read.
    pub(super) processes: u64,
}

/// A process that ran already: it does not report, its memory has to be found.
struct Wanted {
    number: u32,
    /// When to look for more of it.
    next: Mono,
    /// What has been found, by inode: a file may be open several times.
    found: Vec<u64>,
}

/// Sections by name.
#[derive(Default)]
struct Sections {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Sections {
    /// None where there are too many.
    fn number(&mut self, name: String) -> Option<u32> {
        if let Some(number) = self.numbers.get(&name) {
            return Some(*number);
        }
        let number = u32::try_from(self.names.len()).ok().filter(|_| self.names.len() < MOST)?;
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        Some(number)
    }
}

struct Process {
    number: u32,
    /// Its number where it lives, by which it calls its first thread.
    inside: u32,
    file: File,
    /// Ends with the process. None of one that we found by ourselves.
    connection: Option<UnixStream>,
    /// The connection has ended: when to look whether the process has.
    gone: Option<Mono>,
    /// Its sections by our numbers.
    sections: Vec<Option<u32>>,
    rings: Vec<RingReader>,
    /// Calls that found no room, as told before: by ring in all, and by section.
    lost: Vec<(u64, Vec<u64>)>,
    refused: u32,
    without_ring: u64,
}

/// What came of a look.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RingFill {
    /// The most records that were in a ring.
    pub(super) fullest: u64,
}

fn bytes(file: &File, range: area::Range) -> io::Result<Vec<u8>> {
    let area::Range { from, length } = range;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

fn header(file: &File) -> io::Result<Header> {
    let bytes = bytes(file, area::Range { from: 0, length: Header::LENGTH })?;
    Header::read(&bytes).map_err(|fault| io::Error::other(format!("{fault:?}")))
}

fn set(file: &File, at: u64, word: u32) -> io::Result<()> {
    file.write_all_at(&word.to_ne_bytes(), at)
}

/// Only memory can be sealed, and what is sealed so keeps its size: reading it never waits.
fn is_memory(file: &File) -> bool {
    let sealed = rustix::fs::fcntl_get_seals(file);
    sealed.is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
        && file.metadata().is_ok_and(|metadata| metadata.len() == area::SIZE)
}

fn has_no_more_files(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
        .iter()
        .any(|it| code == Some(it.raw_os_error()))
}

/// A process takes two files. Not before the command has begun: it is to have the limit that it would
/// have without us.
fn allow_more_files() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // What we have is enough for most.
    let _ =
        rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Files by which a process may have its memory open; where it has closed them, those that it maps.
fn candidates(number: u32, is_found: bool) -> Vec<PathBuf> {
    let open = fs::read_dir(format!("/proc/{number}/fd")).into_iter().flatten().flatten();
    let open: Vec<PathBuf> = open
        .map(|entry| entry.path())
        .filter(|path| fs::read_link(path).is_ok_and(|to| to.as_os_str() == NAME))
        .collect();
    if is_found || !open.is_empty() {
        return open;
    }
    let maps = fs::read(format!("/proc/{number}/maps")).unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    let ranges = maps.lines().filter(|line| line.ends_with(NAME)).filter_map(|line| {
        let (from, to) = line.split_once(' ')?.0.split_once('-')?;
        Some((from.trim_start_matches('0'), to.trim_start_matches('0')))
    });
    ranges.map(|(from, to)| format!("/proc/{number}/map_files/{from}-{to}").into()).collect()
}

impl Processes {
    /// Listens. `wanted` are processes that run already.
    pub(super) fn new(wanted: &[u32]) -> Result<Self, Error> {
        let cannot = |source| Error::System { what: "listen for programs with markers", source };
        let mut random = [0; 8];
        File::open("/dev/urandom").and_then(|mut it| it.read_exact(&mut random)).map_err(cannot)?;
        let name =
            format!("nightwatt-markers-{}-{:016x}", std::process::id(), u64::from_ne_bytes(random));
        // An abstract address leaves nothing behind when we are killed, and every user can reach it.
        let listener = SocketAddr::from_abstract_name(&name)
            .and_then(|address| UnixListener::bind_addr(&address))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(cannot)?;
        Ok(Self {
            listener,
            address: format!("@{name}"),
            callers: Vec::new(),
            read: Vec::new(),
            wanted: wanted
                .iter()
                .map(|number| Wanted { number: *number, next: Mono::ZERO, found: Vec::new() })
                .collect(),
            sections: Sections::default(),
            trouble: Trouble::default(),
        })
    }

    /// Where processes are to report.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Names of sections by number.
    pub(super) fn names(&self) -> &[String] {
        &self.sections.names
    }

    pub(super) const fn trouble(&self) -> Trouble {
        self.trouble
    }

    /// Takes what there is.
    pub(super) fn look(&mut self, merger: &mut Merger) -> RingFill {
        self.find_all_wanted();
        loop {
            match self.listener.accept() {
                Ok((caller, _)) if caller.set_nonblocking(true).is_ok() => {
                    if self.trouble.processes == 0 && self.callers.is_empty() {
                        allow_more_files();
                    }
                    self.callers.push(caller);
                }
                Ok(_) => {}
                Err(error) => {
                    let unheard = &mut self.trouble.unheard;
                    *unheard = (*unheard).max(u64::from(has_no_more_files(&error)));
                    break;
                }
            }
        }
        for caller in std::mem::take(&mut self.callers) {
            self.hear(caller);
        }
        let mut looked = RingFill::default();
        let (sections, trouble) = (&mut self.sections, &mut self.trouble);
        self.read.retain_mut(|process| {
            // First, so that what it said last is read.
            let is_gone = process.is_gone();
            let read = process.read(sections, trouble, merger);
            trouble.strange += u64::from(read.is_err());
            looked.fullest = looked.fullest.max(read.as_ref().copied().unwrap_or_default());
            read.is_ok() && !is_gone
        });
        looked
    }

    fn hear(&mut self, caller: UnixStream) {
        let file = match received(&caller) {
            Ok(CallerMessage::File(file)) => File::from(file),
            Ok(CallerMessage::NoRoom) => {
                self.trouble.unheard += 1;
                return;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.callers.push(caller);
                return;
            }
            Ok(CallerMessage::Nothing) | Err(_) => return,
        };
        let peer = rustix::net::sockopt::socket_peercred(&caller);
        let number = peer.ok().and_then(|peer| u32::try_from(peer.pid.as_raw_nonzero().get()).ok());
        let header = is_memory(&file).then(|| header(&file).ok()).flatten();
        match number.zip(header) {
            Some((number, header)) if introduce(&file, number).is_ok() => self.adopt(Process {
                number,
                inside: header.process,
                file,
                connection: Some(caller),
                gone: None,
                sections: Vec::new(),
                rings: vec![RingReader::default(); area::RINGS],
                lost: vec![(0, vec![0; area::SECTIONS]); area::RINGS],
                refused: 0,
                without_ring: 0,
            }),
            _ => self.trouble.strange += 1,
        }
    }

    fn adopt(&mut self, process: Process) {
        self.trouble.processes += 1;
        self.trouble.other_clock += u64::from(!namespaces::is_shared(process.number, "time"));
        self.read.push(process);
    }

    fn find_all_wanted(&mut self) {
        let mut all = std::mem::take(&mut self.wanted);
        for wanted in all.iter_mut().filter(|wanted| monotonic() >= wanted.next) {
            self.find(wanted);
        }
        self.wanted = all;
    }

    /// The memory of a process that ran already, once it has some. A library may bring more of it.
    fn find(&mut self, wanted: &mut Wanted) {
        let number = wanted.number;
        for path in candidates(number, !wanted.found.is_empty()) {
            let file = File::options().read(true).write(true).open(path);
            let Some(file) = file.ok().filter(is_memory) else { continue };
            let Ok(inode) = file.metadata().map(|metadata| metadata.ino()) else { continue };
            if wanted.found.contains(&inode) {
                continue;
            }
            match self.begin_reading(number, file) {
                Ok(Some(process)) => {
                    wanted.found.push(inode);
                    self.adopt(process);
                }
                // Its parent's, or another's who reads it already.
                Ok(None) => {}
                Err(_) => {
                    wanted.found.push(inode);
                    self.trouble.strange += 1;
                }
            }
        }
        wanted.next = monotonic() + LOOK_EVERY;
    }

    fn begin_reading(&mut self, number: u32, file: File) -> io::Result<Option<Process>> {
        let header = header(&file)?;
        if Some(header.process) != namespaces::number_inside(number) {
            return Ok(None);
        }
        let is_read = header.enabled != 0
            && header.reader != std::process::id()
            && fs::exists(format!("/proc/{}", header.reader)).unwrap_or(true);
        self.trouble.taken = is_read;
        if is_read {
            return Ok(None);
        }
        let heads: Vec<area::Head> = area::heads_of(&bytes(&file, area::HEADS)?).collect();
        let mut rings = Vec::new();
        let mut lost = Vec::new();
        for (ring, head) in heads.into_iter().enumerate() {
            let reader = RingReader::from(head);
            file.write_all_at(&reader.tail().to_ne_bytes(), area::tail_at(ring))?;
            rings.push(reader);
            let counts = bytes(&file, area::lost(ring))?;
            lost.push((head.lost, area::lost_of(&counts)));
        }
        // Its children are to report.
        let address = [self.address.as_bytes(), &[0]].concat();
        if address.len() <= area::SOCKET_SIZE {
            file.write_all_at(&address, area::SOCKET_AT)?;
        }
        let reading = header.readings.wrapping_add(1).max(1);
        introduce(&file, number)?;
        set(&file, area::READINGS_AT, reading)?;
        set(&file, area::ENABLED_AT, reading)?;
        Ok(Some(Process {
            number,
            inside: header.process,
            file,
            connection: None,
            gone: None,
            sections: Vec::new(),
            rings,
            lost,
            refused: header.refused,
            without_ring: header.without_ring,
        }))
    }
}

impl Drop for Processes {
    /// Switches the markers of processes that still run off.
    fn drop(&mut self) {
        for process in &self.read {
            // It may have gone.
            let _ = set(&process.file, area::ENABLED_AT, 0);
            let _ = set(&process.file, area::READER_AT, 0);
        }
    }
}

/// Who reads, for other readers and for the process, which looks whether we are there if it can.
fn introduce(file: &File, number: u32) -> io::Result<()> {
    let me = std::process::id();
    let visible = if namespaces::is_shared(number, "pid") { me } else { 0 };
    set(file, area::VISIBLE_AT, visible)?;
    set(file, area::READER_AT, me)
}

/// What a caller says.
enum CallerMessage {
    /// Here is its memory.
    File(OwnedFd),
    /// That was to come, and we had no file for it.
    NoRoom,
    /// It has gone without.
    Nothing,
}

fn received(caller: &UnixStream) -> io::Result<CallerMessage> {
    let mut byte = [0];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let text = &mut [IoSliceMut::new(&mut byte)];
    let message = rustix::net::recvmsg(caller, text, &mut rights, RecvFlags::CMSG_CLOEXEC)?;
    let file = rights.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok(match file {
        Some(file) => CallerMessage::File(file),
        None if message.flags.contains(ReturnFlags::CTRUNC) => CallerMessage::NoRoom,
        None => CallerMessage::Nothing,
    })
}

impl Process {
    fn is_gone(&mut self) -> bool {
        if let Some(connection) = &self.connection {
            let mut byte = [0];
            match (&*connection).read(&mut byte) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Ok(1..) => return false,
                Ok(_) | Err(_) => {
                    self.connection = None;
                    self.gone = Some(Mono::ZERO);
                }
            }
        }
        let Some(look) = self.gone else { return false };
        if monotonic() < look {
            return false;
        }
        // A program that closes all its files still has its memory; one that becomes another has not.
        let maps = fs::read(format!("/proc/{}/maps", self.number));
        let name = NAME.as_bytes();
        self.gone = Some(monotonic() + LOOK_EVERY);
        if maps.as_ref().is_err_and(has_no_more_files) {
            return false;
        }
        let maps = maps.unwrap_or_default();
        !maps.windows(name.len()).any(|part| part == name)
    }

    /// Takes what its threads have said. The most that was in a ring.
    fn read(
        &mut self,
        sections: &mut Sections,
        trouble: &mut Trouble,
        merger: &mut Merger,
    ) -> io::Result<u64> {
        let mut marks: Vec<(u32, Mark)> = Vec::new();
        let mut fullest = 0;
        let heads: Vec<area::Head> = area::heads_of(&bytes(&self.file, area::HEADS)?).collect();
        for ((number, ring), head) in self.rings.iter_mut().enumerate().zip(&heads) {
            if head.written == ring.tail() {
                continue;
            }
            fullest = fullest.max(head.written.wrapping_sub(ring.tail()));
            let torn = ring.torn;
            for range in ring.unread(number, head.written) {
                let records = bytes(&self.file, range)?;
                ring.take(&records, area::SECTIONS, |owner, mark| marks.push((owner, mark)));
            }
            trouble.torn += ring.torn - torn;
            self.file.write_all_at(&ring.tail().to_ne_bytes(), area::tail_at(number))?;
        }
        // Behind the records: each of their sections has its name by now.
        let header = header(&self.file)?;
        let names = bytes(&self.file, area::names(self.sections.len(), header.sections))?;
        for name in area::names_of(&names) {
            let number = sections.number(name);
            trouble.refused += u64::from(number.is_none());
            self.sections.push(number);
        }
        trouble.refused += u64::from(header.refused.saturating_sub(self.refused));
        self.refused = header.refused;
        trouble.without_ring += header.without_ring.saturating_sub(self.without_ring);
        self.without_ring = header.without_ring;
        for (thread, mark) in marks {
            match self.sections.get(mark.section as usize) {
                Some(Some(section)) => {
                    // The kernel tells of threads by their numbers here. Of one that lives in another
                    // namespace, only the first thread's is known.
                    let thread = if thread == self.inside { self.number } else { thread };
                    let mark = Mark { section: *section, ..mark };
                    trouble.torn +=
                        u64::from(!merger.mark(ThreadId { process: self.number, thread }, mark));
                }
                Some(None) => {}
                None => trouble.torn += 1,
            }
        }
        self.count_lost(&heads, merger)?;
        Ok(fullest)
    }

    fn count_lost(&mut self, heads: &[area::Head], merger: &mut Merger) -> io::Result<()> {
        for ((ring, before), head) in self.lost.iter_mut().enumerate().zip(heads) {
            if before.0 == head.lost {
                continue;
            }
            let counts = area::lost_of(&bytes(&self.file, area::lost(ring))?);
            for (section, (count, before)) in counts.iter().zip(&before.1).enumerate() {
                let more = count.saturating_sub(*before);
                if let Some(Some(section)) = self.sections.get(section).filter(|_| more > 0) {
                    merger.lost(*section, more);
                }
            }
            *before = (head.lost, counts);
        }
        Ok(())
    }
}

//! Memory that this process shares with the reader of its markers. `include/nightwatt.h` is the same in C;
//! `docs/markers.md` has the layout.
#![allow(
    unsafe_code,
    reason = "memory shared with another process, and the C library's calls around it"
)]

mod files;

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use Ordering::{AcqRel, Acquire, Relaxed, Release};
use files::{Kept, above_standard, may_be_as_large_as, report};

const SECTIONS: usize = 256;
const RINGS: usize = 128;
const RECORDS: u64 = 65_536;

const BEGINS: u32 = 1;
const ENDS: u32 = 2;
const TAKES: u32 = 3;

#[repr(C)]
struct Record {
    at: AtomicU64,
    what: AtomicU32,
    kind: AtomicU32,
}

#[repr(C)]
struct Head {
    owner: AtomicU32,
    reading: AtomicU32,
    written: AtomicU64,
    lost: AtomicU64,
    open: AtomicU64,
    unused: [u64; 4],
    read: AtomicU64,
    unused_too: [u64; 7],
}

#[repr(C)]
struct Front {
    magic: [AtomicU32; 2],
    version: AtomicU32,
    process: AtomicU32,
    enabled: AtomicU32,
    reader: AtomicU32,
    sections: AtomicU32,
    refused: AtomicU32,
    unused: u64,
    readings: AtomicU32,
    /// The reader's process, if it is in this one's PID namespace.
    visible: AtomicU32,
    without_ring: AtomicU64,
    unused_as_well: u64,
    socket: [AtomicU32; SOCKET / 4],
    rest: [u8; 4096 - 64 - SOCKET],
    names: [[u8; 64]; SECTIONS],
    heads: [Head; RINGS],
}

const SOCKET: usize = 108;

#[repr(C)]
struct Ring {
    lost: [AtomicU64; SECTIONS],
    skipped: [AtomicU32; SECTIONS],
    rest: [u8; 4096 - 12 * SECTIONS],
    records: [Record; RECORDS as usize],
}

const _: () = assert!(size_of::<Front>() == 36_864 && size_of::<Ring>() == 4096 + 16 * 65_536);
const _: () = assert!(mem::offset_of!(Front, names) == 4096);

/// Whether a reader is attached: the shared word, or one of the two below.
static ENABLED: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const FIRST).cast_mut());
/// Not checked yet.
static FIRST: AtomicU32 = AtomicU32::new(1);
/// There is no memory to share.
static NEVER: AtomicU32 = AtomicU32::new(0);
static FRONT: AtomicPtr<Front> = AtomicPtr::new(ptr::null_mut());
static FILE: Kept = Kept::new();
static REPORTED: Kept = Kept::new();
/// No `Mutex`: a child may be born while a thread of its parent holds it.
static LOCK: AtomicU32 = AtomicU32::new(0);
static NAMES: [AtomicPtr<u8>; SECTIONS] = [const { AtomicPtr::new(ptr::null_mut()) }; SECTIONS];
static LENGTHS: [AtomicU32; SECTIONS] = [const { AtomicU32::new(0) }; SECTIONS];
static NAMED: AtomicU32 = AtomicU32::new(0);
/// The reader of the parent, where that was read.
static READER: [AtomicU32; SOCKET / 4] = [const { AtomicU32::new(0) }; SOCKET / 4];
/// For `LOCK` to be taken.
static IS_READY: AtomicU32 = AtomicU32::new(0);

/// A thread that found no ring looks again at each so manieth call.
const TRIES: u32 = 1024;

/// Is it worth while to go on?
#[inline]
fn enabled() -> u32 {
    // SAFETY: it points to a static, or to memory that is mapped as long as it points there: a child
    // that unmaps it has one thread, which has set the pointer before.
    unsafe { (*ENABLED.load(Acquire)).load(Relaxed) }
}

/// A place in the program that knows the number of its section.
pub(crate) struct Site(AtomicU32);

impl Site {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    pub(crate) fn begin(&self, name: &'static str) {
        if enabled() != 0 {
            self.mark(name, BEGINS);
        }
    }

    #[inline]
    pub(crate) fn end(&self, name: &'static str) {
        if enabled() != 0 {
            self.mark(name, ENDS);
        }
    }

    #[inline]
    fn mark(&self, name: &'static str, kind: u32) {
        let known = self.0.load(Relaxed);
        let section = if known == 0 { self.ask(name) } else { known - 1 };
        if (section as usize) < SECTIONS {
            mark(section, kind);
        }
    }

    #[cold]
    fn ask(&self, name: &'static str) -> u32 {
        let section = keeping_error(|| locked(|| number_of(name)));
        self.0.store(section + 1, Relaxed);
        section
    }
}

/// A program may ask for `errno` after a marker.
fn keeping_error<T>(action: impl FnOnce() -> T) -> T {
    // SAFETY: it is this thread's, for as long as that lives.
    unsafe {
        let error = libc::__errno_location();
        let before = *error;
        let result = action();
        *error = before;
        result
    }
}

/// Runs before `LOCK` is ever taken: a child that is forked while another thread holds it has to open it. Nor
/// may the loader be called while it is held, since a library's constructor may wait for it. Threads that
/// come here at once all do it, which is harmless.
fn make_ready() {
    if IS_READY.load(Acquire) == 0 {
        // SAFETY: the handler does only what a child of a threaded process may do. Where this is part of a
        // library, the library stays loaded even if its users close it: forks call into it, and nothing else
        // would unmap the memory. The loader writes the object and keeps its path.
        unsafe {
            let mut object: libc::Dl_info = mem::zeroed();
            let me = (&raw const FIRST).cast::<c_void>();
            if libc::dladdr(me, &raw mut object) != 0 && !object.dli_fname.is_null() {
                let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
                libc::dlopen(object.dli_fname, flags);
            }
            libc::pthread_atfork(None, None, Some(child_begins));
        }
        IS_READY.store(1, Release);
    }
}

fn locked<T>(action: impl FnOnce() -> T) -> T {
    make_ready();
    while LOCK.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
        std::thread::yield_now();
    }
    let result = action();
    LOCK.store(0, Release);
    result
}

fn begin_process_once() {
    if ENABLED.load(Acquire) == (&raw const FIRST).cast_mut() {
        begin_process();
    }
}

/// `LOCK` is held.
fn number_of(name: &'static str) -> u32 {
    begin_process_once();
    let known = NAMED.load(Relaxed);
    if let Some(number) = (0..known).find(|&number| name_of(number) == name.as_bytes()) {
        return number;
    }
    // SAFETY: null, or what `begin_process` mapped.
    let front = unsafe { FRONT.load(Acquire).as_ref() };
    if known as usize >= SECTIONS {
        if let Some(front) = front {
            front.refused.fetch_add(1, Relaxed);
        }
        return u32::MAX - 1;
    }
    NAMES[known as usize].store(name.as_ptr().cast_mut(), Relaxed);
    LENGTHS[known as usize].store(u32::try_from(name.len()).unwrap_or(u32::MAX), Relaxed);
    NAMED.store(known + 1, Relaxed);
    if front.is_some() {
        write_name(known);
    }
    known
}

fn name_of(number: u32) -> &'static [u8] {
    let (name, length) = (&NAMES[number as usize], &LENGTHS[number as usize]);
    // SAFETY: both were taken from one `&'static str`, under the lock that is held here.
    unsafe { std::slice::from_raw_parts(name.load(Relaxed), length.load(Relaxed) as usize) }
}

/// `LOCK` is held, and there is memory to share.
fn write_name(number: u32) {
    let front = FRONT.load(Acquire);
    let name = name_of(number);
    let name = &name[..name.len().min(63)];
    // SAFETY: `front` is mapped, the name fits with the zero behind it, and no reader looks at it before
    // `sections` says that it is there.
    unsafe {
        let to = (&raw mut (*front).names[number as usize]).cast::<u8>();
        ptr::copy_nonoverlapping(name.as_ptr(), to, name.len());
        (*front).sections.store(number + 1, Release);
    }
}

/// The first marker of a process. `LOCK` is held.
fn begin_process() {
    let Some((file, front)) = share() else {
        ENABLED.store((&raw const NEVER).cast_mut(), Release);
        return;
    };
    FILE.keep(file);
    FRONT.store(front, Release);
    // SAFETY: `share` has mapped it, and no other thread knows of it yet.
    let shared = unsafe { &*front };
    shared.version.store(1, Relaxed);
    shared.process.store(std::process::id(), Relaxed);
    (0..NAMED.load(Relaxed)).for_each(write_name);
    let magic = *b"NWMARKS\0";
    for (word, four) in shared.magic.iter().zip(magic.as_chunks::<4>().0) {
        word.store(u32::from_ne_bytes(*four), Release);
    }
    if let Some(reader) = reader() {
        // SAFETY: as above; `reader` has left room for the zero, which is there.
        unsafe {
            let to = (&raw mut (*front).socket).cast::<u8>();
            ptr::copy_nonoverlapping(reader.as_ptr(), to, reader.len());
        }
        // From the first record on, whenever it is read.
        shared.readings.store(1, Relaxed);
        shared.enabled.store(1, Release);
        let reported = report(file, &reader);
        match reported {
            Some(socket) => REPORTED.keep(socket),
            None => shared.enabled.store(0, Release),
        }
    }
    ENABLED.store((&raw const shared.enabled).cast_mut(), Release);
}

/// The name of the socket at which a reader waits for our markers.
fn reader() -> Option<Vec<u8>> {
    let of_parent: Vec<u8> =
        READER.iter().flat_map(|four| four.load(Relaxed).to_ne_bytes()).collect();
    let of_parent = CStr::from_bytes_until_nul(&of_parent).map(CStr::to_bytes).unwrap_or_default();
    let reader = if of_parent.is_empty() {
        // SAFETY: `getauxval` only reads. A program with more rights than its caller ignores the variable.
        if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
            return None;
        }
        std::env::var_os("NIGHTWATT_MARKERS")?.into_encoded_bytes()
    } else {
        of_parent.to_vec()
    };
    (reader.len() < SOCKET).then_some(reader)
}

fn share() -> Option<(c_int, *mut Front)> {
    let size = size_of::<Front>() + RINGS * size_of::<Ring>();
    // SAFETY: calls that make a file of our own and map it; each is checked.
    unsafe {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let file = above_standard(libc::memfd_create(c"nightwatt-markers".as_ptr(), flags));
        if file < 0 {
            return None;
        }
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        let is_sized = may_be_as_large_as(size)
            && libc::ftruncate(file, libc::off_t::try_from(size).ok()?) == 0
            && libc::fcntl(file, libc::F_ADD_SEALS, seals) == 0;
        let front = if is_sized { map(file, size_of::<Front>(), 0) } else { libc::MAP_FAILED };
        if front == libc::MAP_FAILED {
            libc::close(file);
            return None;
        }
        Some((file, front.cast()))
    }
}

/// SAFETY of callers: `file` is the memory that is shared, and as large as that.
unsafe fn map(file: c_int, length: usize, from: usize) -> *mut c_void {
    let Ok(from) = libc::off_t::try_from(from) else { return libc::MAP_FAILED };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a mapping at a place that the kernel chooses touches nothing of ours.
    unsafe { libc::mmap(ptr::null_mut(), length, access, libc::MAP_SHARED, file, from) }
}

/// A child has memory of its own, from its first marker on.
extern "C" fn child_begins() {
    keeping_error(forget_parent);
}

fn forget_parent() {
    LOCK.store(0, Release);
    let front = FRONT.swap(ptr::null_mut(), AcqRel);
    if front.is_null() {
        return;
    }
    ENABLED.store((&raw const FIRST).cast_mut(), Release);
    // SAFETY: the parent's memory is mapped here too, this is the only thread, and the pointers to it
    // have just been taken away. Of the thread's ring there is no mapping here (MADV_DONTFORK).
    unsafe {
        let is_read = (*front).enabled.load(Relaxed) != 0;
        for (place, four) in READER.iter().enumerate() {
            let word = (*front).socket[place].load(Relaxed);
            four.store(if is_read { word } else { 0 }, Relaxed);
        }
        libc::munmap(front.cast(), size_of::<Front>());
    }
    FILE.close();
    REPORTED.close();
    let _ = MINE.try_with(|mine| {
        mine.ring.set(None);
        mine.refused.set(0);
    });
}

/// The ring of a thread.
#[derive(Clone, Copy)]
struct Mine {
    front: *mut Front,
    head: &'static Head,
    ring: &'static Ring,
}

struct Owner {
    ring: Cell<Option<Mine>>,
    /// The reading in which there was no ring for it.
    refused: Cell<u32>,
    /// And how often it wanted one since.
    tries: Cell<u32>,
}

thread_local! {
    static MINE: Owner =
        const { Owner { ring: Cell::new(None), refused: Cell::new(0), tries: Cell::new(0) } };
}

impl Drop for Owner {
    /// A thread that ends gives its ring to the next.
    fn drop(&mut self) {
        if let Some(mine) = self.ring.take().filter(|mine| mine.front == FRONT.load(Acquire)) {
            // SAFETY: only this thread had a reference to it, and takes none any more.
            unsafe { libc::munmap(ptr::from_ref(mine.ring).cast_mut().cast(), size_of::<Ring>()) };
            mine.head.owner.store(0, Release);
        }
    }
}

fn mark(section: u32, kind: u32) {
    // A thread that is ending may have given its ring away already.
    let _ = MINE.try_with(|owner| {
        let enabled = enabled();
        let ready = owner.ring.get().filter(|mine| mine.head.reading.load(Relaxed) == enabled);
        if let Some(mine) = ready.or_else(|| prepare(owner, kind)) {
            mine.mark(section, kind);
        }
    });
}

/// A ring of this process and this reading. `None`: no reader is attached, or all rings are taken.
#[cold]
fn prepare(owner: &Owner, kind: u32) -> Option<Mine> {
    let is_refused = owner.ring.get().is_none() && owner.refused.get() == enabled();
    if is_refused {
        owner.tries.set(owner.tries.get().wrapping_add(1));
    }
    if !is_refused || owner.tries.get().is_multiple_of(TRIES) {
        keeping_error(|| {
            // A child of a process that had markers.
            locked(begin_process_once);
            if owner.ring.get().is_none() && enabled() != 0 {
                owner.ring.set(take_ring(FRONT.load(Acquire)));
            }
        });
    }
    let enabled = enabled();
    let front = FRONT.load(Acquire);
    if enabled == 0 || front.is_null() {
        return None;
    }
    let Some(mine) = owner.ring.get() else {
        owner.refused.set(enabled);
        if kind == BEGINS {
            // SAFETY: it is mapped.
            unsafe { &*front }.without_ring.fetch_add(1, Relaxed);
        }
        return None;
    };
    if mine.head.reading.load(Relaxed) != enabled {
        // What was open in a reading before is nothing to this one.
        mine.head.reading.store(enabled, Relaxed);
        mine.head.open.store(0, Relaxed);
        mine.ring.skipped.iter().for_each(|skipped| skipped.store(0, Relaxed));
    }
    Some(mine)
}

fn take_ring(front: *mut Front) -> Option<Mine> {
    let file = FILE.there().filter(|_| !front.is_null())?;
    // SAFETY: it is mapped until this process ends; a child, which unmaps it, forgets it first.
    let heads: &'static [Head; RINGS] = unsafe { &(*front).heads };
    // SAFETY: it only asks.
    let me = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    let is_mine = |head: &&Head| {
        head.owner.load(Relaxed) == 0
            && room(head) >= 2
            && head.owner.compare_exchange(0, me, AcqRel, Relaxed).is_ok()
    };
    let (number, head) = heads.iter().enumerate().find(|(_, head)| is_mine(head))?;
    let (length, from) = (size_of::<Ring>(), size_of::<Front>() + number * size_of::<Ring>());
    // SAFETY: the file has a ring there. A child does without it.
    let ring = unsafe {
        let ring = map(file, length, from);
        if ring == libc::MAP_FAILED {
            head.owner.store(0, Release);
            return None;
        }
        libc::madvise(ring, length, libc::MADV_DONTFORK);
        &*ring.cast::<Ring>()
    };
    head.reading.store(0, Relaxed);
    let mine = Mine { front, head, ring };
    mine.write(me, TAKES);
    Some(mine)
}

fn room(head: &Head) -> u64 {
    RECORDS.wrapping_sub(head.written.load(Relaxed).wrapping_sub(head.read.load(Acquire)))
}

impl Mine {
    #[inline]
    fn mark(&self, section: u32, kind: u32) {
        let (open, skipped) = (&self.head.open, &self.ring.skipped[section as usize]);
        let (count, skips) = (open.load(Relaxed), skipped.load(Relaxed));
        if kind == BEGINS {
            // Room is kept for the ends of what is open: calls get lost, never halves of them. Nor does
            // one begin inside of one of its section that was lost, so that each end belongs to the
            // last beginning.
            if skips > 0 || room(self.head) <= count + 1 {
                self.lose(section);
                return;
            }
            open.store(count + 1, Relaxed);
        } else if skips > 0 {
            skipped.store(skips - 1, Relaxed);
            return;
        } else if count > 0 {
            open.store(count - 1, Relaxed);
        } else if room(self.head) <= 1 {
            // It ends a section whose beginning no reader saw.
            return;
        }
        self.write(section, kind);
    }

    #[inline]
    fn write(&self, what: u32, kind: u32) {
        let written = self.head.written.load(Relaxed);
        let record = &self.ring.records[(written % RECORDS) as usize];
        record.at.store(now(), Relaxed);
        record.what.store(what, Relaxed);
        record.kind.store(kind, Relaxed);
        self.head.written.store(written.wrapping_add(1), Release);
    }

    #[cold]
    fn lose(&self, section: u32) {
        let more = |sum: &AtomicU64| {
            sum.store(sum.load(Relaxed) + 1, Release);
            sum.load(Relaxed)
        };
        more(&self.ring.lost[section as usize]);
        let skipped = &self.ring.skipped[section as usize];
        skipped.store(skipped.load(Relaxed) + 1, Relaxed);
        if more(&self.head.lost).is_multiple_of(65_536) {
            keeping_error(|| self.look_for_reader());
        }
    }

    /// Detaches a reader that no longer runs: one that was killed could not clear the word itself.
    fn look_for_reader(&self) {
        // SAFETY: it is mapped; signal 0 only checks that the process exists.
        unsafe {
            let front = &*self.front;
            let reader = front.visible.load(Relaxed).cast_signed();
            if reader > 0 && libc::kill(reader, 0) < 0 && *libc::__errno_location() == libc::ESRCH {
                front.enabled.store(0, Release);
            }
        }
    }
}

#[inline]
fn now() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes into what it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

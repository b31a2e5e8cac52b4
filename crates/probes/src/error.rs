//! What can go wrong with probes.

use std::io;
use std::path::PathBuf;

/// Why a program cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel does not let us.
    #[error("the kernel does not let this user load eBPF programs ({source})")]
    Denied {
        /// Its answer.
        source: libbpf_rs::Error,
    },
    /// The kernel does not describe its own types.
    #[error("this kernel has no description of its types (/sys/kernel/btf/vmlinux is missing)")]
    NoBtf,
    /// We are in a PID namespace of our own.
    #[error(
        "this shell has process numbers of its own (a PID namespace), by which the kernel's probes find no process"
    )]
    PidNamespace,
    /// It takes the programs not as they are: it is newer than we know, or lacks something.
    #[error("this kernel does not take our eBPF programs ({source}): {}", said.join("; "))]
    NotLoaded {
        /// Its answer.
        source: libbpf_rs::Error,
        /// What the loader and the verifier said last.
        said: Vec<String>,
    },
    /// The kernel refused something else.
    #[error("the kernel refused to {what}: {source}")]
    Refused {
        /// What it was to do.
        what: String,
        /// Its answer.
        source: libbpf_rs::Error,
    },
    /// The kernel does not let us sample.
    #[error("the kernel does not let this user sample what runs ({0})")]
    NoSamples(io::Error),
    /// Its limit on locked memory is too low.
    #[error("the kernel gives this user no room for samples, not even 64 KiB for each CPU ({0})")]
    NoRoom(io::Error),
    /// How a place was written.
    #[error("`{text}` names no place in a program: {why}")]
    Syntax {
        /// As written.
        text: String,
        /// What is wrong.
        why: &'static str,
    },
    /// There is no such program or library.
    #[error(
        "there is no program or library `{0}`: not a file, not in PATH, not among the libraries"
    )]
    NoFile(String),
    /// It cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is no program.
    #[error("{} is no ELF program or library: {why}", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It has no such function.
    #[error("{} has no function `{symbol}`{}", path.display(), near(like, *stripped, looked))]
    NoSymbol {
        /// The file.
        path: PathBuf,
        /// As asked for.
        symbol: String,
        /// Names that are like it.
        like: Vec<String>,
        /// It has no table of its own symbols, and none was found elsewhere.
        stripped: bool,
        /// Where another was looked for.
        looked: Vec<PathBuf>,
    },
    /// It has no such USDT probe.
    #[error("{} has no USDT probe `{probe}`{}", path.display(), those(has))]
    NoProbe {
        /// The file.
        path: PathBuf,
        /// As asked for.
        probe: String,
        /// What it has.
        has: Vec<String>,
    },
    /// The semaphore of a USDT probe (its count of observers) is at no place of the file.
    #[error("the USDT probe `{probe}` of {} has its semaphore at no place of the file", path.display())]
    NoSemaphore {
        /// The file.
        path: PathBuf,
        /// The probe.
        probe: String,
    },
    /// A Go program has no such function.
    #[error("{} has no function `{symbol}`{}", path.display(), near(like, false, &[]))]
    NoGoSymbol {
        /// The file.
        path: PathBuf,
        /// As asked for.
        symbol: String,
        /// Names that are like it.
        like: Vec<String>,
    },
    /// A Go program's function that follows other rules than those of Go.
    #[error(
        "`{symbol}` in {} is written in assembly: where it keeps the goroutine is unknown",
        path.display()
    )]
    GoAssembly {
        /// The file.
        path: PathBuf,
        /// As asked for.
        symbol: String,
    },
    /// A Go program whose runtime is not one that we know.
    #[error("goroutines of {} cannot be followed: {why} is not as it should be", path.display())]
    UnknownGo {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        why: &'static str,
    },
    /// Nothing tells where a function ends.
    #[error("{} does not tell how long `{name}` is: its returns are not known", path.display())]
    NoLength {
        /// The file.
        path: PathBuf,
        /// The function.
        name: String,
    },
    /// A function with something in it that is no code.
    #[error("the code of `{name}` in {} is not understood: its returns are not known", path.display())]
    NotUnderstood {
        /// The file.
        path: PathBuf,
        /// The function.
        name: String,
    },
    /// A pattern fits too many functions.
    #[error("`{pattern}` fits {found} functions; at most {most} can be watched at a time")]
    TooMany {
        /// As written.
        pattern: String,
        /// How many.
        found: usize,
        /// How many may be.
        most: usize,
    },
    /// An address within an instruction.
    #[error(
        "no instruction begins at {address:#x} in {}, {behind} bytes into `{name}`: a probe there would \
         break the program",
        path.display()
    )]
    NoInstruction {
        /// The file.
        path: PathBuf,
        /// The address.
        address: u64,
        /// The function around it.
        name: String,
        /// Bytes from its beginning.
        behind: u64,
    },
    /// An address that no code is at.
    #[error("{} has no code at {offset:#x}", path.display())]
    NoCode {
        /// The file.
        path: PathBuf,
        /// The address.
        offset: u64,
    },
}

fn near(like: &[String], stripped: bool, looked: &[PathBuf]) -> String {
    let looked: Vec<String> = looked.iter().map(|path| path.display().to_string()).collect();
    match like {
        [] if stripped && looked.is_empty() => ": its symbols were stripped".to_owned(),
        [] if stripped => {
            format!(": its symbols were stripped, and there are none in {}", looked.join(", "))
        }
        [] => String::new(),
        names => format!(": is it one of {}?", names.join(", ")),
    }
}

/// Of probes that a file has.
const MOST_NAMED: usize = 20;

fn those(has: &[String]) -> String {
    match has {
        [] => ": it was built without any".to_owned(),
        names if names.len() <= MOST_NAMED => format!("; it has {}", names.join(", ")),
        names => {
            let (told, more) = (names[..MOST_NAMED].join(", "), names.len() - MOST_NAMED);
            format!("; it has {told}, and {more} more (`readelf -n` lists them)")
        }
    }
}

impl ProbeError {
    /// What to try next.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Denied { .. } => Some(
                "run it as root, or give the program what it needs: `setcap \
                 cap_bpf,cap_perfmon,cap_sys_admin+ep nightwatt` (kernels before 6.16 do without \
                 the last)",
            ),
            Self::NotLoaded { .. } => Some(
                "please report it with this text and `uname -r`; docs/caliper.md names the kernels \
                 that are tested",
            ),
            Self::NoSamples(_) => Some(
                "run it as root, or give the program what it needs: `setcap cap_perfmon+ep \
                 nightwatt`; or `sudo sysctl kernel.perf_event_paranoid=-1`",
            ),
            Self::NoRoom(_) => Some(
                "run it as root, or give the program what it needs: `setcap \
                 cap_perfmon,cap_ipc_lock+ep nightwatt`; or raise `ulimit -l` or `sysctl \
                 kernel.perf_event_mlock_kb`",
            ),
            Self::NoBtf => Some("use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as Debian's are"),
            Self::PidNamespace => Some(
                "run it outside the container, or start the container with the machine's process \
                 numbers (`--pid=host` of Docker and podman)",
            ),
            Self::NoSymbol { stripped: true, .. } => Some(
                "install its debug symbols (on Debian, the package's name with -dbgsym or -dbg), or \
                 name an address as `objdump -d` shows it: `PROGRAM:0x1234`",
            ),
            Self::NoSymbol { .. } => Some(
                "`nm -C PROGRAM` lists its functions; `*` stands for any part of a name: `PROGRAM:*work*`",
            ),
            Self::NoFile(_) => Some(
                "give the path of the program, as in `./prog:work`; a name alone is looked up in PATH and \
                 among the libraries",
            ),
            Self::Syntax { .. } => Some(
                "PROGRAM:FUNCTION, PROGRAM:FUNCTION+OFFSET, PROGRAM:0xADDRESS or \
                 PROGRAM:usdt:PROVIDER:NAME, with a path, a program in PATH, or a library such as \
                 libc.so.6",
            ),
            Self::NoGoSymbol { .. } => Some(
                "Go builds small functions into their callers: write //go:noinline above it, or build \
                 with -gcflags=-l",
            ),
            Self::GoAssembly { .. } => Some("watch the Go function that calls it"),
            Self::NoInstruction { .. } => {
                Some("`objdump -d` shows where instructions begin: take one of those addresses")
            }
            Self::UnknownGo { .. } => Some("build the program with Go 1.18 or later"),
            Self::NoLength { .. } | Self::NotUnderstood { .. } => {
                Some("watch it from one place to another (--start, --end)")
            }
            Self::TooMany { .. } => Some("write more of the name"),
            _ => None,
        }
    }
}

//! What this kernel offers: found by trying it, since neither its version nor its configuration
//! tells what the administrator has disabled.

use std::fs;
use std::path::Path;

use libbpf_rs::{Link, MapType, ProgramInput, ProgramMut, UprobeMultiOpts, UprobeOpts};
use object::read::elf::ElfFile64;
use object::{Endianness, Object};

use crate::addresses::file_offset;
use crate::error::ProbeError;
use crate::loaded::{Aligned, Loaded, ON_CPU};
use crate::samples::Samples;

static PROGRAMS: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/offers.bpf.o")));

/// Something that a kernel may offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What it is called in the kernel's documentation.
    pub name: &'static str,
    /// What uses it; empty where nothing does.
    pub used_by: &'static [&'static str],
    /// They cannot do without.
    pub is_needed: bool,
    /// The kernel's answer, where it does not work.
    pub refused: Option<String>,
}

impl Offer {
    /// Does it work here, for this user?
    pub const fn works(&self) -> bool {
        self.refused.is_none()
    }
}

/// How a program is put where it is called.
type Attach = fn(&ProgramMut<'_>) -> Result<Option<Link>, libbpf_rs::Error>;

/// Tries all that we use, and what others may miss.
pub fn offers() -> Vec<Offer> {
    let btf = Path::new("/sys/kernel/btf/vmlinux");
    let mut offers = vec![Offer {
        name: "BTF of the kernel",
        used_by: &["caliper", "disk"],
        is_needed: true,
        refused: (!btf.exists()).then(|| format!("there is no {}", btf.display())),
    }];
    let programs: [(&str, &str, &'static [&'static str], Attach); 8] = [
        ("uprobe", "uprobe", &["caliper"], |program| at_own_entry(program, false).map(Some)),
        ("uretprobe", "uprobe", &["caliper"], |program| at_own_entry(program, true).map(Some)),
        ("uprobe_multi", "uprobe_multi", &["caliper"], |program| at_own_entries(program).map(Some)),
        ("tp_btf", "tp_btf", &["caliper", "disk"], |program| program.attach_trace().map(Some)),
        ("raw_tp run on a CPU", "raw_tp", &["caliper"], |program| run_here(program).map(|()| None)),
        ("tracepoint", "tracepoint", &[], |program| program.attach().map(Some)),
        ("fentry", "fentry", &[], |program| program.attach_trace().map(Some)),
        ("kprobe", "kprobe", &[], |program| program.attach_kprobe(false, "vfs_read").map(Some)),
    ];
    for (name, program, used_by, attach) in programs {
        let refused = tried(program, attach).err();
        // Without the one that puts many probes in at once, they go in one by one.
        let is_needed = !used_by.is_empty() && name != "uprobe_multi";
        offers.push(Offer { name, used_by, is_needed, refused });
    }
    for (name, kind, used_by) in [
        ("task storage", MapType::TaskStorage, ["caliper"].as_slice()),
        ("ring buffer", MapType::RingBuf, &["caliper"]),
    ] {
        let refused = match kind.is_supported() {
            Ok(true) => None,
            // A user who may load nothing gets the same answer for every kind.
            Ok(false) if offers.iter().any(|it| it.is_needed && !it.works()) => {
                Some("not in this kernel, or not for this user".to_owned())
            }
            Ok(false) => Some("not in this kernel".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        offers.push(Offer { name, used_by, is_needed: true, refused });
    }
    offers.push(Offer {
        name: "perf_event_open (CPU clock)",
        used_by: &["caliper --sample"],
        is_needed: true,
        refused: Samples::open(1).err().map(|error| error.to_string()),
    });
    offers
}

/// Loads one program, puts it in place and takes it out again.
fn tried(name: &str, attach: Attach) -> Result<(), String> {
    let name = format!("try_{name}");
    let mut loaded = Loaded::load("offers", PROGRAMS, |object| {
        for mut program in object.progs_mut() {
            let is_it = program.name() == name.as_str();
            program.set_autoload(is_it);
        }
        Ok(())
    })
    .map_err(|error| match error {
        ProbeError::Denied { source } => format!("the kernel refuses to load it ({source})"),
        error => error.to_string(),
    })?;
    attach(&loaded.program(&name)).map(drop).map_err(|error| format!("{error:#}"))
}

/// Runs a program on a CPU that is named.
fn run_here(program: &ProgramMut<'_>) -> Result<(), libbpf_rs::Error> {
    program.test_run(ProgramInput { flags: ON_CPU, ..ProgramInput::default() }).map(drop)
}

/// Our own program's first instruction, which has been run already.
fn own_entry() -> Result<(std::path::PathBuf, usize), libbpf_rs::Error> {
    let missing = || libbpf_rs::Error::from(std::io::Error::from(std::io::ErrorKind::NotFound));
    let path = std::env::current_exe().map_err(libbpf_rs::Error::from)?;
    let data = fs::read(&path).map_err(libbpf_rs::Error::from)?;
    let elf: ElfFile64<'_, Endianness> = ElfFile64::parse(&*data).map_err(|_| missing())?;
    let offset = file_offset(&elf, elf.entry()).ok_or_else(missing)?;
    Ok((path, usize::try_from(offset).map_err(|_| missing())?))
}

fn at_own_entry(program: &ProgramMut<'_>, retprobe: bool) -> Result<Link, libbpf_rs::Error> {
    let (path, offset) = own_entry()?;
    let options = UprobeOpts { retprobe, ..UprobeOpts::default() };
    program.attach_uprobe_with_opts(-1, path, offset, options)
}

fn at_own_entries(program: &ProgramMut<'_>) -> Result<Link, libbpf_rs::Error> {
    let (path, offset) = own_entry()?;
    let options = UprobeMultiOpts { offsets: vec![offset], ..UprobeMultiOpts::default() };
    program.attach_uprobe_multi_with_opts(-1, path, "", options)
}

//! Probes put in one by one, or many at once.

use std::path::PathBuf;

use libbpf_rs::{ErrorKind, Link, OpenObject, ProgramAttachType, UprobeMultiOpts, UprobeOpts};

use crate::error::ProbeError;
use crate::loaded::{Aligned, Loaded, same_process_numbers};
use crate::place::Location;

/// Programs that are attached to places in files.
const AT_PLACES: [&str; 5] = ["begin", "end", "go_comes", "go_ends", "go_leaves"];

/// One that is to be put in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) program: &'static str,
    pub(super) path: PathBuf,
    pub(super) location: Location,
    /// The place's name, for messages.
    pub(super) name: String,
    pub(super) cookie: u64,
    pub(super) retprobe: bool,
}

/// Loads programs, so that they can be attached to many places at once if the kernel can do that.
/// `prepare` may set what cannot be changed later.
pub(super) fn load(
    name: &str,
    code: &Aligned<[u8]>,
    prepare: impl Fn(&mut OpenObject) -> Result<(), libbpf_rs::Error>,
) -> Result<(Loaded, bool), ProbeError> {
    same_process_numbers()?;
    let with = |multi| {
        Loaded::load(name, code, |object| {
            prepare(object)?;
            let programs = object.progs_mut();
            for mut program in
                programs.filter(|it| multi && AT_PLACES.iter().any(|at| it.name() == *at))
            {
                program.set_attach_type(ProgramAttachType::TraceUprobeMulti);
            }
            Ok(())
        })
    };
    let mut loaded = with(true)?;
    // A kernel that cannot do it fails before it looks at the file, which is a directory.
    let offsets = UprobeMultiOpts { offsets: vec![0], ..UprobeMultiOpts::default() };
    let begin = loaded.program("begin");
    let tried = begin.attach_uprobe_multi_with_opts(-1, "/", "", offsets);
    let can = tried.err().is_some_and(|error| error.kind() != ErrorKind::InvalidInput);
    if can { Ok((loaded, true)) } else { Ok((with(false)?, false)) }
}

impl Loaded {
    /// Puts probes in, in their order but for those that go in at once with an earlier one.
    pub(super) fn attach_probes(
        &mut self,
        probes: &[Probe],
        multi: bool,
    ) -> Result<(), ProbeError> {
        let mut groups: Vec<Vec<&Probe>> = Vec::new();
        for probe in probes {
            let with = |group: &&mut Vec<&Probe>| {
                let first = group[0];
                multi
                    && (first.program, &first.path, first.retprobe)
                        == (probe.program, &probe.path, probe.retprobe)
            };
            match groups.iter_mut().find(with) {
                Some(group) => group.push(probe),
                None => groups.push(vec![probe]),
            }
        }
        // Beginnings last: one without an end would be counted as left by another way.
        groups.sort_by_key(|group| group[0].program == "begin");
        for group in groups {
            let link = self.attach_group(&group, multi);
            let link = link.map_err(|source| {
                if source.kind() == ErrorKind::PermissionDenied {
                    return ProbeError::Denied { source };
                }
                let others = if group.len() > 1 { " and other places" } else { "" };
                let (name, path) = (&group[0].name, group[0].path.display());
                ProbeError::Refused {
                    what: format!("put a probe at {name}{others} in {path}"),
                    source,
                }
            })?;
            self.links.push(link);
        }
        Ok(())
    }

    fn attach_group(&mut self, group: &[&Probe], multi: bool) -> Result<Link, libbpf_rs::Error> {
        let Probe { program, path, cookie, retprobe, .. } = group[0];
        let in_file = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        let offset = |probe: &Probe| in_file(probe.location.offset);
        // None is at the beginning of a file.
        let semaphore = |probe: &Probe| probe.location.semaphore.map_or(0, in_file);
        let program = self.program(program);
        let everybody = -1;
        if !multi {
            let options = UprobeOpts {
                cookie: *cookie,
                retprobe: *retprobe,
                ref_ctr_offset: semaphore(group[0]),
                ..UprobeOpts::default()
            };
            return program.attach_uprobe_with_opts(everybody, path, offset(group[0]), options);
        }
        let options = UprobeMultiOpts {
            offsets: group.iter().map(|probe| offset(probe)).collect(),
            ref_ctr_offsets: group.iter().map(|probe| semaphore(probe)).collect(),
            cookies: group.iter().map(|probe| probe.cookie).collect(),
            retprobe: *retprobe,
            ..UprobeMultiOpts::default()
        };
        program.attach_uprobe_multi_with_opts(everybody, path, "", options)
    }
}

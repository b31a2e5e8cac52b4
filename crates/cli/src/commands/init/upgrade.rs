//! `init --upgrade`: proposes a `kind` for each site without one, from what its cache holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nightwatt_gateway::Config;
use nightwatt_gateway::config::{DiskConfig, SiteConfig, SiteKind};
use nightwatt_gateway::disk_cache::survey::{Survey, survey};

use super::Args;
use crate::ExitStatus;
use crate::errors::Failure;
use crate::figures::counted;
use crate::output;

/// Fewer stored answers than this are too few for a proposal.
const FEW: u64 = 5;

/// Reads a configuration and proposes; writes the proposals into it only with `--force`.
pub(super) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let (path, name) = (&args.output, args.output.display().to_string());
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::because(format!("cannot read {name}"), &error)
            .hint("`-o FILE` names the configuration to be upgraded")
    })?;
    let config = Config::parse(&text, &name).map_err(|error| {
        Failure::because("the configuration cannot be used", &error).into_usage()
    })?;
    let stored = stored(&config)?;
    let open: Vec<&SiteConfig> = config
        .site
        .iter()
        .filter(|site| site.unknown_kind(&config.scenario_of(site)).is_some())
        .collect();
    if open.is_empty() {
        output::print(&format!(
            "{name}: every site has a `kind`, or an own `ttl`; nothing to do\n"
        ))?;
        return Ok(ExitStatus::Success);
    }
    let mut said = String::new();
    let mut upgraded = text.clone();
    for site in open {
        let (proposal, why) = propose(stored.get(&site.name));
        let _ = writeln!(said, "site {}\n  {why}", site.name);
        let Some(kind) = proposal else { continue };
        let _ = writeln!(said, "  proposed: kind = \"{}\"", kind.as_str());
        upgraded = with_kind(&upgraded, &site.name, kind);
    }
    if upgraded == text {
        said.push_str("\nNothing can be proposed. Write `kind` into each `[[site]]` by hand: docs/caching.md\n");
    } else if args.force {
        Config::parse(&upgraded, &name).map_err(|error| {
            Failure::because("the proposals make no configuration; nothing was written", &error)
        })?;
        write_over(path, &upgraded)?;
        let _ = writeln!(said, "\nwrote {name}; `nightwatt reload` has a running gateway read it");
    } else {
        let _ = writeln!(said, "\n`nightwatt init --upgrade --force -o {name}` writes this");
    }
    output::print(&said)?;
    Ok(ExitStatus::Success)
}

/// Replaces the existing file (the target, if it is a link), and keeps its owner and mode.
fn write_over(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::because(format!("cannot write {}", path.display()), &error)
            .hint("as the user that it belongs to, or as root")
    };
    let path = path.canonicalize().map_err(failed)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let about = fs::metadata(&path).map_err(failed)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.as_file().set_permissions(about.permissions()).map_err(failed)?;
    std::os::unix::fs::fchown(file.as_file(), Some(about.uid()), Some(about.gid()))
        .map_err(failed)?;
    file.persist(&path).map(drop).map_err(|error| failed(error.error))
}

/// What the disk cache holds for each site.
fn stored(config: &Config) -> Result<BTreeMap<String, Survey>, Failure> {
    let default = DiskConfig::default();
    let folder = config.cache.disk.as_ref().unwrap_or(&default).folder(&config.state_dir);
    survey(&folder).map_err(|error| {
        Failure::because(format!("cannot read the disk cache in {}", folder.display()), &error)
            .hint("as root, or as the user that nightwatt runs as")
    })
}

/// Proposes a kind if what is stored suggests one, and gives the reason.
fn propose(stored: Option<&Survey>) -> (Option<SiteKind>, String) {
    let Some(survey) = stored.filter(|it| it.all() >= FEW) else {
        let text = "the disk cache holds too little of this site to tell. `pages`: every visitor who is not logged in \
                    sees the same (a blog, documentation, a wiki). `app`: what is shown depends on who asks";
        return (None, text.to_owned());
    };
    let held = format!(
        "the disk cache held {} of HTML, {} of JSON or XML and {}; the server marked {} of these {} as cacheable",
        counted(survey.pages, "answer"),
        counted(survey.data, "answer"),
        counted(survey.files, "other answer"),
        survey.marked,
        survey.all(),
    );
    let is_app = survey.data * 5 > survey.pages + survey.data || survey.pages == 0;
    if is_app {
        return (
            Some(SiteKind::App),
            format!("{held}: it looks like an application or an interface"),
        );
    }
    let text = "it looks like pages. Do visitors log in, and does the server know them by anything but a cookie or \
                a field of theirs, such as their address? Then it is an `app`";
    (Some(SiteKind::Pages), format!("{held}: {text}"))
}

/// The configuration with the kind of one site inserted after its name. A file that does not write its sites as
/// `[[site]]` with a `name` on a line of its own stays unchanged.
fn with_kind(text: &str, site: &str, kind: SiteKind) -> String {
    let mut in_site = false;
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let bare = line.trim();
        if bare.starts_with('[') {
            in_site = bare.starts_with("[[site]]");
        }
        lines.push(line.to_owned());
        let is_name =
            bare.strip_prefix("name").map(str::trim_start).and_then(|it| it.strip_prefix('='));
        let value = is_name.map(|it| it.split('#').next().unwrap_or_default().trim());
        if in_site && value.is_some_and(|it| it.trim_matches(['"', '\'']) == site) {
            lines.push(format!("kind = \"{}\"", kind.as_str()));
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_suggests_a_kind() {
        let of = |pages, data, files| propose(Some(&Survey { pages, data, files, marked: 0 })).0;
        assert_eq!(of(20, 0, 100), Some(SiteKind::Pages));
        assert_eq!(of(20, 2, 0), Some(SiteKind::Pages), "a feed reader's search");
        assert_eq!(of(2, 40, 10), Some(SiteKind::App));
        assert_eq!(of(0, 0, 50), Some(SiteKind::App), "nothing is assumed of what is no page");
        assert_eq!(of(1, 1, 1), None);
        assert_eq!(propose(None).0, None);
    }

    #[test]
    fn a_kind_is_written_behind_the_name_of_its_site() {
        let text = "[[site]]\nname = \"a\"  # first\norigin = \"x\"\n[site.cache]\nname = \"b\"\n[[site]]\n  name='b'\n";
        assert_eq!(
            with_kind(text, "a", SiteKind::Pages),
            text.replace("# first\n", "# first\nkind = \"pages\"\n")
        );
        assert_eq!(
            with_kind(text, "b", SiteKind::App),
            text.replace("name='b'\n", "name='b'\nkind = \"app\"\n")
        );
        assert_eq!(with_kind(text, "c", SiteKind::App), text);
    }
}

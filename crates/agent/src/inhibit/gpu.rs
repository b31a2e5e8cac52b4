//! How busy graphics processors are: amdgpu and Intel's drivers by sysfs, NVIDIA's by its library.
//!
//! | driver | file below `/sys/class/drm/cardN` | |
//! |---|---|---|
//! | amdgpu | `device/gpu_busy_percent` | share now, as the firmware averages it |
//! | i915 | `gt/gtN/rc6_residency_ms`, or `power/rc6_residency_ms` | time in its idle state RC6 |
//! | xe | `device/tileN/gtN/gtidle/idle_residency_ms` | the same |

mod nvidia;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use nightwatt_host::{Host, files};

/// All graphics processors at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Gpus {
    /// Shares by name, of those whose driver reports them.
    busy: BTreeMap<String, f64>,
    /// Milliseconds in the idle state by name, of the others.
    idle_ms: BTreeMap<String, u64>,
}

impl Gpus {
    /// The busiest, and its share of the time since `earlier`, which was `time` ago.
    pub(super) fn busiest_since(&self, earlier: &Self, time: Duration) -> Option<(&str, f64)> {
        let by_idle = self.idle_ms.iter().filter_map(|(name, now)| {
            // One that went back counts as busy: it is looked at again.
            let idle = now.saturating_sub(*earlier.idle_ms.get(name)?);
            let share = 1.0 - Duration::from_millis(idle).div_duration_f64(time);
            Some((name, share.clamp(0.0, 1.0)))
        });
        let all = self.busy.iter().map(|(name, share)| (name, *share)).chain(by_idle);
        all.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, share)| (name.as_str(), share))
    }
}

pub(super) fn read(host: &Host) -> Result<Gpus, String> {
    let mut gpus = Gpus::default();
    let cards = host.list("/sys/class/drm");
    let cards = cards.map_err(|error| format!("cannot read /sys/class/drm: {error}"))?;
    for card in cards {
        let name = card.file_name().and_then(|it| it.to_str()).unwrap_or_default().to_owned();
        // `card0-HDMI-A-1` is a connector.
        if name.strip_prefix("card").is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit())) {
            read_card(&card, &name, &mut gpus)?;
        }
    }
    if host.is_real() {
        gpus.busy.extend(nvidia::shares(host)?);
    }
    if gpus == Gpus::default() {
        return Err("there is no GPU whose use can be read (amdgpu, i915, xe, NVIDIA); leave out `gpu` in [inhibit]"
            .to_owned());
    }
    Ok(gpus)
}

fn read_card(card: &Path, name: &str, gpus: &mut Gpus) -> Result<(), String> {
    // One that is suspended is idle, and reading its files may wake it.
    let status = files::read(&card.join("device/power/runtime_status"));
    if status.is_ok_and(|it| it == "suspended") {
        gpus.busy.insert(name.to_owned(), 0.0);
        return Ok(());
    }
    let file = card.join("device/gpu_busy_percent");
    if file.exists() {
        let text = files::read(&file);
        let text = text.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let percent = text.parse::<f64>().ok().filter(|it| (0.0..=100.0).contains(it));
        let percent =
            percent.ok_or_else(|| format!("{} is `{text}`, no percentage", file.display()))?;
        gpus.busy.insert(name.to_owned(), percent / 100.0);
        return Ok(());
    }
    let mut found = false;
    for (folder, inner) in [("gt", "rc6_residency_ms"), ("device/tile", "gtidle/idle_residency_ms")]
    {
        for gt in engines(card, folder) {
            if let Some(idle) = residency(&gt.join(inner)) {
                let gt = gt.file_name().and_then(|it| it.to_str()).unwrap_or_default();
                gpus.idle_ms.insert(format!("{name} {gt}"), idle);
                found = true;
            }
        }
    }
    if !found && let Some(idle) = residency(&card.join("power/rc6_residency_ms")) {
        gpus.idle_ms.insert(name.to_owned(), idle);
    }
    Ok(())
}

/// `gt/gt0`, ... of i915; `device/tile0/gt0`, ... of xe.
fn engines(card: &Path, folder: &str) -> Vec<std::path::PathBuf> {
    let parents = if folder == "gt" {
        vec![card.join("gt")]
    } else {
        let all = files::list(&card.join("device")).unwrap_or_default();
        let is_tile = |it: &std::path::PathBuf| begins(it, "tile");
        all.into_iter().filter(is_tile).collect()
    };
    let all = parents.iter().flat_map(|it| files::list(it).unwrap_or_default());
    all.filter(|it| begins(it, "gt")).collect()
}

fn begins(path: &Path, with: &str) -> bool {
    path.file_name().and_then(|it| it.to_str()).is_some_and(|it| it.starts_with(with))
}

fn residency(file: &Path) -> Option<u64> {
    u64::try_from(files::number(file)?).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A machine with these files below `/sys/class/drm`.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().unwrap();
        set(dir.path(), files);
        let host = Host::at(dir.path());
        (dir, host)
    }

    fn set(root: &Path, files: &[(&str, &str)]) {
        for (file, text) in files {
            let path = root.join("sys/class/drm").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
    }

    fn share(host: &Host) -> f64 {
        let now = read(host).unwrap();
        now.busiest_since(&now, Duration::from_secs(1)).unwrap().1
    }

    #[test]
    fn amdgpu_reports_its_share_and_one_that_is_suspended_is_not_read() {
        let (dir, host) = machine(&[
            ("card0-HDMI-A-1/status", "connected"),
            ("card1/device/gpu_busy_percent", "37"),
            ("card1/device/power/runtime_status", "active"),
            ("renderD128/device/gpu_busy_percent", "99"),
        ]);
        assert!((share(&host) - 0.37).abs() < 1e-12);
        set(dir.path(), &[("card1/device/gpu_busy_percent", "101")]);
        assert!(read(&host).unwrap_err().contains("`101`, no percentage"));
        set(dir.path(), &[("card1/device/power/runtime_status", "suspended")]);
        assert!(share(&host).abs() < 1e-12);
    }

    #[test]
    fn of_intel_the_time_outside_its_idle_state_is_busy() {
        let (dir, host) = machine(&[
            ("card0/gt/gt0/rc6_residency_ms", "100000"),
            ("card0/gt/gt1/rc6_residency_ms", "200000"),
            ("card0/power/rc6_residency_ms", "100000"),
        ]);
        let earlier = read(&host).unwrap();
        set(
            dir.path(),
            &[
                ("card0/gt/gt0/rc6_residency_ms", "109000"),
                ("card0/gt/gt1/rc6_residency_ms", "202500"),
            ],
        );
        let now = read(&host).unwrap();
        // Of ten seconds, 9 s and 2.5 s idle: the media engine (gt1) is busy.
        let (name, share) = now.busiest_since(&earlier, Duration::from_secs(10)).unwrap();
        assert!(name == "card0 gt1" && (share - 0.75).abs() < 1e-12, "{name} {share}");
        // A counter that began again.
        assert!(
            (earlier.busiest_since(&now, Duration::from_secs(10)).unwrap().1 - 1.0).abs() < 1e-12
        );
    }

    #[test]
    fn older_kernels_and_the_driver_xe_have_their_files_elsewhere() {
        for file in
            ["card0/power/rc6_residency_ms", "card0/device/tile0/gt0/gtidle/idle_residency_ms"]
        {
            let (dir, host) = machine(&[(file, "5000")]);
            let earlier = read(&host).unwrap();
            set(dir.path(), &[(file, "5600")]);
            let share =
                read(&host).unwrap().busiest_since(&earlier, Duration::from_secs(1)).unwrap().1;
            assert!((share - 0.4).abs() < 1e-12, "{file}: {share}");
        }
    }

    #[test]
    fn a_machine_without_one_says_so() {
        let (_dir, host) = machine(&[("version", "drm 1.1.0 20060810")]);
        assert!(read(&host).unwrap_err().contains("no GPU whose use can be read"));
        assert!(read(&Host::at("/nowhere")).is_err());
    }
}

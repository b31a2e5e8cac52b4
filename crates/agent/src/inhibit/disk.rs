//! What disks read and write (`/proc/diskstats`, Documentation/admin-guide/iostats.rst).

use nightwatt_host::Host;

/// The unit of `/proc/diskstats`, independent of the disk's own sectors.
const SECTOR: u64 = 512;

/// Devices that lie on other disks, which count the same bytes, or in memory.
const VIRTUAL: [&str; 7] = ["loop", "ram", "zram", "dm-", "md", "sr", "fd"];

/// Bytes read and written since boot, by all disks.
pub(super) fn read(host: &Host) -> Result<u64, String> {
    let text = host
        .read("/proc/diskstats")
        .map_err(|error| format!("cannot read /proc/diskstats: {error}"))?;
    // Partitions are in the list too: only disks are in this folder.
    let disks =
        host.names("/sys/block").map_err(|error| format!("cannot read /sys/block: {error}"))?;
    let is_disk = |name: &str| {
        disks.iter().any(|disk| disk == name)
            && !VIRTUAL.iter().any(|prefix| name.starts_with(prefix))
    };
    let all = text.lines().filter_map(parse);
    Ok(all.filter(|(name, _)| is_disk(name)).map(|(_, sectors)| sectors * SECTOR).sum())
}

/// Name and sectors of a line: major minor name, reads merged SECTORS ms, writes merged SECTORS ms, ..
fn parse(line: &str) -> Option<(&str, u64)> {
    let mut fields = line.split_whitespace().skip(2);
    let name = fields.next()?;
    let read: u64 = fields.nth(2)?.parse().ok()?;
    let written: u64 = fields.nth(3)?.parse().ok()?;
    Some((name, read.wrapping_add(written)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_byte_is_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        for disk in ["vda", "dm-0", "loop0"] {
            fs::create_dir_all(dir.path().join("sys/block").join(disk)).unwrap();
        }
        fs::create_dir_all(dir.path().join("proc")).unwrap();
        fs::write(
            dir.path().join("proc/diskstats"),
            "   7       0 loop0 9 0 99 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
             \x20254       0 vda 100 20 3000 40 500 60 7000 80 0 90 100 0 0 0 0 0 0\n\
             \x20254       1 vda1 90 20 2900 40 500 60 7000 80 0 90 100 0 0 0 0 0 0\n\
             \x20253       0 dm-0 90 20 2900 40 500 60 7000 80 0 90 100 0 0 0 0 0 0\n",
        )
        .unwrap();
        assert_eq!(read(&Host::at(dir.path())), Ok(10_000 * 512));
    }
}

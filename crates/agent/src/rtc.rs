//! The alarm of the real-time clock, by sysfs (`Documentation/ABI/testing/sysfs-class-rtc`).

use std::io;

use crate::host::Host;

/// What every clock can be set ahead, in seconds.
const NEARLY_A_DAY: i64 = 24 * 3600 - 60;

/// A real-time clock.
#[derive(Debug, Clone)]
pub struct Rtc {
    host: Host,
    folder: String,
}

impl Rtc {
    /// The clock of this name: `rtc0`.
    pub fn new(host: &Host, name: &str) -> Self {
        Self { host: host.clone(), folder: format!("/sys/class/rtc/{name}") }
    }

    /// It rings at `at_s` seconds since 1970 by the wall clock, which now says `now_s`; or earlier, if it
    /// cannot be set so far ahead. When it rings.
    ///
    /// The RTC may run on local time, or be wrong: the alarm is set by what it says itself.
    pub fn set(&self, now_s: i64, at_s: i64) -> io::Result<i64> {
        match self.try_to_set(now_s, at_s) {
            // "Alarms can be up to one day in the future", says the kernel of clocks without a date.
            Err(error)
                if error.kind() == io::ErrorKind::InvalidInput && at_s - now_s > NEARLY_A_DAY =>
            {
                let nearer = now_s + NEARLY_A_DAY;
                self.try_to_set(now_s, nearer).map(|()| nearer)
            }
            set => set.map(|()| at_s),
        }
    }

    fn try_to_set(&self, now_s: i64, at_s: i64) -> io::Result<()> {
        let ours = self.host.read(format!("{}/since_epoch", self.folder))?;
        let ours: i64 = ours.trim().parse().map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("it says that it is `{}`", ours.trim()),
            )
        })?;
        self.clear()?;
        let at = ours.saturating_add(at_s.saturating_sub(now_s)).max(ours.saturating_add(1));
        self.write(&at.to_string())?;
        let told = self.host.read(self.file())?;
        if told.trim() == at.to_string() {
            return Ok(());
        }
        let said = format!("it was told to ring at {at}, and says `{}`", told.trim());
        Err(io::Error::new(io::ErrorKind::InvalidData, said))
    }

    /// It does not ring. A clock refuses a new alarm while another is set, so this comes first.
    pub fn clear(&self) -> io::Result<()> {
        self.write("0")
    }

    fn file(&self) -> String {
        format!("{}/wakealarm", self.folder)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        self.host.write(self.file(), text)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn clock(since_epoch: &str) -> (tempfile::TempDir, Rtc) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("sys/class/rtc/rtc0");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("since_epoch"), since_epoch).unwrap();
        fs::write(folder.join("wakealarm"), "").unwrap();
        let rtc = Rtc::new(&Host::at(dir.path()), "rtc0");
        (dir, rtc)
    }

    #[test]
    fn a_clock_on_local_time_rings_at_the_right_moment() {
        // The wall clock says 1,000,000; the RTC is two hours ahead, as local time.
        let (dir, rtc) = clock("1007200\n");
        rtc.set(1_000_000, 1_000_300).unwrap();
        let alarm = fs::read_to_string(dir.path().join("sys/class/rtc/rtc0/wakealarm")).unwrap();
        assert_eq!(alarm, "1007500");
        rtc.clear().unwrap();
        let alarm = fs::read_to_string(dir.path().join("sys/class/rtc/rtc0/wakealarm")).unwrap();
        assert_eq!(alarm, "0");
    }

    #[test]
    fn a_machine_without_a_clock_or_with_a_mad_one_is_told_of() {
        let (_dir, rtc) = clock("noon\n");
        assert!(rtc.set(1, 2).unwrap_err().to_string().contains("`noon`"));
        let nowhere = Rtc::new(&Host::at("/nonexistent"), "rtc0");
        assert_eq!(nowhere.set(1, 2).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

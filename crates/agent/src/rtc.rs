//! The alarm of the real-time clock, by sysfs (`Documentation/ABI/testing/sysfs-class-rtc`).

use std::io;

use nightwatt_host::Host;

/// What every clock can be set ahead, in seconds.
const NEARLY_A_DAY: i64 = 24 * 3600 - 60;

/// An alarm that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// By us.
    Ours {
        /// When it rings, in seconds since 1970 by the wall clock.
        at_s: i64,
        /// The same as the clock has it: by this it is known again.
        mark: i64,
    },
    /// Set by another program: it rings before ours would, and is left as it is.
    Theirs {
        /// When it rings, in seconds since 1970 by the wall clock.
        at_s: i64,
    },
}

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
    /// cannot be set so far ahead. `mark` is that of the last alarm that we set: one that others have set
    /// is kept if it rings earlier, for there is but one. A later one is replaced.
    ///
    /// The RTC may run on local time, or be wrong: the alarm is set by what it says itself.
    pub fn set(&self, now_s: i64, at_s: i64, mark: Option<i64>) -> io::Result<Set> {
        if let Some(theirs) = self.theirs(now_s, mark)?.filter(|theirs| *theirs < at_s) {
            return Ok(Set::Theirs { at_s: theirs });
        }
        let ours = |at_s| move |mark| Set::Ours { at_s, mark };
        match self.try_to_set(now_s, at_s) {
            // "Alarms can be up to one day in the future", says the kernel of clocks without a date.
            Err(error)
                if error.kind() == io::ErrorKind::InvalidInput && at_s - now_s > NEARLY_A_DAY =>
            {
                let nearer = now_s + NEARLY_A_DAY;
                self.try_to_set(now_s, nearer).map(ours(nearer))
            }
            set => set.map(ours(at_s)),
        }
    }

    /// When the alarm rings that others have set, if they have: in seconds since 1970 by the wall clock.
    pub fn theirs(&self, now_s: i64, mark: Option<i64>) -> io::Result<Option<i64>> {
        let now = self.now()?;
        // Empty if none is set. Some clocks leave one that has rung.
        let at = self.alarm()?.filter(|at| *at > now && Some(*at) != mark);
        Ok(at.map(|at| now_s.saturating_add(at.saturating_sub(now))))
    }

    fn alarm(&self) -> io::Result<Option<i64>> {
        Ok(self.host.read(self.file())?.trim().parse().ok())
    }

    fn now(&self) -> io::Result<i64> {
        let ours = self.host.read(format!("{}/since_epoch", self.folder))?;
        ours.trim().parse().map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("it says that it is `{}`", ours.trim()),
            )
        })
    }

    fn try_to_set(&self, now_s: i64, at_s: i64) -> io::Result<i64> {
        let ours = self.now()?;
        self.clear()?;
        let at = ours.saturating_add(at_s.saturating_sub(now_s)).max(ours.saturating_add(1));
        self.write(&at.to_string())?;
        let told = self.host.read(self.file())?;
        if told.trim() == at.to_string() {
            return Ok(at);
        }
        let said = format!("it was set to ring at {at}, but reads `{}`", told.trim());
        Err(io::Error::new(io::ErrorKind::InvalidData, said))
    }

    /// The alarm of this mark does not ring. One that others have set since does.
    pub fn clear_ours(&self, mark: i64) -> io::Result<()> {
        if self.alarm()? == Some(mark) { self.clear() } else { Ok(()) }
    }

    /// It does not ring. A clock refuses a new alarm while another is set, so this comes first.
    fn clear(&self) -> io::Result<()> {
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
        let set = rtc.set(1_000_000, 1_000_300, None).unwrap();
        assert_eq!(set, Set::Ours { at_s: 1_000_300, mark: 1_007_500 });
        let alarm = fs::read_to_string(dir.path().join("sys/class/rtc/rtc0/wakealarm")).unwrap();
        assert_eq!(alarm, "1007500");
        rtc.clear_ours(1_007_500).unwrap();
        let alarm = fs::read_to_string(dir.path().join("sys/class/rtc/rtc0/wakealarm")).unwrap();
        assert_eq!(alarm, "0");
    }

    #[test]
    fn an_alarm_of_others_is_kept_if_it_rings_before_ours_and_only_then() {
        // The RTC is two hours ahead of the wall clock, which says 1,000,000.
        let (dir, rtc) = clock("1007200\n");
        let file = dir.path().join("sys/class/rtc/rtc0/wakealarm");
        let now = 1_000_000;
        fs::write(&file, "1007300\n").unwrap();
        let kept = rtc.set(now, now + 300, None).unwrap();
        assert_eq!(kept, Set::Theirs { at_s: now + 100 });
        assert_eq!(fs::read_to_string(&file).unwrap(), "1007300\n", "untouched");
        let replaced = rtc.set(now, now + 50, None).unwrap();
        assert_eq!(replaced, Set::Ours { at_s: now + 50, mark: 1_007_250 });
        // The one that we have set ourselves is not one of others, and neither is one that has rung.
        let again = rtc.set(now, now + 300, Some(1_007_250)).unwrap();
        assert_eq!(again, Set::Ours { at_s: now + 300, mark: 1_007_500 });
        fs::write(&file, "1007100\n").unwrap();
        assert_eq!(rtc.theirs(now, None).unwrap(), None);
        // What others have set since is not ours to clear.
        fs::write(&file, "1009000\n").unwrap();
        rtc.clear_ours(1_007_500).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "1009000\n");
    }

    #[test]
    fn a_machine_without_a_clock_or_with_a_mad_one_is_told_of() {
        let (_dir, rtc) = clock("noon\n");
        assert!(rtc.set(1, 2, None).unwrap_err().to_string().contains("`noon`"));
        let nowhere = Rtc::new(&Host::at("/nonexistent"), "rtc0");
        assert_eq!(nowhere.set(1, 2, None).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

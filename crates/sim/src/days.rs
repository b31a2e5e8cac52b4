//! Requests by local calendar day.

/// Seconds.
const DAY: i64 = 86_400;

/// Admitted requests by local calendar day.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Days(Vec<(i64, Day)>);

/// Those of one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Day {
    /// All.
    pub admitted: u64,
    /// Of those, delayed.
    pub delayed: u64,
}

impl Days {
    /// Days since 1970, in their order, and what happened on them.
    pub fn iter(&self) -> impl Iterator<Item = (i64, Day)> {
        self.0.iter().copied()
    }

    /// A request at this many seconds of local time since 1970.
    pub(crate) fn count(&mut self, local: i64, delayed: bool) {
        let place = match self.0.last() {
            // Nearly always: only a request that was held past midnight is counted late.
            Some(&(last, _)) if (0..DAY).contains(&(local - last * DAY)) => self.0.len() - 1,
            _ => {
                let day = local.div_euclid(DAY);
                self.0.binary_search_by_key(&day, |&(day, _)| day).unwrap_or_else(|place| {
                    self.0.insert(place, (day, Day::default()));
                    place
                })
            }
        };
        let counts = &mut self.0[place].1;
        counts.admitted += 1;
        counts.delayed += u64::from(delayed);
    }
}

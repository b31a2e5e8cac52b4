//! Events of an iCalendar file keep the machine awake while they last. An event that cannot be understood keeps it
//! awake too, and is named.

use std::path::Path;

use nightwatt_energy::time::Now;
use nightwatt_host::Host;
use nightwatt_host::calendar::{Calendar, LONGEST_FILE};

use super::Inhibitions;

pub(super) fn check(host: &Host, path: &Path, now: Now) -> Inhibitions {
    let cannot = |why: String| format!("cannot read the calendar {}: {why}", path.display());
    let text = host.read(path).map_err(|error| cannot(error.to_string()))?;
    if text.len() > LONGEST_FILE {
        return Err(cannot("it is larger than 8 MiB".to_owned()));
    }
    let calendar = Calendar::parse(&text);
    let (running, broken) = calendar.at(now.wall.secs());
    let mut reasons: Vec<_> =
        running.into_iter().map(|name| format!("`{name}` is in the calendar now")).collect();
    reasons.extend(broken.into_iter().map(|(name, why)| cannot(format!("event `{name}`: {why}"))));
    Ok(reasons)
}

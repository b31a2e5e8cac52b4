//! The causes of wake-ups, by name.
use crate::wake_cause::WakeCause;

use nightwatt_policy::manager::Cause;

use super::Managed;

impl Managed {
    pub(super) fn name_cause(&mut self, cause: Cause) -> WakeCause {
        match cause {
            Cause::CrawlWindow => WakeCause::CrawlWindow,
            Cause::AwakeHours => WakeCause::AwakeHours,
            Cause::Policy => WakeCause::Policy,
            Cause::Refresh => WakeCause::Refresh,
            Cause::Job => WakeCause::Job,
            Cause::MagicPacket => WakeCause::MagicPacket,
            Cause::Operator => WakeCause::Operator,
            Cause::Request(id) => {
                let asker = self.askers.iter().find(|(asker, _)| *asker == id);
                asker.map_or_else(|| unnamed(id), |(_, cause)| cause.clone())
            }
        }
    }
}

/// Only when more clients asked than are remembered.
fn unnamed(id: u64) -> WakeCause {
    WakeCause::Request {
        id: id.to_string(),
        client: String::new(),
        class: String::new(),
        agent: None,
        line: String::new(),
    }
}

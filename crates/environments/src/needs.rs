//! What a kind of environment needs where it is made.

use nightwatt_host::preflight::Preflight;

use crate::config::{EnvironmentConfig, KindConfig};

/// What a kind needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// It is made by root.
    pub(crate) root: bool,
    /// Its programs, and how to get them.
    pub(crate) programs: &'static [(&'static str, &'static str)],
}

impl Needs {
    pub(crate) const NOTHING: Self = Self { root: false, programs: &[] };
}

impl EnvironmentConfig {
    /// What it needs of this machine. What it needs of another place, within which it is made, shows there.
    pub fn look(&self, flight: &mut Preflight) {
        if self.common.within.is_some() {
            return;
        }
        let needs = self.kind.needs();
        if needs.root {
            flight.root(&format!("environment `{}` ({})", self.common.name, self.kind.name()));
        }
        for (program, advice) in needs.programs {
            flight.program(program, advice);
        }
        if let KindConfig::Qemu(qemu) = &self.kind {
            flight.program(&qemu.program, crate::qemu::ADVICE);
        }
    }
}

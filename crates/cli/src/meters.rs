//! Which meters a command uses.

use nightwatt_meters::{Host, MeterSpec, usual};

use crate::args::MeterArgs;

/// Those that the user names, or those of this machine, or a model of it.
pub(crate) fn chosen(args: &MeterArgs) -> Vec<MeterSpec> {
    if args.meters.is_empty() { usual(&Host::default()) } else { args.meters.clone() }
}

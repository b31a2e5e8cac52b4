//! What daemons and management controllers answer to those who control servers: any bytes give a state,
//! or an error that is short and safe to print; and no link leads away from whom it came from.

use nightwatt_bmc::redfish;
use nightwatt_power::{docker, qemu};

fn checked<T>(result: Result<T, String>) -> Option<T> {
    result
        .inspect_err(|error| {
            assert!(!error.is_empty() && error.len() < 4_000, "{error}");
            assert!(!error.contains(|c: char| c.is_control()), "{error:?}");
        })
        .ok()
}

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    checked(docker::State::read(bytes));
    if let Some(qemu::Line::No(why)) = checked(qemu::Line::read(bytes)) {
        assert!(why.len() < 2_000 && !why.contains(|c: char| c.is_control()), "{why:?}");
    }
    if let Some(system) = checked(redfish::System::read(bytes)) {
        system.power();
        let ways = ["On", "ForceOn"];
        if let Some((target, way)) = checked(system.reset(&ways)) {
            assert!(target.starts_with('/') && !target.starts_with("//"), "{target}");
            assert!(target.bytes().all(|byte| byte.is_ascii_graphic()), "{target:?}");
            assert!(ways.contains(&way));
        }
    }
}

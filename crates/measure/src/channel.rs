//! Which channel of a meter is meant.

use nightwatt_meters::{Channel, MeterSpec};

use crate::error::Error;

/// The channel that was named, or the only one, or the one that covers the whole machine. `option`
/// is how the user names one.
pub(crate) fn pick(
    channels: &[Channel],
    wanted: Option<&str>,
    meter: &MeterSpec,
    option: &str,
) -> Result<usize, Error> {
    let place = match wanted {
        Some(name) => channels.iter().position(|channel| channel.name == name),
        None if channels.len() == 1 => Some(0),
        None => channels.iter().position(|channel| channel.scope.is_whole()),
    };
    place.ok_or_else(|| {
        let names: Vec<_> = channels.iter().map(|it| format!("`{}`", it.name)).collect();
        let names = names.join(", ");
        Error::Meter(meter.wrong(match wanted {
            Some(name) => format!("it has no channel `{name}`, but {names}"),
            None => format!("it has several channels; `{option}` says which one: {names}"),
        }))
    })
}

//! `nightwatt calibrate`: figures of this machine, from measurements. The mathematics is in
//! `pure::calibrate`; here are the experiments and the files.

mod recorded;
pub mod states;
pub mod storage;
pub mod sync;
mod table;
pub mod utilisation;
pub mod wakeups;

use nightwatt_meters::MeterSpec;
use nightwatt_meters::sampler::Opened;

use crate::error::Error;

/// The channel that was named, or the only one, or the one that covers the whole machine: its place.
fn channel_of(opened: &Opened, spec: &MeterSpec, wanted: Option<&str>) -> Result<usize, Error> {
    let channels = opened.channels();
    let wrong = |why: String| Error::Meter(spec.wrong(why));
    let place = if let Some(name) = wanted {
        channels.iter().position(|channel| channel.name == *name)
    } else if channels.len() == 1 {
        Some(0)
    } else {
        channels.iter().position(|channel| channel.scope.is_whole())
    };
    let place = place.ok_or_else(|| {
        let names: Vec<_> = channels.iter().map(|it| format!("`{}`", it.name)).collect();
        wrong(format!("say by `--channel` which one: {}", names.join(", ")))
    })?;
    if channels[place].is_modelled {
        return Err(wrong("a model cannot be fitted to a model; name a meter by `-m`".to_owned()));
    }
    Ok(place)
}

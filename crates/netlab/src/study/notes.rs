//! Notes beside figures, so that readers do not take them for more than they are.

use std::collections::BTreeMap;

/// What is to be said of the energy of wake-ups, where the rest is a model's; are they counted?
pub(crate) fn about_waking(joules: Option<f64>, counts: bool) -> Option<String> {
    let remark = match (joules, counts) {
        (Some(_), true) => return None,
        (Some(_), false) => {
            "nothing is added for wake-ups in spite of `--wake-energy`: this kernel counts no entries into idle \
             states (/sys/devices/system/cpu/cpu*/cpuidle), as in many virtual machines, and the tracepoint \
             power:cpu_idle cannot be counted"
        }
        (None, _) => {
            "energy is modelled from what the CPUs do; where the kernel counts entries into idle states, each is 0.2 mJ \
             in it (0 to 1 mJ: docs/power-model.md), unless the model is fitted to this machine: `--wake-energy` \
             puts yours in that place, and `nightwatt calibrate wakeups` finds it out"
        }
    };
    Some(remark.to_owned())
}

/// Why the tracepoint of rest is not counted on this machine.
pub(crate) fn about_tracing(why: &str) -> String {
    format!("wake-ups of this machine are not counted by the tracepoint power:cpu_idle: {why}")
}

/// CPUs that choose their frequency take another time and another energy for the same work, by what else
/// there is to do. `settings` are those of the machine.
pub(crate) fn about_frequency(settings: &BTreeMap<String, String>) -> Option<String> {
    let of = |name: &str| settings.get(name).map(String::as_str);
    let governor = of("governor")?;
    if of("lowest frequency kHz") == of("highest frequency kHz") {
        return None;
    }
    let turbo = if of("turbo") == Some("on") { ", and turbo is on" } else { "" };
    Some(format!(
        "the frequency of CPUs is not fixed (governor `{governor}`{turbo}): CPU time and energy are by what it \
         happened to be; fix it, as by `cpupower frequency-set --min 2GHz --max 2GHz`, or set it in a plan of \
         `nightwatt compare`"
    ))
}

/// Who asks the CPUs what runs there wakes those that rest.
pub(crate) const ABOUT_CPU_QUERIES: &str = "the CPUs were asked what runs there (`--where`): that wakes those that \
     rest, of which the idle machine has more, so wake-ups and energy beyond idle are too low; of `--where` take \
     shares, and those two from a study without it";

/// What is above idle cannot be below it.
pub(crate) fn below_idle(energy: f64) -> Option<&'static str> {
    (energy < 0.0).then_some(
        "energy below zero: this machine drew more while nothing was on the link than while connections ran, \
         so something else was at work; the figure says nothing",
    )
}

/// The channels that give the power of a link's runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PowerSource {
    pub(crate) name: String,
    pub(crate) is_modelled: bool,
}

/// Runs that have no energy because their power is not by the channels that it was by at first.
pub(crate) fn unpowered(looks: u32, source: Option<&PowerSource>) -> Option<String> {
    let what = match source {
        _ if looks == 0 => return None,
        Some(source) => format!("power was not known by {}, and by nothing else", source.name),
        None => "power was not known".to_owned(),
    };
    Some(format!(
        "{looks} times, idle or in a run, {what}: what is above idle then has no energy (a meter that did not \
         answer, or that counts in steps longer than a run: try longer ones, or `--energy METER/CHANNEL`)"
    ))
}

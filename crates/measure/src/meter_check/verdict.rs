//! What a meter check comes to, in plain words.

use crate::pure::meter_check::{MeterCheck, Relation};
use nightwatt_energy::quantity::Watts;

use super::{CheckReport, SideReport};

/// Known within this share, a scale is known.
const KNOWN: f64 = 0.1;

/// How far the two may be apart by what they say of themselves, at such a power.
pub(super) fn allowed(meter: &SideReport, reference: &SideReport, power: Watts) -> Watts {
    let of =
        |side: &SideReport| power.get().abs() * side.accuracy.relative + side.accuracy.watts.get();
    Watts(of(meter).hypot(of(reference)))
}

/// Sentences, the most important first.
pub(super) fn of(report: &CheckReport) -> Vec<String> {
    let check = &report.check;
    let mut verdict = vec![on_average(report)];
    if let Some(relation) = &check.relation {
        verdict.push(by_scale(relation));
        verdict.extend(late(relation, report));
    }
    let light = &check.light_load;
    if light.percent.abs() > 1.0 && light.percent.abs() > 2.0 * check.mean_percent.abs() {
        verdict.push(format!(
            "At light load (up to {:.3} W) it is worse: {} there.",
            light.up_to.get(),
            more_or_less(light.mean_error, light.percent)
        ));
    }
    verdict.push(single(check));
    verdict
}

fn more_or_less(error: Watts, percent: f64) -> String {
    let word = if error.get() < 0.0 { "less" } else { "more" };
    format!("{:.3} W ({:.2} %) {word} than the reference", error.get().abs(), percent.abs())
}

fn on_average(report: &CheckReport) -> String {
    let check = &report.check;
    let said = more_or_less(check.mean_error, check.mean_percent);
    let chance = check.mean_error_95.map_or(0.0, Watts::get);
    let allowed = report.allowed.get();
    let size = check.mean_error.get().abs();
    let judgement = if size <= allowed {
        format!("which is within what the two state of themselves (± {allowed:.3} W)")
    } else if size <= allowed + chance {
        format!(
            "which may be chance or more than the two state (± {allowed:.3} W): check for longer"
        )
    } else {
        format!("which is more than the two state (± {allowed:.3} W): one of them is wrong")
    };
    format!("On average the meter reads {said}, {judgement}.")
}

fn by_scale(relation: &Relation) -> String {
    let (scale, offset) = (&relation.scale, &relation.offset);
    let half = scale.interval.1 - scale.value;
    if !half.is_finite() || half > KNOWN * scale.value.abs() {
        return format!(
            "Its scale is known only to ± {:.0} %: the load changed too little.",
            100.0 * half / scale.value.abs()
        );
    }
    if scale.covers(&1.0) && offset.covers(&Watts::ZERO) {
        return "Its scale and offset are those of the reference.".to_owned();
    }
    let less = match offset.value.get() {
        watts if watts < 0.0 => format!("plus {:.3} W", -watts),
        watts => format!("less {watts:.3} W"),
    };
    format!("Its reading {less}, divided by {:.4}, is what the reference reads.", scale.value)
}

fn late(relation: &Relation, report: &CheckReport) -> Option<String> {
    let lag = &relation.lag;
    let matters = report.meter.interval_s.max(report.reference.interval_s) / 2.0;
    if lag.covers(&0.0) || lag.value.abs() < matters {
        return None;
    }
    let word = if lag.value < 0.0 { "early" } else { "late" };
    let seconds = lag.value.abs();
    Some(format!(
        "It is {seconds:.3} s {word} against the reference: what is shorter than that it shows at \
         the wrong time."
    ))
}

fn single(check: &MeterCheck) -> String {
    let step =
        check.step.map_or(String::new(), |step| format!(", in steps of {:.4} W", step.get()));
    format!(
        "A single reading scatters by ± {:.3} W (95 %){step}; the worst was off by {:.3} W.",
        1.96 * check.noise.get(),
        check.worst.error.get()
    )
}

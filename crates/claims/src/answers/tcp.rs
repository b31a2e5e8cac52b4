//! What `tcp lab` has found beside the published claims about TCP: B1, B3, B4, B5.

pub(crate) mod kept;

use std::collections::BTreeSet;

use nightwatt_energy::stats::distribution::student_t;
use nightwatt_energy::stats::moments::Moments;
use nightwatt_energy::stats::ratio::Ratio;

use self::kept::{Cell, Kept};
use crate::{Answer, Context, Error, Figure, Printed};

/// Links that were held against the first, and what is measured over them.
const WHERE: &str = "`nightwatt tcp lab --scenario a,d,f,g --connections 1 --segments 1000 --most 8 \
     --precision 0.0001 --longest 5s --accept-link --where --json > where.json` on a machine that does nothing \
     else (`make bench-tcp-where` is that and `reproduce B5`)";

const STUDY: &str = "`nightwatt tcp lab --congestion reno,cubic --json > tcp.json` (29 hours to 8 days; `--scenario`, \
     `--connections` and `--segments` make it less)";

/// A run of the published form spans at least this many lifetimes,
const LIFETIMES: f64 = 200.0;

/// and is repeated at most this many times.
const REPETITIONS: usize = 20;

/// Required relative precision of the means.
const PRECISION: f64 = 0.03;

/// Categories that B5 gives shares of, with the keys of its figures.
const CATEGORIES: [(&str, &str); 4] =
    [("scheduler", "Scheduler"), ("acpi", "ACPI"), ("irq", "IRQ"), ("tcp", "TCP")];

/// Links that are slower than a, or longer.
const SLOWER: [&str; 3] = ["d", "f", "g"];

fn missing(command: &str) -> Answer {
    Answer::not_checkable(format!(
        "it takes a while of measuring: {command}, then `--results` with that file"
    ))
}

/// B1: what connections take over links of all kinds, and with Reno and Cubic.
pub(crate) fn energy(context: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let mut all = kept::all(context)?;
    all.retain(|it| it.cells().any(|(_, cell)| cell.known("energy").is_some()));
    // What a model says beside a meter's figures does not count.
    let are_modelled = all.iter().all(|it| it.energy_is_modelled);
    all.retain(|it| it.energy_is_modelled == are_modelled);
    let mut figures = Vec::new();
    // One end's energy is not to be held against the other's, or against that of both.
    for end in [None, Some("sender"), Some("receiver")] {
        let of_end = || all.iter().filter(|it| it.metered() == end).flat_map(Kept::cells);
        for (key, name) in [("connection", "energy"), ("segment", "energy_per_segment")] {
            let joules: Vec<f64> = of_end().filter_map(|(_, cell)| cell.known(name)).collect();
            let most = joules.iter().copied().fold(0.0, f64::max);
            let least = joules.iter().copied().fold(f64::INFINITY, f64::min);
            if joules.len() > 1 {
                figures.push(printed.figure_of(key, end.unwrap_or_default(), most / least)?);
            }
        }
    }
    if let Some(mean) = Moments::of(&sending_over_receiving(&all)).mean() {
        figures.push(printed.figure("sending", mean)?);
    }
    let ratios: Vec<f64> = all.iter().flat_map(cubic_over_reno).collect();
    if let Some(mean) = Moments::of(&ratios).mean() {
        figures.push(printed.figure("cubic", 100.0 * mean)?);
    }
    if figures.is_empty() {
        return Ok(missing(STUDY));
    }
    // The first note of a laboratory is what it tells apart.
    let ends: BTreeSet<&str> =
        all.iter().filter_map(|it| it.notes.first()).map(String::as_str).collect();
    let ends = ends.into_iter().collect::<Vec<_>>().join("; ");
    if are_modelled {
        let why = format!(
            "measured, but without a meter: power is a model's of CPU time and wake-ups; {ends}"
        );
        return Ok(Answer::not_checkable(why).with(figures));
    }
    Ok(Answer::by(figures, format!("{ends}{}", notes(&all))))
}

/// Energy of a connection at its sender over that at its receiver, surely at least, wherever the same was run twice
/// with the meter at one end and at the other: the lower end of the one's interval over the upper of the other's.
fn sending_over_receiving(all: &[Kept]) -> Vec<f64> {
    let at = |end: &'static str| {
        all.iter().filter(move |it| it.metered() == Some(end)).flat_map(Kept::cells)
    };
    let both = |(link, sending): (&str, &Cell)| {
        let same = |(name, it): &(&str, &Cell)| *name == link && it.load() == sending.load();
        let (_, receiving) = at("receiver").find(same)?;
        let bound = |cell: &Cell, sign: f64| {
            let half = cell.precision("energy").unwrap_or(0.0);
            Some(cell.known("energy")? * (1.0 + sign * half))
        };
        Some(bound(sending, -1.0)? / bound(receiving, 1.0)?)
    };
    at("sender").filter_map(both).collect()
}

/// Energy of a connection by Cubic over that by Reno, wherever both are known.
fn cubic_over_reno(all: &Kept) -> Vec<f64> {
    let energy = |(scenario, cubic): (&str, &Cell)| {
        let same = |(name, it): &(&str, &Cell)| {
            let loads = (it.connections, it.segments) == (cubic.connections, cubic.segments);
            *name == scenario && loads && it.congestion == "reno"
        };
        let (_, reno) = all.cells().find(same)?;
        Some(cubic.known("energy")? / reno.known("energy")?)
    };
    all.cells().filter(|(_, cell)| cell.congestion == "cubic").filter_map(energy).collect()
}

/// B3: what the processor draws. Theirs is one processor's.
pub(crate) fn power(context: &mut Context<'_>, _: &Printed) -> Result<Answer, Error> {
    let all = kept::all(context)?;
    let mut figures = Vec::new();
    for (what, name) in [
        ("idle, with the link in place", "idle_power"),
        ("while connections run, at most", "power"),
    ] {
        let watts = all.iter().flat_map(Kept::cells).filter_map(|(_, cell)| cell.mean(name));
        let most = watts.fold(f64::NAN, f64::max);
        if most.is_finite() {
            figures.push(Figure::alone(what, most, "W"));
        }
    }
    if figures.is_empty() {
        return Ok(missing(STUDY));
    }
    let why = if all.iter().any(|it| it.energy_is_modelled) {
        "a model's of this machine: it takes a meter on the processor (RAPL) and one on each other part"
    } else {
        "theirs is one processor of 2011, ours is this machine's: no tolerance would mean anything"
    };
    Ok(Answer::not_checkable(why).with(figures))
}

/// B4: are means known within 3 % after 20 runs of 200 lifetimes?
pub(crate) fn precision(context: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let all = kept::all(context)?;
    let of_the_form = |(_, cell): &(&str, &Cell)| {
        cell.lifetimes >= 0.99 * LIFETIMES && (3..=REPETITIONS).contains(&cell.runs.len())
    };
    let is_known = |cell: &Cell| cell.precision("lifetime").is_some_and(|it| it <= PRECISION);
    // Who stopped before has not tried what the claim is about.
    let (cells, untried): (Vec<(&str, &Cell)>, Vec<_>) = all
        .iter()
        .flat_map(Kept::cells)
        .filter(of_the_form)
        .partition(|(_, cell)| is_known(cell) || cell.runs.len() == REPETITIONS);
    if cells.is_empty() {
        return Ok(missing(
            "`nightwatt tcp lab --json > tcp.json`, which runs 200 lifetimes unless `--longest` cuts them (18 hours to \
             5 days)",
        ));
    }
    let known = cells.iter().filter(|(_, cell)| is_known(cell)).count();
    let share = 100.0 * known as f64 / cells.len() as f64;
    let unknown = cells.iter().filter(|(_, cell)| !is_known(cell)).enumerate();
    let unknown = unknown.map(|(place, (link, cell))| {
        let text = cell.text(link);
        if place == 0 { format!("not of {text}") } else { text }
    });
    let untried = (!untried.is_empty()).then(|| {
        format!("{} more were not known by fewer than 20 runs, and say nothing", untried.len())
    });
    let rest = unknown.chain(untried).fold(String::new(), |all, it| all + "; " + &it);
    let why = format!(
        "{known} of {} mean lifetimes were known within 3 % by then, with intervals that hold although they said \
         when to stop (wider than theirs){rest}{}",
        cells.len(),
        notes(&all)
    );
    Ok(Answer::by(vec![printed.figure("known", share)?], why))
}

/// B5: what the CPUs' time goes into over slower links.
pub(crate) fn kernel_time(context: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let all = kept::all(context)?;
    let mut told: Vec<(&str, &Cell)> =
        all.iter().flat_map(Kept::cells).filter(|(_, cell)| cell.changing().count() > 1).collect();
    // A load differs from another as links do.
    let is_comparable = |first: &&Cell| {
        told.iter().any(|(name, cell)| SLOWER.contains(name) && cell.load() == first.load())
    };
    let first = told.iter().filter(|it| it.0 == "a").map(|it| it.1).find(is_comparable);
    let Some(first) = first else { return Ok(missing(WHERE)) };
    told.retain(|(_, cell)| cell.load() == first.load());
    let of =
        |name: &str| told.iter().find(|(scenario, _)| *scenario == name).map(|(_, cell)| *cell);
    let (mut figures, mut seen) = (Vec::new(), Vec::new());
    for (key, name) in [("first", "a"), ("slow", "f")] {
        if let Some(mean) = of(name).and_then(|cell| cell.changing().mean()) {
            figures.push(printed.figure(key, 100.0 * mean)?);
        }
    }
    for name in SLOWER {
        let Some(cell) = of(name) else { continue };
        let Some(ratio) = Ratio::independent(&cell.changing(), &first.changing()) else { continue };
        let interval = ratio.interval(student_t(0.025, ratio.degrees_of_freedom()));
        let low = interval.map_or(0.0, |it| it.low);
        figures.push(printed.figure_of("order", name, low)?);
        let between =
            interval.map_or("unknown".to_owned(), |it| format!("{:.2} to {:.2}", it.low, it.high));
        let verdict = match interval {
            Some(it) if it.low > 1.0 => "seen",
            Some(it) if it.high < 1.0 => "the other way round",
            _ => "not seen: may be chance",
        };
        seen.push(format!("{name} over a {:.2} times ({between}): {verdict}", ratio.estimate()));
    }
    for (key, category) in CATEGORIES {
        for (scenario, cell) in &told {
            if let Some(mean) = cell.of_category(category).mean() {
                figures.push(printed.figure_of(key, scenario, 100.0 * mean)?);
            }
        }
    }
    let why = format!(
        "under the load {}: shares of what is under test and of the kernel itself, by samples of the CPUs, 95 % intervals over the \
         runs (Fieller, Welch). The ordering: {}. A virtual machine rests by `hlt` and has few functions of ACPI; \
         a relay's delay wakes CPUs, too{}",
        first.load_text(),
        seen.join("; "),
        notes(&all)
    );
    Ok(Answer::by(figures, why))
}

/// What the laboratory has to say of its links and of the machine.
fn notes(all: &[Kept]) -> String {
    let of_links = all.iter().flat_map(|it| &it.notes).filter(|note| note.starts_with("scenario "));
    of_links.fold(String::new(), |all, note| all + "; " + note)
}

#[cfg(test)]
mod tests;

//! H1, and the claims that only a comparison of environments answers: O7, H2, H3, V6.

use nightwatt_energy::stats::intervals::normal;
use nightwatt_energy::stats::moments::Moments;

use crate::{Answer, Context, Error, Figure, Printed, rows};
use nightwatt_compare::figures::{PER_OPERATION, POWER as POWER_FIGURE};
use nightwatt_compare::{Report, store};

const POWER: &str = include_str!("../../data/helin-power.csv");

/// Maximum number of samples behind a row.
const MOST_SAMPLES: u64 = 1000;

/// Half a unit in the last digit of standard deviations and half widths.
const HALF_DIGIT: f64 = 0.005;

/// Half a unit in the last digit of means and percentages.
const HALF_TENTH: f64 = 0.05;

const IDLE: &str = "Idle: host, containers, guests";
const TURBO: &str = "Turbo";

/// Plans whose results answer a claim: claim, plan, its title, and how long it takes.
const PLANS: [(&str, &str, &str, &str); 7] = [
    ("O7", "pgbench.toml", "The five experiments with pgbench: host, container, guest", "20 h"),
    ("O7", "pgbench-threads.toml", "pgbench with 1 to 50 threads: host, container, guest", "31 h"),
    ("H2", "idle.toml", IDLE, "10 h"),
    ("H2", "turbo.toml", TURBO, "7 h"),
    ("H3", "guests.toml", "One, two and three guests against as much hardware", "15 h"),
    (
        "V6",
        "web-static.toml",
        "A web server, static: host, container, guest",
        "150 h an environment",
    ),
    (
        "V6",
        "web-dynamic.toml",
        "A web server, dynamic: host, container, guest",
        "30 h an environment",
    ),
];

/// Half of the printed interval for this number of samples with this standard deviation.
fn half_width(samples: u64, sd: f64) -> f64 {
    normal(&Moments::published(samples, 0.0, sd)).map_or(f64::NAN, |it| it.width() / 2.0)
}

/// H1: for each row a number of samples with which the printed interval follows from the printed standard
/// deviation, by their roundings; and each percentage from its mean.
#[expect(clippy::unnecessary_wraps, reason = "all answers have one form")]
pub(crate) fn intervals(_: &mut Context<'_>, _: &Printed) -> Result<Answer, Error> {
    let rows = rows(POWER);
    let hardware = rows.first().and_then(|(_, cells)| cells[0]).unwrap_or(f64::NAN);
    let (mut figures, mut without) = (Vec::new(), Vec::new());
    for (name, cells) in &rows {
        let [Some(mean), percent, Some(sd), Some(printed)] = cells[..] else { continue };
        let apart = |samples: &u64| (half_width(*samples, sd) - printed).abs();
        let nearest = (2..MOST_SAMPLES).min_by(|a, b| apart(a).total_cmp(&apart(b))).unwrap_or(2);
        // Both were rounded: so far may they be apart.
        let within = HALF_DIGIT + half_width(nearest, HALF_DIGIT);
        let what = format!("{name}: 1.96 x {sd:.2} / sqrt({nearest})");
        let figure =
            Figure::within(what, half_width(nearest, sd), printed..=printed, within + 1e-9, "W");
        if figure.agrees == Some(false) {
            // The number of samples that either end of the roundings asks for.
            let of_two = half_width(2, 1.0);
            let asked = |sd: f64, half: f64| 2.0 * (of_two * sd / half).powi(2);
            let (least, most) = (
                asked(sd - HALF_DIGIT, printed + HALF_DIGIT),
                asked(sd + HALF_DIGIT, printed - HALF_DIGIT),
            );
            without.push(format!("{name}: n would be between {least:.2} and {most:.2}"));
        }
        figures.push(figure);
        if let Some(percent) = percent {
            let rounding = 100.0 * HALF_TENTH / hardware * (1.0 + mean / hardware) + HALF_TENTH;
            let (what, ours) =
                (format!("{name}: {mean} W of {hardware} W"), 100.0 * mean / hardware);
            figures.push(Figure::within(what, ours, percent..=percent, rounding, "%"));
        }
    }
    let why = if without.is_empty() {
        "no numbers of samples are printed; for each row there is one with which its interval follows"
            .to_owned()
    } else {
        format!(
            "no numbers of samples are printed. For each row there is one with which its interval follows \
             from its standard deviation, except {}, where no whole number fits; the percentages follow \
             from the means (ESXi, measured with two disks, is held against the hardware with one: against \
             that with two it is 170 %)",
            without.join("; ")
        )
    };
    Ok(Answer::by(figures, why))
}

/// By results that are given; what they measured takes hours.
pub(crate) fn measured(context: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let plans: Vec<_> = PLANS.iter().filter(|(id, ..)| *id == printed.id).collect();
    let tables = if printed.id == "H2" { of_tables(printed)? } else { Vec::new() };
    let (mut figures, mut compared) = (Vec::new(), Vec::new());
    let mut is_modelled = false;
    // Files are those of `tcp lab` and `tcp helps`.
    for folder in context.options.results.iter().filter(|path| !path.is_file()) {
        let (plan, runs) = store::read(folder)?;
        if !plans.iter().any(|(_, _, title, _)| *title == plan.title) {
            continue;
        }
        context.used(folder);
        let report = nightwatt_compare::report(&plan, &runs)?;
        is_modelled |= report.energy.is_modelled;
        figures.extend(of_report(&report));
        if !report.energy.is_modelled {
            compared.extend(beside_ours(printed, &report)?);
        }
    }
    let names = plans.iter().map(|(_, plan, _, time)| format!("experiments/{plan} ({time})"));
    let names = names.collect::<Vec<_>>().join(" or ");
    let by_tables = if tables.is_empty() {
        ""
    } else {
        ". What is above follows from the tables that they print"
    };
    let as_published = match printed.id.as_str() {
        "O7" => {
            ". The first of these has their five experiments: scales, queries, 300 s, two clients"
        }
        "V6" => {
            ". The first of these has their nine rates, five sizes, ten minutes, 20 repetitions"
        }
        _ => "",
    };
    if figures.is_empty() {
        let why = format!(
            "hours of measuring: run `nightwatt compare` with {names}, then give its folder with \
             `--results`{as_published}{by_tables}"
        );
        return Ok(Answer::not_checkable(why).with(tables));
    }
    let figures = [tables, compared.clone(), figures].concat();
    if !compared.is_empty() {
        let why = format!(
            "measured on this machine by a meter, within 3 points, for the hardware is another{by_tables}"
        );
        return Ok(Answer::by(figures, why));
    }
    let mut why = if is_modelled {
        "measured, but without a meter: power is a model's of CPU time, which knows nothing of what this \
         claim is about"
    } else {
        "measured on this machine, each figure as a share of its baseline; theirs are drawn, or of other \
         hardware, so no tolerance would mean anything"
    }
    .to_owned();
    why.push_str(by_tables);
    Ok(Answer::not_checkable(why).with(figures))
}

/// H2: what their text says beside what their tables say.
fn of_tables(printed: &Printed) -> Result<Vec<Figure>, Error> {
    let rows = rows(POWER);
    let watts = |name: &str| {
        let row = rows.iter().find(|(it, _)| *it == name);
        row.and_then(|(_, cells)| *cells.first()?)
            .ok_or_else(|| Error::Data(format!("no power of {name}")))
    };
    let hardware = watts("hardware with one disk")?;
    let mut figures = Vec::new();
    for (key, environment) in [("kvm", "KVM"), ("xen", "Xen"), ("esxi", "ESXi")] {
        for guests in ["one guest", "three guests"] {
            let share = 100.0 * watts(&format!("{environment} with {guests}"))? / hardware;
            figures.push(printed.figure_of(key, guests, share)?);
        }
    }
    figures.push(printed.figure("disk", watts("hardware with two disks")? - hardware)?);
    let (with, without) =
        (watts("three KVM guests with turbo")?, watts("three KVM guests without turbo")?);
    figures.push(printed.figure("turbo", 100.0 * (1.0 - without / with))?);
    let (three, together) = (3.0 * hardware, watts("KVM with three guests")?);
    figures.push(Figure::alone(
        "three idle guests of KVM take less than three idle machines by",
        100.0 * (1.0 - together / three),
        "%",
    ));
    Ok(figures)
}

/// H2: ratios of ours that theirs are of, too: of power, or of energy for the same work.
fn beside_ours(printed: &Printed, report: &Report) -> Result<Vec<Figure>, Error> {
    let answers = report.answers.figures.get(&report.answers.main);
    let Some(answers) = answers.filter(|_| printed.id == "H2") else { return Ok(Vec::new()) };
    let is_of_energy = |comparison: &str| {
        let of_it = report.comparisons.iter().find(|it| it.name == comparison);
        of_it.is_some_and(|it| [POWER_FIGURE, PER_OPERATION].contains(&it.main.as_str()))
    };
    let mut figures = Vec::new();
    for it in answers.to_baseline.ratios.iter().filter(|it| is_of_energy(&it.comparison)) {
        let of = format!("{}: {} over {}", it.comparison, it.environment, it.reference);
        if report.title == IDLE && it.environment.starts_with("guest") {
            figures.push(printed.figure_of("kvm_here", &of, 100.0 * it.ratio)?);
        }
        if report.title == TURBO
            && it.comparison.contains("PHP")
            && it.comparison.contains("guests")
        {
            figures.push(printed.figure_of("turbo_here", &of, 100.0 * (1.0 - it.ratio))?);
        }
    }
    Ok(figures)
}

/// Ratios to the baseline, of the figure that runs were repeated for.
fn of_report(report: &Report) -> Vec<Figure> {
    let Some(answers) = report.answers.figures.get(&report.answers.main) else { return Vec::new() };
    let ratio = |it: &nightwatt_compare::pure::experiment::judged_ratios::RatioAnswer| {
        let what = format!(
            "{}, {}: {} over {}",
            report.answers.main, it.comparison, it.environment, it.reference
        );
        Figure::alone(what, 100.0 * it.ratio, "%")
    };
    answers.to_baseline.ratios.iter().map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Plans that lie in the repository.
    fn plan(file: &str) -> toml::Table {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let text = std::fs::read_to_string(PathBuf::from(path).join(file)).unwrap();
        text.parse().unwrap()
    }

    /// A published figure's file, where it is.
    fn published(file: &str) -> Option<String> {
        let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
        let data = std::env::var_os("NIGHTWATT_DATA").map_or_else(|| beside.into(), PathBuf::from);
        let found = std::fs::read_to_string(data.parent()?.join("published").join(file)).ok();
        if found.is_none() {
            eprintln!("skipped: no published figures beside {}", data.display());
        }
        found
    }

    #[test]
    fn plans_that_answer_claims_are_there_under_their_titles() {
        for (id, file, title, _) in PLANS {
            assert_eq!(plan(file)["title"].as_str(), Some(title), "{id}: {file}");
        }
    }

    #[test]
    fn the_plan_of_web_servers_asks_what_was_published() {
        let Some(claims) = published("README.md") else { return };
        let claim = claims.lines().find(|line| line.starts_with("| V6 ")).unwrap();
        let list = |plan: &toml::Table, factor: usize| -> String {
            let values = plan["factor"][factor]["values"].as_array().unwrap();
            values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let plan = plan("web-static.toml");
        assert!(claim.contains(&format!("load levels {} requests/s", list(&plan, 0))), "{claim}");
        assert!(claim.contains(&format!("sizes {} KB", list(&plan, 1))), "{claim}");
        assert!(
            claim.contains("10 min runs less first and last minute; 20 repetitions"),
            "{claim}"
        );
        let command = plan["workload"][0]["command"].as_str().unwrap();
        assert!(command.contains("--for 10m --warm-up 1m --cool-down 1m"), "{command}");
        assert_eq!(plan["runs"]["least"].as_integer(), Some(20));
        assert_eq!(plan["runs"]["most"].as_integer(), Some(20));
    }

    #[test]
    fn the_plan_of_databases_asks_what_was_published() {
        let Some(experiments) = published("odwyer_pgbench_experiments.csv") else { return };
        let plan = plan("pgbench.toml");
        let workloads = plan["workload"].as_array().unwrap();
        assert_eq!(workloads.len(), experiments.lines().count() - 1);
        for (line, workload) in experiments.lines().skip(1).zip(workloads) {
            // experiment,size,scale,query,duration_s,clients,threads
            let cells: Vec<&str> = line.split(',').collect();
            let command = workload["command"].as_str().unwrap();
            let query = match cells[3] {
                "prepared" => "-b tpcb-like -M prepared".to_owned(),
                query => format!("-b {query}"),
            };
            let asked = format!("{query} -T {} -c {} -j {} ", cells[4], cells[5], cells[6]);
            assert!(command.contains(&asked), "{line}: {command}");
            let name = workload["name"].as_str().unwrap();
            assert!(name.starts_with(&format!("{}: scale {},", cells[0], cells[2])), "{name}");
        }
    }
}

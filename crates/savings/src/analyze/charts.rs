//! The analysis in pictures.

use nightwatt_energy::quantity::JOULES_PER_KWH;
use nightwatt_policy::sleep::PolicyChoice;
use nightwatt_report::{Axis, Chart, Scale, Series, SeriesKind};
use nightwatt_traffic::summary::Typical;

use super::costs::{ORACLE, TIMEOUT};
use super::result::{Analysis, BySequence, SizeBand};
use super::sla::name;
use super::tables::{DAYS, SEQUENCES};

/// The figure of one sequence.
type FigureOf = fn(&BySequence<Option<f64>>) -> Option<f64>;

impl Analysis {
    /// What each policy saves, against the visits that it delays.
    pub(super) fn frontier_chart(&self) -> Chart {
        let days = self.days();
        let x = Axis::new("delayed visits", "a day", Scale::FromZero);
        let y = Axis::new("saving", "%", Scale::FromZero);
        let mut others = Series::new(self.terms_of_service(), SeriesKind::Scatter);
        let mut own = Series::new("yours", SeriesKind::Scatter);
        for (name, it) in self.ranked() {
            let (x, y) = (it.delayed_visits as f64 / days, 100.0 * it.saving);
            if name == self.default_policy {
                own = own.labelled(x, y, format!("{name} (yours)"));
            } else {
                others = others.labelled(x, y, name);
            }
        }
        let mut chart = Chart::new("Saving against delayed visits", x, y)
            .description(
                "Further up saves more; further left delays fewer. The line joins all fixed time-outs \
                 when there is no SLA; what lies above it is better than any of them. The \
                 policies as served are held back by the SLA, but have a cache that knows when \
                 the server sleeps.",
            )
            .series(own)
            .series(others);
        let choices = [PolicyChoice::Learned, PolicyChoice::Window, PolicyChoice::SkiRental];
        let [learned, window, ski_rental] = choices.map(|choice| choice.name());
        let by_price = format!("{learned} without an SLA, by price of a delayed visit");
        for (kind, name, style) in [
            (ORACLE, ORACLE.to_owned(), SeriesKind::Scatter),
            (learned, by_price, SeriesKind::Scatter),
            (window, format!("{window} without SLA"), SeriesKind::Scatter),
            (ski_rental, format!("{ski_rental} without SLA"), SeriesKind::Scatter),
            (TIMEOUT, "fixed time-outs without SLA".to_owned(), SeriesKind::Line),
        ] {
            let mut series = Series::new(name, style);
            for point in self.frontier.iter().filter(|point| point.kind == kind) {
                let setting = point.policy.trim_start_matches(kind).trim_start_matches(" at");
                let label = if setting.is_empty() { kind } else { setting.trim_start() };
                let x = point.delayed_visits as f64 / days;
                series = series.labelled(x, 100.0 * point.saving, label);
            }
            series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
            chart = chart.series(series);
        }
        chart
    }

    /// Under which conditions `serve` runs policies here.
    fn terms_of_service(&self) -> String {
        let own = self.sla.iter().find(|it| it.is_own);
        let of = own.filter(|_| self.scenario.sla.enabled).map(|it| match it.share {
            Some(share) if it.visits_per_day.is_none() && it.longest_wait_s.is_none() => {
                format!("at most {:.0} % of requests wait", 100.0 * share)
            }
            _ => name(it).replace(" (yours)", ""),
        });
        format!("as served: {}", of.unwrap_or_else(|| "no SLA".to_owned()))
    }

    /// Energy with perfect knowledge against the shortest gap that is slept in.
    pub(super) fn ideal_chart(&self) -> Chart {
        let x = Axis::new("shortest gap that is slept in", "s", Scale::FromZero);
        let y = Axis::new("energy", "kWh", Scale::FromZero);
        let mut chart = Chart::new("Energy with perfect knowledge", x, y).description(
            "What the server and the proxy would use if the server slept in each gap of at least that \
             length and no request waited. The curve is flat where gaps of that length hardly occur; \
             left of the break-even a sleep costs more than it saves.",
        );
        let of: [FigureOf; 4] =
            [|it| it.all, |it| it.without_crawlers, |it| it.behind_cache, |it| it.both];
        for (name, joules) in SEQUENCES.iter().zip(of) {
            let points = self.ideal.iter().filter_map(|(&s, row)| {
                joules(row).map(|joules| (f64::from(s), joules / JOULES_PER_KWH))
            });
            chart = chart.series(Series::new(*name, SeriesKind::Line).points(points));
        }
        let always_on = self.always_on_j / JOULES_PER_KWH;
        let ends = self.ideal.keys().map(|&s| (f64::from(s), always_on));
        chart = chart.series(Series::new("always on, no proxy", SeriesKind::Line).points(ends));
        let break_even = self.scenario.power_states().break_even().as_secs_f64();
        chart.line_at_x(break_even, format!("break-even {break_even:.1} s"))
    }

    /// Gaps by length, both axes by ratio.
    pub(super) fn gaps_chart(&self) -> Chart {
        let x = Axis::new("length of the gap", "s", Scale::LogDuration);
        let y = Axis::new("gaps", "", Scale::Log);
        let mut chart = Chart::new("Gaps between requests", x, y).description(format!(
            "How many gaps are how long, in bands of half an octave, drawn at the mean length of \
             each. The log's times are as fine as {} s: requests at the same time have no place \
             here and are in the tables.",
            self.resolution_s
        ));
        for (name, it) in self.gap_figures() {
            let mut points: Vec<(f64, f64)> = Vec::new();
            let mut end = f64::INFINITY;
            for band in it.histogram.iter().filter(|band| band.seconds > 0.0) {
                // The line breaks off where there are no gaps; not where bands are narrower than
                // the log's times are fine, which no gap can lie in.
                if band.from_s > 1.001 * end && band.from_s > 3.0 * self.resolution_s {
                    points.push((end, 0.0));
                }
                points.push((band.seconds / band.gaps as f64, band.gaps as f64));
                end = band.to_s;
            }
            chart = chart.series(Series::new(name, SeriesKind::Line).points(points));
        }
        chart
    }

    /// Requests per hour of the day.
    pub(super) fn day_chart(&self) -> Chart {
        let names = (0..24).map(|hour| format!("{hour:02}")).collect();
        let hours = &self.hours;
        hours_chart("Requests per hour of the day", names, &hours.of_day, &hours.crawlers_of_day)
    }

    /// Requests per hour of the week.
    pub(super) fn week_chart(&self) -> Chart {
        let name = |hour: usize| format!("{} {:02}", DAYS[hour / 24], hour % 24);
        let names = (0..168).map(name).collect();
        let hours = &self.hours;
        hours_chart("Requests per hour of the week", names, &hours.of_week, &hours.crawlers_of_week)
    }

    /// Answers by size.
    pub(super) fn sizes_chart(&self) -> Chart {
        let x = Axis::new("size of the answer", "B", Scale::Log);
        let y = Axis::new("answers", "", Scale::FromZero);
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut next = 0;
        for &SizeBand { from, to, answers } in &self.sizes.histogram {
            // Bands without answers are left out of the histogram.
            if from > next {
                points.push((next as f64, 0.0));
            }
            points.push((from as f64, answers as f64));
            next = to.saturating_add(1);
        }
        points.push((next as f64, 0.0));
        Chart::new("Sizes of answers", x, y)
            .description(
                "Bands begin where they are drawn. Answers without a body are in the table.",
            )
            .series(Series::new("answers", SeriesKind::Step).points(points))
    }
}

fn hours_chart(title: &str, names: Vec<String>, all: &[Typical], crawlers: &[Typical]) -> Chart {
    let x = Axis::new("local time of the log", "", Scale::Category(names));
    let y = Axis::new("requests", "1/h", Scale::FromZero);
    let points = |of: &[Typical], figure: fn(&Typical) -> f64| -> Vec<(f64, f64)> {
        of.iter().enumerate().map(|(hour, it)| (hour as f64, figure(it))).collect()
    };
    let line = |name: &str, points| Series::new(name, SeriesKind::Line).points(points);
    Chart::new(title, x, y)
        .description("A mean far above its median tells of rare bursts.")
        .series(line("all, median", points(all, |it| it.median)))
        .series(line("all, mean", points(all, |it| it.mean)))
        .series(line("crawlers, median", points(crawlers, |it| it.median)))
        .series(line("crawlers, mean", points(crawlers, |it| it.mean)))
}

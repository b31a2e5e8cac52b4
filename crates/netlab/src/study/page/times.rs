//! Where the CPUs' time went, as charts.

use nightwatt_report::{Axis, Block, Chart, Scale, Section, Series, SeriesKind};

use super::super::Cell;
use super::super::breakdown::{Breakdown, CategoryEstimate};
use super::super::result::{CellReport, Report};

/// A level of categories.
struct Level {
    title: &'static str,
    /// What is seen.
    about: &'static str,
    of: fn(&Breakdown) -> &[CategoryEstimate],
}

const LEVELS: [Level; 2] = [
    Level {
        title: "CPU time by category",
        about: "Of what is under test and of the kernel itself, without rest, in the published categories.",
        of: |times| &times.os,
    },
    Level {
        title: "TCP's time by category",
        about: "Of the time of TCP alone.",
        of: |times| &times.tcp,
    },
];

impl Report {
    /// `None` if kernel time was not sampled.
    pub(super) fn times(&self) -> Option<Section> {
        let mut loads: Vec<&Cell> = Vec::new();
        for (_, it) in self.cells().filter(|(_, it)| it.kernel_time.is_some()) {
            if !loads.contains(&&it.cell) {
                loads.push(&it.cell);
            }
        }
        if loads.is_empty() {
            return None;
        }
        let mut charts: Vec<Block> = vec![self.changing(&loads).into()];
        for level in &LEVELS {
            charts.extend(loads.iter().map(|load| Block::from(self.stacked(level, load))));
        }
        charts.extend(loads.iter().filter_map(|load| self.energies(load)).map(Block::from));
        Some(Section::new("Where the time went", charts))
    }

    /// The places of links over which this was run, each with what was found.
    fn over_links<'a>(&'a self, load: &'a Cell) -> impl Iterator<Item = (f64, &'a Breakdown)> {
        let names = self.names();
        let of_load = move |(_, it): &(&str, &CellReport)| it.cell == *load;
        self.cells().filter(of_load).filter_map(move |(name, it)| {
            let place = names.iter().position(|known| known == name)?;
            Some((place as f64, it.kernel_time.as_ref()?))
        })
    }

    fn axes(&self, title: &str) -> (Axis, Axis) {
        let links = Axis::new("scenario", "", Scale::Category(self.names()));
        (links, Axis::new(title, "%", Scale::FromZero))
    }

    /// What the CPUs do for changing what they do.
    fn changing(&self, loads: &[&Cell]) -> Chart {
        let (x, y) = self.axes("share");
        let mut chart = Chart::new("Scheduler, ACPI and interrupts together", x, y)
            .description("The published ordering: the slower or longer the link, the more.");
        for load in loads {
            let mut series = Series::new(load.text(), SeriesKind::Bar);
            for (place, times) in self.over_links(load) {
                let Some(share) = times.changing else { continue };
                let ends = |half: f64| (100.0 * (share.mean - half), 100.0 * (share.mean + half));
                series = series.between(place, 100.0 * share.mean, share.half_width.map(ends));
            }
            chart = chart.series(series);
        }
        chart
    }

    /// What categories take of the energy of a connection; nothing where no run knows that.
    fn energies(&self, load: &Cell) -> Option<Chart> {
        let (x, _) = self.axes("");
        let y = Axis::new("energy", "mJ", Scale::FromZero);
        let mut chart = Chart::new(format!("Energy by category: {}", load.text()), x, y)
            .description("Of a connection, shared out by what CPUs did beyond idle.");
        let names = self.over_links(load).next().map_or(&[][..], |(_, times)| &times.os);
        let mut is_empty = true;
        for (number, category) in names.iter().enumerate() {
            let mut series = Series::new(category.name, SeriesKind::Bar);
            for (place, times) in self.over_links(load) {
                let Some(it) = times.os.get(number).and_then(|it| it.energy) else { continue };
                let ends = |half: f64| (1e3 * (it.mean - half), 1e3 * (it.mean + half));
                series = series.between(place, 1e3 * it.mean, it.half_width.map(ends));
                is_empty = false;
            }
            chart = chart.series(series);
        }
        (!is_empty).then_some(chart)
    }

    fn stacked(&self, level: &Level, load: &Cell) -> Chart {
        let Level { title, about, of } = *level;
        let (x, y) = self.axes("share");
        let mut chart = Chart::new(format!("{title}: {}", load.text()), x, y).description(about);
        let names = self.over_links(load).next().map_or(&[][..], |(_, times)| of(times));
        for (number, category) in names.iter().enumerate() {
            let share = |(place, times): (f64, &Breakdown)| {
                let share = of(times).get(number)?.share?;
                // Cut, so that all of them together are no more than 100 % and the axis ends there.
                Some((place, (1e8 * share.mean).floor() / 1e6))
            };
            let points = self.over_links(load).filter_map(share);
            chart = chart.series(Series::new(category.name, SeriesKind::Stacked).points(points));
        }
        chart
    }
}

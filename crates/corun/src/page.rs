//! The result as a page, and as tables.

use nightwatt_compare::{Failed, percent};
use nightwatt_energy::stats::equivalence::Verdict;
use nightwatt_report::figures::significant;
use nightwatt_report::{
    Axis, Block, Cell, Chart, Column, Document, KeyFigure, Note, Origin, Rows, Scale, Section,
    Series, SeriesKind, Table, Text, grouped,
};

use crate::pure::answers::{GroupAnswer, Grouping, Judged, Mean};
use crate::report::Report;
use crate::text::placed;

/// Slowdowns from here on have the full colour.
const DARKEST: f64 = 2.0;

/// What intervals of modelled energy contain.
const MODEL_ENDS: &str = "energy of one after the other follows from how idle power compares with that of full load: \
     its interval also has the ratios at both ends of the model's range, and there is an answer only if it is the same \
     at both";

impl Report {
    /// The report for a terminal.
    pub fn text(&self) -> String {
        self.document(String::new()).to_text()
    }

    /// The report; `generated` says by what and when it was made.
    pub fn document(&self, generated: String) -> Document {
        let mut document = Document::new(&self.title);
        document.subtitle = Text::from(format!(
            "{} jobs alone and together; {} runs, and {} that failed",
            self.jobs.len(),
            self.finished,
            self.failed.len(),
        ));
        document.warnings.clone_from(&self.warnings);
        document.generated = generated;
        document.sections([
            self.short_section(),
            Section::of_table("How much slower", self.heat_map()),
            Section::new("Together or one after the other", self.together_blocks()),
            self.groupings_section(),
            Failed::section(&self.failed),
            self.data_section().detail(),
        ])
    }

    /// Tables with the names of their files, for CSV.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        vec![("groups", self.groups_table()), ("slowdowns", self.slowdowns_table())]
    }

    fn short_section(&self) -> Section {
        type Of = fn(&GroupAnswer) -> Option<&Judged>;
        let figure = |label: &str, groupings: &[Grouping], judged: Of| {
            let best = self.best(groupings, judged)?;
            Some(KeyFigure::new(label, best.value).note(best.why))
        };
        let has_energy = self.answers.groups.iter().any(|group| group.joules.is_some());
        let figures = [
            figure("Least time", &self.answers.least_time, |it| it.time.as_ref()),
            figure("Least energy", &self.answers.least_energy, |it| it.energy.as_ref())
                .filter(|_| has_energy),
        ];
        let figures: Vec<KeyFigure> = figures.into_iter().flatten().collect();
        let mut blocks = Vec::new();
        if !figures.is_empty() {
            blocks.push(Block::Figures(figures));
        }
        let placed = format!("Jobs share {}.", placed(&self.placement));
        blocks.extend([Text::from(placed).into(), self.energy.note_of(self.finished).into()]);
        let margin = percent(self.margin);
        blocks.push(
            Note::new(
                Origin::Counted,
                format!(
                    "Each group is compared with its own jobs one after the other, in the same block. Intervals hold \
                     95 % of the scatter of the runs, under the rule by which these were repeated. Ratios of one kind \
                     were judged together (Holm); differences within {margin} % count as none. The best grouping was \
                     chosen by the same runs, and so looks a little better than it is."
                ),
            )
            .into(),
        );
        if self.energy.is_modelled {
            blocks.push(Note::new(Origin::Modelled, MODEL_ENDS).into());
        }
        Section::new("In short", blocks)
    }

    /// Rows are slowed down by columns: by another job, and in larger groups.
    fn heat_map(&self) -> Table {
        let caption = "Time for the same work, alone = 100 % (?: cannot tell whether it differs)";
        let jobs: Vec<usize> = (0..self.jobs.len()).collect();
        let mut table = Table::of(caption, &jobs).text("job", |it| self.jobs[*it].name.as_str());
        for other in &jobs {
            let column = Column::number(format!("beside {}", self.jobs[*other].name), "%");
            table = table.column(column, |job| slowdown(self.beside(*job, *other)));
        }
        for group in self.answers.groups.iter().filter(|group| group.jobs.len() > 2) {
            let column = Column::number(format!("in {}", self.name_of(&group.jobs)), "%");
            let of = |job: &usize| group.slowdowns.iter().find(|it| it.job == *job);
            table = table.column(column, |job| slowdown(of(job).map(|it| it.slowdown)));
        }
        table.into()
    }

    /// The chart, then time and energy of each group and of its jobs one after the other.
    fn together_blocks(&self) -> Vec<Block> {
        let groups = &self.answers.groups;
        let names = |caption: &str| {
            Table::of(caption, groups)
                .text("group", |it| self.name_of(&it.jobs))
                .count("runs", |it| it.runs)
        };
        let time = judged_columns(names("Time"), "s", |it| it.seconds, |it| it.time);
        let energy = judged_columns(names("Energy"), "J", |it| it.joules, |it| it.energy);
        let mut blocks = vec![self.chart().into(), time.into()];
        if groups.iter().any(|group| group.joules.is_some()) {
            blocks.push(energy.into());
        }
        blocks
    }

    fn chart(&self) -> Chart {
        let groups = || self.answers.groups.iter().filter(|group| group.jobs.len() > 1);
        let names = groups().map(|group| self.name_of(&group.jobs)).collect();
        let mut chart = Chart::new(
            "Together, of one after the other",
            Axis::new("group", "", Scale::Category(names)),
            Axis::new("of one after the other", "%", Scale::FromZero),
        )
        .line_at_y(100.0, "one after the other");
        let mut time = Series::new("time", SeriesKind::Bar);
        let mut energy = Series::new("energy", SeriesKind::Bar);
        for (x, group) in groups().enumerate() {
            time = bar(time, x, group.time);
            energy = bar(energy, x, group.energy);
        }
        for series in [time, energy] {
            if !series.points.is_empty() {
                chart = chart.series(series);
            }
        }
        chart.description(
            "Time until all jobs of a group are finished, and energy of the machine until then, in per cent of the same \
             jobs one after the other; whiskers are 95 % intervals. Below 100 % it is better to run them together.",
        )
    }

    fn groups_table(&self) -> Table {
        let columns = vec![
            Column::text("group"),
            Column::number("runs", ""),
            Column::number("time", "s"),
            Column::number("time from", "s"),
            Column::number("time to", "s"),
            Column::number("energy", "J"),
            Column::number("energy from", "J"),
            Column::number("energy to", "J"),
            Column::number("time of one after the other", "%"),
            Column::number("from", "%"),
            Column::number("to", "%"),
            Column::text("by time"),
            Column::number("energy of one after the other", "%"),
            Column::number("energy ratio from", "%"),
            Column::number("energy ratio to", "%"),
            Column::text("by energy"),
            Column::text("energy by"),
        ];
        let by = if self.energy.is_modelled { " (modelled)" } else { "" };
        let by = format!("{}{by}", self.energy.channels);
        let mut table = Table::new("Groups", columns);
        for group in &self.answers.groups {
            let mut row = vec![self.name_of(&group.jobs).into(), Cell::count(group.runs)];
            row.extend(mean_cells(group.seconds));
            row.extend(mean_cells(group.joules));
            for judged in [group.time, group.energy] {
                row.extend(ratio_cells(judged));
                row.push(judged.map_or(Cell::Empty, |it| it.advice().words().into()));
            }
            row.push(group.joules.map_or(Cell::Empty, |_| by.as_str().into()));
            table.rows.push(row);
        }
        table
    }

    fn slowdowns_table(&self) -> Table {
        let columns = vec![
            Column::text("job"),
            Column::text("group"),
            Column::text("by"),
            Column::number("time for the same work", "%"),
            Column::number("from", "%"),
            Column::number("to", "%"),
            Column::text("verdict"),
        ];
        let mut table = Table::new("Slowdowns", columns);
        for group in &self.answers.groups {
            for it in &group.slowdowns {
                let by = if it.by_operations { "operations" } else { "completion time" };
                let mut row: Vec<Cell> = vec![
                    self.jobs[it.job].name.as_str().into(),
                    self.name_of(&group.jobs).into(),
                    by.into(),
                ];
                row.extend(ratio_cells(Some(it.slowdown)));
                row.push(it.slowdown.verdict.to_string().into());
                table.rows.push(row);
            }
        }
        table
    }

    fn groupings_section(&self) -> Section {
        let columns = vec![
            Column::text("for"),
            Column::number("at once, at most", ""),
            Column::text("one after the other"),
            Column::number("time", "s"),
            Column::number("energy", "J"),
            Column::number("of each job alone", "%"),
            Column::number("from", "%"),
            Column::number("to", "%"),
        ];
        let mut table =
            Table::new("The best measured groups, by how many jobs run at once", columns);
        let all = [("time", &self.answers.least_time), ("energy", &self.answers.least_energy)];
        for (goal, groupings) in all {
            for grouping in groupings {
                let groups: Vec<String> =
                    grouping.groups.iter().map(|group| self.name_of(group)).collect();
                let mut row: Vec<Cell> = vec![
                    goal.into(),
                    Cell::count(grouping.at_once as u64),
                    groups.join(", then ").into(),
                    Cell::number(grouping.seconds, 2),
                    grouping.joules.map_or(Cell::Empty, |joules| Cell::number(joules, 1)),
                ];
                row.extend(ratio_cells(grouping.saved));
                table.rows.push(row);
            }
        }
        let blocks = if table.rows.is_empty() { Vec::new() } else { vec![table.into()] };
        Section::new("How many at once", blocks)
    }

    fn data_section(&self) -> Section {
        let jobs = self
            .jobs
            .iter()
            .map(|job| Text::from(format!("{}: ", job.name)).code(job.command.as_str()));
        let mut blocks = vec![Block::List(jobs.collect())];
        let mut settings =
            Table::new("This machine", vec![Column::text("setting"), Column::text("value")]);
        for (name, value) in &self.settings {
            settings.rows.push(vec![name.as_str().into(), value.as_str().into()]);
        }
        blocks.push(settings.into());
        blocks.push(
            Text::from("Beside this page: ")
                .beside("plan.toml")
                .plain(", the plan; ")
                .beside("runs.jsonl")
                .plain(", every run as it was; ")
                .beside("groups.csv")
                .plain(" and ")
                .beside("slowdowns.csv")
                .plain(", tables; ")
                .beside("report.json")
                .plain(", this report as data; ")
                .beside("runs/")
                .plain(", what each job printed and the power (Parquet).")
                .into(),
        );
        Section::new("Settings and data", blocks)
    }
}

fn bar(series: Series, x: usize, judged: Option<Judged>) -> Series {
    let Some(judged) = judged else { return series };
    let interval = judged.interval.map(|it| (100.0 * it.low, 100.0 * it.high));
    series.between(x as f64, 100.0 * judged.ratio, interval)
}

/// A mean with its interval, and what it is of the same jobs one after the other.
fn judged_columns<'a>(
    table: Rows<&'a GroupAnswer>,
    unit: &str,
    mean: fn(&GroupAnswer) -> Option<Mean>,
    judged: fn(&GroupAnswer) -> Option<Judged>,
) -> Table {
    let half = |it: Mean| it.interval.map(|interval| interval.width() / 2.0);
    let interval = |it: &GroupAnswer| judged(it).and_then(|it| it.interval);
    table
        .written("mean", unit, |it| mean(it).map_or_else(String::new, |it| significant(it.mean)))
        .written("± 95 %", unit, |it| {
            mean(it).and_then(half).map_or_else(String::new, significant)
        })
        .number("of one after the other", "%", 1, |it| judged(it).map(|it| 100.0 * it.ratio))
        .number("from", "%", 1, |it| interval(it).map(|it| 100.0 * it.low))
        .number("to", "%", 1, |it| interval(it).map(|it| 100.0 * it.high))
        .text("better", |it| judged(it).map_or("", |it| it.advice().words()))
        .into()
}

/// On a ground that is the darker the larger it is, if it is sure that it differs.
fn slowdown(judged: Option<Judged>) -> Cell {
    let Some(judged) = judged else { return Cell::Empty };
    let (value, decimals) = (100.0 * judged.ratio, 1);
    match judged.verdict {
        Verdict::CannotTell => format!("{} ?", grouped(value, decimals)).into(),
        Verdict::Differs | Verdict::NoDifference => {
            Cell::Shaded { value, decimals, shade: (judged.ratio - 1.0) / (DARKEST - 1.0) }
        }
    }
}

fn mean_cells(mean: Option<Mean>) -> [Cell; 3] {
    let interval = mean.and_then(|mean| mean.interval);
    let values = [mean.map(|it| it.mean), interval.map(|it| it.low), interval.map(|it| it.high)];
    values.map(|value| value.map_or(Cell::Empty, |value| Cell::number(value, 3)))
}

fn ratio_cells(judged: Option<Judged>) -> [Cell; 3] {
    let interval = judged.and_then(|judged| judged.interval);
    let values = [judged.map(|it| it.ratio), interval.map(|it| it.low), interval.map(|it| it.high)];
    values.map(|value| value.map_or(Cell::Empty, |value| Cell::number(100.0 * value, 1)))
}

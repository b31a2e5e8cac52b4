//! Charts, as data for the page's script, and as a table for readers who can't see pictures.

use nightwatt_energy::civil::to_minute;
use serde::Serialize;

use crate::table::{Cell, Column, Table};

/// More rows than this are thinned out in the table beside a chart. The picture has all points.
const TABLE_ROWS: usize = 200;

/// A picture of numbers. Good for some ten thousand points; more belong into a histogram first.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What the chart shows.
    pub title: String,
    /// What the chart shows, for readers who can't see it: one or two sentences.
    pub description: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What is drawn, in the order of the legend.
    pub series: Vec<Series>,
    /// Lines across the chart: a threshold, a mean.
    pub references: Vec<Reference>,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it counts.
    pub title: String,
    /// In which unit; empty for counts and categories.
    pub unit: String,
    /// How values are laid out along it.
    pub scale: Scale,
}

/// How values are laid out along an axis.
#[derive(Debug, Clone, PartialEq)]
pub enum Scale {
    /// Evenly, 0 included.
    FromZero,
    /// Evenly, from the least value to the largest.
    Linear,
    /// By ratio. What is not above 0 has no place: lines break off there, other points are left out,
    /// and the page says how many these are.
    Log,
    /// By ratio; values are seconds, and marked as seconds, minutes, hours and days.
    LogDuration,
    /// Names side by side; values are indices into them. Horizontal axis only.
    Category(Vec<String>),
    /// Seconds since 1970, shown as local time. One offset holds for the whole axis: beyond a change
    /// to or from daylight saving time, hours are off by that change.
    Time {
        /// Local time minus UTC, in seconds.
        utc_offset: i32,
    },
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// As the legend has it.
    pub name: String,
    /// How the points are drawn.
    pub kind: SeriesKind,
    /// In the order in which a line takes them.
    pub points: Vec<Point>,
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SeriesKind {
    /// Joined by straight lines.
    Line,
    /// Each value holds until the next: for histograms and distributions.
    Step,
    /// Bars beside those of other series.
    Bar,
    /// Bars on top of those of other stacked series.
    Stacked,
    /// Dots; with a label where the point has one.
    Scatter,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// To the right, in the axis's unit.
    pub x: f64,
    /// Upwards.
    pub y: f64,
    /// Name of the point; may be empty.
    pub label: String,
    /// How surely `y` is known: the ends of its interval, drawn as whiskers.
    pub interval: Option<(f64, f64)>,
}

/// A line across the chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Whether it stands on the horizontal axis (or lies on the vertical one).
    pub vertical: bool,
    /// Where.
    pub at: f64,
    /// What it says; may be empty.
    pub label: String,
}

impl Axis {
    /// An axis of this kind.
    pub fn new(title: impl Into<String>, unit: impl Into<String>, scale: Scale) -> Self {
        Self { title: title.into(), unit: unit.into(), scale }
    }

    fn heading(&self) -> String {
        let shown_as_duration = matches!(self.scale, Scale::LogDuration);
        if self.unit.is_empty() || shown_as_duration {
            self.title.clone()
        } else {
            format!("{} [{}]", self.title, self.unit)
        }
    }

    /// Whether a value has a place on this axis.
    fn has(&self, value: f64) -> bool {
        match &self.scale {
            Scale::FromZero | Scale::Linear | Scale::Time { .. } => value.is_finite(),
            Scale::Log | Scale::LogDuration => value.is_finite() && value > 0.0,
            Scale::Category(names) => {
                value.fract() == 0.0 && (0.0..names.len() as f64).contains(&value)
            }
        }
    }

    fn data(&self) -> AxisData<'_> {
        let (scale, names, utc_offset) = match &self.scale {
            Scale::FromZero => ("zero", None, None),
            Scale::Linear => ("linear", None, None),
            Scale::Log => ("log", None, None),
            Scale::LogDuration => ("duration", None, None),
            Scale::Category(names) => ("category", Some(names.as_slice()), None),
            Scale::Time { utc_offset } => ("time", None, Some(*utc_offset)),
        };
        AxisData { title: self.heading(), unit: &self.unit, scale, names, utc_offset }
    }

    /// A value as the table beside the chart has it.
    fn cell(&self, value: f64) -> Cell {
        match &self.scale {
            Scale::Category(names) if self.has(value) => names[value as usize].as_str().into(),
            Scale::Time { utc_offset } if value.is_finite() => {
                to_minute(value as i64 + i64::from(*utc_offset)).into()
            }
            _ => Cell::number(value, decimals(value)),
        }
    }

    fn column(&self) -> Column {
        match self.scale {
            Scale::Category(_) | Scale::Time { .. } => Column::text(&self.title),
            _ => Column::number(&self.title, &self.unit),
        }
    }
}

impl Series {
    /// A series without points.
    pub fn new(name: impl Into<String>, kind: SeriesKind) -> Self {
        Self { name: name.into(), kind, points: Vec::new() }
    }

    /// The same with these points, which have no labels.
    #[must_use]
    pub fn points(mut self, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points =
            points.into_iter().map(|(x, y)| Point { x, y, label: String::new(), interval: None });
        self.points.extend(points);
        self
    }

    /// The same with one more point, which is known as surely as its interval says.
    #[must_use]
    pub fn between(mut self, x: f64, y: f64, interval: Option<(f64, f64)>) -> Self {
        self.points.push(Point { x, y, label: String::new(), interval });
        self
    }

    /// The same with one more point that has a label.
    #[must_use]
    pub fn labelled(mut self, x: f64, y: f64, label: impl Into<String>) -> Self {
        self.points.push(Point { x, y, label: label.into(), interval: None });
        self
    }
}

impl Chart {
    /// A chart without series.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        let title = title.into();
        let (series, references) = (Vec::new(), Vec::new());
        Self { title, description: String::new(), x, y, series, references }
    }

    /// The same with what one sees in it.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// The same with one more series.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// The same with a line up from the horizontal axis.
    #[must_use]
    pub fn line_at_x(mut self, at: f64, label: impl Into<String>) -> Self {
        self.references.push(Reference { vertical: true, at, label: label.into() });
        self
    }

    /// The same with a line across from the vertical axis.
    #[must_use]
    pub fn line_at_y(mut self, at: f64, label: impl Into<String>) -> Self {
        self.references.push(Reference { vertical: false, at, label: label.into() });
        self
    }

    fn shows(&self, point: &Point) -> bool {
        self.x.has(point.x) && self.y.has(point.y)
    }

    /// Points that have no place on these axes.
    pub(crate) fn left_out(&self) -> usize {
        let points = self.series.iter().flat_map(|series| &series.points);
        points.filter(|point| !self.shows(point)).count()
    }

    /// The points of a series that have a place on the axes. A line breaks off where one has none:
    /// drawn on to the next, it would claim what is not so (a count of 5 where there are 0).
    fn drawn<'a>(&self, series: &'a Series) -> Vec<PointData<'a>> {
        let mut drawn: Vec<PointData<'a>> = Vec::with_capacity(series.points.len());
        for Point { x, y, label, interval } in &series.points {
            // On an axis by ratio the lower end may have no place: then there are no whiskers.
            let interval = interval.filter(|(low, high)| self.y.has(*low) && self.y.has(*high));
            let (x, last) = (*x, drawn.last().and_then(|last| last.y));
            match series.kind {
                _ if !self.x.has(x) => {}
                _ if self.y.has(*y) => {
                    drawn.push(PointData { x, y: Some(*y), end: false, label, interval });
                }
                SeriesKind::Line | SeriesKind::Step => {
                    // A step's value holds up to here.
                    if let (SeriesKind::Step, Some(held)) = (series.kind, last) {
                        let held = Some(held);
                        let (end, interval) = (true, None);
                        drawn.push(PointData { x, y: held, end, label: "", interval });
                    }
                    drawn.push(PointData { x, y: None, end: false, label, interval: None });
                }
                SeriesKind::Bar | SeriesKind::Stacked | SeriesKind::Scatter => {}
            }
        }
        drawn
    }

    /// What the page's script draws.
    pub(crate) fn data(&self) -> ChartData<'_> {
        let series = self.series.iter().map(|series| SeriesData {
            name: &series.name,
            kind: series.kind,
            points: self.drawn(series),
        });
        let references = self.references.iter().filter(|line| {
            let axis = if line.vertical { &self.x } else { &self.y };
            axis.has(line.at)
        });
        ChartData {
            title: &self.title,
            x: self.x.data(),
            y: self.y.data(),
            series: series.collect(),
            references: references
                .map(|it| ReferenceData { vertical: it.vertical, at: it.at, label: &it.label })
                .collect(),
        }
    }

    /// The same numbers as a table, thinned out where there are many, and how many there are.
    pub(crate) fn table(&self) -> (Table, usize) {
        let labels = self.series.iter().flat_map(|it| &it.points).any(|it| !it.label.is_empty());
        let mut columns = vec![Column::text("series"), self.x.column(), self.y.column()];
        if labels {
            columns.push(Column::text("point"));
        }
        let intervals =
            self.series.iter().flat_map(|it| &it.points).any(|it| it.interval.is_some());
        if intervals {
            columns.extend(["from", "to"].map(|title| Column::number(title, &self.y.unit)));
        }
        let mut table = Table::new(self.title.as_str(), columns);
        let total: usize = self.series.iter().map(|series| series.points.len()).sum();
        let step = total.div_ceil(TABLE_ROWS).max(1);
        for series in &self.series {
            for point in series.points.iter().step_by(step) {
                let mut row =
                    vec![series.name.as_str().into(), self.x.cell(point.x), self.y.cell(point.y)];
                if labels {
                    row.push(point.label.as_str().into());
                }
                if let Some((low, high)) = point.interval {
                    row.extend([self.y.cell(low), self.y.cell(high)]);
                }
                table.rows.push(row);
            }
        }
        (table, total)
    }
}

/// Digits behind the point that leave about three that count, as much as the eye finds in the picture.
fn decimals(value: f64) -> usize {
    if value.fract().abs() < f64::EPSILON {
        return 0;
    }
    let magnitude = value.abs().log10().floor();
    if magnitude.is_finite() { (2.0 - magnitude).clamp(0.0, 9.0) as usize } else { 0 }
}

#[derive(Serialize)]
pub(crate) struct ChartData<'a> {
    title: &'a str,
    x: AxisData<'a>,
    y: AxisData<'a>,
    series: Vec<SeriesData<'a>>,
    references: Vec<ReferenceData<'a>>,
}

#[derive(Serialize)]
struct AxisData<'a> {
    title: String,
    unit: &'a str,
    scale: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    utc_offset: Option<i32>,
}

#[derive(Serialize)]
struct SeriesData<'a> {
    name: &'a str,
    kind: SeriesKind,
    points: Vec<PointData<'a>>,
}

#[derive(Serialize)]
struct PointData<'a> {
    x: f64,
    /// None: the line breaks off here.
    y: Option<f64>,
    /// No point of its own, but the end of a step.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    end: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<(f64, f64)>,
}

#[derive(Serialize)]
struct ReferenceData<'a> {
    vertical: bool,
    at: f64,
    label: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps() -> Chart {
        let x = Axis::new("gap", "s", Scale::LogDuration);
        let points = [(0.0, 5.0), (1.0, 3.0), (60.0, 0.0), (600.0, 0.0), (3600.0, 2.0)];
        let series = Series::new("all", SeriesKind::Step).points(points);
        Chart::new("Gaps", x, Axis::new("gaps", "", Scale::Log)).series(series).line_at_x(4.09, "")
    }

    #[test]
    fn what_has_no_place_on_a_log_axis_is_counted_and_not_drawn() {
        let chart = gaps().line_at_y(0.0, "nowhere");
        assert_eq!(chart.left_out(), 3, "no gap, and twice no count");
        let data = serde_json::to_value(chart.data()).unwrap();
        let points = serde_json::json!([
            {"x": 1.0, "y": 3.0},
            {"x": 60.0, "y": 3.0, "end": true},
            {"x": 60.0, "y": null},
            {"x": 600.0, "y": null},
            {"x": 3600.0, "y": 2.0},
        ]);
        assert_eq!(data["series"][0]["points"], points);
        assert_eq!(data["references"].as_array().unwrap().len(), 1);
        assert_eq!(chart.table().0.rows.len(), 5, "the table has all");
    }

    #[test]
    fn whiskers_are_drawn_where_both_ends_have_a_place() {
        let x = Axis::new("n", "", Scale::Category(vec!["a".to_owned(), "b".to_owned()]));
        let bars = Series::new("J", SeriesKind::Bar).between(0.0, 5.0, Some((4.0, 6.0))).between(
            1.0,
            5.0,
            Some((-1.0, 11.0)),
        );
        let mut chart = Chart::new("", x, Axis::new("J", "J", Scale::Log)).series(bars);
        let points = |chart: &Chart| {
            serde_json::to_value(chart.data()).unwrap()["series"][0]["points"].clone()
        };
        let interval = serde_json::json!([4.0, 6.0]);
        assert_eq!(points(&chart)[0]["interval"], interval);
        assert_eq!(
            points(&chart)[1].get("interval"),
            None,
            "no place by ratio for what is below 0"
        );
        chart.y.scale = Scale::FromZero;
        assert_eq!(points(&chart)[1]["interval"], serde_json::json!([-1.0, 11.0]));
        let (table, _) = chart.table();
        assert_eq!(table.columns[3].title, "from");
        assert_eq!(table.rows[0][3..], [Cell::number(4.0, 0), Cell::number(6.0, 0)]);
    }

    #[test]
    fn the_table_has_three_digits_that_count() {
        for (value, digits) in
            [(84.75, 1), (1.0 / 3.0, 3), (7.0, 0), (1234.5, 0), (0.004_567, 5), (f64::NAN, 0)]
        {
            assert_eq!(decimals(value), digits, "{value}");
        }
    }

    #[test]
    fn long_series_are_thinned_out_in_the_table_alone() {
        let mut chart = gaps();
        let points = (1..=10_000).map(|at| (f64::from(at), 1.0));
        chart.series[0] = Series::new("many", SeriesKind::Line).points(points);
        let (table, total) = chart.table();
        assert_eq!((table.rows.len(), total), (TABLE_ROWS, 10_000));
        let data = serde_json::to_value(chart.data()).unwrap();
        assert_eq!(data["series"][0]["points"].as_array().unwrap().len(), 10_000);
    }

    #[test]
    fn times_are_local_dates() {
        // 2012-02-29 23:30 UTC, and the same in Berlin (+1 h); and before 1970.
        let axis = |utc_offset| Axis::new("t", "", Scale::Time { utc_offset });
        assert_eq!(axis(0).cell(1_330_558_200.0), "2012-02-29 23:30".into());
        assert_eq!(axis(3600).cell(1_330_558_200.0), "2012-03-01 00:30".into());
        assert_eq!(axis(0).cell(-60.0), "1969-12-31 23:59".into());
    }

    #[test]
    fn a_category_that_has_no_name_is_not_drawn() {
        let x = Axis::new("day", "", Scale::Category(vec!["Mon".to_owned(), "Tue".to_owned()]));
        let bars = Series::new("n", SeriesKind::Bar).points([(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]);
        let chart = Chart::new("", x, Axis::new("n", "", Scale::FromZero)).series(bars);
        assert_eq!(chart.left_out(), 1);
        assert_eq!(chart.table().0.rows[1][1], "Tue".into());
    }
}

//! A report with one of everything, for tests and for looking at. Its numbers are made up.

use nightwatt_energy::energy::Energy;
use nightwatt_energy::quantity::Joules;
use nightwatt_report::{
    Addresses, Axis, Block, Cell, Chart, Column, Document, KeyFigure, Note, Origin, Scale, Section,
    Series, SeriesKind, Table, Text,
};

/// How many charts the sample has.
pub(crate) const CHARTS: usize = 6;

pub(crate) fn document() -> Document {
    let mut document = Document::new("A month of example.org");
    document.subtitle = Text::from("access.log, 28.7 days, 391,744 lines; ")
        .strong("a sample with made-up numbers");
    "nightwatt 0.1.0, 2026-11-21 14:00".clone_into(&mut document.generated);
    document.sections = vec![
        Section::new("In short", summary()),
        Section::new("Traffic", vec![hours().into(), answers().into(), week().into()]),
        Section::new("Gaps", vec![gaps().into(), thresholds().into()]),
        Section::new("Policies", vec![frontier().into(), policies().into(), details()]),
    ];
    document
}

fn summary() -> Vec<Block> {
    let energy = Energy::modelled(Joules(7.2e7), 0.05, "the scenario's power states");
    vec![
        Text::from("You would save ")
            .strong("212 kWh and 61 EUR a year")
            .plain(", and ")
            .strong("3 visitors a day")
            .plain(" would wait 5 s. Most of the wake-ups come from ")
            .code("POST /wp-login.php")
            .plain("; a rule for it ")
            .emphasis("alone")
            .plain(" saves another 9 kWh.")
            .into(),
        Block::Figures(vec![
            KeyFigure::new("Saved", "65 %").note("against always on, net of the proxy"),
            KeyFigure::new("In a year", "212 kWh").note("± 11 kWh; 61 EUR, 45 kg CO2e"),
            KeyFigure::new("Delayed visits", "3.1 a day").note("of 96"),
            KeyFigure::new("Wake-ups", "19 a day"),
        ]),
        Note::of_energy(&energy).into(),
        Note::new(Origin::Assumed, "0.29 EUR/kWh and 210 g CO2e/kWh: the EU's mean. Set yours.")
            .into(),
        Note::new(Origin::Caution, "Extrapolated from 28d; not all seasons were seen.").into(),
    ]
}

fn hours() -> Chart {
    let names = (0..24).map(|hour| format!("{hour:02}")).collect();
    let day = |base: f64, swing: f64| {
        (0..24).map(move |hour| {
            let at = f64::from(hour);
            (at, (base + swing * ((at - 15.0) / 24.0 * std::f64::consts::TAU).cos()).round())
        })
    };
    let x = Axis::new("hour of the local day", "", Scale::Category(names));
    Chart::new("Requests by hour", x, Axis::new("requests", "1/h", Scale::FromZero))
        .description("People come by day, twice as many at 15:00 as in the mean; crawlers always.")
        .series(Series::new("people", SeriesKind::Stacked).points(day(210.0, 190.0)))
        .series(Series::new("crawlers", SeriesKind::Stacked).points(day(150.0, 20.0)))
        .series(Series::new("scanners", SeriesKind::Stacked).points(day(60.0, 10.0)))
        .line_at_y(420.0, "mean")
}

fn answers() -> Chart {
    let names = ["hit", "stale", "waiting page", "held", "appointment"];
    let x = Axis::new("answer", "", Scale::Category(names.map(str::to_owned).to_vec()));
    let bars = |values: [f64; 5]| values.into_iter().enumerate().map(|(at, it)| (at as f64, it));
    Chart::new("Answers", x, Axis::new("share", "%", Scale::FromZero))
        .description("Most requests are answered from the cache.")
        .series(Series::new("default", SeriesKind::Bar).points(bars([13.0, 31.0, 4.0, 9.0, 25.0])))
        .series(
            Series::new("grace 7 d", SeriesKind::Bar).points(bars([13.0, 52.0, 2.0, 5.0, 25.0])),
        )
}

fn week() -> Chart {
    // From Thursday, 2012-03-01 00:00 in New York, in steps of 15 minutes.
    let points = (0..4 * 24 * 8).map(|quarter| {
        let at = f64::from(quarter) / 4.0;
        let wave = ((at - 15.0) / 24.0 * std::f64::consts::TAU).cos();
        let ripple = (at * 7.3).sin() * (at * 3.1).cos();
        (1_330_578_000.0 + at * 3600.0, (40.0 + 30.0 * wave + 12.0 * ripple).max(0.0))
    });
    let x = Axis::new("local time", "", Scale::Time { utc_offset: -5 * 3600 });
    Chart::new("Requests in time", x, Axis::new("requests", "1/h", Scale::FromZero))
        .series(Series::new("all", SeriesKind::Line).points(points))
}

fn gaps() -> Chart {
    let curve = |scale: f64, slope: f64| {
        (0..60).map(move |step| {
            let gap = 10_f64.powf(f64::from(step) / 10.0);
            (gap, (scale / gap.powf(slope)).floor())
        })
    };
    let x = Axis::new("gap", "s", Scale::LogDuration);
    Chart::new("Gaps between requests", x, Axis::new("gaps", "", Scale::Log))
        .description("Few gaps are long: each step to ten times the length has a fifth as many.")
        .series(Series::new("all requests", SeriesKind::Step).points(curve(2e5, 1.1)))
        .series(Series::new("without crawlers", SeriesKind::Step).points(curve(6e4, 0.9)))
        .series(Series::new("behind the cache", SeriesKind::Step).points(curve(3e4, 0.75)))
        .line_at_x(4.09, "break-even 4.1 s")
}

fn thresholds() -> Chart {
    let curve = |least: f64| {
        (0..=60).map(move |at| (f64::from(at), least + (f64::from(at) - 4.0).powi(2) * 0.004))
    };
    let x = Axis::new("threshold", "s", Scale::Linear);
    Chart::new("Ideal energy by threshold", x, Axis::new("energy", "kWh", Scale::Linear))
        .series(Series::new("all", SeriesKind::Line).points(curve(9.0)))
        .series(Series::new("cache", SeriesKind::Line).points(curve(4.0)))
        .line_at_x(4.09, "break-even")
}

fn frontier() -> Chart {
    let x = Axis::new("delayed visits", "1/d", Scale::Log);
    let fixed = (0..40).map(|step| {
        let delayed = 10_f64.powf(f64::from(step) / 20.0 - 0.5);
        (delayed, 85.0 * delayed / (delayed + 0.8))
    });
    Chart::new("Saving against delays", x, Axis::new("saving", "%", Scale::FromZero))
        .description("The learned policy lies above the curve of fixed time-outs.")
        .series(Series::new("fixed time-outs", SeriesKind::Line).points(fixed))
        .series(
            Series::new("policies", SeriesKind::Scatter)
                .labelled(0.0, 0.0, "always-on")
                .labelled(3.1, 70.5, "learned")
                .labelled(3.3, 69.0, "window")
                .labelled(6.0, 76.0, "ski-rental")
                .labelled(19.0, 81.0, "timeout 5s"),
        )
        .line_at_x(9.6, "SLA 10 %")
}

fn policies() -> Table {
    let mut table = Table::new(
        "Policies",
        vec![
            Column::text("policy"),
            Column::number("energy", "kWh"),
            Column::number("saving", "%"),
            Column::number("wake-ups", "1/d"),
            Column::number("delayed visits", ""),
        ],
    );
    for (name, energy, saving, wakeups, delayed) in [
        ("always-on", 29.82, 0.0, 0.0, 0),
        ("learned", 10.41, 65.1, 19.2, 89),
        ("window", 12.07, 59.5, 17.5, 94),
        ("timeout 5s", 6.93, 76.8, 211.0, 1287),
    ] {
        table.rows.push(vec![
            name.into(),
            Cell::number(energy, 2),
            Cell::number(saving, 1),
            Cell::number(wakeups, 1),
            Cell::count(delayed),
        ]);
    }
    table.rows.push(vec!["oracle".into(), Cell::number(5.2, 2)]);
    table
}

fn details() -> Block {
    let addresses = Addresses::anonymised([7; 32]);
    let mut table = Table::new(
        "Who wakes it",
        vec![Column::text("client"), Column::text("URL"), Column::number("wake-ups", "")],
    );
    for index in 0..40_u32 {
        let client = addresses.name(std::net::Ipv4Addr::from(0xcb00_7100 + 37 * index).into());
        let url = format!("/a/long/path/to/some/{index}/{}", "archive/".repeat(index as usize % 9));
        table.rows.push(vec![client.into(), url.into(), Cell::count(u64::from(40 - index) * 31)]);
    }
    let bullets = vec![Text::from("The first is a scanner."), Text::from("Cache the second.")];
    Block::Details {
        summary: "URLs and clients that cause the wake-ups".to_owned(),
        blocks: vec![Block::List(bullets), table.into()],
    }
}

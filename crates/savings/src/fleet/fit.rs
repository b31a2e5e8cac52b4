//! `nightwatt fleet fit`: what a server can do, from its measured response times.

use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_energy::quantity::PerSecond;
use nightwatt_policy::queueing::{ResponsePoint, Station, fit_service, places_within};
use nightwatt_report::{Table, wrapped};
use serde::Serialize;

use super::Error;

/// Version of the JSON form.
const SCHEMA: u32 = 1;
/// More points than this are a mistake.
const MOST_POINTS: usize = 1_000_000;
/// A fit whose residuals are above this share of the response times is doubtful.
const DOUBTFUL: f64 = 0.1;

/// A server, as its response times tell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FitResult {
    /// Version of this form.
    pub schema: u32,
    /// Requests a second that it can serve.
    pub service_rate: f64,
    /// Standard error of that; nothing for a single point.
    pub standard_error: Option<f64>,
    /// Each point with the fitted time and what is left.
    pub points: Vec<FittedPoint>,
    /// Root of the mean square of what is left.
    pub rms_residual_s: f64,
    /// For a response time that is to be kept.
    pub sla: Option<FitSla>,
    /// What to think twice about.
    pub warnings: Vec<String>,
}

/// A measurement and what the queue says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FittedPoint {
    /// Requests a second.
    pub rate: f64,
    /// Mean response time, measured.
    pub measured_s: f64,
    /// By M/D/1 with the fitted service rate.
    pub fitted_s: f64,
    /// Measured less fitted.
    pub residual_s: f64,
}

/// What a response time allows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FitSla {
    /// The response time.
    pub response_s: f64,
    /// Requests that the server may have at a time, the one in service among them, so that every one of
    /// them is answered within it.
    pub places: u32,
    /// Poisson arrivals a second up to which the mean response time keeps it.
    pub highest_rate: f64,
}

/// Fits a service rate by least squares on M/D/1's mean response time; for a response time, how many
/// requests it allows a server.
pub fn run(points: &[ResponsePoint], sla: Option<Duration>) -> Result<FitResult, Error> {
    let fit = fit_service(points)?;
    let fitted = |(point, residual): (&ResponsePoint, &f64)| {
        let measured_s = point.mean_response.as_secs_f64();
        FittedPoint {
            rate: point.arrivals.get(),
            measured_s,
            fitted_s: measured_s - residual,
            residual_s: *residual,
        }
    };
    let points: Vec<FittedPoint> = points.iter().zip(&fit.residuals_s).map(fitted).collect();
    let mean =
        |of: fn(&FittedPoint) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let rms_residual_s = mean(|it| it.residual_s.powi(2)).sqrt();
    let mut warnings = Vec::new();
    if points.len() == 1 {
        warnings.push(
            "one point can always be met, so the error is not known: measure at several rates, some of \
             them near what the server can do"
                .to_owned(),
        );
    } else if rms_residual_s > DOUBTFUL * mean(|it| it.measured_s) {
        warnings.push(format!(
            "the points are {:.0} % off in the mean: the server is no M/D/1 queue (does it serve several \
             requests at a time, or does its load vary?)",
            100.0 * rms_residual_s / mean(|it| it.measured_s)
        ));
    }
    let sla = sla.map(|sla| allowed(fit.service, sla)).transpose()?;
    let error = fit.standard_error.get();
    Ok(FitResult {
        schema: SCHEMA,
        service_rate: fit.service.get(),
        standard_error: error.is_finite().then_some(error),
        points,
        rms_residual_s,
        sla,
        warnings,
    })
}

fn allowed(service: PerSecond, sla: Duration) -> Result<FitSla, Error> {
    Ok(FitSla {
        response_s: sla.as_secs_f64(),
        places: places_within(service, sla)?,
        highest_rate: Station::md1(service).rate_within(sla)?.get(),
    })
}

impl FitResult {
    /// The result for a terminal.
    pub fn text(&self) -> String {
        let error = self
            .standard_error
            .map_or(String::new(), |error| format!(" ± {} (standard error)", shown(error)));
        let rate = shown(self.service_rate);
        let table = Table::of("", &self.points)
            .written("rate", "requests/s", |it| shown(it.rate))
            .number("measured", "ms", 3, |it| 1e3 * it.measured_s)
            .number("fitted", "ms", 3, |it| 1e3 * it.fitted_s)
            .number("residual", "ms", 3, |it| 1e3 * it.residual_s);
        let sla = self.sla.as_ref().map(|sla| {
            format!(
                "To answer each request within {} ms, one server takes at most {} at a time; the mean \
                 keeps it up to {} requests/s.",
                shown(1e3 * sla.response_s),
                sla.places,
                shown(sla.highest_rate)
            )
        });
        format!(
            "service rate {rate}/s{error}, by least squares on M/D/1\n\n{}root mean square of the residuals: \
             {:.3} ms\n{}",
            Table::from(table).to_text(),
            1e3 * self.rms_residual_s,
            sla.map(|text| format!("\n{}", wrapped(&text, 0))).unwrap_or_default()
        )
    }
}

/// Four digits that count.
fn shown(value: f64) -> String {
    let digits = if value >= 100.0 {
        1
    } else if value >= 1.0 {
        2
    } else {
        4
    };
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A point as it is written: `200=10ms`.
pub fn point(text: &str) -> Result<ResponsePoint, String> {
    let wrong = || {
        format!(
            "`{text}` is no point: write requests a second and the mean response time, as in `200=10ms`"
        )
    };
    let (rate, time) = text.split_once('=').ok_or_else(wrong)?;
    let rate = rate.trim().parse::<f64>().ok().filter(|it| *it >= 0.0 && it.is_finite());
    let time = duration_text::parse(time.trim()).ok().filter(|time| !time.is_zero());
    let (arrivals, mean_response) = rate.map(PerSecond).zip(time).ok_or_else(wrong)?;
    Ok(ResponsePoint { arrivals, mean_response })
}

/// Points in a file, one a line: requests a second, then the mean response time, with a comma, semicolon
/// or white space between them. The times have units (`10ms`), or the heading has one (`response [ms]`).
pub fn points(text: &str) -> Result<Vec<ResponsePoint>, String> {
    let mut points = Vec::new();
    let mut unit = None;
    let mut is_first = true;
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |why: &str| {
            let line = index + 1;
            format!(
                "line {line} {why}; write requests a second and the mean response time, as in `200,10ms`"
            )
        };
        let fields = |c: char| matches!(c, ',' | ';') || c.is_whitespace();
        let words: Vec<&str> =
            line.split(fields).map(|it| it.trim_matches('"')).filter(|it| !it.is_empty()).collect();
        let heading = is_first && words.first().is_some_and(|word| word.parse::<f64>().is_err());
        is_first = false;
        if heading {
            unit = unit_of(line);
            continue;
        }
        let [rate, time] = words[..] else { return Err(wrong("has not two values")) };
        let rate = rate.parse::<f64>().ok().filter(|it| *it >= 0.0 && it.is_finite());
        let rate = rate.ok_or_else(|| wrong("begins with no rate of 0 or more"))?;
        let time = match (time.parse::<f64>(), unit) {
            (Ok(time), Some(unit)) => Duration::try_from_secs_f64(time * unit).ok(),
            (Ok(_), None) => {
                return Err(wrong(
                    "has a time without a unit, and the heading has none (`response [ms]`)",
                ));
            }
            (Err(_), _) => duration_text::parse(time).ok(),
        };
        let time = time
            .filter(|time| !time.is_zero())
            .ok_or_else(|| wrong("ends with no time above 0"))?;
        if points.len() == MOST_POINTS {
            return Err(format!("there are more than {MOST_POINTS} points"));
        }
        points.push(ResponsePoint { arrivals: PerSecond(rate), mean_response: time });
    }
    if points.is_empty() {
        return Err("there are no points in it; write requests a second and the mean response time, as in `200,10ms`".to_owned());
    }
    Ok(points)
}

/// Seconds of the unit that a heading names: `response [ms]`, `time_s`.
pub(super) fn unit_of(heading: &str) -> Option<f64> {
    let last = heading.split([',', ';', '\t']).next_back()?;
    let is_letter = |c: char| !c.is_ascii_alphabetic();
    last.split(is_letter).filter(|word| !word.is_empty()).find_map(|word| match word {
        "us" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" | "seconds" => Some(1.0),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_point_gives_the_published_service_rate_and_two_places() {
        let fit = run(&[point("200=10ms").unwrap()], Some(Duration::from_millis(10))).unwrap();
        assert!((fit.service_rate - 261.8).abs() < 0.01, "{}", fit.service_rate);
        assert_eq!((fit.standard_error, fit.warnings.len()), (None, 1));
        let sla = fit.sla.unwrap();
        assert_eq!(sla.places, 2);
        assert!((sla.highest_rate - 200.0).abs() < 1e-6, "{}", sla.highest_rate);
    }

    #[test]
    fn points_of_a_queue_are_met_and_others_are_doubted() {
        // T = 1/100 + r / (2 x 100 (100 - r)): 12.5 ms at 1/3 of the rate, 15 ms at half of it.
        let good = run(&points("0 10ms\n50 15ms\n").unwrap(), None).unwrap();
        assert!((good.service_rate - 100.0).abs() < 1e-4, "{}", good.service_rate);
        assert!(good.rms_residual_s < 1e-8 && good.warnings.is_empty(), "{good:?}");
        // Faster under load than without: no queue.
        let odd = run(&points("1 20ms\n90 12ms\n").unwrap(), None).unwrap();
        assert_eq!(odd.warnings.len(), 1, "{odd:?}");
    }

    #[test]
    fn files_of_points_come_in_several_dresses() {
        let expected = points("200 10ms\n450,20ms").unwrap();
        for text in [
            "rate [1/s],mean response [ms]\r\n200,10\r\n450,20\r\n",
            "rate;response_s\n200;0.01\n450;0.02",
            "# measured\n\"200\"\t\"10ms\"\n\n450 \t 20ms # busy",
        ] {
            assert_eq!(points(text).unwrap(), expected, "{text}");
        }
        for (text, said) in [
            ("200,10\n", "without a unit"),
            ("rate,response [ms]\n200,10\nx,3\n", "line 3 begins with no rate"),
            ("1 2 3", "has not two values"),
            ("1,0ms", "no time above 0"),
            ("a,b\n", "no points"),
        ] {
            let error = points(text).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert!(point("200").is_err() && point("-1=1s").is_err() && point("1=0").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_points_or_a_reason(text in "[0-9a-z.,; \n\"#eE+-]{0,60}|\\PC{0,40}") {
            let reason = match points(&text) {
                Ok(points) => {
                    proptest::prop_assert!(!points.is_empty());
                    proptest::prop_assert!(points.iter().all(|it| it.arrivals.get().is_finite()));
                    None
                }
                Err(why) => Some(why),
            };
            proptest::prop_assert!(reason.is_none_or(|why| why.contains("write requests a second")));
        }
    }
}

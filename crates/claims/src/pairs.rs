//! What probes cost a program: runs in pairs with and without them.

use std::process::{Command, Stdio};

use nightwatt_energy::stats::intervals::{Interval, student};
use nightwatt_energy::stats::moments::Moments;
use wait4::Wait4;

use super::{Answer, Error, Figure, Printed};

/// Number of pairs: other load of the machine affects both of a pair.
pub(crate) const ROUNDS: u32 = 12;

/// CPU time with probes over that without.
pub(crate) struct Overheads {
    figures: Vec<Figure>,
    intervals: Vec<Interval>,
    /// Programs that could not be watched, and why.
    without: Vec<String>,
}

impl Overheads {
    pub(crate) const fn new() -> Self {
        Self { figures: Vec::new(), intervals: Vec::new(), without: Vec::new() }
    }

    /// One program, of which this many words say what was watched.
    pub(crate) fn add(
        &mut self,
        printed: &Printed,
        program: &str,
        watched: &str,
        ratios: &Moments,
    ) -> Result<(), Error> {
        let mean = ratios.mean().unwrap_or(f64::NAN);
        self.figures.push(printed.figure_of("overhead", &format!("{program}{watched}"), mean)?);
        if let Some(interval) = student(ratios) {
            let what = |end| format!("{program}, 95 % interval {end}");
            self.figures.push(Figure::alone(what("from"), interval.low, "times"));
            self.figures.push(Figure::alone(what("to"), interval.high, "times"));
            self.intervals.push(interval);
        }
        Ok(())
    }

    /// A figure that decides nothing.
    pub(crate) fn note(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    /// A program that could not be watched.
    pub(crate) fn not_watched(&mut self, program: &str, why: &str) {
        self.without.push(format!("{program}: {why}"));
    }

    /// What comes of it, where `most` is claimed. What chance may have done is no answer.
    pub(crate) fn answer(self, most: f64, why: &str) -> Answer {
        let without = self.without.join("; ");
        if self.figures.is_empty() {
            return Answer::not_checkable(format!("nothing could be watched: {without}"));
        }
        let mut why = format!(
            "CPU time of the program and of the kernel on its behalf, in {ROUNDS} pairs of runs with and \
             without probes. {why}"
        );
        if !without.is_empty() {
            why = format!("{why}. Not watched: {without}");
        }
        if self.intervals.iter().all(|it| it.high <= most || it.low > most) {
            return Answer::by(self.figures, why);
        }
        let noise = format!(
            "this machine is too busy: {:.1} % is within a 95 % interval. Try again on a quiet one. ",
            100.0 * (most - 1.0)
        );
        Answer::not_checkable(format!("{noise}{why}")).with(self.figures)
    }
}

/// CPU time with over that without, in pairs; `run` is told whether with.
pub(crate) fn ratios(mut run: impl FnMut(bool) -> Result<f64, String>) -> Result<Moments, String> {
    let mut ratios = Moments::of(&[]);
    for round in 0..ROUNDS {
        // What comes first in a pair may find the machine other than what comes after it.
        let is_first = round % 2 == 0;
        let (first, second) = (run(is_first)?, run(!is_first)?);
        ratios.add(if is_first { first / second } else { second / first });
    }
    Ok(ratios)
}

/// CPU time of one run, s.
pub(crate) fn cpu_time(command: &mut Command) -> Result<f64, String> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let waited = child.wait4().map_err(|error| format!("cannot be waited for: {error}"))?;
    if !waited.status.success() {
        return Err(format!("it ended with {}", waited.status));
    }
    Ok((waited.rusage.utime + waited.rusage.stime).as_secs_f64())
}

/// A fixed text of about `bytes` bytes that hardly repeats.
pub(crate) fn text_that_hardly_repeats(bytes: usize) -> String {
    use std::fmt::Write as _;
    let (mut text, mut state) = (String::with_capacity(bytes + 64), 1_u64);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:x} something {:o}", state >> 20, state >> 40);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn printed() -> Printed {
        Printed::all().unwrap().into_iter().find(|it| it.id == "S2").unwrap()
    }

    fn answer(ratios: &[f64]) -> Answer {
        let mut overheads = Overheads::new();
        overheads.add(&printed(), "it", ", one section", &Moments::of(ratios)).unwrap();
        overheads.answer(1.05, "so there")
    }

    #[test]
    fn an_overhead_is_answered_only_where_chance_cannot_have_done_it() {
        assert_eq!(answer(&[1.01, 1.02, 1.01, 1.02]).verdict, Verdict::Agrees);
        assert_eq!(answer(&[1.21, 1.22, 1.21, 1.22]).verdict, Verdict::Differs);
        // By hand, with t = 3.182 of three degrees of freedom: 1.035, 0.961 to 1.109.
        let unsure = answer(&[0.98, 1.02, 1.05, 1.09]);
        assert_eq!(unsure.verdict, Verdict::NotCheckable);
        assert!(unsure.why.contains("too busy: 5.0 %") && !unsure.figures.is_empty());
        let mut none = Overheads::new();
        none.not_watched("it", "no root");
        let none = none.answer(1.05, "so there");
        assert_eq!(none.verdict, Verdict::NotCheckable);
        assert!(none.why.contains("it: no root"), "{}", none.why);
    }

    #[test]
    fn pairs_are_with_over_without_whichever_comes_first() {
        let mut asked = Vec::new();
        let found = ratios(|with| {
            asked.push(with);
            Ok(if with { 3.0 } else { 2.0 })
        });
        assert!((found.unwrap().mean().unwrap() - 1.5).abs() < 1e-12);
        assert_eq!(asked[..4], [true, false, false, true]);
        assert!(ratios(|_| Err("no".to_owned())).is_err());
    }
}

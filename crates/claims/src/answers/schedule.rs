//! S5: scheduling by operations per joule, simulated on measured co-run speeds.

use nightwatt_corun::SIXTEEN_CPUS;
use nightwatt_corun::pure::machine::Scheduler;
use nightwatt_corun::pure::matrix::{Composition, Matrix};
use nightwatt_corun::pure::run_queue::Policy;
use nightwatt_corun::pure::study::{MACHINE, Means, SCHEDULERS, Study};
use nightwatt_energy::stats::moments::Moments;

use crate::{Answer, Context, Error, Figure, Printed};

/// Below this share of lost speed a matrix says nothing of contention.
const LEAST_CONTENTION: f64 = 0.05;

/// Repetitions, unless the claim is named, and if it is.
const FEW: u64 = 2;
const MANY: u64 = 100;

const PUBLISHED: Scheduler = Scheduler::By(Policy::Published);

/// S5: all schedulers on the matrix of 16 CPUs, and what ordering alone saves.
pub(crate) fn by_energy(context: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let matrix = Matrix::read(SIXTEEN_CPUS).map_err(|error| Error::Data(error.to_string()))?;
    let repetitions = if context.measures(printed) { MANY } else { FEW };
    answer(&matrix, repetitions, printed)
}

fn answer(matrix: &Matrix, repetitions: u64, printed: &Printed) -> Result<Answer, Error> {
    let contention = matrix.contention(MACHINE.cpus).unwrap_or(0.0);
    let lost = Figure::alone("speed lost beside three others", 100.0 * contention, "%");
    if contention < LEAST_CONTENTION {
        let why = "these applications hardly disturb each other, so nothing shows whether a scheduler avoids it";
        return Ok(Answer::not_checkable(why).with(vec![lost]));
    }
    let study = Study::run(matrix, repetitions);
    let saved = |scheduler, of: fn(&Means) -> Moments| {
        let missing = || Error::Data("no repetition".to_owned());
        study.saved(scheduler, of).map(|share| 100.0 * share).ok_or_else(missing)
    };
    let time = saved(PUBLISHED, |means| means.completion)?;
    let energy = saved(PUBLISHED, |means| means.joules_during)?;
    let alone = saved(Scheduler::PromotionOnly, |means| means.completion)?;
    let relative = saved(Scheduler::By(Policy::Relative), |means| means.completion)?;
    let fifo = saved(Scheduler::Fifo, |means| means.completion)?;
    let mut figures = vec![
        printed.figure("time", time)?,
        printed.figure("energy", energy)?,
        lost,
        Figure::alone("saved by a fixed random order with the same promotion", alone, "%"),
        Figure::alone("saved by OPJ relative to the task alone", relative, "%"),
        Figure::alone("saved by running tasks to their end, in a random order", fifo, "%"),
    ];
    let makespan = saved(PUBLISHED, |means| means.makespan)?;
    figures.push(Figure::alone("makespan saved", makespan, "%"));
    let joules = saved(PUBLISHED, |means| means.joules)?;
    figures.push(Figure::alone("energy to makespan saved (modelled)", joules, "%"));
    for (scheduler, means) in SCHEDULERS.into_iter().zip(&study.means) {
        let (name, mean) = (name(scheduler), |moments: Moments| moments.mean().unwrap_or(f64::NAN));
        figures.push(Figure::alone(
            format!("{name}: mean completion"),
            mean(means.completion),
            "s",
        ));
        figures.push(Figure::alone(format!("{name}: makespan"), mean(means.makespan), "s"));
    }
    let best = "best observed: mean completion";
    figures.push(Figure::alone(best, study.best_completion, "s"));
    figures.extend(errors(matrix));
    Ok(Answer::by(
        figures,
        format!(
            "simulated on speeds that were measured on 16 CPUs, four for each task ({repetitions} repetitions). A fixed \
             random order with the same promotion, which ignores OPJ, saves {alone:.1} % of the mean completion time, \
             and ordering by OPJ {time:.1} %. Even without any contention ordering alone saves 16.7 % with two \
             tasks on a CPU, which then end after 133 and 200 s, and not both after 200 s. The time until all are \
             finished does not get shorter by it. Energy is modelled: power is linear in busy CPUs, half of it idle; \
             the matrix has no joules, and no operations of the CPU, which each repetition draws. Energy while a task \
             is unfinished counts what overlaps several times, so it repeats the mean completion time"
        ),
    ))
}

fn name(scheduler: Scheduler) -> String {
    match scheduler {
        Scheduler::Solo => "solo".to_owned(),
        Scheduler::Fair => "fair".to_owned(),
        Scheduler::Fifo => "FIFO, to their end".to_owned(),
        Scheduler::PromotionOnly => "promotion only".to_owned(),
        Scheduler::By(policy) => policy.to_string(),
    }
}

/// How far off slowdowns are that are composed from pairs, for sets of three and four.
fn errors(matrix: &Matrix) -> Vec<Figure> {
    let checks = matrix.check().into_iter();
    checks
        .map(|check| {
            let is_used = matrix.composition() == check.composition;
            let used = if is_used { ", used" } else { "" };
            let how = match check.composition {
                Composition::Sum => "lost times of pairs added",
                Composition::Product => "slowdowns of pairs multiplied",
                Composition::Worst => "the worst neighbour's slowdown",
            };
            let what = format!("{how}{used}: median error for sets of {}", check.size);
            Figure::alone(what, 100.0 * check.median, "%")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed() -> Printed {
        let all = Printed::all().unwrap();
        all.into_iter().find(|claim| claim.id == "S5").unwrap()
    }

    #[test]
    fn applications_that_hardly_disturb_each_other_answer_nothing() {
        let set = "a+b+c+d";
        let mut table = "applications,application,operations_per_s\n".to_owned();
        for name in set.split('+') {
            table.extend([name, ",", name, ",100\n", set, ",", name, ",96\n"]);
        }
        let answer = answer(&Matrix::read(&table).unwrap(), 1, &printed()).unwrap();
        assert_eq!(answer.verdict, crate::Verdict::NotCheckable);
        assert!((answer.figures[0].ours - 4.0).abs() < 1e-9, "{:?}", answer.figures);
    }

    #[test]
    fn ordering_alone_is_apart() {
        let matrix = Matrix::read(SIXTEEN_CPUS).unwrap();
        let answer = answer(&matrix, 1, &printed()).unwrap();
        let of = |part: &str| {
            let figure = answer.figures.iter().find(|it| it.what.contains(part)).unwrap();
            figure.ours
        };
        // By hand, without contention: 1 - 166.7 / 200. Contention changes it by little in these.
        let alone = of("fixed random order with the same promotion");
        assert!((10.0..25.0).contains(&alone), "{alone}");
        let orders = ["FIFO, to their end: mean", "published: mean", "fair: mean"].map(of);
        assert!(orders.is_sorted(), "{orders:?}");
        assert!(of("best observed") <= of("published: mean"));
        assert!((of("solo: makespan") - 800.0).abs() < 1e-9);
    }
}

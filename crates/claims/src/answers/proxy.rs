//! O2 to O5: on a log, theirs or another.

use crate::{Answer, Context, Error, Figure, Printed};

/// Theirs is not public.
const OTHER_LOG: &str = "their log is not public, so theirs is a yardstick for this one";

/// Reason for a run without savings and without delayed requests.
const NEVER_ASLEEP: &str = "on it the server never came to sleep: it is too short, or too busy";

/// Places of the configurations in their order.
const SLEEPING: usize = 3;
const WITH_PAGE: usize = 4;

/// O2: what a cache answers.
pub(crate) fn cache_shares(context: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let comparison = context.comparison()?;
    let share = |place| 100.0 * comparison.cache_share(place);
    let figures = vec![
        printed.figure("default", share(1))?,
        printed.figure("grace", share(2))?,
        Figure::alone("requests of this log", comparison.requests as f64, ""),
        Figure::alone("their time", comparison.span_s / 3600.0, "h"),
    ];
    Ok(Answer::by(
        figures,
        format!(
            "{OTHER_LOG}: how often the same is asked for again within minutes, or \
        an hour, differs from site to site"
        ),
    ))
}

/// O3: what sleeping saves.
pub(crate) fn savings(context: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let sleeping = context.comparison()?.configurations.get(SLEEPING);
    let Some(comparison) = sleeping.filter(|it| it.sleeps > 0).map(|it| it.saving) else {
        return Ok(Answer::not_checkable(format!("{OTHER_LOG}; {NEVER_ASLEEP}")));
    };
    let analysis = context.analysis()?;
    let share = |joules: Option<f64>| joules.map(|it| 100.0 * (1.0 - it / analysis.always_on_j));
    let ideal = analysis.ideal.get(&5);
    let mut figures = Vec::new();
    if let Some(saved) = ideal.and_then(|it| share(it.both)) {
        figures.push(printed.figure_of("ideal", "behind a cache and without crawlers", saved)?);
    }
    if let Some(saved) = ideal.and_then(|it| share(it.all)) {
        figures.push(Figure::alone("saved with foresight, every request answered", saved, "%"));
    }
    figures.push(printed.figure("practical", 100.0 * comparison)?);
    Ok(Answer::by(
        figures,
        format!(
            "{OTHER_LOG}, and energy is modelled by their watts. An SLA that delays at \
        most a tenth of the visits bounds the practical scheme, and a quiet site delays a larger share by \
        each sleep"
        ),
    ))
}

/// O4: what visitors wait.
pub(crate) fn delays(context: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let comparison = context.comparison()?;
    if comparison.configurations.get(SLEEPING).is_none_or(|it| it.sleeps == 0) {
        return Ok(Answer::not_checkable(format!("{OTHER_LOG}; {NEVER_ASLEEP}")));
    }
    let at = |place: usize| {
        comparison
            .configurations
            .get(place)
            .ok_or_else(|| Error::Data("a configuration".to_owned()))
    };
    let (sleeping, page) = (at(SLEEPING)?, at(WITH_PAGE)?);
    let millis = |mean: Option<f64>| 1e3 * mean.unwrap_or(f64::NAN);
    let figures = vec![
        printed.figure("mean", millis(sleeping.mean_delay_all_s))?,
        printed.figure("share", 100.0 * sleeping.within_50ms_share)?,
        printed.figure("page", millis(page.mean_delay_all_s))?,
        Figure::alone("waiting pages", page.tally.served_survey as f64, ""),
    ];
    Ok(Answer::by(
        figures,
        format!(
            "{OTHER_LOG}, and delays are modelled. One of ten visits may wait, some \
        5 s each: the quieter the site, the more the policy makes of that. Whether a reader stays for the page \
        (1,260 of 1,391 did) no log says"
        ),
    ))
}

/// O5: what lengthens the pauses.
pub(crate) fn tails(context: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let gaps = &context.comparison()?.gaps;
    if gaps.behind_cache.long_s <= 0.0 {
        return Ok(Answer::not_checkable(format!("{OTHER_LOG}; on it there is no pause of 60 s")));
    }
    let ratio = gaps.without_crawlers.long_s / gaps.behind_cache.long_s;
    let figures = vec![
        printed.figure("ratio", ratio)?,
        Figure::alone("time in such pauses, every request", gaps.all.long_s, "s"),
        Figure::alone("behind the cache", gaps.behind_cache.long_s, "s"),
        Figure::alone("without crawlers", gaps.without_crawlers.long_s, "s"),
    ];
    Ok(Answer::by(
        figures,
        format!(
            "{OTHER_LOG}; crawlers are those whom the nine published strings name, and \
        today's crawlers have other names"
        ),
    ))
}

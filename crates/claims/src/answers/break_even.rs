//! O1: from when on a sleep pays.

use nightwatt_energy::quantity::Watts;
use nightwatt_policy::scenario::Scenario;

use crate::{Answer, Context, Error, Figure, Printed};

/// O1: the default scenario is the published server, and its break-even time the published one.
pub(crate) fn break_even(_: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let states = Scenario::default().power_states();
    let ours = states.break_even().as_secs_f64();
    let saved: Watts = states.on - states.off;
    let asleep_after = 4.1;
    let figures = vec![
        printed.figure("break_even", ours)?,
        Figure::alone("energy of a cycle", states.switch.get(), "J"),
        Figure::alone("power that sleeping saves", saved.get(), "W"),
        Figure::alone(
            "that power for the 4.1 s of falling asleep",
            saved.get() * asleep_after,
            "J",
        ),
    ];
    let why = format!(
        "{} J / ({} W - {} W) = {ours:.4} s; the energy of a cycle is nearly that of the time it takes to \
         fall asleep",
        states.switch.get(),
        states.on.get(),
        states.off.get()
    );
    Ok(Answer::by(figures, why))
}

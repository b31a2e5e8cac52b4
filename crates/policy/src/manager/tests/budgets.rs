//! Whose wake-ups and awake time are bounded by which budget.

use super::*;
use crate::admission::Budget;
use crate::awake_budget::UNLIMITED;

/// A client and its request.
#[derive(Clone, Copy)]
struct Asker {
    client: u64,
    network: u64,
    recognised: bool,
    want: Want,
}

impl Asker {
    /// A client that is not recognised, in no network of several.
    const fn stranger(client: u64) -> Self {
        Self { client, network: client, recognised: false, want: Want::Other }
    }

    const fn known(client: u64) -> Self {
        Self { recognised: true, ..Self::stranger(client) }
    }

    const fn payer(&self) -> Payer {
        let Self { client, network, recognised, want } = *self;
        Payer { client, network, recognised, wants_proof: matches!(want, Want::Proof) }
    }
}

fn story(change: impl FnOnce(&mut Settings)) -> Story {
    let mut settings = Settings { sla: None, ..Settings::of(&Scenario::default()) };
    change(&mut settings);
    Story::begin(settings)
}

impl Story {
    /// Asks a server that sleeps by then.
    fn asks(&mut self, second: u64, asker: Asker) -> Route {
        self.until(second);
        let Asker { client, network, recognised, want } = asker;
        let request = Request { class: ClientClass::Api, want, cached: Cached::Nothing };
        let visitor = Visitor(client);
        let id = second;
        let may_wake = true;
        let admission_request =
            AdmissionRequest { id, visitor, client, network, request, recognised, may_wake };
        let mut actions = Vec::new();
        let route = self.manager.admit(self.now, &admission_request, &mut actions);
        self.obey(&mut actions);
        route
    }

    /// Which budget refuses it.
    fn refused(&mut self, second: u64, asker: Asker) -> Option<Budget> {
        match self.asks(second, asker) {
            Route::OverBudget { budget, .. } => Some(budget),
            _ => None,
        }
    }

    fn left(&mut self, asker: Asker) -> BudgetLeft {
        self.manager.budget_left(self.now, &asker.payer())
    }

    fn forgive(&mut self, asker: Asker) -> Vec<Budget> {
        self.manager.forgive(self.now, &asker.payer())
    }
}

const DAY: Duration = Duration::from_hours(24);

#[test]
fn strangers_share_a_budget_and_leave_that_of_others_alone() {
    let mut story = story(|settings| settings.shared_budget = (2, DAY));
    let (first, second, third) = (Asker::stranger(1), Asker::stranger(2), Asker::stranger(3));
    assert_eq!(story.asks(1000, first), Route::Hold);
    assert_eq!(story.asks(2000, second), Route::Hold);
    assert_eq!(story.refused(3000, third), Some(Budget::Unrecognised));
    assert_eq!(story.asks(4000, Asker::known(4)), Route::Hold);
    assert_eq!(story.left(Asker::known(4)).own, 19);
    let left = story.left(third);
    assert_eq!((left.own, left.shared, left.shared_part), (20, 0, 1));
    assert_eq!(left.spent[0].budget, Budget::Unrecognised);
    assert_eq!(story.forgive(Asker::known(4)), []);
    assert_eq!(story.left(Asker::known(4)).own, 20);
    assert_eq!(story.forgive(third), [], "what all have together is not one client's to have back");
}

#[test]
fn one_address_uses_no_more_than_a_quarter_of_what_strangers_share() {
    let mut story = story(|settings| settings.shared_budget = (12, DAY));
    let mallory = Asker::stranger(1);
    for n in 1..=3 {
        assert_eq!(story.asks(100 * n, mallory), Route::Hold);
    }
    assert_eq!(story.refused(400, mallory), Some(Budget::UnrecognisedOfNetwork));
    // Another address of its network is no way around that.
    let neighbour = Asker { client: 2, ..mallory };
    assert_eq!(story.refused(500, neighbour), Some(Budget::UnrecognisedOfNetwork));
    for n in 10..19 {
        assert_eq!(story.asks(100 * n, Asker::stranger(n)), Route::Hold);
    }
    // By hand: one comes back in two hours.
    assert_eq!(story.refused(2000, Asker::stranger(30)), Some(Budget::Unrecognised));
    assert_eq!(story.forgive(mallory), [Budget::UnrecognisedOfNetwork]);
    assert_eq!(story.left(mallory).shared_part, 3);
}

#[test]
fn in_private_networks_nobody_is_a_stranger() {
    let mut story = story(|settings| settings.shared_budget = (0, DAY));
    assert_eq!(story.refused(1000, Asker::stranger(1)), Some(Budget::Unrecognised));
    let at_home = Asker { network: UNLIMITED, ..Asker::stranger(2) };
    assert_eq!(story.asks(2000, at_home), Route::Hold);
    assert_eq!(story.left(at_home).spent, []);
}

#[test]
fn proofs_of_authorities_have_a_budget_of_their_own() {
    let mut story = story(|settings| settings.shared_budget = (4, DAY));
    for n in 1..=4 {
        assert_eq!(story.asks(1000 * n, Asker::stranger(n)), Route::Hold);
    }
    assert_eq!(story.refused(5000, Asker::stranger(5)), Some(Budget::Unrecognised));
    let authority = |client| Asker { want: Want::Proof, ..Asker::stranger(client) };
    for n in 10..16 {
        assert_eq!(story.asks(6000 + 80 * n, authority(n)), Route::Hold);
    }
    assert_eq!(story.refused(7290, authority(16)), Some(Budget::Proofs));
    // Six an hour: the first one is back after ten minutes.
    assert_eq!(story.asks(7400, authority(17)), Route::Hold);
}

#[test]
fn a_refusal_names_its_budget_and_forgiveness_ends_it() {
    let hour = Duration::from_hours(1);
    let mut story = story(|settings| {
        settings.wake_budget = (1, DAY);
        settings.awake_budget = Some(hour);
    });
    // A network with four wake-ups.
    let of = |client| Asker { network: 100, ..Asker::known(client) };
    for n in 1..=4 {
        assert_eq!(story.asks(1000 * n, of(n)), Route::Hold);
    }
    assert_eq!(story.refused(5000, of(5)), Some(Budget::Network));
    let left = story.left(of(5));
    assert_eq!((left.own, left.network), (1, Some(0)));
    assert_eq!(left.spent.len(), 1);
    assert_eq!(story.forgive(of(5)), [Budget::Network]);
    assert_eq!(story.asks(6000, of(5)), Route::Hold);
    assert_eq!(story.refused(7000, of(5)), Some(Budget::Client));
    assert_eq!(story.forgive(of(5)), [Budget::Client]);
    // One that keeps the server awake by an exchange that never ends.
    assert_eq!(story.asks(8000, Asker::known(6)), Route::Hold);
    story.manager.begin(story.now, 6);
    assert_eq!(story.left(Asker::known(6)).awake, Some(hour));
    story.until(8000 + 7200);
    assert_eq!(story.manager.phase(), Phase::Asleep);
    story.manager.end(story.now, 6);
    story.manager.forgive(story.now, &Payer { network: 7, ..Asker::known(6).payer() });
    assert_eq!(story.refused(16_000, Asker::known(6)), Some(Budget::AwakeTime));
    let spent = story.left(Asker::known(6)).spent;
    assert_eq!(spent.iter().map(|it| it.budget).collect::<Vec<_>>(), [Budget::AwakeTime]);
    assert_eq!(story.forgive(Asker::known(6)), [Budget::AwakeTime]);
    assert_eq!(story.asks(17_000, Asker::known(6)), Route::Hold);
}

#[test]
fn a_client_that_asks_once_does_not_pay_for_the_connection_that_another_leaves_open() {
    let mut story = story(|settings| settings.awake_budget = Some(Duration::from_mins(30)));
    assert_eq!(story.asks(100, Asker::known(1)), Route::Hold);
    story.manager.begin(story.now, 1);
    assert_eq!(story.asks(110, Asker::known(2)), Route::Forward);
    story.manager.end(story.now, 2);
    story.until(3600);
    // Ten minutes are shared, and half an hour is the other one's.
    assert_eq!(story.manager.phase(), Phase::Asleep);
    story.manager.end(story.now, 1);
    assert_eq!(story.refused(3700, Asker::known(1)), Some(Budget::AwakeTime));
    assert_eq!(story.asks(3800, Asker::known(2)), Route::Hold);
}

#[test]
fn changed_budgets_count_from_the_reload_on() {
    let mut story = story(|settings| settings.wake_budget = (1, DAY));
    let of = |client| Asker { network: 100, ..Asker::known(client) };
    let settings = Settings {
        wake_budget: (2, DAY),
        awake_budget: Some(Duration::from_mins(30)),
        ..story.manager.settings.clone()
    };
    story.manager.retune(story.now, settings, None);
    let left = story.left(of(1));
    assert_eq!((left.own, left.network), (2, Some(8)));
    assert_eq!(left.awake, Some(Duration::from_mins(30)));
}

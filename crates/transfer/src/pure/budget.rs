//! How much may be spent on trying arms.

use serde::{Deserialize, Serialize};

/// A share of the bill, paid before the bill is known: the part of the bill that lies ahead counts as well.
///
/// A trial starts only if its expected cost is within the budget. What it costs beyond that is owed, and no other
/// trial starts until it is earned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    share: f64,
    bill: f64,
    ahead: f64,
    spent: f64,
}

impl Budget {
    /// This share of the bill, 0 to 1.
    pub(crate) fn new(share: f64) -> Self {
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        Self { share, bill: 0.0, ahead: 0.0, spent: 0.0 }
    }

    /// A block was sent.
    pub(crate) fn earn(&mut self, bill: f64) {
        self.bill += positive(bill);
    }

    /// The bill expected for what is still to be sent.
    pub(crate) fn expect(&mut self, ahead: f64) {
        self.ahead = positive(ahead);
    }

    /// What may be spent now.
    pub fn room(&self) -> f64 {
        self.share * (self.bill + self.ahead) - self.spent
    }

    /// Whether a trial of this cost may start.
    pub(crate) fn permits(&self, cost: f64) -> bool {
        cost.is_finite() && cost <= self.room()
    }

    /// A trial cost this much.
    pub(crate) fn charge(&mut self, cost: f64) {
        self.spent += positive(cost);
    }

    /// What trials cost so far.
    pub fn spent(&self) -> f64 {
        self.spent
    }

    /// The bill so far.
    pub fn bill(&self) -> f64 {
        self.bill
    }
}

fn positive(figure: f64) -> f64 {
    if figure.is_finite() { figure.max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_overspent_is_earned_before_the_next_trial() {
        let mut budget = Budget::new(0.01);
        assert!(!budget.permits(0.1) && budget.permits(0.0));
        budget.earn(100.0);
        assert!(budget.permits(1.0) && !budget.permits(1.1));
        budget.charge(3.0);
        budget.earn(100.0);
        assert!(!budget.permits(0.0));
        budget.expect(200.0);
        assert!(budget.permits(1.0));
        budget.charge(f64::NAN);
        assert!(!budget.permits(f64::NAN));
        assert!((budget.spent() - 3.0).abs() < 1e-12 && (budget.bill() - 200.0).abs() < 1e-12);
    }
}

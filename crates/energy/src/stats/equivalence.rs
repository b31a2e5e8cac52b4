//! What may be said of ratios against a margin.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::intervals::LEVEL;
use super::multiple::holm;

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// There is a difference.
    Differs,
    /// There is no difference larger than the margin. There may well be a smaller one, even a sure one.
    NoDifference,
    /// Neither can be said.
    CannotTell,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Differs => "differs",
            Self::NoDifference => "no difference larger than the margin",
            Self::CannotTell => "cannot tell",
        })
    }
}

/// What tests say of one ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// Two-sided p-value of "the ratio is 1".
    pub difference: f64,
    /// The larger of the one-sided p-values of "it is the margin above 1, or more" and "the margin below,
    /// or less" (two one-sided tests: Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15, 1987).
    pub equivalence: f64,
}

/// A ratio judged among others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// What may be said.
    pub verdict: Verdict,
    /// [`Evidence::difference`], adjusted by Holm for all that are judged together.
    pub difference: f64,
    /// [`Evidence::equivalence`], likewise.
    pub equivalence: f64,
}

/// Judges ratios together: among all of them one or more is called different, though its ratio is 1,
/// with 5 % at most; or called within the margin, though it is not, with 2.5 % at most. Of a single one
/// that is: no difference if its 95 % interval lies within the margin, else a difference if 1 lies
/// outside of it.
pub fn judge(evidence: &[Evidence]) -> Vec<Judgement> {
    let adjusted = |of: fn(&Evidence) -> f64| holm(&evidence.iter().map(of).collect::<Vec<_>>());
    let (differences, equivalences) = (adjusted(|e| e.difference), adjusted(|e| e.equivalence));
    let judged = differences.into_iter().zip(equivalences).map(|(difference, equivalence)| {
        let verdict = if equivalence <= 0.5 * LEVEL {
            Verdict::NoDifference
        } else if difference <= LEVEL {
            Verdict::Differs
        } else {
            Verdict::CannotTell
        };
        Judgement { verdict, difference, equivalence }
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(evidence: &[(f64, f64)]) -> Vec<Verdict> {
        let evidence: Vec<Evidence> = evidence
            .iter()
            .map(|&(difference, equivalence)| Evidence { difference, equivalence })
            .collect();
        judge(&evidence).into_iter().map(|judgement| judgement.verdict).collect()
    }

    #[test]
    fn a_sure_difference_within_the_margin_is_no_difference_larger_than_it() {
        use Verdict::{CannotTell, Differs, NoDifference};
        assert_eq!(verdicts(&[(0.001, 0.6)]), [Differs]);
        assert_eq!(verdicts(&[(0.4, 0.01)]), [NoDifference]);
        assert_eq!(verdicts(&[(0.001, 0.01)]), [NoDifference]);
        assert_eq!(verdicts(&[(0.4, 0.2)]), [CannotTell]);
    }

    #[test]
    fn what_is_sure_alone_may_not_be_among_three() {
        use Verdict::{CannotTell, Differs, NoDifference};
        // By hand: 0.03 x 1 after 0.001 x 3 and 0.02 x 2 = 0.04: all at most 0.05; 0.03 x 3 is not.
        assert_eq!(verdicts(&[(0.03, 1.0), (0.001, 1.0), (0.02, 1.0)]), [Differs; 3]);
        assert_eq!(verdicts(&[(0.03, 1.0), (0.3, 1.0), (0.2, 1.0)]), [CannotTell; 3]);
        assert_eq!(verdicts(&[(0.5, 0.02), (0.5, 0.001)]), [NoDifference; 2]);
        assert_eq!(verdicts(&[(0.5, 0.02), (0.5, 0.1)]), [CannotTell; 2]);
    }
}

//! Energy with its origin.

use serde::{Deserialize, Serialize};

use crate::quantity::Joules;

/// Where a figure comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Provenance {
    /// A meter said so.
    Measured {
        /// Which meter and channel.
        meter: String,
    },
    /// A model said so.
    Modelled {
        /// Which model, and where its parameters come from.
        model: String,
    },
    /// A meter said so of a part, a model of the rest.
    Mixed {
        /// Which meter and channel.
        meter: String,
        /// Which model, and where its parameters come from.
        model: String,
        /// The part of the energy that was measured, 0 ..= 1.
        measured_share: f64,
    },
}

/// A figure counts as measured if no more than this share of its energy, and of its time, was not.
const NEARLY: f64 = 0.01;

impl Provenance {
    /// `measured`, `modelled` or `mixed`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Measured { .. } => "measured",
            Self::Modelled { .. } => "modelled",
            Self::Mixed { .. } => "mixed",
        }
    }
}

/// An amount of energy that says where it comes from and how sure it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// The figure, in joules.
    pub joules: Joules,
    /// Expanded uncertainty at 95 %, in joules: the truth lies within `joules` ± this.
    pub uncertainty: Joules,
    /// Its origin.
    pub provenance: Provenance,
}

impl Energy {
    /// A modelled figure whose parameters are known within `relative` (0.1 = 10 %, at 95 %).
    pub fn modelled(joules: Joules, relative: f64, model: impl Into<String>) -> Self {
        let provenance = Provenance::Modelled { model: model.into() };
        Self { joules, uncertainty: Joules((joules.get() * relative).abs()), provenance }
    }

    /// A figure that was measured; `uncertainty` at 95 %.
    pub fn measured(joules: Joules, uncertainty: Joules, meter: impl Into<String>) -> Self {
        Self { joules, uncertainty, provenance: Provenance::Measured { meter: meter.into() } }
    }

    /// What `meter` measured, and what `model` says of the rest, of which the meter covered `share`
    /// (0 ..= 1) of the time.
    ///
    /// It counts as measured if all but a hundredth was, both of the energy and of the time; as
    /// modelled if nothing was. What meter and model may be off has nothing to do with each other, so
    /// it adds as squares do (JCGM 100:2008, 5.1.2).
    #[must_use]
    pub fn together(measured: &Self, modelled: &Self, share: f64) -> Self {
        let joules = measured.joules + modelled.joules;
        let uncertainty = measured.uncertainty.get().hypot(modelled.uncertainty.get());
        let of_energy = if joules.get() > 0.0 { measured.joules / joules } else { share };
        let provenance = match (&measured.provenance, &modelled.provenance) {
            _ if share <= 0.0 => modelled.provenance.clone(),
            _ if share.min(of_energy) >= 1.0 - NEARLY => measured.provenance.clone(),
            (Provenance::Measured { meter }, Provenance::Modelled { model }) => Provenance::Mixed {
                meter: meter.clone(),
                model: model.clone(),
                measured_share: of_energy,
            },
            (measured, _) => measured.clone(),
        };
        Self { joules, uncertainty: Joules(uncertainty), provenance }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_measured_only_if_nearly_all_of_it_was() {
        let of = |measured: f64, modelled: f64, share: f64| {
            let measured = Energy::measured(Joules(measured), Joules(3.0), "plug");
            let modelled = Energy {
                uncertainty: Joules(4.0),
                ..Energy::modelled(Joules(modelled), 0.1, "states")
            };
            let together = Energy::together(&measured, &modelled, share);
            assert!((together.uncertainty.get() - 5.0).abs() < 1e-12, "3-4-5");
            together
        };
        assert_eq!(
            of(995.0, 5.0, 0.995).provenance,
            Provenance::Measured { meter: "plug".to_owned() }
        );
        assert_eq!(of(0.0, 5.0, 0.0).provenance.as_str(), "modelled");
        // Of a day, an hour asleep without the meter: a small part of the energy, and not of the time.
        let Provenance::Mixed { measured_share, .. } = of(995.0, 5.0, 23.0 / 24.0).provenance
        else {
            panic!("it is mixed");
        };
        assert!((measured_share - 0.995).abs() < 1e-12);
        assert_eq!(of(900.0, 100.0, 1.0).provenance.as_str(), "mixed");
        assert!((of(900.0, 100.0, 0.9).joules.get() - 1000.0).abs() < 1e-12);
    }
}

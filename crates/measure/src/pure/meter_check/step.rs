//! The quantisation step of a meter, from the figures that it shows.

/// Shares of a step within which figures count as multiples of it.
const NEAR: f64 = 0.05;

/// The step of which all differences between figures are multiples; none for a meter that shows any
/// figure, or too few different ones.
///
/// The smallest difference between two figures is the first guess; each larger one makes it more
/// exact, in ascending order, so that multiples are counted right. Figures count as quantised when
/// they repeat (twice each on average), as figures of a fine scale would not.
pub(super) fn quantisation(mut figures: Vec<f64>) -> Option<f64> {
    let shown = figures.len();
    figures.sort_by(f64::total_cmp);
    let largest = figures.last()?.abs().max(figures.first()?.abs());
    // A decimal figure in binary is off by its last digit.
    figures.dedup_by(|a, b| (*a - *b).abs() <= 1e-9 * largest);
    if figures.len() < 3 || shown < 2 * figures.len() {
        return None;
    }
    let mut differences: Vec<f64> = figures.windows(2).map(|pair| pair[1] - pair[0]).collect();
    differences.sort_by(f64::total_cmp);
    let mut step = differences[0];
    let (mut products, mut squares) = (0.0, 0.0);
    for &difference in &differences {
        let multiple = (difference / step).round();
        if (difference / step - multiple).abs() > NEAR {
            return None;
        }
        products += difference * multiple;
        squares += multiple * multiple;
        step = products / squares;
    }
    Some(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenths_of_a_watt_are_found_in_decimal_figures() {
        let figures = (0..400).map(|n| f64::from(n * n % 83) / 10.0 + 40.0).collect();
        let step = quantisation(figures).unwrap();
        assert!((step - 0.1).abs() < 1e-9, "{step}");
    }

    #[test]
    fn a_step_is_found_though_no_two_figures_are_neighbours() {
        // Multiples of 0.25 W, at least three steps apart, six being the next.
        let figures = (0..60).map(|n| 0.75 * f64::from(n % 7)).collect();
        // Nothing shows that 0.75 W could be divided.
        assert!((quantisation(figures).unwrap() - 0.75).abs() < 1e-12);
    }

    #[test]
    fn a_meter_that_shows_any_figure_has_no_step() {
        assert_eq!(quantisation((0..500).map(|n| f64::from(n).sin()).collect()), None);
        // Repeated, but of no common step.
        let figures = (0..100).map(|n| [1.0, 2.0, 3.3, 7.77][n % 4]).collect();
        assert_eq!(quantisation(figures), None);
        assert_eq!(quantisation(vec![5.0; 100]), None);
        assert_eq!(quantisation(Vec::new()), None);
    }
}

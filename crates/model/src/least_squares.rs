//! Ordinary least squares by Householder reflections.
//!
//! The coefficients b that make the sum of the squares of `y - X b` least. X is brought into
//! triangular form by reflections (Golub and Van Loan, *Matrix Computations*, section 5.3), which
//! keeps twice the digits that the normal equations would.

/// How a right-hand side is explained by columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// One for each column, in units of y per unit of the column.
    pub coefficients: Vec<f64>,
    /// Standard deviation of the residuals, with rows - columns degrees of freedom, in units of y.
    /// 0 where there are as many columns as rows.
    pub residual_sd: f64,
}

/// Columns whose length shrinks to this share of itself are combinations of those before them.
const SINGULAR: f64 = 1e-10;

/// Solves for rows of equal length. `None` if there are fewer rows than columns, no columns, a
/// column that is a combination of others, rows of different lengths, or figures that are not
/// finite.
pub fn solve(rows: &[Vec<f64>], y: &[f64]) -> Option<Solution> {
    let columns = rows.first()?.len();
    let finite = rows.iter().flatten().chain(y).all(|figure| figure.is_finite());
    let even = rows.len() == y.len() && rows.iter().all(|row| row.len() == columns);
    if !finite || !even || columns == 0 || rows.len() < columns {
        return None;
    }
    let mut a = rows.to_vec();
    let mut y = y.to_vec();
    for column in 0..columns {
        let whole = length(rows.iter().map(|row| row[column]));
        let pivot = reflect(&mut a, &mut y, column);
        if pivot.abs() <= SINGULAR * whole {
            return None;
        }
    }
    let mut coefficients = vec![0.0; columns];
    for row in (0..columns).rev() {
        let known: f64 = (row + 1..columns).map(|k| a[row][k] * coefficients[k]).sum();
        coefficients[row] = (y[row] - known) / a[row][row];
    }
    let freedom = rows.len() - columns;
    let left = length(y[columns..].iter().copied());
    let residual_sd = if freedom == 0 { 0.0 } else { left / (freedom as f64).sqrt() };
    coefficients
        .iter()
        .all(|value| value.is_finite())
        .then_some(Solution { coefficients, residual_sd })
}

fn length(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

/// Clears a column below the diagonal, and gives what is then on the diagonal.
fn reflect(a: &mut [Vec<f64>], y: &mut [f64], column: usize) -> f64 {
    let norm = length(a[column..].iter().map(|row| row[column]));
    if norm == 0.0 {
        return 0.0;
    }
    // Away from the figure that is there: a difference of two near ones would lose digits.
    let target = -norm.copysign(a[column][column]);
    let mut mirror: Vec<f64> = a[column..].iter().map(|row| row[column]).collect();
    mirror[0] -= target;
    let square: f64 = mirror.iter().map(|value| value * value).sum();
    for k in column..a[column].len() {
        let along: f64 = mirror.iter().zip(&a[column..]).map(|(m, row)| m * row[k]).sum();
        for (m, row) in mirror.iter().zip(&mut a[column..]) {
            row[k] -= 2.0 * along / square * m;
        }
    }
    let along: f64 = mirror.iter().zip(&y[column..]).map(|(m, value)| m * value).sum();
    for (m, value) in mirror.iter().zip(&mut y[column..]) {
        *value -= 2.0 * along / square * m;
    }
    target
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_through_anscombes_first_quartet() {
        // F. J. Anscombe, "Graphs in Statistical Analysis", The American Statistician 27 (1973):
        // y = 3.00 + 0.500 x, residual sum of squares 13.75 with 9 degrees of freedom.
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let rows: Vec<_> = x.iter().map(|&x| vec![1.0, x]).collect();
        let solution = solve(&rows, &y).unwrap();
        assert!((solution.coefficients[0] - 3.0).abs() < 5e-3, "{solution:?}");
        assert!((solution.coefficients[1] - 0.5).abs() < 5e-4, "{solution:?}");
        assert!((solution.residual_sd.powi(2) * 9.0 - 13.75).abs() < 2e-2, "{solution:?}");
    }

    #[test]
    fn what_cannot_be_solved_is_refused() {
        let rows = |rows: &[[f64; 2]]| rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>();
        assert_eq!(solve(&[], &[]), None);
        assert_eq!(solve(&[vec![], vec![]], &[1.0, 2.0]), None);
        assert_eq!(solve(&rows(&[[1.0, 2.0]]), &[1.0]), None, "one row, two columns");
        assert_eq!(solve(&rows(&[[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]), &[1.0, 2.0, 3.0]), None);
        assert_eq!(solve(&rows(&[[1.0, 0.0], [2.0, 0.0]]), &[1.0, 2.0]), None, "a column of zeros");
        assert_eq!(solve(&rows(&[[1.0, 2.0], [f64::NAN, 1.0]]), &[1.0, 2.0]), None);
        assert_eq!(solve(&rows(&[[1.0, 2.0], [2.0, 1.0]]), &[1.0]), None, "one y for two rows");
    }

    proptest! {
        #[test]
        fn residuals_stand_at_right_angles_to_every_column(
            figures in prop::collection::vec((-10.0..10.0f64, -10.0..10.0f64, -10.0..10.0f64), 6..40),
        ) {
            let rows: Vec<_> = figures.iter().map(|&(a, b, _)| vec![1.0, a, b]).collect();
            let y: Vec<_> = figures.iter().map(|&(_, _, y)| y).collect();
            let Some(solution) = solve(&rows, &y) else { return Ok(()) };
            let left: Vec<f64> = rows
                .iter()
                .zip(&y)
                .map(|(row, y)| y - row.iter().zip(&solution.coefficients).map(|(x, b)| x * b).sum::<f64>())
                .collect();
            for column in 0..3 {
                let along: f64 = rows.iter().zip(&left).map(|(row, left)| row[column] * left).sum();
                prop_assert!(along.abs() < 1e-6, "column {column}: {along}");
            }
        }
    }
}

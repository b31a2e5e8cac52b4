//! Small dense linear least squares by Householder QR.
//!
//! Sources: G. H. Golub and C. F. Van Loan, *Matrix Computations*, 4th ed., 5.2.2 (Householder QR)
//! and 5.3 (least squares); N. R. Draper and H. Smith, *Applied Regression Analysis*, 3rd ed.,
//! chapter 5 (covariance of the coefficients, error of a fitted value).

use crate::stats::distribution::student_t;

/// A column whose part that earlier columns do not explain is below this share of its length is
/// taken as a combination of them. Rounding leaves some 1e-16 per row.
const INDEPENDENT: f64 = 1e-10;
/// A column takes part in a combination when its share is above this.
const TAKES_PART: f64 = 1e-6;

/// Why there is no fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeastSquaresError {
    /// Fewer rows than coefficients.
    #[error("{rows} rows cannot determine {coefficients} coefficients; measure more")]
    TooFewRows {
        /// How many there are.
        rows: usize,
        /// How many are to be determined.
        coefficients: usize,
    },
    /// Columns (by index) of which one is a linear combination of the others; a single one is zero
    /// in every row.
    #[error("columns {columns:?} cannot be told apart; vary one while the others stay")]
    Dependent {
        /// Ascending.
        columns: Vec<usize>,
    },
    /// A figure is not finite, or an error of a row is not above zero.
    #[error("row {row} has a figure that is not finite, or an error not above zero; mend that row")]
    BadRow {
        /// Counted from 0.
        row: usize,
    },
}

/// What is known of the errors of the rows, which are taken as independent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowErrors<'a> {
    /// All rows are equally good; how good, the residuals say.
    Equal,
    /// Standard deviations up to a common factor, which the residuals say.
    Relative(&'a [f64]),
    /// Standard deviations, in the unit of the observed value.
    Known(&'a [f64]),
}

/// Rows of a linear model: `observed = Σ coefficient x column`.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    width: usize,
    columns: Vec<f64>,
    observed: Vec<f64>,
}

impl Design {
    /// No rows yet, `width` coefficients to be determined.
    pub const fn new(width: usize) -> Self {
        Self { width, columns: Vec::new(), observed: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When `columns` is not as long as the design is wide: a slip of the program.
    pub fn push(&mut self, columns: &[f64], observed: f64) {
        assert_eq!(columns.len(), self.width, "a row must fill every column");
        self.columns.extend_from_slice(columns);
        self.observed.push(observed);
    }

    /// How many rows.
    pub const fn rows(&self) -> usize {
        self.observed.len()
    }

    /// Solves by weighted least squares.
    pub fn solve(&self, errors: RowErrors<'_>) -> Result<Fit, LeastSquaresError> {
        let (rows, width) = (self.rows(), self.width);
        if rows < width {
            return Err(LeastSquaresError::TooFewRows { rows, coefficients: width });
        }
        let (matrix, observed) = self.weighted(errors)?;
        let mut qr = Qr::new(matrix, observed, rows, width);
        qr.reduce()?;
        Ok(qr.fit(errors))
    }

    /// The rows by columns (column-major) and the observed values, each divided by the error of its row.
    fn weighted(&self, errors: RowErrors<'_>) -> Result<(Vec<f64>, Vec<f64>), LeastSquaresError> {
        let rows = self.rows();
        let mut matrix = vec![0.0; rows * self.width];
        let mut observed = self.observed.clone();
        for row in 0..rows {
            let error = match errors {
                RowErrors::Equal => 1.0,
                RowErrors::Relative(errors) | RowErrors::Known(errors) => {
                    errors.get(row).copied().unwrap_or(f64::NAN)
                }
            };
            observed[row] /= error;
            let mut good = error > 0.0 && error.is_finite() && observed[row].is_finite();
            for column in 0..self.width {
                let value = self.columns[row * self.width + column] / error;
                good &= value.is_finite();
                matrix[column * rows + row] = value;
            }
            if !good {
                return Err(LeastSquaresError::BadRow { row });
            }
        }
        Ok((matrix, observed))
    }
}

/// The state of a Householder reduction, column by column.
struct Qr {
    rows: usize,
    width: usize,
    /// Column-major; columns scaled to length 1, then overwritten by R above the diagonal.
    matrix: Vec<f64>,
    observed: Vec<f64>,
    /// Length of each column before it was scaled: R and tolerance then do not depend on units.
    lengths: Vec<f64>,
}

impl Qr {
    fn new(mut matrix: Vec<f64>, observed: Vec<f64>, rows: usize, width: usize) -> Self {
        let lengths = matrix
            .chunks_mut(rows.max(1))
            .map(|column| {
                let length = norm(column);
                if length > 0.0 {
                    for value in column.iter_mut() {
                        *value /= length;
                    }
                }
                length
            })
            .collect();
        Self { rows, width, matrix, observed, lengths }
    }

    fn r(&self, row: usize, column: usize) -> f64 {
        self.matrix[column * self.rows + row]
    }

    /// Reflects column after column onto its diagonal.
    fn reduce(&mut self) -> Result<(), LeastSquaresError> {
        let mut reflector = vec![0.0; self.rows];
        for pivot in 0..self.width {
            let column = &self.matrix[pivot * self.rows + pivot..(pivot + 1) * self.rows];
            let length = norm(column);
            if length <= INDEPENDENT {
                return Err(LeastSquaresError::Dependent { columns: self.combination(pivot) });
            }
            let reflector = &mut reflector[..column.len()];
            reflector.copy_from_slice(column);
            // The sign that does not cancel.
            reflector[0] += length.copysign(column[0]);
            let scale = 2.0 / reflector.iter().map(|value| value * value).sum::<f64>();
            for column in pivot..self.width {
                let start = column * self.rows;
                reflect(&mut self.matrix[start + pivot..start + self.rows], reflector, scale);
            }
            reflect(&mut self.observed[pivot..], reflector, scale);
        }
        Ok(())
    }

    /// Which columns make up column `pivot`, itself included.
    fn combination(&self, pivot: usize) -> Vec<usize> {
        if self.lengths[pivot] == 0.0 {
            return vec![pivot];
        }
        let right: Vec<f64> = (0..pivot).map(|row| self.r(row, pivot)).collect();
        let shares = self.solve_upper(&right);
        let takes_part = |&column: &usize| shares[column].abs() > TAKES_PART;
        (0..pivot).filter(takes_part).chain([pivot]).collect()
    }

    /// Solves `R x = right` for the leading square of R that `right` fills.
    fn solve_upper(&self, right: &[f64]) -> Vec<f64> {
        let mut solution = right.to_vec();
        for row in (0..right.len()).rev() {
            let known: f64 =
                (row + 1..right.len()).map(|column| self.r(row, column) * solution[column]).sum();
            solution[row] = (solution[row] - known) / self.r(row, row);
        }
        solution
    }

    fn fit(&self, errors: RowErrors<'_>) -> Fit {
        let (rows, width) = (self.rows, self.width);
        let mut coefficients = self.solve_upper(&self.observed[..width]);
        for (coefficient, length) in coefficients.iter_mut().zip(&self.lengths) {
            *coefficient /= length;
        }
        let sum_of_squares: f64 = self.observed[width..].iter().map(|value| value * value).sum();
        let spare = rows - width;
        let residual_sd =
            if spare == 0 { f64::INFINITY } else { (sum_of_squares / spare as f64).sqrt() };
        let (variance, degrees_of_freedom) = match errors {
            RowErrors::Known(_) => (1.0, f64::INFINITY),
            RowErrors::Equal | RowErrors::Relative(_) => (residual_sd.powi(2), spare as f64),
        };
        // C = R^-1 R^-T, R^-1 column by column.
        let inverse: Vec<Vec<f64>> = (0..width)
            .map(|column| {
                let mut unit = vec![0.0; width];
                unit[column] = 1.0;
                self.solve_upper(&unit)
            })
            .collect();
        let mut covariance = vec![f64::INFINITY; width * width];
        let known = if variance.is_finite() { width } else { 0 };
        for a in 0..known {
            for b in 0..width {
                let sum: f64 = inverse.iter().map(|column| column[a] * column[b]).sum();
                covariance[a * width + b] = variance * sum / (self.lengths[a] * self.lengths[b]);
            }
        }
        let t_95 = student_t(0.025, degrees_of_freedom);
        Fit {
            coefficients,
            covariance,
            rows,
            sum_of_squares,
            residual_sd,
            degrees_of_freedom,
            t_95,
        }
    }
}

/// Length without overflow for figures of ordinary size.
fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// `column -= scale (reflector . column) reflector`.
fn reflect(column: &mut [f64], reflector: &[f64], scale: f64) {
    let dot: f64 = column.iter().zip(reflector).map(|(a, b)| a * b).sum();
    for (value, part) in column.iter_mut().zip(reflector) {
        *value -= scale * dot * part;
    }
}

/// A solved [`Design`].
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// One per column.
    pub coefficients: Vec<f64>,
    /// Row by row, `width` x `width`. Infinite when there are no more rows than coefficients and
    /// the errors are not known.
    covariance: Vec<f64>,
    /// How many rows were used.
    pub rows: usize,
    /// Of the residuals, each divided by the error of its row.
    pub sum_of_squares: f64,
    /// Standard deviation of the residuals, each divided by the error of its row; about 1 when
    /// [`RowErrors::Known`] tells the truth. Infinite without a row to spare.
    pub residual_sd: f64,
    /// Rows to spare; infinite for [`RowErrors::Known`].
    pub degrees_of_freedom: f64,
    /// Standard errors that make a 95 % interval: Student's t at 97.5 %.
    pub t_95: f64,
}

impl Fit {
    /// Covariance of two coefficients.
    pub fn covariance(&self, a: usize, b: usize) -> f64 {
        self.covariance[a * self.coefficients.len() + b]
    }

    /// Standard error of a coefficient.
    pub fn standard_error(&self, column: usize) -> f64 {
        self.covariance(column, column).max(0.0).sqrt()
    }

    /// Value of the model for a row, and the standard error of that value (not of a further
    /// observation, which scatters besides).
    pub fn at(&self, columns: &[f64]) -> (f64, f64) {
        let width = self.coefficients.len();
        let value = columns.iter().zip(&self.coefficients).map(|(x, b)| x * b).sum();
        if self.covariance[0].is_infinite() {
            return (value, f64::INFINITY);
        }
        let variance: f64 = (0..width)
            .flat_map(|a| (0..width).map(move |b| (a, b)))
            .map(|(a, b)| columns[a] * columns[b] * self.covariance(a, b))
            .sum();
        (value, variance.max(0.0).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // What the lines of numpy below print.
    const PLANE: [(f64, f64); 3] = [
        (1.043_103_184_440, 0.801_570_511_644),
        (2.072_952_914_352, 0.184_346_156_358),
        (0.969_317_051_523, 0.189_668_438_368),
    ];
    const PLANE_COVARIANCE: f64 = -0.125_590_649_801;
    const PLANE_RESIDUAL_SD: f64 = 0.922_076_542_426;
    const WEIGHTED: [(f64, f64); 3] = [
        (0.064_545_423_293, 1.046_543_099_364),
        (2.256_887_322_554, 0.271_160_576_392),
        (1.106_838_694_939, 0.257_132_108_870),
    ];
    const WEIGHTED_RSS: f64 = 1.103_409_488_872;

    fn line(points: &[(f64, f64)]) -> Design {
        let mut design = Design::new(2);
        for &(x, y) in points {
            design.push(&[1.0, x], y);
        }
        design
    }

    /// Numbers from numpy 2.4:
    ///
    /// ```python
    /// import numpy as np
    /// x = np.array([[1,0.5,2],[1,1.5,-1],[1,2.25,4],[1,3.5,0.5],[1,5,3],[1,7,-2.]])
    /// y = np.array([3.1,4.2,9.7,8.4,14.9,13.2])
    /// b, rss, _, _ = np.linalg.lstsq(x, y)
    /// c = rss/3*np.linalg.inv(x.T@x)
    /// print(b, np.sqrt(np.diag(c)), c[0,1], np.sqrt(rss/3), rss)
    /// s = np.array([1,2,1,.5,1,3.])   # weighted: lstsq of rows divided by s
    /// b, rss, _, _ = np.linalg.lstsq(x/s[:,None], y/s)
    /// c = np.linalg.inv((x/s[:,None]).T@(x/s[:,None]))
    /// print(b, np.sqrt(np.diag(c)), rss)
    /// ```
    #[test]
    fn a_plane_through_six_points_is_numpys() {
        let rows = [
            ([1.0, 0.5, 2.0], 3.1),
            ([1.0, 1.5, -1.0], 4.2),
            ([1.0, 2.25, 4.0], 9.7),
            ([1.0, 3.5, 0.5], 8.4),
            ([1.0, 5.0, 3.0], 14.9),
            ([1.0, 7.0, -2.0], 13.2),
        ];
        let mut design = Design::new(3);
        for (columns, observed) in rows {
            design.push(&columns, observed);
        }
        let close = |found: f64, expected: f64| {
            assert!((found - expected).abs() < 1e-9 * expected.abs(), "{found} for {expected}");
        };
        let fit = design.solve(RowErrors::Equal).unwrap();
        for (column, (value, error)) in PLANE.into_iter().enumerate() {
            close(fit.coefficients[column], value);
            close(fit.standard_error(column), error);
        }
        close(fit.covariance(0, 1), PLANE_COVARIANCE);
        close(fit.residual_sd, PLANE_RESIDUAL_SD);
        let errors = [1.0, 2.0, 1.0, 0.5, 1.0, 3.0];
        let known = design.solve(RowErrors::Known(&errors)).unwrap();
        let relative = design.solve(RowErrors::Relative(&errors)).unwrap();
        for (column, (value, error)) in WEIGHTED.into_iter().enumerate() {
            close(known.coefficients[column], value);
            close(known.standard_error(column), error);
            close(relative.coefficients[column], value);
            close(relative.standard_error(column), error * (WEIGHTED_RSS / 3.0).sqrt());
        }
        close(known.sum_of_squares, WEIGHTED_RSS);
    }

    #[test]
    fn a_line_through_two_points_is_exact_and_its_error_unknown() {
        let fit = line(&[(1.0, 3.0), (3.0, 7.0)]).solve(RowErrors::Equal).unwrap();
        assert!((fit.coefficients[0] - 1.0).abs() < 1e-12);
        assert!((fit.coefficients[1] - 2.0).abs() < 1e-12);
        assert!(fit.standard_error(1).is_infinite());
        let (value, error) = fit.at(&[1.0, 0.0]);
        assert!((value - 1.0).abs() < 1e-12 && error.is_infinite());
    }

    #[test]
    fn the_error_of_a_mean_is_sd_over_root_n_and_known_errors_are_believed() {
        let mut design = Design::new(1);
        for value in [1.0, 2.0, 3.0, 4.0] {
            design.push(&[1.0], value);
        }
        // sd = sqrt(5/3), n = 4.
        let fit = design.solve(RowErrors::Equal).unwrap();
        assert!((fit.standard_error(0) - (5.0_f64 / 12.0).sqrt()).abs() < 1e-12);
        let fit = design.solve(RowErrors::Known(&[10.0; 4])).unwrap();
        assert!((fit.standard_error(0) - 5.0).abs() < 1e-12);
        assert!((fit.t_95 - 1.96).abs() < 1e-4);
    }

    #[test]
    fn columns_that_cannot_be_told_apart_are_named_whatever_their_units() {
        let mut design = Design::new(4);
        for x in 0..20 {
            let x = f64::from(x);
            // The last is twice the second and a millionth of the first; the third stands apart.
            design.push(&[1e9, 0.1 * x, (x * 1.3).sin(), 0.2 * x + 1e3], x);
        }
        let dependent = LeastSquaresError::Dependent { columns: vec![0, 1, 3] };
        assert_eq!(design.solve(RowErrors::Equal), Err(dependent));
    }

    #[test]
    fn a_column_of_zeros_is_named_alone() {
        let mut design = Design::new(2);
        for x in 0..5 {
            design.push(&[f64::from(x) + 1.0, 0.0], 1.0);
        }
        let dependent = LeastSquaresError::Dependent { columns: vec![1] };
        assert_eq!(design.solve(RowErrors::Equal), Err(dependent));
    }

    #[test]
    fn bad_rows_and_too_few_are_refused() {
        let few = LeastSquaresError::TooFewRows { rows: 1, coefficients: 2 };
        assert_eq!(line(&[(0.0, 0.0)]).solve(RowErrors::Equal), Err(few));
        let design = line(&[(0.0, 0.0), (1.0, f64::NAN), (2.0, 1.0)]);
        let bad = Err(LeastSquaresError::BadRow { row: 1 });
        assert_eq!(design.solve(RowErrors::Equal), bad);
        let design = line(&[(0.0, 0.0), (1.0, 2.0), (2.0, 1.0)]);
        assert_eq!(design.solve(RowErrors::Known(&[1.0, 0.0, 1.0])), bad);
        assert_eq!(design.solve(RowErrors::Relative(&[1.0])), bad);
    }

    proptest::proptest! {
        /// The normal equations: residuals are orthogonal to every column.
        #[test]
        fn residuals_are_orthogonal_to_the_columns(
            points in proptest::collection::vec((-1e3..1e3f64, -1e3..1e3f64), 4..40)
        ) {
            let mut design = Design::new(3);
            for &(x, y) in &points {
                design.push(&[1.0, x, (x / 300.0).cos()], y);
            }
            if let Ok(fit) = design.solve(RowErrors::Equal) {
                let residual = |x: f64, y: f64| y - fit.at(&[1.0, x, (x / 300.0).cos()]).0;
                for column in [|_: f64| 1.0, |x: f64| x, |x: f64| (x / 300.0).cos()] {
                    let size: f64 = points.iter().map(|&(x, y)| (column(x) * y).abs()).sum();
                    let dot: f64 = points.iter().map(|&(x, y)| column(x) * residual(x, y)).sum();
                    // Nearly dependent columns have large coefficients, whose rounding is seen.
                    let large: f64 = fit.coefficients.iter().map(|b| b.abs()).sum();
                    proptest::prop_assert!(dot.abs() <= 1e-9 * (size + 1e3 * large), "{dot}");
                }
            }
        }
    }
}

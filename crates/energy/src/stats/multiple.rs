//! Several questions asked at once.

/// Holm's adjusted p-values, in the order given: calling a difference real where its adjusted p-value is at
/// most α is wrong for one or more of them with probability α at most, however they depend on each other
/// (Holm, Scandinavian Journal of Statistics 6, 1979).
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut ascending: Vec<usize> = (0..p_values.len()).collect();
    ascending.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut least = 0.0_f64;
    for (rank, &index) in ascending.iter().enumerate() {
        let left = (p_values.len() - rank) as f64;
        least = least.max((left * p_values[index]).min(1.0));
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holms_p_values_of_an_example_by_hand() {
        // 0.01 x 4 = 0.04; 0.02 x 3 = 0.06; 0.03 x 2 = 0.06; 0.04 x 1 = 0.04, raised to 0.06.
        let adjusted = holm(&[0.04, 0.01, 0.03, 0.02]);
        for (found, expected) in adjusted.iter().zip([0.06, 0.04, 0.06, 0.06]) {
            assert!((found - expected).abs() < 1e-15, "{adjusted:?}");
        }
        assert_eq!(holm(&[0.7, 0.6]), [1.0, 1.0]);
        assert_eq!(holm(&[0.2]), [0.2]);
        assert!(holm(&[]).is_empty());
    }

    proptest::proptest! {
        /// Holm lies between no adjustment and Bonferroni's, and keeps the order.
        #[test]
        fn holm_is_never_harsher_than_bonferroni(
            p_values in proptest::collection::vec(0.0..1.0f64, 1..20)
        ) {
            let adjusted = holm(&p_values);
            for (i, (&raw, &found)) in p_values.iter().zip(&adjusted).enumerate() {
                let bonferroni = (raw * p_values.len() as f64).min(1.0);
                proptest::prop_assert!(raw <= found && found <= bonferroni);
                for (j, &other) in p_values.iter().enumerate() {
                    proptest::prop_assert!(raw > other || found <= adjusted[j], "{i} {j}");
                }
            }
        }
    }
}

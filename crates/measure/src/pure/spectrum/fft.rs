//! A fast Fourier transform for lengths that are powers of two.
//!
//! J. W. Cooley and J. W. Tukey, *An algorithm for the machine calculation of complex Fourier
//! series*, 1965, in its iterative form with the order of inputs bit-reversed. Lengths are ours to
//! choose here, so that a library for all lengths is not worth its build.

/// A complex number.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Complex {
    pub(crate) re: f64,
    pub(crate) im: f64,
}

impl Complex {
    pub(crate) const fn norm_squared(self) -> f64 {
        self.re * self.re + self.im * self.im
    }

    pub(crate) const fn conjugate(self) -> Self {
        Self { re: self.re, im: -self.im }
    }

    pub(crate) const fn times(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}

/// The factors of a length.
#[derive(Debug, Clone)]
pub(crate) struct Fft {
    /// `exp(-2 π i k / length)` for `k < length / 2`.
    factors: Vec<Complex>,
}

impl Fft {
    /// For a length that is a power of two, of 2 at least.
    pub(crate) fn new(length: usize) -> Self {
        debug_assert!(length.is_power_of_two() && length >= 2);
        let turn = std::f64::consts::TAU / length as f64;
        let factor = |k: usize| {
            let (sin, cos) = (turn * k as f64).sin_cos();
            Complex { re: cos, im: -sin }
        };
        Self { factors: (0..length / 2).map(factor).collect() }
    }

    /// `Z_k = Σ z_n exp(-2 π i k n / length)`, in place.
    pub(crate) fn forward(&self, z: &mut [Complex]) {
        let length = z.len();
        debug_assert_eq!(length, 2 * self.factors.len());
        let unused_bits = usize::BITS - length.trailing_zeros();
        for index in 0..length {
            let mirrored = index.reverse_bits() >> unused_bits;
            if index < mirrored {
                z.swap(index, mirrored);
            }
        }
        let mut half = 1;
        while half < length {
            let stride = length / (2 * half);
            for block in z.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                let factors = self.factors.iter().step_by(stride);
                for ((a, b), &factor) in low.iter_mut().zip(high).zip(factors) {
                    let (sum, turned) = (*a, b.times(factor));
                    *a = Complex { re: sum.re + turned.re, im: sum.im + turned.im };
                    *b = Complex { re: sum.re - turned.re, im: sum.im - turned.im };
                }
            }
            half *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(length: usize) -> Vec<Complex> {
        let point = |n: f64| Complex { re: (0.37 * n * n).sin(), im: (1.1 * n).cos() - 0.2 };
        (0..length).map(|n| point(n as f64)).collect()
    }

    #[test]
    fn it_is_the_sum_that_defines_it() {
        for length in [2, 4, 8, 64] {
            let input = wave(length);
            let mut output = input.clone();
            Fft::new(length).forward(&mut output);
            for (k, found) in output.iter().enumerate() {
                let mut sum = Complex::default();
                for (n, value) in input.iter().enumerate() {
                    let angle = -std::f64::consts::TAU * (k * n) as f64 / length as f64;
                    let term = value.times(Complex { re: angle.cos(), im: angle.sin() });
                    sum = Complex { re: sum.re + term.re, im: sum.im + term.im };
                }
                let off = Complex { re: sum.re - found.re, im: sum.im - found.im };
                assert!(off.norm_squared().sqrt() < 1e-11, "{length} {k}");
            }
        }
    }

    #[test]
    fn parsevals_theorem_holds() {
        let input = wave(1024);
        let mut output = input.clone();
        Fft::new(1024).forward(&mut output);
        let energy = |z: &[Complex]| z.iter().map(|value| value.norm_squared()).sum::<f64>();
        assert!((energy(&output) / 1024.0 / energy(&input) - 1.0).abs() < 1e-12);
    }
}

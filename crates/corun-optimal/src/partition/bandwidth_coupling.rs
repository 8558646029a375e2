//! How one number, the pressure on the memory, couples all clusters.
//!
//! Morad's model with idle share v = 1 - T becomes, at the pressure x = 1 / v: with the load
//! o = 4 B / (1 - B) and q = sqrt(1 + o x), B' = (q - 1) / (2 x), B / B' = (1 - B) / 2 (1 + q), and
//! sum B' = T is sum (q - 1) / 2 = x - 1. KPart's rule has the pressure x = k, the load b, and
//! sum b' = 1, or k = 0 where the flows fit. In both a program's slowdown is a + c y with a y that
//! rises with x and depends on x and the load alone.
//!
//! Where memory answers later the busier it is, λ(T) = 1 + q T / (1 - T), the pressure is x = λ(T) itself:
//! with the load L = B λ(B), B' = L / x, and sum B' = T = (x - 1) / (x - b), b = 1 - q, is
//! sum L (x - b) / x = x - 1. y is x.

/// Newton steps at most; each search is monotone and quadratic, so that this is never met.
const STEPS: usize = 200;

/// Which coupling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum BandwidthCoupling {
    /// Bandwidth costs nothing.
    Free,
    Morad,
    Simple,
    /// Latency rises with traffic; 0 < `queueing` < 1.
    Loaded {
        queueing: f64,
    },
}

/// A member of a cluster: slowdown = a + c y(x, load).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SlowdownLine {
    pub(crate) a: f64,
    pub(crate) c: f64,
    pub(crate) load: f64,
}

impl BandwidthCoupling {
    /// The line of a program that would draw `asked` of the peak alone, of which `counted` counts
    /// (its solo share), with slowdown = solo + per_ratio (B / B' - 1).
    pub(crate) fn line(self, solo: f64, per_ratio: f64, asked: f64, counted: f64) -> SlowdownLine {
        let over = if counted > 0.0 { asked / counted } else { 1.0 };
        match self {
            Self::Free => {
                SlowdownLine { a: solo + per_ratio * (over - 1.0), c: 0.0, load: counted }
            }
            Self::Morad => {
                let half = 0.5 * (1.0 - counted) * over;
                SlowdownLine {
                    a: solo + per_ratio * (half - 1.0),
                    c: per_ratio * half,
                    load: 4.0 * counted / (1.0 - counted),
                }
            }
            Self::Simple => {
                SlowdownLine { a: solo - per_ratio, c: per_ratio * over, load: counted }
            }
            Self::Loaded { queueing } => {
                let alone = 1.0 + queueing * counted / (1.0 - counted);
                SlowdownLine {
                    a: solo - per_ratio,
                    c: per_ratio * over / alone,
                    load: counted * alone,
                }
            }
        }
    }

    /// y of a load.
    #[inline]
    pub(crate) fn y(self, load: f64, x: f64) -> f64 {
        match self {
            Self::Free => 0.0,
            Self::Morad => (1.0 + load * x).sqrt(),
            Self::Simple => {
                if 2.0 * x * load > 1.0 {
                    4.0 * x * load
                } else {
                    1.0 / (1.0 - x * load)
                }
            }
            Self::Loaded { .. } => x,
        }
    }

    /// dy/dx, given y.
    #[inline]
    pub(crate) fn y_slope(self, load: f64, x: f64, y: f64) -> f64 {
        match self {
            Self::Free => 0.0,
            Self::Morad => 0.5 * load / y,
            Self::Simple => {
                if 2.0 * x * load > 1.0 {
                    4.0 * load
                } else {
                    load * y * y
                }
            }
            Self::Loaded { .. } => 1.0,
        }
    }

    /// What a load adds to the side of the balance that must not exceed [`Self::supply`], given y.
    #[inline]
    pub(crate) fn draw(self, load: f64, x: f64, y: f64) -> f64 {
        match self {
            Self::Free => 0.0,
            // (y - 1) / 2 without cancellation.
            Self::Morad => 0.5 * load * x / (1.0 + y),
            Self::Simple => load / y,
            Self::Loaded { queueing } => load * (x - 1.0 + queueing) / x,
        }
    }

    /// The slope of the draw in x, given y.
    #[inline]
    pub(crate) fn draw_slope(self, load: f64, x: f64, y: f64) -> f64 {
        match self {
            Self::Free => 0.0,
            Self::Morad => 0.25 * load / y,
            Self::Simple => -load * self.y_slope(load, x, y) / (y * y),
            Self::Loaded { queueing } => load * (1.0 - queueing) / (x * x),
        }
    }

    /// The other side of the balance. Linear in x.
    #[inline]
    pub(crate) fn supply(self, x: f64) -> f64 {
        match self {
            Self::Free => 0.0,
            Self::Morad | Self::Loaded { .. } => x - 1.0,
            Self::Simple => 1.0,
        }
    }

    fn supply_slope(self) -> f64 {
        self.least_pressure()
    }

    /// What a load draws of the peak, given y.
    #[inline]
    pub(crate) fn bandwidth(self, load: f64, y: f64) -> f64 {
        match self {
            Self::Free => load,
            Self::Morad => 0.5 * load / (1.0 + y),
            Self::Simple | Self::Loaded { .. } => load / y,
        }
    }

    /// The pressure of nobody.
    pub(crate) fn least_pressure(self) -> f64 {
        match self {
            Self::Free | Self::Simple => 0.0,
            Self::Morad | Self::Loaded { .. } => 1.0,
        }
    }

    /// The pressure that these loads make together: the root of sum draw = supply, where KPart's
    /// rule has 0 when the sum is less.
    pub(crate) fn pressure(self, loads: &[f64]) -> f64 {
        let mut x = match self {
            Self::Free => return 0.0,
            Self::Morad => {
                // x - 1 = sum (q - 1) / 2 <= sqrt(x) R: above the root, from where Newton's method
                // on the concave difference falls to it.
                let r = 0.5 * loads.iter().map(|load| load.sqrt()).sum::<f64>();
                (0.5 * (r + (r * r + 4.0).sqrt())).powi(2)
            }
            Self::Simple => {
                let sum: f64 = loads.iter().sum();
                if sum <= 1.0 {
                    return 0.0;
                }
                // Below the root, from where it rises: the sum of draws is convex and falls.
                (sum - 1.0) / loads.iter().map(|load| load * load).sum::<f64>()
            }
            Self::Loaded { queueing } => {
                // x^2 - (1 + sum L) x + b sum L = 0, the root from 1 on.
                let sum: f64 = loads.iter().sum();
                let half = 0.5 * (1.0 + sum);
                return half + (half * half - (1.0 - queueing) * sum).sqrt();
            }
        };
        for _ in 0..STEPS {
            let (mut excess, mut slope) = (-self.supply(x), -self.supply_slope());
            for &load in loads {
                let y = self.y(load, x);
                excess += self.draw(load, x, y);
                slope += self.draw_slope(load, x, y);
            }
            let next = x - excess / slope;
            let is_done = (next - x).abs() <= 1e-15 * x || !next.is_finite();
            x = if next.is_finite() { next } else { x };
            if is_done {
                break;
            }
        }
        x.max(self.least_pressure())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_morad_flow_alone_keeps_its_bandwidth() {
        // B = 0.5: o = 4, T = 0.5, x = 2, q = 3: (3 - 1) / 2 = x - 1, B' = 2 / 4.
        let line = BandwidthCoupling::Morad.line(1.25, 0.5, 0.5, 0.5);
        let x = BandwidthCoupling::Morad.pressure(&[line.load]);
        assert!((x - 2.0).abs() < 1e-14);
        let y = BandwidthCoupling::Morad.y(line.load, x);
        assert!((BandwidthCoupling::Morad.bandwidth(line.load, y) - 0.5).abs() < 1e-14);
        assert!((line.a + line.c * y - 1.25).abs() < 1e-14);
    }

    #[test]
    fn kparts_rule_by_hand() {
        // 0.8 and 0.4: k = 0.2 / 0.8 = 1/4; 0.64 and 0.36.
        let x = BandwidthCoupling::Simple.pressure(&[0.8, 0.4]);
        assert!((x - 0.25).abs() < 1e-15);
        let through =
            |load| BandwidthCoupling::Simple.bandwidth(load, BandwidthCoupling::Simple.y(load, x));
        assert!((through(0.8) - 0.64).abs() < 1e-14 && (through(0.4) - 0.36).abs() < 1e-14);
        assert_eq!(BandwidthCoupling::Simple.pressure(&[0.3, 0.4]), 0.0);
    }

    #[test]
    fn latency_under_load_by_hand() {
        // q = 1/2, two flows of 1/2: λ(1/2) = 3/2, loads of 3/4; x^2 - 5/2 x + 3/4 = 0.
        let law = BandwidthCoupling::Loaded { queueing: 0.5 };
        let line = law.line(1.25, 0.5, 0.5, 0.5);
        assert!((line.load - 0.75).abs() < 1e-15);
        let x = law.pressure(&[line.load; 2]);
        assert!((x - 0.5 * (2.5 + 3.25_f64.sqrt())).abs() < 1e-14);
        // Slowdown 1.25 + 1/2 (x / (3/2) - 1).
        let slowdown = line.a + line.c * law.y(line.load, x);
        assert!((slowdown - (0.75 + x / 3.0)).abs() < 1e-14);
        // Alone it keeps its bandwidth.
        let alone = law.pressure(&[line.load]);
        assert!((alone - 1.5).abs() < 1e-14);
        assert!((law.bandwidth(line.load, alone) - 0.5).abs() < 1e-14);
    }

    proptest::proptest! {
        #[test]
        fn the_pressure_balances(
            shares in proptest::collection::vec(1e-6..0.97f64, 1..20),
            queueing in 1e-3..0.95f64,
        ) {
            let laws = [
                BandwidthCoupling::Morad,
                BandwidthCoupling::Simple,
                BandwidthCoupling::Loaded { queueing },
            ];
            for law in laws {
                let loads: Vec<f64> =
                    shares.iter().map(|&b| law.line(1.0, 1.0, b, b).load).collect();
                let x = law.pressure(&loads);
                let draws = loads.iter().map(|&load| law.draw(load, x, law.y(load, x)));
                let excess = draws.sum::<f64>() - law.supply(x);
                if x > law.least_pressure() {
                    proptest::prop_assert!(excess.abs() <= 1e-12 * (1.0 + x), "{law:?} {excess}");
                } else {
                    proptest::prop_assert!(excess <= 1e-12, "{law:?} {excess}");
                }
            }
        }

        #[test]
        fn slopes_are_those_of_the_curves(
            share in 0.01..0.95f64,
            x in 0.05..4.0f64,
            queueing in 1e-3..0.95f64,
        ) {
            let laws = [
                BandwidthCoupling::Morad,
                BandwidthCoupling::Simple,
                BandwidthCoupling::Loaded { queueing },
            ];
            for law in laws {
                let load = law.line(1.0, 1.0, share, share).load;
                let step = 1e-6;
                let y = law.y(load, x);
                let slope = (law.y(load, x + step) - law.y(load, x - step)) / (2.0 * step);
                let error = (slope - law.y_slope(load, x, y)).abs();
                // Either side of the corner in the second derivative.
                proptest::prop_assert!(error <= 1e-3 * (1.0 + slope.abs()), "{law:?} {error}");
                let draw = |x: f64| law.draw(load, x, law.y(load, x));
                let slope = (draw(x + step) - draw(x - step)) / (2.0 * step);
                let error = (slope - law.draw_slope(load, x, y)).abs();
                proptest::prop_assert!(error <= 1e-3 * (1.0 + slope.abs()), "{law:?} {error}");
            }
        }
    }
}

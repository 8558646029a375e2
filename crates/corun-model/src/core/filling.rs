//! How long a program takes to fill a cache, in instructions, and how far it comes.

use corun_profile::MissRateCurve;

/// The size of a cache of data and code in which as much data lies as in one of so many bytes of data
/// alone: code fills the rest in the same time (the law of fill time: Che, Tung and Wang, IEEE JSAC
/// 20(7), 2002).
pub(crate) fn shared_bytes(both: &MissRateCurve, code: &MissRateCurve, data_bytes: f64) -> f64 {
    let mut bytes = data_bytes;
    for _ in 0..4 {
        let instructions = fill_instructions(both, bytes);
        bytes = data_bytes + filled_bytes(code, instructions, data_bytes);
    }
    bytes
}

/// Steps a doubling of the integrals over size.
const STEPS: f64 = 4.0;
/// Where they begin: a line.
const LINE: f64 = 64.0;

/// Instructions in which a cache of so many bytes fills.
pub(crate) fn fill_instructions(curve: &MissRateCurve, bytes: f64) -> f64 {
    let (mut size, mut instructions) = (LINE, 0.0);
    while size < bytes {
        let next = (size * (1.0 / STEPS).exp2()).min(bytes);
        let mpki = curve.mpki((size * next).sqrt()).value.max(1e-6);
        instructions += (next - size) / LINE * 1e3 / mpki;
        size = next;
    }
    instructions
}

/// Bytes filled in so many instructions, at most `most`.
pub(crate) fn filled_bytes(curve: &MissRateCurve, instructions: f64, most: f64) -> f64 {
    let (mut size, mut passed) = (LINE, 0.0);
    while size < most {
        let next = (size * (1.0 / STEPS).exp2()).min(most);
        let mpki = curve.mpki((size * next).sqrt()).value.max(1e-6);
        let step = (next - size) / LINE * 1e3 / mpki;
        if passed + step >= instructions {
            return size + (next - size) * (instructions - passed) / step;
        }
        passed += step;
        size = next;
    }
    most
}

//! Whether a calibrated file may take the place of another one.

use corun_machine::{Machine, Measurement};

/// A machine on which others used more than this share of the time was busy.
pub const BUSY_SHARE: f64 = 0.05;

/// Why a file stays as it is.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum KeptFile {
    /// It was not measured: somebody wrote it.
    #[error("it was not written by corun calibrate")]
    NotMeasured,
    /// It is of a whole calibration, and the new one is quick.
    #[error("it is of a whole calibration, which a quick one is no match for")]
    Quick,
    /// It was measured while less else went on.
    #[error(
        "it was measured while others used {:.0} % of the time, and now they use {:.0} %",
        old * 100.0,
        new * 100.0
    )]
    Busy {
        /// The share of the time in which others used the machine then.
        old: f64,
        /// The share now.
        new: f64,
    },
}

/// Whether a file with the machine `old` may make way for a calibration of `found`, before it has
/// begun. A file of another machine may: it is of no use here.
///
/// # Errors
/// [`KeptFile`] says why not.
pub fn may_begin(old: &Machine, found: &Machine, quick: bool) -> Result<(), KeptFile> {
    match &old.spec().measurement {
        None => Err(KeptFile::NotMeasured),
        Some(measured) if found.difference(old).is_none() && quick && !measured.quick => {
            Err(KeptFile::Quick)
        }
        Some(_) => Ok(()),
    }
}

/// Whether a file with the machine `old` may make way for `new`, which has been measured.
///
/// # Errors
/// [`KeptFile`] says why not.
pub fn may_replace(old: &Machine, new: &Machine) -> Result<(), KeptFile> {
    let measured = |machine: &Machine| machine.spec().measurement.clone();
    let quick = measured(new).is_some_and(|new| new.quick);
    may_begin(old, new, quick)?;
    let (Some(before), Some(now)) = (measured(old), measured(new)) else { return Ok(()) };
    let same = new.difference(old).is_none();
    // A quick one is worse in any case than the whole one that takes its place.
    let whole_for_quick = before.quick && !now.quick;
    if same && !whole_for_quick && is_busier(&before, &now) {
        return Err(KeptFile::Busy { old: before.busy_share, new: now.busy_share });
    }
    Ok(())
}

fn is_busier(before: &Measurement, now: &Measurement) -> bool {
    now.busy_share > BUSY_SHARE && now.busy_share > before.busy_share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(title: &str, measured: Option<(bool, f64)>) -> Machine {
        let mut spec = corun_machine::preset("i7-2600").unwrap().spec().clone();
        spec.title = title.to_owned();
        spec.measurement = measured.map(|(quick, busy_share)| Measurement {
            by: "corun".to_owned(),
            finished: "2026-01-01T00:00:00Z".to_owned(),
            seconds: 1.0,
            rounds: 1,
            quick,
            busy_share,
            cpus: "0".parse().unwrap(),
            huge_pages: true,
            notes: Vec::new(),
        });
        Machine::from_spec(spec).unwrap()
    }

    #[test]
    fn what_was_not_measured_stays() {
        let (old, new) = (machine("a", None), machine("a", Some((false, 0.0))));
        assert_eq!(may_begin(&old, &new, false), Err(KeptFile::NotMeasured));
        assert_eq!(may_replace(&old, &new), Err(KeptFile::NotMeasured));
    }

    #[test]
    fn a_quick_one_makes_way_for_a_whole_one_only() {
        let (whole, quick) = (machine("a", Some((false, 0.0))), machine("a", Some((true, 0.0))));
        assert_eq!(may_begin(&whole, &quick, true), Err(KeptFile::Quick));
        assert_eq!(may_replace(&whole, &quick), Err(KeptFile::Quick));
        assert_eq!(may_begin(&quick, &whole, false), Ok(()));
        assert_eq!(may_replace(&quick, &quick), Ok(()));
        // Even a busy one.
        assert_eq!(may_replace(&quick, &machine("a", Some((false, 0.9)))), Ok(()));
        let other = machine("b", Some((false, 0.0)));
        assert_eq!(may_begin(&other, &quick, true), Ok(()), "of another machine");
    }

    #[test]
    fn a_busier_one_does_not_take_the_place_of_a_calmer_one() {
        let measured = |busy| machine("a", Some((false, busy)));
        assert_eq!(may_replace(&measured(0.0), &measured(0.04)), Ok(()));
        assert_eq!(may_replace(&measured(0.6), &measured(0.5)), Ok(()));
        let kept = may_replace(&measured(0.01), &measured(0.5)).unwrap_err();
        assert_eq!(kept, KeptFile::Busy { old: 0.01, new: 0.5 });
        let text = "it was measured while others used 1 % of the time, and now they use 50 %";
        assert_eq!(kept.to_string(), text);
        assert_eq!(may_replace(&machine("b", Some((false, 0.0))), &measured(0.5)), Ok(()));
    }
}

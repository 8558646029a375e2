//! A profile as one JSON document, for `corun profiles show` and list.

use serde::Serialize;

use crate::{MeasuredOn, Origin, Profile, ProfileData};

/// The private cache behind which [`ProfileDocument::llc_apki`] counts for a recording, where no
/// other is asked for: 1 MiB, the L2 of a Skylake-SP or a Zen 4 core. A recording knows no cache.
pub const DEFAULT_PRIVATE_CACHE_BYTES: u64 = 1 << 20;

/// What a profile says, in stable field names. Rates are of the whole execution: phases count by
/// their instructions. Figures read outside the measured range are marked as extrapolated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProfileDocument {
    /// The program's name.
    pub name: String,
    /// `recording` or `table`.
    pub kind: &'static str,
    /// Length in instructions, all phases together.
    pub instructions: u64,
    /// How many phases it has; a table has one.
    pub phases: usize,
    /// Distinct bytes touched in the phase that touches most; null where unknown.
    pub footprint_bytes: Option<u64>,
    /// The private cache behind which `llc_apki` counts.
    pub private_cache_bytes: u64,
    /// LLC accesses per 1000 instructions behind that cache.
    pub llc_apki: f64,
    /// Was it read outside the measured range?
    pub llc_apki_extrapolated: bool,
    /// The miss-rate curve, a point a size that was measured, ascending.
    pub curve: Vec<DocumentPoint>,
    /// Where a recording comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// What a table was measured on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<MeasuredOn>,
}

/// A point of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DocumentPoint {
    /// Cache size in bytes.
    pub bytes: u64,
    /// Misses per 1000 instructions.
    pub mpki: f64,
    /// Does a phase not reach this size, so that its share was read outside its range?
    pub extrapolated: bool,
}

impl ProfileDocument {
    /// The document of a profile. Where no private cache is given, a table counts behind the one it
    /// was measured with, a recording behind [`DEFAULT_PRIVATE_CACHE_BYTES`].
    pub fn new(profile: &Profile, private_cache_bytes: Option<u64>) -> Self {
        let (kind, phases, origin, measured_on) = match &profile.data {
            ProfileData::Recording(recording) => {
                ("recording", recording.phases.len(), Some(recording.origin.clone()), None)
            }
            ProfileData::Table(table) => ("table", 1, None, Some(table.measured_on().clone())),
        };
        let usual = measured_on
            .as_ref()
            .map_or(DEFAULT_PRIVATE_CACHE_BYTES, |machine| machine.private_cache_bytes);
        let private_cache_bytes = private_cache_bytes.unwrap_or(usual);
        let accesses = profile.llc_apki(private_cache_bytes);
        let curve = profile.measured_sizes().into_iter().map(|bytes| {
            let reading = profile.solo_mpki(bytes as f64);
            DocumentPoint { bytes, mpki: reading.value, extrapolated: reading.extrapolated }
        });
        Self {
            name: profile.name.clone(),
            kind,
            instructions: profile.instructions(),
            phases,
            footprint_bytes: profile.footprint_bytes(),
            private_cache_bytes,
            llc_apki: accesses.value,
            llc_apki_extrapolated: accesses.extrapolated,
            curve: curve.collect(),
            origin,
            measured_on,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import_csv;

    const TWO_PHASES: &str = r#"version = 1
name = "a"
[origin]
command = ["a"]
sampling_rate = 1
complete = true
[[phase]]
instructions = 1000
data_accesses_pki = 400
mix = { loads_pki = 1, stores_pki = 1, branches_pki = 1, float_pki = 0, mispredicted_pki = 0 }
prefetchable = 0
memory_level_parallelism = 1
dirty_share = 0
footprint_bytes = 4096
curve = [[4096, 30], [8192, 10]]
[[phase]]
instructions = 3000
data_accesses_pki = 400
mix = { loads_pki = 1, stores_pki = 1, branches_pki = 1, float_pki = 0, mispredicted_pki = 0 }
prefetchable = 0
memory_level_parallelism = 1
dirty_share = 0
footprint_bytes = 8192
curve = [[4096, 10], [16384, 2]]
"#;

    #[test]
    fn phases_count_by_their_instructions() {
        let profile = Profile::from_toml(TWO_PHASES, "a.toml").unwrap();
        let document = ProfileDocument::new(&profile, Some(4096));
        assert_eq!((document.instructions, document.phases), (4000, 2));
        assert_eq!(document.footprint_bytes, Some(8192));
        // (30 * 1 + 10 * 3) / 4.
        assert_eq!((document.llc_apki, document.llc_apki_extrapolated), (15.0, false));
        let sizes: Vec<_> =
            document.curve.iter().map(|point| (point.bytes, point.extrapolated)).collect();
        assert_eq!(sizes, [(4096, false), (8192, false), (16384, true)]);
        // The first phase's 10 hold; the second has 2.
        assert_eq!(document.curve[2].mpki, 4.0);
        let usual = ProfileDocument::new(&profile, None);
        assert_eq!((usual.llc_apki, usual.llc_apki_extrapolated), (4.0, true));
    }

    #[test]
    fn the_json_has_the_fields_of_the_design() {
        let csv = "BENCH,NR_WAYS,ipc,llcrpki,llcmpki,llcrpkc,llcmpkc,llc_usage_kb,bandwidth_mbps,\
            llcm_bandwidth,stalls_l2_miss,stalls_l3_miss,stalls_total,stalls_store_buf\n\
            a,1,1,20,10,20,10,9,9,9,0.2,0.1,0.4,0.1\n";
        let profiles = import_csv(csv, "a.csv", &MeasuredOn::xeon_gold_6138()).unwrap();
        let json = serde_json::to_value(ProfileDocument::new(&profiles[0], None)).unwrap();
        assert_eq!(json["instructions"], 150_000_000_000_u64);
        assert_eq!(json["llc_apki"], 20.0);
        assert_eq!(json["private_cache_bytes"], 1_048_576);
        assert_eq!(json["footprint_bytes"], serde_json::Value::Null);
        assert_eq!(json["curve"][0]["bytes"], 1_048_576);
        assert_eq!(json["curve"][1]["mpki"], 10.0);
        assert_eq!(json["measured_on"]["machine"], "xeon-gold-6138");
        assert!(json.get("origin").is_none());
    }
}

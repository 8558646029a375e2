//! Shipped programs in the place of the SPEC programs that studies name, for tests.

use std::path::Path;

use corun_profile::{Library, Phase, Profile, ProfileData, Recording};

/// The SPEC programs that studies name, and the shipped program that stands for each in tests: of
/// much the same kind, with figures of its own.
const STAND_INS: [(&str, &str); 20] = [
    ("mcf06", "kernel-hash-join"),
    ("lbm06", "kernel-triad"),
    ("milc06", "numpy"),
    ("soplex06", "igraph"),
    ("libquantum06", "kernel-stencil"),
    ("omnetpp06", "xsltproc"),
    ("sphinx306", "pocketsphinx"),
    ("gcc06", "cc1"),
    ("gobmk06", "gnugo"),
    ("perlbench06", "perl"),
    ("h264ref06", "x264"),
    ("gamess06", "flac"),
    ("namd06", "lammps"),
    ("povray06", "povray"),
    ("GemsFDTD06", "stockfish"),
    ("sjeng06", "gnuchess"),
    ("tonto06", "calculix"),
    ("zeusmp06", "sort"),
    ("hmmer06", "hmmsearch"),
    ("bzip206", "bzip2"),
];

/// Fills a folder with profiles by the names of SPEC programs, so many times as long as those that stand for them.
/// `swapped`: two names that change places.
pub(crate) fn write(folder: &Path, longer: u64, swapped: Option<[&str; 2]>) {
    let library = Library::shipped().unwrap();
    for (name, shipped) in STAND_INS {
        let name = match swapped {
            Some([one, other]) if name == one => other,
            Some([one, other]) if name == other => one,
            _ => name,
        };
        let data = in_one_phase(&library.get(shipped).unwrap().data, longer);
        let profile = Profile { name: name.to_owned(), data };
        std::fs::write(folder.join(format!("{name}.toml")), profile.to_toml()).unwrap();
    }
}

/// A recording's longest phase alone, so many times as long. Without phases a placement that is best for the
/// programs' averages is best in the simulator too, so that an optimum bounds the policies exactly.
fn in_one_phase(data: &ProfileData, longer: u64) -> ProfileData {
    let ProfileData::Recording(recording) = data else { panic!("shipped profiles are recordings") };
    let longest = recording.phases.iter().max_by_key(|phase| phase.instructions).unwrap();
    let phase = Phase { instructions: longer * longest.instructions, ..longest.clone() };
    ProfileData::Recording(Recording::new(recording.origin.clone(), vec![phase]))
}

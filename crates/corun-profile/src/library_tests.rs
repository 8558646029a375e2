use super::*;

const HEADER: &str = "BENCH,NR_WAYS,ipc,llcrpki,llcmpki,llcrpkc,llcmpkc,llc_usage_kb,\
    bandwidth_mbps,llcm_bandwidth,stalls_l2_miss,stalls_l3_miss,stalls_total,stalls_store_buf";

fn csv(names: &[&str]) -> String {
    let rows = names.iter().map(|name| format!("{name},1,1,2,1,2,1,9,9,9,0.2,0.1,0.4,0.1\n"));
    format!("{HEADER}\n{}", rows.collect::<String>())
}

fn library(names: &[&str]) -> Library {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("solo.CSV");
    std::fs::write(&path, csv(names)).unwrap();
    Library::load(&path).unwrap()
}

#[test]
fn an_empty_name_is_said_to_be_empty() {
    let error = Library::shipped().unwrap().get("").unwrap_err().to_string();
    assert_eq!(error, "found an empty name, expected a program's");
}

#[test]
fn every_shipped_profile_is_sound_and_named_as_its_file() {
    let shipped = Library::shipped().unwrap();
    for profile in shipped.iter() {
        assert_eq!(profile.check(), Ok(()));
        let file = format!("profiles/{}.toml", profile.name);
        assert_eq!(shipped.file_of(&profile.name), Some(file.as_str()));
    }
    assert!(SHIPPED.get_file("README.md").is_some(), "the folder is embedded");
    assert_eq!(shipped_names(), shipped.names().collect::<Vec<_>>());
}

#[test]
fn the_commands_of_the_shipped_profiles_are_read_without_the_rest() {
    let shipped = Library::shipped().unwrap();
    let from_heads: Vec<(&str, &[String])> = shipped.commands().collect();
    assert_eq!(from_heads.len(), shipped.len());
    for (name, command) in from_heads {
        let ProfileData::Recording(recording) = &shipped.get(name).unwrap().data else {
            panic!("{name} is no recording");
        };
        assert_eq!(command, recording.origin.command, "{name}");
    }
    assert_eq!(library(&["mcf00"]).commands().count(), 0, "a table was not traced");
}

#[test]
fn a_name_is_exact_and_part_of_one_lists_those_that_have_it() {
    let library = library(&["mcf06", "mcf00", "milc06", "omnetpp06"]);
    assert_eq!(library.names().collect::<Vec<_>>(), ["mcf00", "mcf06", "milc06", "omnetpp06"]);
    assert_eq!(library.get("mcf06").unwrap().name, "mcf06");
    let near = |name| library.get(name).unwrap_err().candidates;
    assert_eq!(near("mcf"), ["mcf00", "mcf06"]);
    assert_eq!(near("MCF0"), ["mcf00", "mcf06"]);
    assert_eq!(near("omnet"), ["omnetpp06"]);
    assert_eq!(near("omentpp06"), ["omnetpp06"]);
    assert_eq!(near("06"), ["mcf06", "milc06", "omnetpp06"]);
    assert_eq!(
        library.get("mcf").unwrap_err().to_string(),
        "no program is named \"mcf\"; near it: mcf00, mcf06"
    );
    assert_eq!(
        library.get("firefox").unwrap_err().to_string(),
        "no program is named \"firefox\" among the 4 of the library"
    );
    assert_eq!(
        Library::default().get("a").unwrap_err().to_string(),
        "no program is named \"a\": the library is empty"
    );
}

#[test]
fn an_executables_name_leads_to_the_profiles_that_were_recorded_from_it() {
    let shipped = Library::shipped().unwrap();
    let mut own = shipped.get("glpsol").unwrap().clone();
    "solver".clone_into(&mut own.name);
    let mut library = Library::default();
    library.insert(own, "a/mine.toml".to_owned()).unwrap();
    assert_eq!(
        library.get("glpsol").unwrap_err().to_string(),
        "no program is named \"glpsol\"; recorded from it: solver (a/mine.toml)"
    );
    assert!(library.get("gawk").unwrap_err().recorded_from.is_empty());
}

#[test]
fn a_folder_of_profiles_is_a_library() {
    let folder = tempfile::tempdir().unwrap();
    let all = library(&["b", "a"]);
    for profile in all.iter() {
        profile.save(&folder.path().join(format!("{}.toml", profile.name))).unwrap();
    }
    std::fs::write(folder.path().join("README.md"), "passed over").unwrap();
    let read = Library::load(folder.path()).unwrap();
    assert!(read.iter().eq(all.iter()));
    let one = Library::load(&folder.path().join("a.toml")).unwrap();
    assert_eq!(one.names().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn what_is_no_library_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let why = |path: &Path| Library::load(path).unwrap_err().why;
    assert!(why(folder.path()).contains("holds no profile"));
    assert!(why(&folder.path().join("none.toml")).contains("cannot be read"));
    let other = folder.path().join("a.json");
    std::fs::write(&other, "{}").unwrap();
    assert!(why(&other).contains("expected a folder, a .toml or a .csv file"));
    let bytes = folder.path().join("b.csv");
    std::fs::write(&bytes, [0xff, 0xfe]).unwrap();
    assert!(why(&bytes).contains("cannot be read"));
}

#[test]
fn a_name_that_stands_twice_is_refused_with_both_files() {
    let mut first = library(&["a", "b"]);
    let again = first.get("b").unwrap().clone();
    let error = first.insert(again, "second.toml".to_owned()).unwrap_err();
    assert_eq!((error.file.as_str(), error.field.as_str()), ("second.toml", "name"));
    assert!(error.why.contains("solo.CSV holds already"), "{error}");
}

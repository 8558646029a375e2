//! The configuration of the daemon that holds a node's pods.

use std::fmt::Write as _;

use super::{PodGroups, RunningPod};

/// The operator's configuration with a program for each pod that runs by a profile and has a group of its own: the
/// daemon then holds the pod's threads, within the CPUs that the kubelet gave the group, and a policy that divides caches
/// gives each pod a resctrl group. None where there is no such pod.
pub fn daemon_configuration(
    template: &str,
    pods: &[RunningPod],
    groups: &PodGroups,
) -> Option<String> {
    let mut text = template.trim_end().to_owned();
    let alone = text.len();
    for pod in pods {
        let (Some(profile), Some(path)) = (&pod.profile, groups.path(&pod.uid)) else { continue };
        let [name, profile, path] = [&pod.name, profile, path].map(quoted);
        // Writing into a string does not fail.
        let _ =
            write!(text, "\n\n[[program]]\nname = {name}\nprofile = {profile}\ncgroup = {path}");
    }
    (text.len() > alone).then(|| text + "\n")
}

/// As a basic string of TOML, whose escapes are those of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use corun_linux::Roots;

    use super::*;

    #[test]
    fn each_pod_that_runs_by_a_profile_is_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        for uid in ["0a1b2c3d-1111", "0a1b2c3d-2222"] {
            std::fs::create_dir_all(roots.cgroup.join(format!("kubepods/pod{uid}"))).unwrap();
        }
        let groups = PodGroups::find(&roots);
        let pod = |name: &str, uid: &str, profile: Option<&str>| RunningPod {
            name: name.to_owned(),
            uid: uid.to_owned(),
            profile: profile.map(str::to_owned),
            cpus: 1,
            bound: None,
        };
        let pods = [
            pod("d/a", "0a1b2c3d-1111", Some("odd\"name")),
            pod("d/b", "0a1b2c3d-2222", None),
            pod("d/c", "0a1b2c3d-3333", Some("xz")),
        ];
        let text = daemon_configuration("policy = \"di\"\n", &pods, &groups).unwrap();
        assert_eq!(
            text,
            "policy = \"di\"\n\n[[program]]\nname = \"d/a\"\nprofile = \"odd\\\"name\"\n\
             cgroup = \"/kubepods/pod0a1b2c3d-1111\"\n"
        );
        assert_eq!(daemon_configuration("policy = \"di\"\n", &pods[1..], &groups), None);
    }
}

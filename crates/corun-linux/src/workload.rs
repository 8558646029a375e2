//! What people call a process's cgroup: a pod of Kubernetes, a container, a unit of systemd, or the group's path.
//!
//! The names are those of the kubelet's two cgroup drivers (kubernetes.io, "Container Runtimes", section cgroup
//! drivers: `kubepods-burstable-podUID.slice` by systemd, `kubepods/burstable/podUID` by cgroupfs), of container
//! engines (`docker-ID.scope`, `libpod-ID.scope`, `cri-containerd-ID.scope`, or the plain ID below `docker`), and of
//! systemd (systemd.unit(5)).

use crate::cgroup::{self, CgroupLine};
use crate::procfs::Process;
use crate::{Roots, escape_controls};

/// Digits of a container's ID that engines show.
const SHOWN_ID: usize = 12;
/// Digits of a container's whole ID.
const WHOLE_ID: usize = 64;

/// What the group of a process is called; none where the process is gone or the kernel has no cgroups.
pub fn of_process(roots: &Roots, pid: u32) -> Option<String> {
    let text = Process::new(roots, pid).cgroups()?;
    Some(name(group(&text)?))
}

/// The group that tells most: systemd's, where that is not the root, else the first that is not.
fn group(text: &str) -> Option<&str> {
    let lines: Vec<CgroupLine<'_>> = cgroup::lines(text).collect();
    let below = |line: &&CgroupLine<'_>| line.path != "/";
    let systemds = lines.iter().find(|line| line.is_systemds() && below(line));
    let other = || lines.iter().find(below);
    systemds.or_else(other).or(lines.first()).map(|line| line.path)
}

/// What people call the group of a path: `pod 0a1b2c3d-..`, `docker 0123456789ab`, `nginx.service`, `/batch/a`.
/// Characters that a terminal would act on are escaped.
pub fn name(path: &str) -> String {
    let parts = || path.rsplit('/').filter(|part| !part.is_empty());
    let name = parts()
        .find_map(pod)
        .or_else(|| parts().find_map(container).map(|id| engine(path, id)))
        .or_else(|| parts().find(|part| is_unit(part)).map(str::to_owned))
        .unwrap_or_else(|| path.to_owned());
    escape_controls(&name).into_owned()
}

/// A pod by its number.
fn pod(part: &str) -> Option<String> {
    pod_uid(part).map(|uid| format!("pod {uid}"))
}

/// The number (`metadata.uid`) of the pod whose group has this name; none where it is no pod's. systemd's driver writes
/// `_` for `-`, and `kubelet-kubepods` where the kubelet has a group of its own.
pub fn pod_uid(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let (before, uid) = part.rsplit_once("pod")?;
    let starts = ["kubepods", "kubelet-kubepods"];
    let is_kubelets = before.is_empty() || starts.iter().any(|start| before.starts_with(start));
    let is_uid = uid.len() >= 8 && uid.chars().all(|c| c.is_ascii_hexdigit() || "-_".contains(c));
    (is_kubelets && is_uid).then(|| uid.replace('_', "-"))
}

/// The whole ID of a container's group.
fn container(part: &str) -> Option<&str> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let id = part.rsplit('-').next()?;
    (id.len() == WHOLE_ID && id.bytes().all(|one| one.is_ascii_hexdigit())).then_some(id)
}

/// `docker 0123456789ab`, where the path says whose it is.
fn engine(path: &str, id: &str) -> String {
    let known = ["docker", "libpod", "cri-containerd", "crio"];
    let engine = known.into_iter().find(|name| path.contains(name)).unwrap_or("container");
    format!("{engine} {}", &id[..SHOWN_ID])
}

fn is_unit(part: &str) -> bool {
    [".service", ".scope", ".slice"].iter().any(|ending| part.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn groups_are_called_as_people_call_them() {
        for (path, expected) in [
            ("/system.slice/nginx.service", "nginx.service".to_owned()),
            ("/user.slice/user-0.slice/session-3.scope", "session-3.scope".to_owned()),
            ("/user.slice/user-1.slice/user@1.service/app.slice/a.service", "a.service".to_owned()),
            ("/system.slice/web.service/worker", "web.service".to_owned()),
            ("/batch/a", "/batch/a".to_owned()),
            ("/", "/".to_owned()),
            (&format!("/system.slice/docker-{ID}.scope"), "docker 0123456789ab".to_owned()),
            (&format!("/docker/{ID}"), "docker 0123456789ab".to_owned()),
            (&format!("/machine.slice/libpod-{ID}.scope"), "libpod 0123456789ab".to_owned()),
            (&format!("/x/{ID}"), "container 0123456789ab".to_owned()),
            (
                &format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_11\
                     .slice/cri-containerd-{ID}.scope"
                ),
                "pod 0a1b2c3d-11".to_owned(),
            ),
            (&format!("/kubepods/besteffort/pod0a1b2c3d-22/{ID}"), "pod 0a1b2c3d-22".to_owned()),
            // No pod of Kubernetes, whatever the name has in it.
            ("/system.slice/tripod.service", "tripod.service".to_owned()),
            ("/system.slice/pod.service", "pod.service".to_owned()),
            ("/a\u{1b}[2J", "/a\\u001b[2J".to_owned()),
        ] {
            assert_eq!(name(path), expected, "{path}");
        }
    }

    #[test]
    fn the_hierarchy_that_tells_most_is_taken() {
        let both = "5:cpu:/batch\n1:name=systemd:/system.slice/a.service\n0::/\n";
        assert_eq!(group(both), Some("/system.slice/a.service"));
        assert_eq!(group("5:cpu:/batch\n0::/\n"), Some("/batch"));
        assert_eq!(group("5:cpu:/\n0::/\n"), Some("/"));
        assert_eq!(group(""), None);
    }
}

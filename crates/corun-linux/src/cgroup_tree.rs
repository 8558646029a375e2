//! Cgroups as files in a folder, for tests.

use std::path::PathBuf;

use crate::Roots;

/// A process 7 whose `/proc/7/cgroup` has these lines, and files by their paths below the root of cgroups. The folder goes
/// with the first of what is returned.
pub(crate) fn tree(lines: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots::below(folder.path());
    let write = |path: PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(roots.proc.join("7/cgroup"), lines);
    for (name, text) in files {
        write(roots.cgroup.join(name), text);
    }
    (folder, roots)
}

//! What `sinfo` and `squeue` print, read.

/// How `sinfo --noheader --Node` has to print nodes: name, state, CPUs (allocated/idle/other/total), features.
pub const SINFO_FORMAT: &str = "%N|%T|%C|%f";
/// How `squeue --noheader --states=RUNNING` has to print jobs: number, nodes, CPUs of all nodes, comment.
pub const SQUEUE_FORMAT: &str = "%i|%N|%C|%k";

/// Nodes that one list of names may stand for.
const MOST_NAMES: usize = 100_000;
/// In a job's comment, before the name of the profile that it runs by.
const PROFILE_WORD: &str = "corun.profile=";
/// In a job's comment, before the slowdown that it may be predicted to have at most.
const BOUND_WORD: &str = "corun.bound=";

/// A node as Slurm shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedNode {
    pub(super) name: String,
    /// Can jobs start there now?
    pub(super) is_open: bool,
    /// CPUs that no job has.
    pub(super) idle_cpus: u32,
    /// All CPUs that Slurm gives out there; none where the line does not say.
    pub(super) cpus: Option<u32>,
    /// Is its own name among its features, so that a job can prefer the node?
    pub(super) has_own_feature: bool,
}

/// A job that runs, as Slurm shows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ListedJob {
    pub(super) number: String,
    pub(super) nodes: Vec<String>,
    /// On all its nodes together.
    pub(super) cpus: u32,
    pub(super) profile: Option<String>,
    /// What stands after `corun.bound=`.
    pub(super) bound: Option<String>,
}

/// A line of `sinfo`; none where the line has another form.
pub(super) fn node(line: &str) -> Option<ListedNode> {
    let mut fields = line.trim().splitn(4, '|');
    let (name, state, cpus, features) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let mut counts = cpus.split('/').map(|count| count.parse::<u32>().ok());
    let (_allocated, idle) = (counts.next()??, counts.next()??);
    let all = counts.nth(1).flatten();
    let is_open = matches!(state, "idle" | "mixed");
    let has_own_feature = features.split(',').any(|one| one == name);
    Some(ListedNode { name: name.to_owned(), is_open, idle_cpus: idle, cpus: all, has_own_feature })
}

/// A line of `squeue`; none where the line has another form.
pub(super) fn job(line: &str) -> Option<ListedJob> {
    let mut fields = line.trim().splitn(4, '|');
    let (number, nodes, cpus, comment) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let word = |before: &str| {
        let mut words = comment.split([' ', ',', ';']);
        words.find_map(|word| word.strip_prefix(before)).map(str::to_owned)
    };
    Some(ListedJob {
        number: number.to_owned(),
        nodes: names(nodes)?,
        cpus: cpus.parse().ok()?,
        profile: word(PROFILE_WORD),
        bound: word(BOUND_WORD),
    })
}

/// The names that a list of Slurm's stands for, such as `n[01-03,7],gpu1`; none where it is no such list, or one of more
/// than 100,000 names.
pub(super) fn names(list: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for one in parts(list)? {
        expand(one, &mut all)?;
    }
    Some(all)
}

/// A list at its commas outside brackets.
fn parts(list: &str) -> Option<Vec<&str>> {
    let (mut parts, mut from, mut inside) = (Vec::new(), 0, false);
    for (at, letter) in list.char_indices() {
        match letter {
            '[' if inside => return None,
            '[' => inside = true,
            ']' if !inside => return None,
            ']' => inside = false,
            ',' if !inside => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[from..]);
    (!inside).then_some(parts)
}

/// Adds the names of one part, whose first brackets are replaced by each of their numbers.
fn expand(part: &str, all: &mut Vec<String>) -> Option<()> {
    let Some((before, rest)) = part.split_once('[') else {
        all.push(part.to_owned());
        return (!part.is_empty() && all.len() <= MOST_NAMES).then_some(());
    };
    let (inside, after) = rest.split_once(']')?;
    for range in inside.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        // As many digits as the first has: `08-10` is 08, 09, 10.
        let digits = first.len();
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || (last - first) as usize >= MOST_NAMES {
            return None;
        }
        for number in first..=last {
            expand(&format!("{before}{number:0digits$}{after}"), all)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nodes_are_as_slurm_writes_them() {
        let expanded = |list: &str| names(list).map(|names| names.join(" "));
        assert_eq!(expanded("n1").as_deref(), Some("n1"));
        assert_eq!(expanded("n[08-10,2],g1").as_deref(), Some("n08 n09 n10 n2 g1"));
        assert_eq!(expanded("r[1-2]n[1-2]").as_deref(), Some("r1n1 r1n2 r2n1 r2n2"));
        for bad in
            ["", "n[1-", "n[3-1]", "n]1[", "n[a]", "n[1,]", "n1,", "n[[1]]", "n[0-4294967295]"]
        {
            assert_eq!(names(bad), None, "{bad}");
        }
    }

    #[test]
    fn nodes_are_open_where_jobs_can_start() {
        let open = node("n1|mixed|3/5/0/8|big,n1").unwrap();
        assert_eq!((open.idle_cpus, open.is_open, open.has_own_feature), (5, true, true));
        let drained = node("n10|drained*|0/0/8/8|n1").unwrap();
        assert!(!drained.is_open && !drained.has_own_feature);
        assert_eq!(node("n1|idle|?|n1"), None);
        assert_eq!(node(""), None);
    }

    #[test]
    fn a_jobs_comment_says_by_which_profile_it_runs() {
        let found = job("17|n[1-2]|8|nightly corun.profile=xz;corun.bound=1.3 a|b").unwrap();
        assert_eq!((found.nodes.len(), found.cpus), (2, 8));
        assert_eq!(found.profile.as_deref(), Some("xz"));
        assert_eq!(found.bound.as_deref(), Some("1.3"));
        assert_eq!(job("17|n1|1|(null)").unwrap().profile, None);
        assert_eq!(job("17||1|(null)"), None);
    }
}

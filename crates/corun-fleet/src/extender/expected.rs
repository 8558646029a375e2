//! Pods that were asked about lately and that no report has yet.
//!
//! Between a pod's binding and its node's next report an extender is not told where the pod went: the scheduler asks for
//! scores and binds by itself. What the extender can know is which node it scored highest. The pod is expected there until a
//! report names it, and for [`EXPECTED_S`] at most. Of several nodes with the highest score the scheduler chooses by other
//! scores: each is expected to have an equal part of the pod, and counts the pod once parts of pods alike make a whole.

use std::collections::{BTreeMap, HashMap};

/// How long a pod is expected: an agent looks every 10 s and writes at most every 10 s, with 10 s for both to happen.
const EXPECTED_S: u64 = 30;
/// Pods at most; of more the oldest are forgotten.
const MOST_PODS: usize = 2_000;
/// Where more nodes than these are as good as the best, the scheduler's own scores spread pods alike well enough.
const MOST_BEST: usize = 16;
/// What parts that make a whole may lack of one by rounding.
const ROUNDING: f64 = 1e-9;

/// A pod as the model counts it: its program and CPUs.
pub(super) type PodShape = (usize, u32);

/// Whole pods that are expected on a node, in rising order, and how many of each.
pub(super) type OnNode = Vec<(PodShape, u32)>;

#[derive(Debug, Default)]
pub(super) struct ExpectedPods {
    /// By namespace and name.
    pods: BTreeMap<String, ExpectedPod>,
}

#[derive(Debug)]
struct ExpectedPod {
    at_s: u64,
    shape: PodShape,
    /// The nodes with the highest score.
    best: Vec<String>,
}

impl ExpectedPods {
    /// A pod was asked about, and these nodes have the highest score.
    pub(super) fn expect(&mut self, name: String, shape: PodShape, best: Vec<String>, now_s: u64) {
        self.pods.remove(&name);
        if best.len() > MOST_BEST {
            return;
        }
        if self.pods.len() >= MOST_PODS {
            let oldest = self.pods.iter().min_by_key(|one| one.1.at_s);
            let oldest = oldest.map(|one| one.0.clone());
            oldest.and_then(|name| self.pods.remove(&name));
        }
        self.pods.insert(name, ExpectedPod { at_s: now_s, shape, best });
    }

    /// A report names this pod.
    pub(super) fn is_reported(&mut self, name: &str) {
        self.pods.remove(name);
    }

    /// By node, whom to expect there but for one pod, which is asked about again. Pods that were expected for too
    /// long, or from later on, are forgotten.
    pub(super) fn by_node(&mut self, but: &str, now_s: u64) -> HashMap<String, OnNode> {
        self.pods.retain(|_, one| now_s.abs_diff(one.at_s) <= EXPECTED_S);
        let mut parts: HashMap<&str, BTreeMap<PodShape, f64>> = HashMap::new();
        for (_, one) in self.pods.iter().filter(|one| one.0 != but) {
            for node in &one.best {
                let of_node = parts.entry(node).or_default();
                *of_node.entry(one.shape).or_default() += 1.0 / one.best.len() as f64;
            }
        }
        let whole = |parts: BTreeMap<PodShape, f64>| -> OnNode {
            let counted = parts.into_iter().map(|(shape, sum)| (shape, (sum + ROUNDING) as u32));
            counted.filter(|one| one.1 > 0).collect()
        };
        let all = parts.into_iter().map(|(node, parts)| (node.to_owned(), whole(parts)));
        all.filter(|one| !one.1.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn parts_of_pods_alike_make_a_whole() {
        let mut expected = ExpectedPods::default();
        expected.expect("a".to_owned(), (0, 1), nodes(&["n1", "n2"]), 100);
        assert!(expected.by_node("", 100).is_empty());
        expected.expect("b".to_owned(), (1, 1), nodes(&["n1", "n2"]), 100);
        assert!(expected.by_node("", 100).is_empty());
        expected.expect("c".to_owned(), (0, 1), nodes(&["n1", "n2"]), 101);
        let found = expected.by_node("", 101);
        assert_eq!(found["n1"], [((0, 1), 1)]);
        assert_eq!(found["n2"], [((0, 1), 1)]);
        // Asked about again, a pod does not stand in its own way; reported, it is not expected.
        assert!(expected.by_node("c", 101).is_empty());
        expected.is_reported("a");
        assert!(expected.by_node("", 101).is_empty());
        // Of thirds the sum is no whole, but for the rounding.
        let mut expected = ExpectedPods::default();
        for pod in ["a", "b", "c"] {
            expected.expect(pod.to_owned(), (0, 2), nodes(&["n1", "n2", "n3"]), 100);
        }
        assert_eq!(expected.by_node("", 100).len(), 3);
    }

    #[test]
    fn pods_are_expected_for_a_while_only_and_on_few_nodes_only() {
        let mut expected = ExpectedPods::default();
        expected.expect("a".to_owned(), (0, 1), nodes(&["n1"]), 100);
        assert_eq!(expected.by_node("", 130).len(), 1);
        // A clock that was set back, too.
        assert!(expected.by_node("", 60).is_empty());
        expected.expect("a".to_owned(), (0, 1), nodes(&["n1"]), 100);
        assert!(expected.by_node("", 131).is_empty() && expected.pods.is_empty());
        expected.expect("b".to_owned(), (0, 1), vec!["n".to_owned(); MOST_BEST + 1], 131);
        assert!(expected.pods.is_empty());
        for pod in 0..MOST_PODS + 5 {
            expected.expect(pod.to_string(), (0, 1), nodes(&["n1"]), 131);
        }
        assert_eq!(expected.by_node("", 131)["n1"], [((0, 1), MOST_PODS as u32)]);
    }
}

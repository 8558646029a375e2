//! The whole search: table, bounds, a start, fewer groups, branch and bound.

use crate::completion::Completion;
use crate::contention::{Contention, Coupling};
use crate::groups::{self, Extremes, ProgramGroup};
use crate::local_search::{local_search, searched_from_dealt};
use crate::objective::{Criterion, Goal, Objective, key, least_key};
use crate::search::{Candidate, Filter, Search, SearchEnd, StopRule};
use crate::search_space::SearchSpace;

/// Rounds of sharpening the bounds by the groups that are left.
const ROUNDS: usize = 6;

/// How far above the least unfairness a placement of higher STP may be, relative.
pub(crate) const UNFAIRNESS_ROOM: f64 = 1e-6;

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SearchResult {
    pub(crate) best: Candidate,
    /// The least score that any placement can have, as far as is known.
    pub(crate) bound: Option<f64>,
    pub(crate) is_proven: bool,
    pub(crate) nodes: u64,
    pub(crate) pruned: u64,
}

/// All that a search of the tree stands on.
pub(crate) struct SearchTables<S> {
    groups: Vec<ProgramGroup<S>>,
    extremes: Extremes<S>,
    completion: Completion,
    filter: Option<Filter>,
}

impl<S: Copy + Send + Sync> SearchTables<S> {
    pub(crate) fn search<'a, C: Contention<Share = S>>(
        &'a self,
        space: &'a SearchSpace<'a, C>,
    ) -> Search<'a, C> {
        let filter = self.filter.as_ref();
        Search::new(space, &self.groups, &self.extremes, &self.completion, filter)
    }
}

/// The placement of the least score by `objective` and `goal`, at most that of each of `known`.
pub(crate) fn solve<C: Contention>(
    space: &SearchSpace<C>,
    objective: Objective,
    goal: Goal,
    known: &[Vec<usize>],
    stop: &StopRule<'_>,
) -> SearchResult {
    let criterion = space.criterion(objective, goal);
    let (start, looked) = start(space, &criterion, known, stop);
    let is_judged = objective.check(space.machine).is_ok();
    let Some(groups) = is_judged.then(|| groups::all(space)).flatten() else {
        return SearchResult {
            best: start,
            bound: None,
            is_proven: false,
            nodes: looked,
            pruned: 0,
        };
    };
    let rest = StopRule { nodes: stop.nodes.saturating_sub(looked), ..*stop };
    let mut found = least(space, criterion, groups, start, &rest);
    if has_second_pass(objective, goal) && found.is_proven {
        let rest = StopRule { nodes: rest.nodes.saturating_sub(found.nodes), ..*stop };
        found = among_fairest(space, found, &rest);
    }
    found.nodes += looked;
    found
}

/// What the search starts from, and how many placements were looked at: the best of what exchanges make of programs
/// dealt out, and of the best known placement where that one is better still.
fn start<C: Contention>(
    space: &SearchSpace<C>,
    criterion: &Criterion,
    known: &[Vec<usize>],
    stop: &StopRule<'_>,
) -> (Candidate, u64) {
    let (dealt_out, mut looked) = searched_from_dealt(space, criterion, stop);
    let mut scratch = C::Scratch::default();
    let mut score = |cpus: &[usize]| space.score(criterion, cpus, &mut scratch);
    let scored = known.iter().map(|cpus| (key(score(cpus)), cpus));
    let best = scored.min().filter(|(known, _)| *known < key(dealt_out.score));
    looked += known.len() as u64;
    let Some((_, cpus)) = best else { return (dealt_out, looked) };
    let rest = StopRule { nodes: stop.nodes.saturating_sub(looked), ..*stop };
    let (improved, looked_too) = local_search(space, criterion, cpus.clone(), &rest);
    (improved, looked + looked_too)
}

/// Is the best of STP looked for among the best?
pub(crate) fn has_second_pass(objective: Objective, goal: Goal) -> bool {
    objective == Objective::Unfairness && goal == Goal::Best
}

fn least<C: Contention>(
    space: &SearchSpace<C>,
    criterion: Criterion,
    groups: Vec<ProgramGroup<C::Share>>,
    start: Candidate,
    stop: &StopRule<'_>,
) -> SearchResult {
    let (search_tables, bound) = search_tables(space, criterion, groups, &start);
    match search_tables {
        Some(search_tables) => {
            found(search_tables.search(space).run(Some(start.clone()), stop), start, bound)
        }
        // No group is left that may beat the start.
        None => SearchResult {
            bound: Some(start.score),
            best: start,
            is_proven: true,
            nodes: 0,
            pruned: 0,
        },
    }
}

/// What a search for something better than `best` stands on, with the least score of all; none
/// when no group is left that may be in it.
pub(crate) fn search_tables<C: Contention>(
    space: &SearchSpace<C>,
    criterion: Criterion,
    mut groups: Vec<ProgramGroup<C::Share>>,
    best: &Candidate,
) -> (Option<SearchTables<C::Share>>, f64) {
    let mut bound = f64::NEG_INFINITY;
    for round in 0.. {
        let Some(extremes) = Extremes::of(space, &groups) else { break };
        groups::bound(space, &mut groups, &extremes, criterion.span_ends());
        let completion = Completion::new(space, criterion, &groups);
        let Some(root) = completion.score(criterion.empty(), completion.full, space.everybody())
        else {
            break;
        };
        bound = bound.max(root);
        let before = groups.len();
        let stays = |index: usize, group: &ProgramGroup<C::Share>| {
            let layer = completion.full - completion.strides[group.orbit];
            completion
                .score(completion.parts[index], layer, space.everybody() & !group.set)
                .is_some_and(|score| least_key(score) <= key(best.score))
        };
        let kept: Vec<bool> =
            groups.iter().enumerate().map(|(index, group)| stays(index, group)).collect();
        let left = kept.iter().filter(|&&kept| kept).count();
        // Only shares of others sharpen the spans.
        let helps = space.contention.coupling() == Coupling::Common && left * 20 <= before * 19;
        if round == ROUNDS || !helps {
            return (Some(SearchTables { groups, extremes, completion, filter: None }), bound);
        }
        let mut kept = kept.into_iter();
        groups.retain(|_| kept.next().unwrap_or(true));
    }
    (None, bound)
}

fn found(ended: SearchEnd, start: Candidate, root: f64) -> SearchResult {
    let best = ended.best.unwrap_or(start);
    let bound = ended.open.map_or(best.score, |open| open.max(root).min(best.score));
    SearchResult {
        bound: Some(bound),
        is_proven: ended.open.is_none(),
        best,
        nodes: ended.nodes,
        pruned: ended.pruned,
    }
}

/// What a search of the highest STP among placements of at most this unfairness stands on; none
/// where there are too many groups.
pub(crate) fn search_tables_of_fair<C: Contention>(
    space: &SearchSpace<C>,
    most_unfairness: f64,
) -> Option<SearchTables<C::Share>> {
    let unfairness = space.criterion(Objective::Unfairness, Goal::Best);
    let stp = space.criterion(Objective::Stp, Goal::Best);
    filtered_search_tables(space, stp, unfairness, most_unfairness)
}

/// What a search by one criterion stands on, among placements of at most this score by another one, which asks for no power;
/// none where there are too many groups.
fn filtered_search_tables<C: Contention>(
    space: &SearchSpace<C>,
    criterion: Criterion,
    by: Criterion,
    most: f64,
) -> Option<SearchTables<C::Share>> {
    let mut groups = groups::all(space)?;
    let extremes = Extremes::of(space, &groups)?;
    groups::bound(space, &mut groups, &extremes, criterion.span_ends().or(by.span_ends()));
    let filter = Filter { completion: Completion::new(space, by, &groups), most };
    let completion = Completion::new(space, criterion, &groups);
    Some(SearchTables { groups, extremes, completion, filter: Some(filter) })
}

/// The best placement in which nobody is slower than `most_slowdown`, and whether there is one: where none was found, that in
/// which the slowest program is the least slow. Of equally unfair ones not the one of the highest STP.
pub(crate) fn solve_within<C: Contention>(
    space: &SearchSpace<C>,
    most_slowdown: f64,
    objective: Objective,
    known: &[Vec<usize>],
    stop: &StopRule<'_>,
) -> (SearchResult, bool) {
    let slowest = space.criterion(Objective::MaxSlowdown, Goal::Best);
    let criterion = space.criterion(objective, Goal::Best);
    let (mut least_slow, mut looked) = start(space, &slowest, known, stop);
    if least_slow.score > most_slowdown {
        let rest = StopRule { nodes: stop.nodes.saturating_sub(looked), ..*stop };
        let found = solve(space, Objective::MaxSlowdown, Goal::Best, known, &rest);
        looked += found.nodes;
        if found.best.score > most_slowdown {
            return (SearchResult { nodes: looked, ..found }, false);
        }
        least_slow = found.best;
    }
    let rest = StopRule { nodes: stop.nodes.saturating_sub(looked), ..*stop };
    let (unbound, looked_too) = start(space, &criterion, known, &rest);
    looked += looked_too;
    let is_kept = rescored(space, &slowest, &unbound).score <= most_slowdown;
    let candidates = [Some(rescored(space, &criterion, &least_slow)), is_kept.then_some(unbound)];
    let start = candidates
        .into_iter()
        .flatten()
        .reduce(|one, other| if other.beats(&one) { other } else { one });
    let start = start.expect("the first is there");
    let rest = StopRule { nodes: stop.nodes.saturating_sub(looked), ..*stop };
    let found = match filtered_search_tables(space, criterion, slowest, most_slowdown) {
        Some(search_tables) => {
            let search = search_tables.search(space);
            let root = search.root().bound;
            found(search.run(Some(start.clone()), &rest), start, root)
        }
        None => SearchResult { best: start, bound: None, is_proven: false, nodes: 0, pruned: 0 },
    };
    (SearchResult { nodes: looked + found.nodes, ..found }, true)
}

/// The same placement with its score by another criterion.
pub(crate) fn rescored<C: Contention>(
    space: &SearchSpace<C>,
    criterion: &Criterion,
    candidate: &Candidate,
) -> Candidate {
    let placement = candidate.placement.clone();
    let score = space.score(criterion, &placement.cpu, &mut C::Scratch::default());
    Candidate { score, placement }
}

/// Among the placements that are as fair as the fairest, that of the highest STP.
fn among_fairest<C: Contention>(
    space: &SearchSpace<C>,
    fairest: SearchResult,
    stop: &StopRule<'_>,
) -> SearchResult {
    let unfairness = space.criterion(Objective::Unfairness, Goal::Best);
    let stp = space.criterion(Objective::Stp, Goal::Best);
    let most = fairest.best.score * (1.0 + UNFAIRNESS_ROOM);
    let Some(search_tables) = search_tables_of_fair(space, most) else { return fairest };
    let ended = search_tables.search(space).run(Some(rescored(space, &stp, &fairest.best)), stop);
    let Some(best) = ended.best else { return fairest };
    SearchResult {
        best: rescored(space, &unfairness, &best),
        is_proven: ended.open.is_none(),
        nodes: fairest.nodes + ended.nodes,
        pruned: fairest.pruned + ended.pruned,
        ..fairest
    }
}

//! Algorithms 2 and 3 of Majo and Gross (ISMM 2011) for any number of processors: processes onto
//! processors. A process is an index, ties go to the lowest.

use super::processors::Processors;

/// What the algorithms know of a process.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Process {
    /// Index of the node of its memory; none: not known, as near everywhere.
    pub(super) home: Option<usize>,
    /// LLC misses per 1000 instructions: the pressure it puts on a cache.
    pub(super) mpki: f64,
    /// Cycles per instruction away from its memory / near it, at least 1.
    pub(super) penalty: f64,
    /// The processors it may use, ascending; none: all.
    pub(super) processors: Option<Vec<usize>>,
}

impl Process {
    pub(super) fn is_remote_on(&self, node: usize) -> bool {
        self.home.is_some_and(|home| home != node)
    }

    /// The pressure it puts on a cache of a node: weighted by its penalty where it is remote.
    pub(super) fn pressure_on(&self, node: usize) -> f64 {
        if self.is_remote_on(node) { self.mpki * self.penalty } else { self.mpki }
    }

    fn may_use(&self, processor: usize) -> bool {
        self.processors.as_ref().is_none_or(|open| open.binary_search(&processor).is_ok())
    }
}

/// How many processes each processor has, and may have: one a core; with more processes than cores
/// as many more on every core, to within one.
#[derive(Debug, Clone)]
pub(super) struct Seats {
    counts: Vec<usize>,
    /// Processes that every core takes.
    base: usize,
    /// Cores that take one more.
    more: usize,
}

impl Seats {
    /// For so many processes; nobody sits yet.
    pub(super) fn new(processors: &Processors, processes: usize) -> Self {
        let cores: usize = processors.list.iter().map(|one| one.cores).sum();
        let counts = vec![0; processors.list.len()];
        if processes <= cores {
            return Self { counts, base: 1, more: 0 };
        }
        Self { counts, base: processes / cores, more: processes % cores }
    }

    fn is_free(&self, processors: &Processors, processor: usize) -> bool {
        let cores = processors.list[processor].cores;
        let over = |(place, &count): (usize, &usize)| {
            count.saturating_sub(self.base * processors.list[place].cores)
        };
        let count = self.counts[processor];
        count < self.base * cores
            || count < (self.base + 1) * cores
                && self.counts.iter().enumerate().map(over).sum::<usize>() < self.more
    }

    /// One process is there already.
    pub(super) fn occupy(&mut self, processor: usize) {
        self.counts[processor] += 1;
    }

    /// A seat for a process (`get_next_available_core`): on its home node, else on the nearest node
    /// with a free one; there on the processor with the fewest processes a core. Where none is
    /// free, on the emptiest that it may use.
    pub(super) fn take(&mut self, processors: &Processors, process: &Process) -> Option<usize> {
        let key = |&place: &usize| {
            let load = self.counts[place] as f64 / processors.list[place].cores as f64;
            let free = self.is_free(processors, place);
            let distance = if free { processors.distance(place, process.home) } else { 0.0 };
            (!free, distance, load)
        };
        let open = (0..processors.list.len()).filter(|&place| process.may_use(place));
        let taken = open
            .map(|place| (key(&place), place))
            .min_by(|((full, far, load), _), ((other_full, other_far, other_load), _)| {
                full.cmp(other_full).then(far.total_cmp(other_far)).then(load.total_cmp(other_load))
            })
            .map(|(_, place)| place)?;
        self.occupy(taken);
        Some(taken)
    }
}

/// Who is on which processor.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mapping {
    /// By process; none for one that may run nowhere.
    pub(super) on: Vec<Option<usize>>,
    /// By processor, from the front (highest penalty) to the back.
    lists: Vec<Vec<usize>>,
}

/// The processes by falling penalty.
pub(super) fn by_penalty(processes: &[Process]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..processes.len()).collect();
    // Stable: equals stay in the order of their indices.
    order.sort_by(|&one, &other| processes[other].penalty.total_cmp(&processes[one].penalty));
    order
}

/// Algorithm 2: in falling order of penalty each process takes a seat, at home while there is one.
/// Those that may not run everywhere go first, the narrowest before the others: else the seat that
/// they are bound to may be taken while others are free.
pub(super) fn maximum_local(
    processors: &Processors,
    processes: &[Process],
    seats: &mut Seats,
) -> Mapping {
    let order = by_penalty(processes);
    let mut turns = order.clone();
    turns.sort_by_key(|&index| {
        let open = &processes[index].processors;
        open.as_ref().map_or(usize::MAX, Vec::len)
    });
    let mut on = vec![None; processes.len()];
    for index in turns {
        on[index] = seats.take(processors, &processes[index]);
    }
    let mut lists = vec![Vec::new(); processors.list.len()];
    for index in order {
        if let Some(place) = on[index] {
            lists[place].push(index);
        }
    }
    Mapping { on, lists }
}

/// A step of the refinement, and why: the pressures of both caches before and after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moved {
    pub(super) process: usize,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) before: (f64, f64),
    pub(super) after: (f64, f64),
}

/// The pressure on each processor's cache.
pub(super) fn pressures(
    processors: &Processors,
    processes: &[Process],
    mapping: &Mapping,
) -> Vec<f64> {
    let of = |(place, list): (usize, &Vec<usize>)| {
        let node = processors.list[place].node;
        list.iter().fold(0.0, |sum, &index| sum + processes[index].pressure_on(node))
    };
    mapping.lists.iter().enumerate().map(of).collect()
}

/// Algorithm 3, corrected: while a legal move brings the pressures nearer to each other, the process
/// with the lowest penalty leaves the cache under the highest pressure for the one under the lowest
/// that has a free core. A move is legal when the process may run there and, if it is remote there,
/// the pressure there stays below the threshold.
pub(super) fn refine(
    processors: &Processors,
    processes: &[Process],
    mapping: &mut Mapping,
    seats: &mut Seats,
    threshold_mpki: f64,
) -> Vec<Moved> {
    let mut pressure = pressures(processors, processes, mapping);
    let mut moves = Vec::new();
    while let Some(step) =
        next_move(processors, processes, mapping, seats, &pressure, threshold_mpki)
    {
        let Moved { process, from, to, after, .. } = step;
        (pressure[from], pressure[to]) = after;
        mapping.lists[from].retain(|&index| index != process);
        mapping.lists[to].insert(0, process);
        mapping.on[process] = Some(to);
        seats.counts[from] -= 1;
        seats.counts[to] += 1;
        moves.push(step);
    }
    moves
}

fn next_move(
    processors: &Processors,
    processes: &[Process],
    mapping: &Mapping,
    seats: &Seats,
    pressure: &[f64],
    threshold_mpki: f64,
) -> Option<Moved> {
    let from = (0..pressure.len()).reduce(|a, b| if pressure[b] > pressure[a] { b } else { a })?;
    let mut targets: Vec<usize> = (0..pressure.len())
        .filter(|&place| place != from && seats.is_free(processors, place))
        .collect();
    targets.sort_by(|&a, &b| pressure[a].total_cmp(&pressure[b]));
    for &index in mapping.lists[from].iter().rev() {
        let process = &processes[index];
        for &to in targets.iter().filter(|&&to| process.may_use(to)) {
            let node = processors.list[to].node;
            let before = (pressure[from], pressure[to]);
            let after = (
                before.0 - process.pressure_on(processors.list[from].node),
                before.1 + process.pressure_on(node),
            );
            let overloads = process.is_remote_on(node) && after.1 >= threshold_mpki;
            if !overloads && is_nearer(pressure, (from, to), after) {
                return Some(Moved { process: index, from, to, before, after });
            }
        }
    }
    None
}

/// What the last digit of a sum may be off by, as a share of the pressures.
const ROUNDING: f64 = 1e-9;

/// Do pressures come nearer to each other? The two in question have to, and of all of them the
/// highest and the lowest must not part: either they come nearer too, or both new pressures lie
/// between them (where several caches are equally pressed, relieving one brings no nearer yet).
/// With two processors this is: the difference falls. So there is no end to moves only if some
/// difference falls for ever, which it cannot.
fn is_nearer(pressure: &[f64], (from, to): (usize, usize), after: (f64, f64)) -> bool {
    let range = |of: &dyn Fn(usize) -> f64| {
        let values = (0..pressure.len()).map(of);
        values.fold((f64::INFINITY, 0.0_f64), |(least, most), one| (least.min(one), most.max(one)))
    };
    let (least, most) = range(&|place| pressure[place]);
    let (new_least, new_most) = range(&|place| match place {
        _ if place == from => after.0,
        _ if place == to => after.1,
        _ => pressure[place],
    });
    let tolerance = ROUNDING * most;
    let pair_nears = (after.0 - after.1).abs() < pressure[from] - pressure[to] - tolerance;
    let all_near = new_most - new_least < most - least - tolerance;
    let within = after.1 <= most && after.0 >= least;
    pair_nears && (all_near || within)
}

//! Who has how many units of which resource, and how units change hands.

use crate::ProcessId;
use crate::partitioning::mask;
use crate::partitioning::online::Cache;
use crate::partitioning::steering::Program;

/// Units of bandwidth that each program has at the start: the peak is this many times the programs.
const SHARE: u32 = 4;

/// What units are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Ways,
    Bandwidth,
}

/// What a program does with a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Need {
    /// It can spare some.
    Supply,
    /// Neither.
    #[default]
    Keep,
    /// It would gain by more.
    Demand,
}

impl Need {
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Supply => "spares",
            Self::Keep => "keeps",
            Self::Demand => "demands",
        }
    }
}

/// The units of each program, in the order of the programs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Allocation {
    processes: Vec<ProcessId>,
    ways: Vec<u32>,
    /// Units of the peak of memory; their sum stays what it was at the start.
    bandwidth: Vec<u32>,
}

impl Allocation {
    /// Equal parts; ways that are left over go one each to the first. Empty where there are more programs than
    /// partitions.
    pub(super) fn equal(programs: &[Program], cache: &Cache) -> Self {
        let count = programs.len() as u32;
        let processes = programs.iter().map(|one| one.process).collect();
        if count * cache.least_ways > cache.ways {
            return Self { processes, ..Self::default() };
        }
        let ways = (0..count).map(|one| cache.ways / count + u32::from(one < cache.ways % count));
        Self { processes, ways: ways.collect(), bandwidth: vec![SHARE; programs.len()] }
    }

    /// The same for those who are here now: newcomers get an equal part, a unit at a time from whoever has most, and
    /// what is left over goes to whoever has fewest.
    pub(super) fn followed_by(&self, programs: &[Program], cache: &Cache) -> Self {
        let mut next = Self::equal(programs, cache);
        if next.is_empty() || self.is_empty() {
            return next;
        }
        let old = |process: ProcessId| self.processes.iter().position(|one| *one == process);
        for resource in [Resource::Ways, Resource::Bandwidth] {
            let before = self.units(resource);
            let units = next.units_mut(resource);
            let all: u32 = units.iter().sum();
            for (units, program) in units.iter_mut().zip(programs) {
                *units = old(program.process).map_or(*units, |place| before[place]);
            }
            while units.iter().sum::<u32>() > all {
                let most = (0..units.len()).max_by_key(|&one| (units[one], usize::MAX - one));
                most.into_iter().for_each(|one| units[one] -= 1);
            }
            while units.iter().sum::<u32>() < all {
                let fewest = (0..units.len()).min_by_key(|&one| (units[one], one));
                fewest.into_iter().for_each(|one| units[one] += 1);
            }
        }
        next
    }

    pub(super) fn is_of(&self, programs: &[Program]) -> bool {
        self.processes.len() == programs.len()
            && self.processes.iter().zip(programs).all(|(one, program)| *one == program.process)
    }

    /// Can nothing be shared out?
    pub(super) fn is_empty(&self) -> bool {
        self.ways.is_empty()
    }

    pub(super) fn units(&self, resource: Resource) -> &[u32] {
        match resource {
            Resource::Ways => &self.ways,
            Resource::Bandwidth => &self.bandwidth,
        }
    }

    fn units_mut(&mut self, resource: Resource) -> &mut [u32] {
        match resource {
            Resource::Ways => &mut self.ways,
            Resource::Bandwidth => &mut self.bandwidth,
        }
    }

    /// Ways side by side in the order of the programs.
    pub(super) fn masks(&self) -> Vec<u64> {
        let mut first = 0;
        let next = |ways: &u32| {
            first += ways;
            mask(first - ways, *ways)
        };
        self.ways.iter().map(next).collect()
    }

    /// The cap of a program; none where the peak is not known.
    pub(super) fn cap_bytes_per_s(&self, place: usize, cache: &Cache) -> Option<f64> {
        let all: u32 = self.bandwidth.iter().sum();
        let share = f64::from(*self.bandwidth.get(place)?) / f64::from(all);
        Some(share * cache.peak_bytes_per_s?)
    }
}

/// The standard deviation of slowdowns over their mean.
pub(super) fn unfairness(slowdowns: &[f64]) -> f64 {
    let count = slowdowns.len() as f64;
    let mean = slowdowns.iter().sum::<f64>() / count;
    let squares: f64 = slowdowns.iter().map(|one| (one - mean) * (one - mean)).sum();
    (squares / count).sqrt() / mean
}

/// The next state: of each resource each program that demands it asks those that can spare a unit, the slowest
/// asking first and the fastest being asked first, as in a matching of hospitals and residents in which all agree
/// who comes first. Who neither spares nor demands is asked after these, and last a faster one that demands, too.
/// Nobody gives to a faster one, and nobody gives more than a unit or gives what it got. None where nothing changes hands.
pub(super) fn hand_over(
    now: &Allocation,
    slowdowns: &[Option<f64>],
    needs: impl Fn(usize) -> [Need; 2],
    cache: &Cache,
) -> Option<Allocation> {
    let mut next = now.clone();
    for (place, resource) in [Resource::Ways, Resource::Bandwidth].into_iter().enumerate() {
        if resource == Resource::Bandwidth && cache.peak_bytes_per_s.is_none() {
            continue;
        }
        let least = if resource == Resource::Ways { cache.least_ways } else { 1 };
        let need = |program: usize| needs(program)[place];
        let known = |need_of: &dyn Fn(Need) -> bool| -> Vec<(usize, f64)> {
            let of = |(program, slowdown): (usize, &Option<f64>)| {
                Some((program, (*slowdown)?)).filter(|_| need_of(need(program)))
            };
            slowdowns.iter().enumerate().filter_map(of).collect()
        };
        let mut asking = known(&|need| need == Need::Demand);
        asking.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        let mut asked = known(&|_| true);
        let rank = |program: usize| need(program) as u8;
        asked.sort_by(|one, other| {
            rank(one.0)
                .cmp(&rank(other.0))
                .then(one.1.total_cmp(&other.1))
                .then(one.0.cmp(&other.0))
        });
        let units = next.units_mut(resource);
        let mut gave = Vec::new();
        for (receiver, slow) in asking {
            if gave.contains(&receiver) {
                continue;
            }
            let can = |&(giver, fast): &(usize, f64)| fast < slow && units[giver] > least;
            let Some(found) = asked.iter().position(can) else { continue };
            let (giver, _) = asked.remove(found);
            asked.retain(|one| one.0 != receiver);
            gave.push(giver);
            units[giver] -= 1;
            units[receiver] += 1;
        }
    }
    (next != *now).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHE: Cache = Cache {
        ways: 11,
        least_ways: 1,
        bytes: 11e6,
        private_bytes: 0.0,
        peak_bytes_per_s: Some(16e9),
    };

    fn programs(count: u64) -> Vec<Program> {
        let program = |one| Program { process: ProcessId(one), sample: None, held_bytes: None };
        (0..count).map(program).collect()
    }

    #[test]
    fn equal_parts_of_ways_and_of_the_peak() {
        let equal = Allocation::equal(&programs(4), &CACHE);
        assert_eq!(equal.units(Resource::Ways), [3, 3, 3, 2]);
        assert_eq!(equal.masks(), [0x007, 0x038, 0x1c0, 0x600]);
        assert_eq!(equal.cap_bytes_per_s(0, &CACHE), Some(4e9));
        assert!(Allocation::equal(&programs(12), &CACHE).is_empty());
    }

    /// 2 and 3 demand ways, 3 is slower. 1 spares and 0 keeps: 3 gets a way of 1, 2 one of 0. Nobody demands
    /// bandwidth but 0, which is the fastest but one: 1 is asked.
    #[test]
    fn the_slowest_asks_first_and_the_fastest_gives_first() {
        let equal = Allocation::equal(&programs(4), &CACHE);
        let slowdowns = [1.2, 1.1, 1.5, 2.0].map(Some);
        let needs = |program: usize| match program {
            0 => [Need::Keep, Need::Demand],
            1 => [Need::Supply, Need::Supply],
            _ => [Need::Demand, Need::Keep],
        };
        let next = hand_over(&equal, &slowdowns, needs, &CACHE).unwrap();
        assert_eq!(next.units(Resource::Ways), [2, 2, 4, 3]);
        assert_eq!(next.units(Resource::Bandwidth), [5, 3, 4, 4]);
        // Where the peak is not known bandwidth is nobody's.
        let blind = Cache { peak_bytes_per_s: None, ..CACHE };
        let next = hand_over(&equal, &slowdowns, needs, &blind).unwrap();
        assert_eq!(next.units(Resource::Bandwidth), [4; 4]);
    }

    /// Three of five ways each and a newcomer: an equal part of three, from those with most. One leaves: its ways go to
    /// those with fewest.
    #[test]
    fn those_who_stay_keep_what_they_have() {
        let three = Allocation {
            processes: (0..3).map(ProcessId).collect(),
            ways: vec![7, 3, 1],
            bandwidth: vec![6, 4, 2],
        };
        let four = three.followed_by(&programs(4), &CACHE);
        assert_eq!(four.units(Resource::Ways), [5, 3, 1, 2]);
        assert_eq!(four.units(Resource::Bandwidth), [6, 4, 2, 4]);
        let two = three.followed_by(&programs(2), &CACHE);
        assert_eq!(two.units(Resource::Ways), [7, 4]);
        assert_eq!(two.units(Resource::Bandwidth), [4, 4]);
    }

    /// All three demand ways; the fastest gives to the slowest, and gets nothing itself.
    #[test]
    fn a_faster_one_gives_though_it_demands() {
        let equal = Allocation::equal(&programs(3), &CACHE);
        let next =
            hand_over(&equal, &[1.1, 1.3, 2.0].map(Some), |_| [Need::Demand, Need::Keep], &CACHE);
        assert_eq!(next.unwrap().units(Resource::Ways), [3, 4, 4]);
    }

    #[test]
    fn nobody_gives_to_a_faster_one_or_its_last_way() {
        let equal = Allocation::equal(&programs(2), &CACHE);
        let needs =
            |program: usize| if program == 0 { [Need::Supply; 2] } else { [Need::Demand; 2] };
        assert_eq!(hand_over(&equal, &[Some(2.0), Some(1.5)], needs, &CACHE), None);
        assert_eq!(hand_over(&equal, &[None, Some(1.5)], needs, &CACHE), None);
        let two = Cache { ways: 2, peak_bytes_per_s: None, ..CACHE };
        let last = Allocation::equal(&programs(2), &two);
        assert_eq!(hand_over(&last, &[Some(1.0), Some(1.5)], needs, &two), None);
    }

    /// Slowdowns 1 and 3: a mean of 2, a deviation of 1.
    #[test]
    fn unfairness_is_the_coefficient_of_variation() {
        assert_eq!(unfairness(&[1.0, 3.0]), 0.5);
        assert_eq!(unfairness(&[2.0, 2.0, 2.0]), 0.0);
    }
}

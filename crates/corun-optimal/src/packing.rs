//! What is worth most of the threads that an LLC has room for: a linear program with few constraints, of whole threads more than
//! of fractions ([`PackingItem::of_thread`]). It is solved again and again while only what the threads are worth changes, and then
//! begins where it ended. The bounds of a fleet (`corun-fleet`, docs/fleet.md) solve many of them for each plan.

/// What a packing takes room of: the cache, the bandwidth domain, both once more as whole threads take it, CPUs.
const RESOURCES: usize = 3 + 2 * WHOLE.len();

/// A thread that takes the part a of some room takes at least floor((k + 1) a) / k of it where threads are whole: of these k.
const WHOLE: [f64; 3] = [1.0, 2.0, 3.0];

/// Parts of a room nearer than this to a step are taken to be below it.
const AT_A_STEP: f64 = 1e-9;

/// Something that can be packed, as often as there is room for, in fractions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PackingItem {
    /// What one adds to the packing's worth, in the caller's unit; minus infinity where it may not be packed.
    pub worth: f64,
    /// The part of each resource's room that one takes; of the last (CPUs) more than nothing.
    takes: [f64; RESOURCES],
}

impl PackingItem {
    /// Who is in no packing.
    pub const NEVER: Self = Self { worth: f64::NEG_INFINITY, takes: [1.0; RESOURCES] };

    /// How many there is room for, in fractions.
    #[must_use]
    pub fn most(&self) -> f64 {
        1.0 / self.takes.into_iter().fold(0.0, f64::max)
    }

    /// A thread that takes these parts of the cache, of the bandwidth domain and of the CPUs, 0 to 1 each, worth nothing; none
    /// where it has no room as a whole.
    #[must_use]
    pub fn of_thread([bytes, busy, cpus]: [f64; 3]) -> Option<Self> {
        let has_room = bytes.max(busy) <= 1.0 + AT_A_STEP;
        let whole = |part: f64, k: f64| ((k + 1.0) * (part - AT_A_STEP)).floor().max(0.0) / k;
        let mut takes = [cpus; RESOURCES];
        (takes[0], takes[1]) = (bytes, busy);
        for (at, k) in WHOLE.into_iter().enumerate() {
            (takes[2 + 2 * at], takes[3 + 2 * at]) = (whole(bytes, k), whole(busy, k));
        }
        has_room.then_some(Self { worth: 0.0, takes })
    }
}

/// Steps after which a packing is taken as it is.
const MOST_STEPS: usize = 100;
/// A gain below this is none.
const LEAST_GAIN: f64 = 1e-12;

/// A column of the linear program.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Column {
    Item(usize),
    /// Room of a resource that is left over.
    Left(usize),
}

impl Column {
    fn item(self) -> Option<usize> {
        match self {
            Self::Item(item) => Some(item),
            Self::Left(_) => None,
        }
    }

    fn takes(self, items: &[PackingItem]) -> [f64; RESOURCES] {
        match self {
            Self::Item(item) => items[item].takes,
            Self::Left(resource) => std::array::from_fn(|one| f64::from(u8::from(one == resource))),
        }
    }

    fn worth(self, items: &[PackingItem]) -> f64 {
        self.item().map_or(0.0, |item| items[item].worth)
    }
}

/// A packing: the columns in use, one for each resource, and the inverse of what they take.
#[derive(Debug, Clone)]
pub struct Packing {
    basis: [Column; RESOURCES],
    inverse: [[f64; RESOURCES]; RESOURCES],
    /// How many of each.
    amounts: [f64; RESOURCES],
}

impl Packing {
    /// Nothing is packed.
    #[must_use]
    pub fn empty() -> Self {
        let one = |at: usize| std::array::from_fn(|other| f64::from(u8::from(at == other)));
        let (basis, inverse) = (std::array::from_fn(Column::Left), std::array::from_fn(one));
        Self { basis, inverse, amounts: [1.0; RESOURCES] }
    }

    /// Becomes the packing that is worth most of these items, which take what they took before and may be worth something else,
    /// by the simplex method. Gives what no packing is worth more than, whatever the rounding on the way.
    pub fn improve(&mut self, items: &[PackingItem]) -> f64 {
        if self.basis.iter().any(|one| one.worth(items).is_infinite()) {
            *self = Self::empty();
        }
        for step in 0..MOST_STEPS {
            let Some(entering) = entering(items, self.prices(items)) else { break };
            if !self.enter(items, entering) || step + 1 == MOST_STEPS {
                // The next one begins anew.
                let most = most(items, self.prices(items));
                *self = Self::empty();
                return most;
            }
        }
        most(items, self.prices(items))
    }

    /// The items that are packed, by their place among those given, and how many of each.
    pub fn amounts(&self) -> impl Iterator<Item = (usize, f64)> {
        let used = self.basis.iter().zip(self.amounts);
        used.filter_map(|(one, amount)| one.item().zip(Some(amount))).filter(|one| one.1 > 0.0)
    }

    /// What all of each resource is worth.
    fn prices(&self, items: &[PackingItem]) -> [f64; RESOURCES] {
        let mut prices = [0.0; RESOURCES];
        for (column, row) in self.basis.iter().zip(&self.inverse) {
            let worth = column.worth(items);
            prices.iter_mut().zip(row).for_each(|(price, part)| *price += worth * part);
        }
        prices
    }

    /// Takes a column into use in place of the one that is used up first; false where none ever is.
    fn enter(&mut self, items: &[PackingItem], column: Column) -> bool {
        let takes = column.takes(items);
        let step: [f64; RESOURCES] = std::array::from_fn(|row| dot(&self.inverse[row], &takes));
        let ratio = |row: usize| self.amounts[row] / step[row];
        let falling = (0..RESOURCES).filter(|&row| step[row] > 1e-12);
        let Some(leaving) = falling.min_by(|&a, &b| ratio(a).total_cmp(&ratio(b))) else {
            return false;
        };
        let amount = ratio(leaving).max(0.0);
        let pivot = self.inverse[leaving].map(|one| one / step[leaving]);
        for row in (0..RESOURCES).filter(|&row| row != leaving) {
            self.amounts[row] = (self.amounts[row] - step[row] * amount).max(0.0);
            for (own, pivot) in self.inverse[row].iter_mut().zip(pivot) {
                *own -= step[row] * pivot;
            }
        }
        self.inverse[leaving] = pivot;
        self.amounts[leaving] = amount;
        self.basis[leaving] = column;
        true
    }
}

fn dot(a: &[f64; RESOURCES], b: &[f64; RESOURCES]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// By weak duality: at prices of the resources by which no item is worth more than what it takes, no packing is worth
/// more than all the room. The price of CPUs is raised until that is so.
fn most(items: &[PackingItem], prices: [f64; RESOURCES]) -> f64 {
    let mut prices = prices.map(|price| price.max(0.0));
    let cpus = RESOURCES - 1;
    prices[cpus] = 0.0;
    let needed = |item: &PackingItem| (item.worth - dot(&prices, &item.takes)) / item.takes[cpus];
    prices[cpus] = items.iter().map(needed).fold(0.0, f64::max);
    prices.iter().sum()
}

/// The column that gains most for each unit; none at the optimum.
fn entering(items: &[PackingItem], prices: [f64; RESOURCES]) -> Option<Column> {
    let (mut most, mut best) = (LEAST_GAIN, None);
    for (at, item) in items.iter().enumerate() {
        let gain = item.worth - dot(&prices, &item.takes);
        if gain > most {
            (most, best) = (gain, Some(Column::Item(at)));
        }
    }
    for (resource, price) in prices.into_iter().enumerate() {
        if -price > most {
            (most, best) = (-price, Some(Column::Left(resource)));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item(worth: f64, takes: [f64; 3]) -> PackingItem {
        PackingItem { worth, ..PackingItem::of_thread(takes).unwrap() }
    }

    #[test]
    fn threads_worked_by_hand() {
        // Four CPUs: as many of the worthier as fit the cache beside the other.
        let items = [item(2.9, [0.3, 0.0, 0.25]), item(2.0, [0.2, 0.0, 0.25])];
        let mut packing = Packing::empty();
        let most = packing.improve(&items);
        assert!((most - 9.8).abs() < 1e-6, "{most}");
        let found: Vec<(usize, f64)> = packing.amounts().collect();
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|one| (one.1 - 2.0).abs() < 1e-6), "{found:?}");
        // Of threads that take more than half of the domain there is one, and no half beside it.
        let items = [item(1.0, [0.0, 0.6, 0.25])];
        assert!((Packing::empty().improve(&items) - 1.0).abs() < 1e-9);
        // One that has no room is in no packing, and neither is one that is worth nothing.
        assert_eq!(PackingItem::of_thread([1.1, 0.0, 0.25]), None);
        assert_eq!(Packing::empty().improve(&[item(-1.0, [0.1; 3])]), 0.0);
    }

    fn items() -> impl Strategy<Value = Vec<PackingItem>> {
        let one = (-1.0..3.0f64, 0.0..1.0f64, 0.0..1.0f64);
        prop::collection::vec(one.prop_map(|(worth, a, b)| item(worth, [a, b, 0.25])), 1..12)
    }

    /// What whole threads are worth at most, by all ways to pack up to four.
    fn most_of_whole(items: &[PackingItem]) -> f64 {
        fn more(items: &[PackingItem], (worth, room): (f64, [f64; 3])) -> f64 {
            let mut best = worth;
            for (at, item) in items.iter().enumerate() {
                let takes = [item.takes[0], item.takes[1], item.takes[RESOURCES - 1]];
                let left = [0, 1, 2].map(|one| room[one] - takes[one]);
                if left.iter().all(|left| *left >= -1e-12) {
                    best = best.max(more(&items[at..], (worth + item.worth, left)));
                }
            }
            best
        }
        more(items, (0.0, [1.0; 3]))
    }

    proptest! {
        /// The packing fits, and is worth what none is worth more than, of whole threads neither: it is the optimum. From another
        /// packing on the same is found, and what may not be packed any more is not.
        #[test]
        fn what_is_packed_fits_and_nothing_is_worth_more(items in items(), others in items()) {
            let mut changed = items.clone();
            for (at, one) in changed.iter_mut().enumerate() {
                one.worth = others.get(at).map_or(f64::NEG_INFINITY, |other| other.worth);
            }
            let mut packing = Packing::empty();
            for items in [items, changed] {
                let most = packing.improve(&items);
                let found: Vec<(usize, f64)> = packing.amounts().collect();
                for resource in 0..RESOURCES {
                    let taken: f64 =
                        found.iter().map(|&(at, n)| n * items[at].takes[resource]).sum();
                    prop_assert!(taken <= 1.0 + 1e-9, "{taken} of {resource}");
                }
                let worth: f64 = found.iter().map(|&(at, n)| n * items[at].worth).sum();
                prop_assert!((worth - most).abs() <= 1e-9 * (1.0 + worth), "{worth} {most}");
                prop_assert!(most_of_whole(&items) <= most + 1e-9);
            }
        }
    }
}

//! What is worth most of the threads that an LLC has room for, in fractions: a linear program with three constraints.

/// What a packing takes room of: the cache, the bandwidth domain, CPUs.
pub(super) const RESOURCES: usize = 3;

/// Something that can be packed, as often as there is room for, in fractions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Item {
    pub(super) worth: f64,
    /// What one takes of each resource; of the last (CPUs) more than nothing.
    pub(super) takes: [f64; RESOURCES],
}

/// A packing, and what none is worth more than.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Packing {
    /// Which items, and how many of each.
    pub(super) amounts: Vec<(usize, f64)>,
    /// No packing is worth more, whatever the rounding on the way.
    pub(super) most: f64,
}

/// Steps after which the packing is taken as it is.
const MOST_STEPS: usize = 100;
/// A gain below this is none.
const LEAST_GAIN: f64 = 1e-12;

/// The packing that is worth most, by the simplex method from an empty one.
pub(super) fn pack(items: &[Item], room: [f64; RESOURCES]) -> Packing {
    let mut tableau = Tableau::empty(room);
    for _ in 0..MOST_STEPS {
        let prices = tableau.prices(items);
        let Some(entering) = entering(items, prices) else { break };
        if !tableau.enter(items, entering) {
            break;
        }
    }
    let most = most(items, room, tableau.prices(items));
    let used = tableau.basis.iter().zip(tableau.amounts);
    let amounts = used.filter_map(|(one, amount)| one.item().zip(Some(amount)));
    Packing { amounts: amounts.filter(|one| one.1 > 0.0).collect(), most }
}

/// By weak duality: at prices of the resources by which no item is worth more than what it takes, no packing is worth
/// more than all the room. The price of CPUs is raised until that is so.
fn most(items: &[Item], room: [f64; RESOURCES], prices: [f64; RESOURCES]) -> f64 {
    let mut prices = prices.map(|price| price.max(0.0));
    let cpus = RESOURCES - 1;
    let needed = |item: &Item| {
        let others: f64 = (0..cpus).map(|one| prices[one] * item.takes[one]).sum();
        (item.worth - others) / item.takes[cpus]
    };
    prices[cpus] = items.iter().map(needed).fold(0.0, f64::max);
    prices.iter().zip(room).map(|(price, room)| price * room).sum()
}

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

    fn takes(self, items: &[Item]) -> [f64; RESOURCES] {
        match self {
            Self::Item(item) => items[item].takes,
            Self::Left(resource) => std::array::from_fn(|one| f64::from(u8::from(one == resource))),
        }
    }

    fn worth(self, items: &[Item]) -> f64 {
        self.item().map_or(0.0, |item| items[item].worth)
    }
}

/// The column that gains most for each unit; none at the optimum.
fn entering(items: &[Item], prices: [f64; RESOURCES]) -> Option<Column> {
    let gain = |takes: [f64; RESOURCES], worth: f64| {
        worth - prices.iter().zip(takes).map(|(price, takes)| price * takes).sum::<f64>()
    };
    let own = items.iter().enumerate();
    let own = own.map(|(at, item)| (gain(item.takes, item.worth), Column::Item(at)));
    let left = (0..RESOURCES).map(|one| (-prices[one], Column::Left(one)));
    own.chain(left)
        .filter(|one| one.0 > LEAST_GAIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|best| best.1)
}

/// The columns in use, one for each resource, and the inverse of what they take.
struct Tableau {
    basis: [Column; RESOURCES],
    inverse: [[f64; RESOURCES]; RESOURCES],
    amounts: [f64; RESOURCES],
}

impl Tableau {
    fn empty(room: [f64; RESOURCES]) -> Self {
        let one = |at: usize| std::array::from_fn(|other| f64::from(u8::from(at == other)));
        let basis = std::array::from_fn(Column::Left);
        Self { basis, inverse: std::array::from_fn(one), amounts: room }
    }

    /// What a unit of each resource is worth.
    fn prices(&self, items: &[Item]) -> [f64; RESOURCES] {
        let worth = self.basis.map(|one| one.worth(items));
        std::array::from_fn(|resource| {
            (0..RESOURCES).map(|row| worth[row] * self.inverse[row][resource]).sum()
        })
    }

    /// Takes a column into use in place of the one that is used up first; false where none ever is.
    fn enter(&mut self, items: &[Item], column: Column) -> bool {
        let takes = column.takes(items);
        let step: [f64; RESOURCES] = std::array::from_fn(|row| {
            (0..RESOURCES).map(|one| self.inverse[row][one] * takes[one]).sum()
        });
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item(worth: f64, takes: [f64; RESOURCES]) -> Item {
        Item { worth, takes }
    }

    #[test]
    fn two_items_worked_by_hand() {
        // Four CPUs, a cache of 6: as many of the worthier as fit the cache beside the other.
        let items = [item(3.0, [2.0, 0.0, 1.0]), item(2.0, [1.0, 0.0, 1.0])];
        let found = pack(&items, [6.0, 1.0, 4.0]);
        assert!((found.most - 10.0).abs() < 1e-12, "{found:?}");
        assert_eq!(found.amounts.len(), 2);
        assert!(found.amounts.iter().all(|one| (one.1 - 2.0).abs() < 1e-12), "{found:?}");
        // Nothing that is worth anything.
        assert_eq!(pack(&[item(-1.0, [1.0; 3])], [1.0; 3]), Packing { amounts: vec![], most: 0.0 });
    }

    fn items() -> impl Strategy<Value = Vec<Item>> {
        let one = (-1.0..3.0f64, 0.0..3.0f64, 0.0..3.0f64);
        prop::collection::vec(one.prop_map(|(worth, a, b)| item(worth, [a, b, 1.0])), 1..12)
    }

    proptest! {
        /// The packing fits, and is worth what none is worth more than: both are the optimum.
        #[test]
        fn what_is_packed_fits_and_nothing_is_worth_more(
            items in items(),
            room in (0.1..9.0f64, 0.1..9.0f64, 1.0..20.0f64),
        ) {
            let room = [room.0, room.1, room.2];
            let found = pack(&items, room);
            for (resource, room) in room.into_iter().enumerate() {
                let taken: f64 =
                    found.amounts.iter().map(|&(at, n)| n * items[at].takes[resource]).sum();
                prop_assert!(taken <= room + 1e-9, "{taken} of {room}");
            }
            let worth: f64 = found.amounts.iter().map(|&(at, n)| n * items[at].worth).sum();
            prop_assert!((worth - found.most).abs() <= 1e-9 * (1.0 + worth), "{worth} {}", found.most);
        }
    }
}

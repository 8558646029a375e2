//! Prices of programs and rents of LLCs by which nothing costs less than it pays, as a linear program.

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

/// No price is higher.
const HIGHEST_PRICE: f64 = 100.0;

/// Threads on LLCs of one kind, in fractions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// Which kind of LLC.
    pub(crate) llc: usize,
    /// The part of an LLC that they take.
    pub(crate) part: f64,
    /// Programs, each once, and how many threads of it.
    pub(crate) programs: Vec<(usize, f64)>,
    /// What they cost together.
    pub(crate) cost: f64,
}

/// What is paid for a thread of each program, and asked for an LLC of each kind.
#[derive(Debug, Clone)]
pub(crate) struct Prices {
    pub(crate) programs: Vec<f64>,
    pub(crate) rents: Vec<f64>,
}

impl Prices {
    /// The prices that pay most for so many threads of each program, less the rents of so many LLCs of each kind, of those
    /// by which no column costs less than it pays; and how much that is.
    pub(crate) fn best(
        threads: &[f64],
        llcs: &[f64],
        columns: impl Iterator<Item = Column>,
    ) -> Option<(Self, f64)> {
        let all: f64 = threads.iter().sum();
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let price = |of: f64, problem: &mut Problem| problem.add_var(of, (0.0, HIGHEST_PRICE));
        let programs: Vec<Variable> =
            threads.iter().map(|&count| price(count / all, &mut problem)).collect();
        let rents: Vec<Variable> =
            llcs.iter().map(|&count| price(-count / all, &mut problem)).collect();
        for one in columns {
            let paid = one.programs.iter().map(|&(program, count)| (programs[program], count));
            let terms: Vec<(Variable, f64)> = paid.chain([(rents[one.llc], -one.part)]).collect();
            problem.add_constraint(terms, ComparisonOp::Le, one.cost);
        }
        let solution = problem.solve().ok()?.into_solution().ok()?;
        let price = |one: &Variable| solution.var_value(*one).max(0.0);
        let programs = programs.iter().map(price).collect();
        let rents = rents.iter().map(price).collect();
        Some((Self { programs, rents }, solution.objective() * all))
    }

    /// By how much they pay threads on an LLC more than these cost.
    pub(crate) fn overpaid(&self, column: &Column) -> f64 {
        let paid: f64 =
            column.programs.iter().map(|&(program, count)| count * self.programs[program]).sum();
        paid - self.rents[column.llc] * column.part - column.cost
    }

    /// Half way to others.
    pub(crate) fn half_way_to(&self, other: &Self) -> Self {
        let mean = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| 0.5 * (a + b)).collect();
        Self {
            programs: mean(&self.programs, &other.programs),
            rents: mean(&self.rents, &other.rents),
        }
    }
}

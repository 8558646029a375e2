//! What can be set.

use crate::{Parameter, ParameterKind};

pub(super) const INTERVAL: Parameter = Parameter {
    name: "interval-cycles",
    kind: ParameterKind::Number,
    default: super::super::BILLION_CYCLES as f64,
    min: 1e5,
    max: 1e15,
    summary: "cycles between two looks at the counters",
};
pub(super) const OBJECTIVE: Parameter = Parameter {
    name: "objective",
    kind: ParameterKind::Choice(&[
        "mean-slowdown",
        "worst-slowdown",
        "unfairness",
        "energy",
        "energy-delay",
    ]),
    default: 0.0,
    min: 0.0,
    max: 4.0,
    summary: "what is made small; unfairness is worst / least, energy that for the work done",
};
pub(super) const TARGET: Parameter = Parameter {
    name: "target-slowdown",
    kind: ParameterKind::ZeroOrFrom(1.0),
    default: 0.0,
    min: 0.0,
    max: 1e6,
    summary: "slowdown that nobody shall exceed, before the objective; who does is named. 0: none",
};
pub(super) const MOST_LOSS: Parameter = Parameter {
    name: "most-loss-percent",
    kind: ParameterKind::Number,
    default: 50.0,
    min: 0.0,
    max: 99.0,
    summary: "the most of its speed that any program may lose by a decision, as predicted",
};
pub(super) const LEAST_GAIN: Parameter = Parameter {
    name: "least-gain-percent",
    kind: ParameterKind::Number,
    default: 0.2,
    min: 0.0,
    max: 100.0,
    summary: "by how much a decision must lower the objective, as predicted from profiles",
};
pub(super) const LEAST_ESTIMATED_GAIN: Parameter = Parameter {
    name: "least-estimated-gain-percent",
    kind: ParameterKind::Number,
    default: 1.0,
    min: 0.0,
    max: 100.0,
    summary: "the same where it rests on an estimated curve",
};
pub(super) const CAUTION: Parameter = Parameter {
    name: "caution",
    kind: ParameterKind::Number,
    default: 0.5,
    min: 0.0,
    max: 100.0,
    summary: "standard deviations of the estimate's error that a gain must exceed, too",
};
pub(super) const PROFILES: Parameter = Parameter {
    name: "profiles",
    kind: ParameterKind::SWITCH,
    default: 1.0,
    min: 0.0,
    max: 1.0,
    summary: "1: curves from stored profiles where there are; 0: all are estimated while programs run",
};
pub(super) const WAYS: Parameter = Parameter {
    name: "ways",
    kind: ParameterKind::SWITCH,
    default: 1.0,
    min: 0.0,
    max: 1.0,
    summary: "1: the ways of each LLC are divided where the machine can; 0: they are left alone",
};
pub(super) const TRIALS: Parameter = Parameter {
    name: "trials",
    kind: ParameterKind::Choice(&["none", "ways", "places"]),
    default: 2.0,
    min: 0.0,
    max: 2.0,
    summary: "what is tried for a moment with programs without a profile: ways, and a better place before they stay \
              there; places, to learn from them, too",
};
pub(super) const FOOTPRINT: Parameter = Parameter {
    name: "footprint-mib",
    kind: ParameterKind::Number,
    default: 256.0,
    min: 1.0,
    max: 1e7,
    summary: "memory of a program in MiB, for the cost of moving it",
};

//! What can be set of CASC; times and the threshold are the paper's.

use crate::{Parameter, ParameterKind};

pub(super) const THRESHOLD: Parameter = Parameter {
    name: "threshold-percent",
    kind: ParameterKind::Number,
    default: 15.0,
    min: 0.0,
    max: 100.0,
    summary: "group miss ratio to stay at or under, in misses per 100 references",
};

pub(super) const GROWTH: Parameter = Parameter {
    name: "threshold-growth",
    kind: ParameterKind::Number,
    default: 1.1,
    min: 1.01,
    max: 100.0,
    summary: "factor by which the threshold is raised where a CPU would be left with too few threads",
};

pub(super) const MIN_THREADS: Parameter = Parameter {
    name: "min-threads",
    kind: ParameterKind::WholeNumber,
    default: 1.0,
    min: 0.0,
    max: 1000.0,
    summary: "threads that each CPU must be left; more for programs that wait at times",
};

pub(super) const MIN_RUN: Parameter = Parameter {
    name: "min-run-ms",
    kind: ParameterKind::Number,
    default: 2.0,
    min: 0.001,
    max: 1e6,
    summary: "time that a group or a newcomer is measured for (MIN_RUNLENGTH)",
};

pub(super) const MIN_INTERVAL: Parameter = Parameter {
    name: "min-interval-ms",
    kind: ParameterKind::Number,
    default: 0.2,
    min: 0.0,
    max: 1e6,
    summary: "intervals shorter than this are not counted: caches were cold",
};

pub(super) const START_DELAY: Parameter = Parameter {
    name: "start-delay-ms",
    kind: ParameterKind::Number,
    default: 0.5,
    min: 0.0,
    max: 1e6,
    summary: "time after a thread's arrival before it is measured",
};

pub(super) const WEIGHT: Parameter = Parameter {
    name: "measured-weight",
    kind: ParameterKind::Number,
    default: 16.0,
    min: 1.0,
    max: 86.0,
    summary: "factor on the weight of the threads of the initial measurement",
};

pub(super) const LOOK: Parameter = Parameter {
    name: "look-ms",
    kind: ParameterKind::Number,
    default: 20.0,
    min: 1.0,
    max: 60_000.0,
    summary: "time between two looks of its own, beside those when threads are switched",
};

pub(super) const PARTED: Parameter = Parameter {
    name: "remeasure-percent",
    kind: ParameterKind::Number,
    default: 30.0,
    min: 0.0,
    max: 1e6,
    summary: "measure anew when observed and predicted miss ratio part by so much; 0: never",
};

pub(super) const REMEASURE: Parameter = Parameter {
    name: "remeasure-every-ms",
    kind: ParameterKind::Number,
    default: 0.0,
    min: 0.0,
    max: 1e9,
    summary: "forget the PCMR of a random thread so often, to see what measuring costs; 0: never",
};

/// All of them.
pub(super) const ALL: &[Parameter] = &[
    THRESHOLD,
    GROWTH,
    MIN_THREADS,
    MIN_RUN,
    MIN_INTERVAL,
    START_DELAY,
    WEIGHT,
    LOOK,
    PARTED,
    REMEASURE,
];

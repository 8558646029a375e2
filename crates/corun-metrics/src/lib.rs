//! How good was that? STP, ANTT, unfairness and their kin.

//! Who goes where next? One file a policy.

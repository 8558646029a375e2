//! How much do these programs hurt each other on that machine?

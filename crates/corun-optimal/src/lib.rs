//! What is the best that could be?

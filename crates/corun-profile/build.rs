//! Builds the crate again when the profile library that it embeds changes.

fn main() {
    println!("cargo::rerun-if-changed=../../profiles");
}

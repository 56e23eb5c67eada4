//! Bad bytes into every decoder and into whole stores: a value or a typed error, never a panic, never
//! a loop. Runs on the stable toolchain; inputs are mutations of whole ones and of the corpus, drawn
//! from a seed.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod run;
mod targets;

use targets::TARGETS;

#[test]
fn a_sample_of_bad_bytes() {
    run::sample(&TARGETS);
}

#[test]
#[ignore = "minutes: make fuzz runs it"]
fn bad_bytes_for_minutes() {
    run::for_long(&TARGETS);
}

//! Hostile input: a corpus that is replayed, and mutations of it.
//!
//! In the suite each target replays its corpus (`tests/fuzz/corpus/TARGET/`) and runs some thousand
//! mutations. For hours:
//!
//! ```text
//! CREEL_FUZZ_SECONDS=7200 CREEL_FUZZ_TARGET=journal cargo test --profile fuzz --test fuzz
//! ```
//!
//! `CREEL_FUZZ_TARGET` may name several, with commas; without it, all run at once.
//! `CREEL_FUZZ_SEED` picks other mutations. A failure writes the shortest input that still fails,
//! and says how to run that alone (`CREEL_FUZZ_INPUT=FILE`).
//!
//! What counts as a failure: a panic, a property of the target that does not hold, an input that
//! takes longer than [`runner::TOO_LONG`], or a process that needs more than [`runner::TOO_MUCH`]
//! bytes of memory.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a run of hours says what it did"
)]

mod mutator;
mod runner;
mod targets;

use runner::fuzz;

#[test]
fn configs_are_read_or_refused_with_a_place_inside_the_file() {
    fuzz("config", targets::config::run);
}

#[test]
fn journals_are_refused_or_folded_and_then_can_be_shown_and_resumed() {
    fuzz("journal", targets::journal::run);
}

#[test]
fn socket_lines_are_refused_or_parsed_and_mean_the_same_when_serialised_again() {
    fuzz("socket", targets::socket::run);
}

#[test]
fn acp_output_means_the_same_wherever_it_is_split() {
    fuzz("acp", targets::acp::run);
}

#[test]
fn no_value_of_a_template_changes_the_words_of_its_command() {
    fuzz("template", targets::template::run);
}

#[test]
fn output_of_command_agents_means_the_same_wherever_it_is_split_and_has_no_escape_sequences() {
    fuzz("output", targets::output::run);
}

#[test]
fn promises_in_a_fence_or_a_quotation_never_count_and_no_verdict_comes_without_its_words() {
    fuzz("reader", targets::reader::run);
}

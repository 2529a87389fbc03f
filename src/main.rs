//! The `creel` program.

use std::{process::ExitCode, thread};

/// What the program needs in its deepest calls, several times over.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    // The system may grant the first thread less.
    match thread::Builder::new().name("main".to_owned()).stack_size(STACK).spawn(creel::app::main) {
        Ok(running) => running.join().unwrap_or(ExitCode::FAILURE),
        Err(_) => creel::app::main(),
    }
}

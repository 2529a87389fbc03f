//! The `creel` program.

use std::{process::ExitCode, thread};

use rustix::process::{Resource, getrlimit};

/// What the program needs in its deepest calls, several times over.
const STACK: usize = 8 << 20;
/// With less than this in the first thread, the program gets another one.
const SMALL: u64 = 2 << 20;

fn main() -> ExitCode {
    if getrlimit(Resource::Stack)
        .current
        .is_none_or(|granted| granted >= SMALL)
    {
        return creel::app::main();
    }
    match thread::Builder::new()
        .name("main".to_owned())
        .stack_size(STACK)
        .spawn(creel::app::main)
    {
        Ok(running) => running.join().unwrap_or(ExitCode::FAILURE),
        Err(_) => creel::app::main(),
    }
}

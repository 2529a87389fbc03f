//! The `creel` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    creel::app::main()
}

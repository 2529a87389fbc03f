//! Child processes and the directory they run in.
//!
//! Owns how creel starts a program in its own process group, captures its output, and ends it with
//! everything that it started. Knows nothing about sessions: hooks, agents and built-ins all run
//! their programs here.
//!
//! - [`run`] runs one command line to its end; [`piped_process`] runs a long-lived program.
//! - [`output`] captures what a program prints; [`reply_scan`] searches it for a JSON reply.
//! - [`sweep`], [`children`] and [`process_table`] find and end processes;
//!   [`signals`] handles the signals that end creel itself.
//! - [`project_dir`] opens files in the project; [`path_guard`] checks those that an agent must not
//!   change.
//! - [`file_passing`] hands an open file to another process; [`environment`] prepares variables for
//!   programs.
//! - [`programs`] finds the programs that a command needs and that are missing.
//! - [`pty`] and [`editor`] are for programs that need a terminal.

pub mod children;
pub mod editor;
pub mod environment;
pub mod file_passing;
pub mod output;
pub mod path_guard;
pub mod piped_process;
pub mod playback_pace;
pub mod process_table;
pub mod programs;
pub mod project_dir;
pub mod pty;
pub mod reply_scan;
pub mod run;
pub mod signals;
pub mod sweep;

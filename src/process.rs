//! Child processes and the directory they run in.
//!
//! Owns how creel starts a program in a process group of its own, keeps what it prints, and ends it with everything that it
//! started. Knows nothing of sessions: hooks, agents and built-ins all run their programs here.
//!
//! - [`run`] runs one command line to its end; [`piped_process`] keeps a program that stays.
//! - [`output`] keeps what a program prints; [`reply_scan`] watches it for a JSON reply.
//! - [`sweep`], [`children`] and [`process_table`] find processes and end them; [`signals`] is how creel itself is asked to end.
//! - [`project_dir`] opens files in the project; [`path_guard`] compares those that an agent must not change.
//! - [`environment`] and [`json_repair`]: what programs are given, and what they print.
//! - [`pty`] and [`editor`] are for programs that need a terminal.

pub mod children;
pub mod editor;
pub mod environment;
pub mod json_repair;
pub mod output;
pub mod path_guard;
pub mod piped_process;
pub mod process_table;
pub mod project_dir;
pub mod pty;
pub mod reply_scan;
pub mod run;
pub mod signals;
pub mod sweep;

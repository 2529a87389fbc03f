//! How people and programs reach creel without the screen: the command line, sessions told as lines, the control socket, tools for
//! agents, NATS.

pub mod amounts;
pub mod caller;
pub mod cli;
pub mod editor;
pub mod headless;
pub mod helm;
pub mod hook_stats;
pub mod mcp;
pub mod narrate;
pub mod nats;
pub mod outputs;
pub mod paint;
pub mod pipeline_words;
pub mod queue_lines;
pub mod requests;
pub mod signals;
pub mod socket;
pub mod stop_view;
pub mod stop_words;
pub mod task_lines;
pub mod task_view;
pub mod task_words;
pub mod text;
pub mod tool;
pub mod trust;

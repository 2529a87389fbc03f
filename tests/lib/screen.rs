//! What the screen and the lines show, and what keys do, without a terminal.

mod changes;
mod frames;
mod home;
mod keys;
mod lines;
mod long_output;
mod long_sessions;
mod pictures;
mod proposal_gate;
mod reasons;
mod screen_panes;
mod screen_states;
mod small_screens;
mod speakers;
mod task_keys;

//! What the screen and the lines show, and what keys do, without a terminal.

mod frames;
mod home;
mod keys;
mod lines;
mod long_output;
mod pictures;
mod proposal_gate;
mod reasons;
mod screen_panes;
mod screen_states;
mod small_screens;
mod speakers;
mod task_keys;

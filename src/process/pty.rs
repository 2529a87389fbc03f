//! A terminal for a command that needs one.
//!
//! Owns the size and the modes of the terminal, and how text is typed into it. Does not run the
//! command to its end: see [`super::run`].
//!
//! The terminal becomes the command's controlling terminal, so `/dev/tty` works and closing it
//! sends a hangup. That needs a call between `fork` and `exec`, which is `unsafe`; the crate
//! `pty-process` makes it.
//!
//! # Invariants
//! - The command receives typed text unchanged, and the terminal does not echo it.

use std::{env, io};

use pty_process::{Pts, Pty, Size};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, tcgetattr,
    tcsetattr,
};
use tokio::process::{Child, Command};

const ROWS: u16 = 40;
const COLUMNS: u16 = 120;
/// Ends the input at the start of a line. Elsewhere it submits the line without a newline.
const END_OF_INPUT: u8 = 4;
/// Disables a special character.
const OFF: u8 = if cfg!(target_os = "linux") { 0 } else { 0xff };
/// `TERM` for the command if creel has no usable one.
const TERM: &str = "xterm-256color";

/// The longest line that a terminal accepts, without its newline. It drops the rest of a longer
/// line.
pub const LINE_MAX: usize = if cfg!(target_os = "linux") {
    4095
} else {
    1023
};

/// The bytes to type, including the end of input. None if a line is too long for a terminal.
pub fn typed(text: &str) -> Option<Vec<u8>> {
    // This character has no meaning in a text, and would end it.
    let mut bytes: Vec<u8> = text.bytes().filter(|byte| *byte != END_OF_INPUT).collect();
    if bytes
        .split(|byte| *byte == b'\n')
        .any(|line| line.len() > LINE_MAX)
    {
        return None;
    }
    if bytes.last().is_some_and(|last| *last != b'\n') {
        bytes.push(END_OF_INPUT);
    }
    bytes.push(END_OF_INPUT);
    Some(bytes)
}

/// Starts the command on a new terminal, as the leader of its own session.
pub(super) fn spawn(mut command: Command) -> io::Result<(Child, Pty)> {
    let (outside, inside) = pty_process::open().map_err(to_io)?;
    outside.resize(Size::new(ROWS, COLUMNS)).map_err(to_io)?;
    quiet(&inside)?;
    if env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        command.env("TERM", TERM);
    }
    let child = pty_process::Command::from(command)
        .spawn(inside)
        .map_err(to_io)?;
    Ok((child, outside))
}

/// Disables echo, special keys except the end of input, and line-end conversion. Line mode stays
/// on, because only line mode has an end of input.
fn quiet(terminal: &Pts) -> io::Result<()> {
    let mut modes: Termios = tcgetattr(terminal)?;
    modes
        .local_modes
        .remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ISIG | LocalModes::IEXTEN);
    modes.local_modes.insert(LocalModes::ICANON);
    let changes = InputModes::ICRNL
        | InputModes::INLCR
        | InputModes::IGNCR
        | InputModes::ISTRIP
        | InputModes::IXON;
    modes.input_modes.remove(changes);
    modes.output_modes.remove(OutputModes::OPOST);
    modes.special_codes[SpecialCodeIndex::VEOF] = END_OF_INPUT;
    for key in [
        SpecialCodeIndex::VERASE,
        SpecialCodeIndex::VKILL,
        SpecialCodeIndex::VEOL,
        SpecialCodeIndex::VEOL2,
    ] {
        modes.special_codes[key] = OFF;
    }
    Ok(tcsetattr(terminal, OptionalActions::Now, &modes)?)
}

fn to_io(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
        error @ (pty_process::Error::TokioAsyncFd(_) | pty_process::Error::Unsplit(..)) => {
            io::Error::other(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_input_follows_the_last_line() {
        assert_eq!(typed("a\nb\n").as_deref(), Some(&b"a\nb\n\x04"[..]));
        assert_eq!(typed("a\x04b").as_deref(), Some(&b"ab\x04\x04"[..]));
        assert_eq!(typed("").as_deref(), Some(&b"\x04"[..]));
        let longest = "x".repeat(LINE_MAX);
        assert!(typed(&format!("{longest}\n{longest}")).is_some());
        assert_eq!(typed(&format!("a\n{longest}x\n")), None);
    }
}

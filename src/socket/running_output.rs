//! The output of running hooks: what their files have so far, and chunks as live messages.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use crate::{
    protocol::{HookOutputMessage, LiveMessage},
    runtime::HookOutputChunk,
};

/// How many bytes of a running hook's output are shown.
pub const SHOWN: usize = 16 << 10;

/// How many bytes a run has printed so far, and the last of them. The file is created with the
/// first byte, so a missing file means that nothing was printed yet.
pub fn end(file: &Path) -> (u64, Vec<u8>) {
    read_end(file).unwrap_or_default()
}

fn read_end(file: &Path) -> io::Result<(u64, Vec<u8>)> {
    let mut file = File::open(file)?;
    let from = file.metadata()?.len().saturating_sub(SHOWN as u64);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let printed = from + end.len() as u64;
    // After a cut, start with a whole line if there is one.
    let line = end
        .iter()
        .position(|byte| *byte == b'\n')
        .filter(|_| from > 0);
    end.drain(..line.map_or(0, |newline| newline + 1));
    Ok((printed, end))
}

impl From<HookOutputChunk> for LiveMessage {
    fn from(live: HookOutputChunk) -> Self {
        let HookOutputChunk {
            run,
            stream,
            at,
            bytes,
            gap,
        } = live;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Self::Live(HookOutputMessage {
            run,
            stream,
            at,
            text,
            gap,
        })
    }
}

impl From<HookOutputMessage> for HookOutputChunk {
    fn from(piece: HookOutputMessage) -> Self {
        let HookOutputMessage {
            run,
            stream,
            at,
            text,
            gap,
        } = piece;
        Self {
            run,
            stream,
            at,
            bytes: text.into_bytes(),
            gap,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_read_from_the_start_of_a_line_near_its_end() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("run-1.log");
        assert_eq!(end(&file), (0, Vec::new()));
        std::fs::write(&file, "one\ntwo").expect("a file");
        assert_eq!(end(&file), (7, b"one\ntwo".to_vec()));
        let lines: String = (0..10_000)
            .map(|n| format!("line {n}\n"))
            .collect::<Vec<_>>()
            .concat();
        std::fs::write(&file, &lines).expect("a file");
        let (printed, end) = end(&file);
        let end = String::from_utf8(end).expect("text");
        assert_eq!(printed, lines.len() as u64);
        assert!(
            end.starts_with("line ") && end.ends_with("line 9999\n") && end.len() <= SHOWN,
            "{end}"
        );
    }
}

//! A change of one file as a patch that `git apply` understands.

use super::contents::FileVersion;
use crate::text::unified_hunks;

/// The type bits of a mode.
const TYPE: u32 = 0o170_000;
/// Git looks at as many bytes to tell text from other content.
const SNIFFED: usize = 8_000;

/// The text of a change, with its lines counted if both versions are text.
pub(super) struct FilePatch {
    pub(super) text: String,
    pub(super) lines: Option<(usize, usize)>,
}

/// None if nothing differs, or if the versions cannot be compared.
pub(super) fn patch(name: &str, before: &FileVersion, after: &FileVersion) -> Option<FilePatch> {
    if before == after || [before, after].contains(&&FileVersion::NotComparable) {
        return None;
    }
    let (old, new) = (side(before), side(after));
    let is_other_kind =
        |(one, _): &(u32, &[u8]), (other, _): &(u32, &[u8])| one & TYPE != other & TYPE;
    match (&old, &new) {
        // A file that becomes a link is removed and added.
        (Some(from), Some(to)) if is_other_kind(from, to) => {
            let removed = one_patch(name, old, None);
            let added = one_patch(name, None, new);
            let lines = removed.lines.zip(added.lines);
            Some(FilePatch {
                text: removed.text + &added.text,
                lines: lines.map(|((_, removed), (added, _))| (added, removed)),
            })
        }
        (_, _) => Some(one_patch(name, old, new)),
    }
}

/// The mode and the content.
fn side(version: &FileVersion) -> Option<(u32, &[u8])> {
    match version {
        FileVersion::Present { mode, bytes } => Some((*mode, bytes)),
        FileVersion::Absent | FileVersion::NotComparable => None,
    }
}

fn one_patch(name: &str, old: Option<(u32, &[u8])>, new: Option<(u32, &[u8])>) -> FilePatch {
    let (from, to) = (quoted("a/", name), quoted("b/", name));
    let mut text = format!("diff --git {from} {to}\n");
    match (old, new) {
        (None, Some((mode, _))) => text += &format!("new file mode {mode:o}\n"),
        (Some((mode, _)), None) => text += &format!("deleted file mode {mode:o}\n"),
        (Some((was, _)), Some((is, _))) if was != is => {
            text += &format!("old mode {was:o}\nnew mode {is:o}\n");
        }
        (_, _) => {}
    }
    let bytes = |side: Option<(u32, _)>| side.map_or(&[][..], |(_, bytes)| bytes);
    let (before, now) = (bytes(old), bytes(new));
    let (Some(before_text), Some(now_text)) = (as_text(before), as_text(now)) else {
        if before != now {
            text += &format!("Binary files {from} and {to} differ\n");
        }
        return FilePatch { text, lines: None };
    };
    let hunks = unified_hunks(before_text, now_text);
    let lines = counts(&hunks);
    if !hunks.is_empty() {
        let nothing = || "/dev/null".to_owned();
        let from = old.map_or_else(nothing, |_| from);
        let to = new.map_or_else(nothing, |_| to);
        text += &format!("--- {}\n+++ {}\n{hunks}", ended(from), ended(to));
    }
    FilePatch {
        text,
        lines: Some(lines),
    }
}

/// After a name with spaces, a tab shows where it ends.
fn ended(name: String) -> String {
    if name.contains(' ') && !name.starts_with('"') {
        name + "\t"
    } else {
        name
    }
}

fn as_text(bytes: &[u8]) -> Option<&str> {
    let is_binary = bytes.iter().take(SNIFFED).any(|byte| *byte == 0);
    std::str::from_utf8(bytes).ok().filter(|_| !is_binary)
}

/// The added and the removed lines.
fn counts(hunks: &str) -> (usize, usize) {
    let begin = |sign: char| {
        hunks
            .split('\n')
            .filter(|line| line.starts_with(sign))
            .count()
    };
    (begin('+'), begin('-'))
}

/// The name as git writes it: in quotes if it has characters that a line cannot show.
fn quoted(prefix: &str, name: &str) -> String {
    let is_special = |c: char| c.is_control() || c == '"' || c == '\\';
    if !name.contains(is_special) {
        return format!("{prefix}{name}");
    }
    let mut out = format!("\"{prefix}");
    for c in name.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            c if c.is_control() => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    out += &format!("\\{byte:03o}");
                }
            }
            c => out.push(c),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(mode: u32, text: &str) -> FileVersion {
        FileVersion::Present {
            mode,
            bytes: text.into(),
        }
    }

    #[track_caller]
    fn text(name: &str, before: &FileVersion, after: &FileVersion) -> String {
        patch(name, before, after).expect("a difference").text
    }

    #[test]
    fn a_patch_has_the_head_that_git_writes() {
        let (plain, program) = (0o100_644, 0o100_755);
        assert_eq!(
            text("a", &FileVersion::Absent, &file(plain, "x\n")),
            "diff --git a/a b/a\nnew file mode 100644\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n"
        );
        assert_eq!(
            text("a", &file(plain, "x\n"), &FileVersion::Absent),
            "diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        );
        assert_eq!(
            text("a", &file(plain, "x\n"), &file(program, "x\n")),
            "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n"
        );
        assert_eq!(
            text("a b", &file(plain, "x\0"), &file(plain, "y\0")),
            "diff --git a/a b b/a b\nBinary files a/a b and b/a b differ\n"
        );
        let link = text("a", &file(plain, "x\n"), &file(0o120_000, "to"));
        assert!(
            link.contains("deleted file mode 100644") && link.contains("new file mode 120000"),
            "{link}"
        );
    }

    #[test]
    fn lines_are_counted_and_names_are_quoted() {
        let changed = patch(
            "a\n\"b\"",
            &file(0o100_644, "a\n--\n"),
            &file(0o100_644, "a\n++\nb"),
        );
        let changed = changed.expect("a difference");
        assert_eq!(changed.lines, Some((2, 1)));
        assert!(
            changed.text.starts_with("diff --git \"a/a\\n\\\"b\\\"\" "),
            "{}",
            changed.text
        );
        assert!(patch("a", &FileVersion::Absent, &FileVersion::Absent).is_none());
        assert!(patch("a", &FileVersion::NotComparable, &FileVersion::Absent).is_none());
    }
}

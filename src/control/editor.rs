//! A text in the person's own editor.

use std::io;

/// Opens a text in the editor that `VISUAL` or `EDITOR` names, and gives what became of it. The terminal must be free.
pub fn edit(text: &str) -> Result<String, String> {
    let path = std::env::temp_dir().join(format!("creel-{}-{}.md", std::process::id(), crate::runtime::now().0));
    let failed = |error: io::Error| format!("cannot edit outside: {error}");
    // A line ends with a newline, or whatever an editor adds at the end gets into it.
    std::fs::write(&path, format!("{text}\n")).map_err(failed)?;
    let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok()).unwrap_or_else(|| "vi".into());
    // The editor may be given with options, so a shell reads it; the file is an argument, never a part of the text.
    let ran = std::process::Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(&path).status();
    let edited = std::fs::read_to_string(&path).map_err(failed);
    let _ = std::fs::remove_file(&path);
    match ran {
        Ok(status) if status.success() => edited.map(|text| text.trim_end_matches('\n').to_owned()),
        Ok(status) => Err(format!("the editor `{editor}` failed ({status}); nothing was changed")),
        Err(error) => Err(format!("the editor `{editor}` cannot be started: {error}; set EDITOR")),
    }
}

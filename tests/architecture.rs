//! The house rules that a compiler does not check: the arrows between modules, the purity of the engine, a header on
//! every file.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Which modules a module may use. Everything points towards the engine.
const ARROWS: [(&str, &[&str]); 12] = [
    ("engine", &[]),
    ("config", &["engine"]),
    ("hooks", &["engine"]),
    // An agent is a process, too: it runs in the same kind of group as a hook.
    ("agents", &["engine", "hooks"]),
    ("journal", &["engine"]),
    ("runtime", &["engine", "hooks", "agents", "journal"]),
    ("control", &["engine", "config", "journal", "hooks", "runtime"]),
    ("tui", &["engine", "config", "journal", "control", "runtime"]),
    ("logging", &[]),
    ("app", &["engine", "config", "hooks", "journal", "agents", "runtime", "control", "tui", "logging"]),
    ("main", &["app"]),
    ("lib", &[]),
];

/// What the engine must not touch: the world, the clock, chance.
const WORLD: [&str; 12] = [
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::thread",
    "std::env",
    "std::time::Instant",
    "std::time::SystemTime",
    "tokio",
    "jiff",
    "rustix",
    "rand",
];

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the source is there") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The file's path below `src`, and the module that it belongs to.
fn place(path: &Path) -> (String, String) {
    let below = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("it is below src");
    let name = below.to_string_lossy().into_owned();
    let module = name.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
    (name, module)
}

/// The text without comments and without unit tests, which may use what they like.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a source file");
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The modules of ours that a text names: `crate::x` and what stands in `use crate::{…}`.
fn named(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut start = true;
            let mut name = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => start = true,
                    c if depth == 0 && start && is_name(c) => name.push(c),
                    _ if !name.is_empty() => {
                        names.insert(std::mem::take(&mut name));
                        start = false;
                    }
                    _ => {}
                }
            }
            names.extend((!name.is_empty()).then_some(name));
        } else {
            names.insert(rest.chars().take_while(|c| is_name(*c)).collect());
        }
    }
    names
}

#[test]
fn modules_use_only_what_the_arrows_allow() {
    let modules: BTreeSet<&str> = ARROWS.iter().map(|(module, _)| *module).collect();
    let mut wrong = Vec::new();
    for path in sources() {
        let (file, module) = place(&path);
        let allowed = ARROWS.iter().find(|(name, _)| *name == module).map(|(_, allowed)| *allowed);
        let allowed = allowed.unwrap_or_else(|| panic!("{file}: `{module}` has no arrows; is it a new module?"));
        let uses = named(&code(&path));
        for used in uses.iter().filter(|used| modules.contains(used.as_str())) {
            if *used != module && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{file}: {module} must not use {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_arrows_sees_what_is_written() {
    let text = "use crate::{\n    a::{self, x},\n    b,\n};\nfn f() { crate::c::g() }";
    assert_eq!(named(text), ["a", "b", "c"].map(str::to_owned).into());
}

#[test]
fn the_engine_touches_nothing() {
    for path in sources() {
        let (file, module) = place(&path);
        if module == "engine" {
            let text = code(&path);
            for world in WORLD {
                let whole_word = |at: usize| !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                let path = format!("{world}::");
                let named =
                    text.match_indices(&path).any(|(at, _)| whole_word(at)) || text.contains(&format!("use {world};"));
                assert!(!named, "{file} names {world}");
            }
        }
    }
}

#[test]
fn every_file_says_what_it_owns_and_none_is_called_mod() {
    for path in sources() {
        let (file, _) = place(&path);
        let text = fs::read_to_string(&path).expect("a source file");
        assert!(text.starts_with("//! "), "{file} has no header");
        assert_ne!(path.file_name().expect("a name"), "mod.rs", "{file}");
    }
}

#[test]
fn nothing_is_left_undone() {
    for path in sources() {
        let (file, _) = place(&path);
        let text = code(&path);
        for word in ["todo!(", "unimplemented!(", "dbg!(", "TODO", "FIXME", "XXX"] {
            assert!(!text.contains(word), "{file} has {word}");
        }
    }
}

//! The house rules that a compiler does not check: dependencies between modules, a pure engine, a
//! header on every file.

#[path = "architecture/tokens.rs"]
mod tokens;
#[path = "architecture/wording.rs"]
mod wording;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use clap::CommandFactory as _;
use tokens::{MatchArm, Token, item, matches, paths, stands, texts, tokens};

/// Which modules a module uses, separated by spaces. Everything points towards the engine.
const ARROWS: [(&str, &str); 27] = [
    ("text", ""),
    ("engine", "text"),
    ("git", ""),
    ("process", "text git"),
    ("config", "text engine process"),
    ("present", "text engine"),
    ("task_files", "text engine"),
    ("worktrees", "engine git process journal"),
    ("hooks", "text engine git process journal report"),
    ("agents", "text engine process"),
    ("journal", "engine"),
    ("report", "engine git journal present text"),
    ("runtime", "text engine git process hooks agents journal"),
    // It looks at processes to recognise a session's own agent and hooks.
    ("protocol", "text engine process present"),
    (
        "socket",
        "engine journal runtime present protocol worktrees",
    ),
    (
        "nats",
        "engine process config journal runtime present protocol socket",
    ),
    ("otel", "engine process config journal runtime"),
    (
        "queue",
        "text engine config journal runtime present protocol socket nats",
    ),
    (
        "sessions",
        "engine config journal runtime present protocol socket nats queue worktrees",
    ),
    ("mcp", "engine process journal present protocol sessions"),
    (
        "farm",
        "engine process config present hooks journal runtime protocol nats queue worktrees",
    ),
    (
        "cli",
        "text engine process config present hooks agents journal runtime report protocol socket nats queue sessions worktrees farm task_files",
    ),
    (
        "tui",
        "text engine process config journal runtime report present protocol socket nats queue sessions",
    ),
    ("logging", "process"),
    (
        "app",
        "engine process config present hooks journal runtime protocol socket nats otel queue mcp cli tui logging sessions farm",
    ),
    ("main", ""),
    ("lib", ""),
];

/// The modules of the standard library that the engine may use: none of them does I/O, reads the
/// clock or is random. The engine uses ordered maps only, because the order of a `HashMap` differs
/// from run to run.
const PURE_MODULES: [&str; 24] = [
    "array", "borrow", "boxed", "char", "clone", "cmp", "convert", "default", "error", "fmt",
    "iter", "marker", "mem", "num", "ops", "option", "rc", "result", "slice", "str", "string",
    "vec", "any", "ascii",
];
/// The items that the engine may use from modules that also contain impure ones.
const PURE_ITEMS: [(&str, &[&str]); 4] = [
    (
        "collections",
        &[
            "BTreeMap",
            "BTreeSet",
            "BinaryHeap",
            "VecDeque",
            "btree_map",
            "btree_set",
            "vec_deque",
        ],
    ),
    ("hash", &["Hash", "Hasher"]),
    ("sync", &["Arc", "LazyLock"]),
    ("time", &["Duration"]),
];
/// The crates that the engine may use.
const PURE_CRATES: [&str; 8] = [
    "fast_glob",
    "imara_diff",
    "regex",
    "regex_automata",
    "serde",
    "serde_json",
    "strsim",
    "thiserror",
];

/// Files that mostly match on enums of other crates, which can grow.
const FOREIGN_ENUMS: [&str; 2] = ["agents/acp/options.rs", "agents/acp/translate.rs"];

fn sources() -> Vec<PathBuf> {
    files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

/// The Rust files in a folder and below it.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
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

/// The file's path below `src`, and its top-level module.
fn place(path: &Path) -> (String, String) {
    let below = path
        .strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
        .expect("it is below src");
    let name = below.to_string_lossy().into_owned();
    let module = name
        .split('/')
        .next()
        .unwrap_or_default()
        .trim_end_matches(".rs")
        .to_owned();
    (name, module)
}

fn source(path: &Path) -> String {
    fs::read_to_string(path).expect("a source file")
}

/// The module path of a file: `engine/turn/prompt.rs` is `engine`, `turn`, `prompt`.
fn modules_of(file: &str) -> Vec<&str> {
    file.trim_end_matches(".rs")
        .split('/')
        .filter(|name| *name != "lib")
        .collect()
}

/// The top-level module that a path in `file` refers to. None for paths of other crates and local
/// names; `crate` if it names all modules at once.
fn module_at_top<'a>(file: &'a str, path: &[&'a str]) -> Option<&'a str> {
    let within = modules_of(file);
    let ups = path.iter().take_while(|word| **word == "super").count();
    let next = path
        .get(ups.max(1))
        .copied()
        .filter(|word| *word != "*")
        .unwrap_or("crate");
    match *path.first()? {
        "super" if ups < within.len() => within.first().copied(),
        "crate" | "super" => Some(next),
        _ => None,
    }
}

#[test]
fn modules_use_exactly_the_allowed_modules() {
    let modules: BTreeSet<&str> = ARROWS
        .iter()
        .map(|(module, _)| *module)
        .chain(["crate"])
        .collect();
    let mut wrong = Vec::new();
    let mut unused: BTreeSet<(&str, &str)> = ARROWS
        .iter()
        .flat_map(|(module, allowed)| allowed.split_whitespace().map(move |used| (*module, used)))
        .collect();
    for path in sources() {
        let (file, module) = place(&path);
        let allowed = ARROWS
            .iter()
            .find(|(name, _)| *name == module)
            .map(|(_, allowed)| allowed);
        let allowed = allowed
            .unwrap_or_else(|| panic!("{file}: `{module}` has no arrows; is it a new module?"));
        let allowed: Vec<&str> = allowed.split(' ').collect();
        let text = source(&path);
        for named in paths(&tokens(&text)) {
            let Some(used) =
                module_at_top(&file, &named.words).filter(|used| modules.contains(used))
            else {
                continue;
            };
            unused.retain(|arrow| *arrow != (module.as_str(), used));
            if used != module && !allowed.contains(&used) {
                wrong.push(format!(
                    "{file}:{}: {module} must not use {used}",
                    named.line
                ));
            }
        }
    }
    wrong.extend(
        unused
            .iter()
            .map(|(module, used)| format!("{module} may use {used}, but does not")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn modules_have_no_cycles() {
    let mut left: Vec<(&str, &str)> = ARROWS.to_vec();
    loop {
        let names: Vec<&str> = left.iter().map(|(module, _)| *module).collect();
        left.retain(|(_, allowed)| allowed.split_whitespace().any(|used| names.contains(&used)));
        if left.len() == names.len() {
            break;
        }
    }
    assert!(left.is_empty(), "these use each other: {left:?}");
}

#[test]
fn the_dependency_check_sees_every_spelling() {
    let read = |file: &'static str, text: &'static str| -> Vec<&str> {
        paths(&tokens(text))
            .iter()
            .filter_map(|path| module_at_top(file, &path.words))
            .collect()
    };
    let text = "use crate::{\n    a::{self, x},\n    b,\n};\nfn f() { crate::c::g() }";
    assert_eq!(read("engine/x.rs", text), ["a", "a", "b", "c"]);
    assert_eq!(
        read(
            "engine/x.rs",
            "use super::y; use super::super::config::Plan;"
        ),
        ["engine", "config"]
    );
    assert_eq!(
        read("engine/x.rs", "use crate as all; fn f() { all::tui::g() }"),
        ["crate", "tui"]
    );
    assert_eq!(
        read("engine/x.rs", "use crate::*; use crate::{self as all};"),
        ["crate", "crate"]
    );
    assert_eq!(
        read(
            "engine/x.rs",
            "#[cfg(test)] use crate::a::b; use crate::c; #[cfg(test)] mod tests;"
        ),
        ["c"]
    );
}

#[test]
fn every_verb_of_the_command_line_is_a_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli");
    let cli = creel::cli::Cli::command();
    let missing: Vec<_> = cli
        .get_subcommands()
        .map(clap::Command::get_name)
        .filter(|verb| !folder.join(format!("{verb}.rs")).exists())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The package's dependencies, by their names in source code.
fn dependencies() -> BTreeSet<String> {
    let manifest = include_str!("../Cargo.toml");
    let from = manifest
        .split("\n[dependencies]\n")
        .nth(1)
        .expect("it has dependencies");
    let lines = from.lines().take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim().replace('-', "_"))
        .collect()
}

/// Whether the engine may use this path: only listed items of the standard library and of other
/// crates.
fn is_pure(path: &[&str], dependencies: &BTreeSet<String>) -> bool {
    match path {
        ["std" | "core" | "alloc", module, rest @ ..] => {
            let listed = PURE_ITEMS
                .iter()
                .find(|(name, _)| name == module)
                .map(|(_, items)| *items);
            match (listed, rest) {
                (Some(items), [item, ..]) => items.contains(item),
                (Some(_), []) => false,
                (None, _) => PURE_MODULES.contains(module),
            }
        }
        ["std" | "core" | "alloc"] => false,
        [name, ..] => !dependencies.contains(*name) || PURE_CRATES.contains(name),
        [] => true,
    }
}

/// `apply` stores what an event says. What decides it or words it is not used there.
#[test]
fn apply_decides_nothing() {
    let decides = |words: &[&str]| {
        words.iter().any(|word| {
            word.ends_with("Rules")
                || ["text", "grants", "due", "feedback", "template"].contains(word)
        })
    };
    let calls = [
        "_rules()",
        ".retries()",
        ".pipeline()",
        ".verification()",
        ".after_turn()",
    ];
    let mut wrong = Vec::new();
    for path in sources() {
        let (file, module) = place(&path);
        if module != "engine" || !file.ends_with("/apply.rs") {
            continue;
        }
        let text = source(&path);
        let named = paths(&tokens(&text))
            .into_iter()
            .filter(|path| decides(&path.words));
        wrong.extend(
            named.map(|path| format!("{file}:{} uses {}", path.line, path.words.join("::"))),
        );
        let called = calls.iter().filter(|call| text.contains(**call));
        wrong.extend(called.map(|call| format!("{file} calls {call}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_engine_is_pure() {
    let dependencies = dependencies();
    let mut wrong = Vec::new();
    for path in sources() {
        let (file, module) = place(&path);
        let text = source(&path);
        let named = if ["engine", "text"].contains(&module.as_str()) {
            paths(&tokens(&text))
        } else {
            Vec::new()
        };
        for path in named
            .iter()
            .filter(|path| !is_pure(&path.words, &dependencies))
        {
            wrong.push(format!(
                "{file}:{} names {}",
                path.line,
                path.words.join("::")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// So they also test a crate that consists of these two modules.
#[test]
fn the_tests_of_the_engine_use_only_the_engine_and_texts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lib");
    let support = ["world", "samples", "task_samples"].map(|name| format!("support/{name}.rs"));
    let mut files: Vec<PathBuf> = support.map(|file| root.join(file)).into();
    files.extend(files_below(&root.join("engine")));
    let mut wrong = Vec::new();
    for path in files {
        let text = source(&path);
        for named in paths(&tokens(&text)) {
            let is_allowed = match named.words[..] {
                ["creel", module, ..] => ["engine", "text"].contains(&module),
                ["crate", "support", module, ..] => {
                    ["world", "samples", "task_samples"].contains(&module)
                }
                ["crate", module, ..] => module == "engine",
                _ => true,
            };
            if !is_allowed {
                let name = named.words.join("::");
                wrong.push(format!("{}:{}: {name}", path.display(), named.line));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_test_binaries_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = source(&root.join("Cargo.toml"));
    let script = source(&root.join("test"));
    let targets = manifest.split("[[test]]\nname = \"").skip(1);
    let names: Vec<&str> = targets.filter_map(|rest| rest.split('"').next()).collect();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        assert!(
            script.contains(&format!("--test {name}")),
            "./test does not run `{name}`"
        );
    }
}

#[test]
fn the_purity_rule_sees_every_spelling() {
    let dependencies = dependencies();
    let pure = |text: &str| {
        paths(&tokens(text))
            .iter()
            .all(|path| is_pure(&path.words, &dependencies))
    };
    for impure in [
        "use std::fs;",
        "use std::{fs::File, fmt};",
        "use std::{self, fmt};",
        "use std as world; fn f() { world::fs::read(x); }",
        "use std::{collections::BTreeMap, io::{self, Write}};",
        "use std::time; fn f() { time::Instant::now(); }",
        "use std::{time as clock}; fn f() { clock::SystemTime::now(); }",
        "use std::time::{Duration, Instant};",
        "use std::time::*;",
        "fn f() { let x = std::time::SystemTime::now(); }",
        "fn f() { let home = std::env::var(\"HOME\"); }",
        "fn f() { ::std::process::exit(1) }",
        "fn f() -> std::net::IpAddr { x }",
        "fn f() { format!(\"{}\", std::env::args().count()); }",
        "use std::collections::HashMap;",
        "use std::{collections::{BTreeMap, HashSet}};",
        "use std::hash::RandomState;",
        "use std::sync::Mutex;",
        "use std::thread;",
        "use tokio::time::sleep;",
        "use tokio;",
        "fn f() { tokio::spawn(x); }",
        "extern crate tokio;",
        "use jiff::Zoned as Now;",
        "pub(crate) use rustix::fs;",
        "fn f() { sha2::Sha256::new(x); }",
        "#[cfg(test)]\nuse std::fmt;\nuse std::fs;",
        "#[cfg(test)]\nmod tests { use std::fs; }\nfn f() { std::env::args(); }",
    ] {
        assert!(!pure(impure), "{impure}");
    }
    for fine in [
        "use std::{borrow::Cow, collections::{BTreeMap, VecDeque}, fmt::{self, Write as _}, sync::Arc, time::Duration};",
        "use super::fs; fn f() { fs::look(); self.rand(); io::x(); }",
        "// std::fs\n/* use std::io; */ fn f() { \"std::env::var\"; r#\"tokio::spawn\"#; '\"'; let x: &'static str; }",
        "fn f<'a>(x: &'a str) -> std::mem::Discriminant<T> { '\\''; std::slice::from_ref(x) }",
        "#[cfg(test)]\nmod tests { use std::fs; }",
        "use serde::{Deserialize, Serialize}; fn f() { serde_json::from_str(x) }",
    ] {
        assert!(pure(fine), "{fine}");
    }
}

/// Enums that are declared in these sources.
fn declared_enums<'a>(files: &[(String, Vec<Token<'a>>)]) -> BTreeSet<&'a str> {
    let words = files.iter().flat_map(|(_, tokens)| tokens.windows(2));
    words
        .filter(|pair| pair[0].text == "enum")
        .map(|pair| pair[1].text)
        .collect()
}

/// Whether a pattern matches everything: `_`, or a binding.
fn takes_the_rest(arm: &MatchArm<'_>) -> bool {
    let is_name = |word: &str| {
        word.chars()
            .all(|c| c == '_' || c.is_lowercase() || c.is_ascii_digit())
    };
    !arm.guarded
        && matches!(arm.pattern[..], [word] if is_name(word) && !["true", "false"].contains(&word))
}

/// Whether a pattern names a variant of one of these enums.
fn names_a_variant(arm: &MatchArm<'_>, enums: &BTreeSet<&str>) -> bool {
    arm.pattern
        .windows(2)
        .any(|pair| pair[1] == "::" && (enums.contains(pair[0]) || pair[0] == "Self"))
}

/// The lines of matches over our own enums that end with a catch-all pattern without a reason.
fn open_ended(tokens: &[Token<'_>], enums: &BTreeSet<&str>) -> Vec<usize> {
    let lint = [
        "#",
        "[",
        "expect",
        "(",
        "clippy",
        "::",
        "wildcard_enum_match_arm",
    ];
    let explained: Vec<_> = (0..tokens.len())
        .filter(|at| stands(tokens, *at, &lint))
        .map(|at| item(tokens, at))
        .collect();
    let all = matches(tokens).into_iter();
    let open = all.filter(|found| {
        found.arms.iter().any(takes_the_rest)
            && found.arms.iter().any(|arm| names_a_variant(arm, enums))
    });
    open.filter(|found| !explained.iter().any(|item| item.contains(&found.at)))
        .map(|found| found.line)
        .collect()
}

/// Clippy finds most of these, but not those inside `Some(…)` or a tuple, and not those in a module
/// that expects the lint. A new variant must lead its author to every place that has to handle it.
#[test]
fn matches_over_our_own_enums_name_every_variant_or_say_why_not() {
    let texts: Vec<_> = sources()
        .iter()
        .map(|path| (place(path).0, source(path)))
        .collect();
    let files: Vec<_> = texts
        .iter()
        .map(|(file, text)| (file.clone(), tokens(text)))
        .collect();
    let enums = declared_enums(&files);
    let mut wrong = Vec::new();
    for (file, tokens) in files
        .iter()
        .filter(|(file, _)| !FOREIGN_ENUMS.contains(&file.as_str()))
    {
        let whole = [
            "#",
            "!",
            "[",
            "expect",
            "(",
            "clippy",
            "::",
            "wildcard_enum_match_arm",
        ];
        if (0..tokens.len()).any(|at| stands(tokens, at, &whole)) {
            wrong.push(format!("{file} expects it of the whole file"));
        }
        wrong.extend(
            open_ended(tokens, &enums)
                .iter()
                .map(|line| format!("{file}:{line}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_match_check_sees_every_spelling() {
    let enums = BTreeSet::from(["Ours"]);
    let open = |text: &str| !open_ended(&tokens(text), &enums).is_empty();
    assert!(open("match x { Ours::A => 1, _ => 2 }"));
    assert!(open(
        "match x.y(|a| { a }) { Some(Ours::A) => { 1 } Some(Ours::B) | None => 2, rest => f(rest) }"
    ));
    assert!(open(
        "match (x, y) { (Ours::A, 1) if z => 1, _ => match y { _ => 2 } }"
    ));
    assert!(open(
        "match x { 1 => match y { Self::A => 2, _ => 3 }, _ => 4 }"
    ));
    assert!(!open(
        "match x { Ours::A => 1, Ours::B | Ours::C => match y { 1 => 2, _ => 3 } }"
    ));
    assert!(!open("match x { Theirs::A => 1, _ => 2 }"));
    assert!(!open("match x { Ours::A => 1, _ if y => 2, Ours::B => 3 }"));
    assert!(!open(
        "#[expect(clippy::wildcard_enum_match_arm, reason = \"\")] fn f() { match x { Ours::A => 1, _ => 2 } }"
    ));
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

/// The files that the documents for developers name.
#[test]
fn files_that_documents_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut missing = Vec::new();
    for document in [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "contributing/extending.md",
        "contributing/testing.md",
    ] {
        let text = source(&root.join(document));
        let named = text.split('`').filter(|word| {
            ["src/", "tests/"]
                .iter()
                .any(|folder| word.starts_with(folder))
                && Path::new(word).extension().is_some_and(|end| end == "rs")
                && word
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || "/._".contains(c))
        });
        missing.extend(
            named
                .filter(|file| !root.join(file).exists())
                .map(|file| format!("{document}: {file}")),
        );
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn no_todo_is_left() {
    for path in sources() {
        let (file, _) = place(&path);
        let text = source(&path);
        for word in ["todo!(", "unimplemented!(", "dbg!(", "TODO", "FIXME", "XXX"] {
            assert!(!text.contains(word), "{file} has {word}");
        }
    }
}

/// A grep or a backtrace must identify a type by its name alone.
#[test]
fn no_two_types_share_a_name() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in sources() {
        let (file, _) = place(&path);
        let text = source(&path);
        // Types of test modules are local to them: they come last in a file.
        let text = text
            .split("\n#[cfg(test)]\nmod ")
            .next()
            .unwrap_or_default();
        if file.contains("/tests") {
            continue;
        }
        for pair in tokens(text).windows(2) {
            let declares = ["struct", "enum", "trait", "union"].contains(&pair[0].text);
            if declares && pair[1].text.starts_with(char::is_uppercase) {
                places
                    .entry(pair[1].text.to_owned())
                    .or_default()
                    .push(file.clone());
            }
        }
    }
    let shared: Vec<_> = places.iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(shared.is_empty(), "{shared:#?}");
}

/// Words that do not say what they name: `trouble` is an error or a gate, `said` a reply or a text.
const RETIRED: &str = "aside barred callings course courier desk doors ear errand heard helm hired holdings \
    leash ledger lot overheard parting premises said scene seat sight standing station told trouble \
    upshot voice voices";
/// The name of a record.
const RETIRED_BUT_RECORDED: [&str; 1] = ["AgentSaid"];

/// The words of an identifier: `takes_TheRest` has `takes`, `the` and `rest`.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        let last = words.last().expect("one");
        if c == '_' || (c.is_uppercase() && !last.ends_with(char::is_uppercase)) {
            words.push(String::new());
        }
        if let Some(last) = words.last_mut().filter(|_| c != '_') {
            last.push(c);
        }
    }
    words.iter().map(|word| word.to_lowercase()).collect()
}

/// All names in the source, and the names of tests.
#[test]
fn names_use_no_retired_words() {
    let is_retired = |name: &str| {
        !RETIRED_BUT_RECORDED.contains(&name)
            && words_of(name)
                .iter()
                .any(|word| RETIRED.split(' ').any(|retired| retired == word))
    };
    let mut wrong = BTreeSet::new();
    for path in sources() {
        for token in tokens(&source(&path)) {
            if token.text.starts_with(|c: char| c.is_alphabetic()) && is_retired(token.text) {
                wrong.insert(format!("{}: {}", place(&path).0, token.text));
            }
        }
    }
    let tests = files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"));
    for path in sources().into_iter().chain(tests) {
        let text = source(&path);
        let after_attribute = text.split("test]\n").skip(1);
        let names = after_attribute.filter_map(|rest| rest.split("fn ").nth(1)?.split('(').next());
        wrong.extend(names.filter(|name| is_retired(name)).map(str::to_owned));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn comments_name_the_actor() {
    let mut wrong = Vec::new();
    for path in sources() {
        let (file, _) = place(&path);
        for (n, line) in source(&path).lines().enumerate() {
            let comment = line.trim_start();
            if comment.starts_with("//") && wording::hides_the_actor(comment) {
                wrong.push(format!("{file}:{}: {comment}", n + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Texts that may keep a banned word or a plural after a number, and why.
const FIXED_TEXTS: [(&str, &str, &str); 10] = [
    (
        "assets/prompts/completion.md",
        "a person has to decide",
        "the completion note is part of the documented protocol",
    ),
    (
        "assets/prompts/gatekeeper.md",
        "goes on",
        "recorded journals contain the reviewers' prompt",
    ),
    (
        "assets/prompts/gatekeeper.md",
        "code that nobody asked for",
        "recorded journals contain the reviewers' prompt",
    ),
    (
        "engine/submit.rs",
        "[Check failed]",
        "recorded journals contain this prompt for the agent",
    ),
    (
        "assets/keymap.yaml",
        "aside: [esc]",
        "the name of an action in users' keymaps",
    ),
    ("app.rs", "without --held", "the name of the flag"),
    (
        "engine/hooks/side_jobs.rs",
        "{} tasks",
        "another text names the only task",
    ),
    (
        "engine/retry/feedback.rs",
        "{times} turns",
        "another text says `a turn`",
    ),
    (
        "engine/session.rs",
        "{} rules",
        "another text names the only rule",
    ),
    (
        "engine/tasks/command.rs",
        "{open} tasks",
        "another text says `a task`",
    ),
];

/// Files with texts for users that are not Rust. The descriptions in the config's schema come from
/// `src/config/keys.rs`.
const TEXT_FILES: [&str; 9] = [
    "assets/agents.yaml",
    "assets/help/environment.txt",
    "assets/help/exit-codes.txt",
    "assets/help/files.txt",
    "assets/help/hooks.txt",
    "assets/keymap.yaml",
    "assets/prompts/completion.md",
    "assets/prompts/gatekeeper.md",
    "config.example.yaml",
];

/// A text that users or agents read, with its file and line.
struct UserText {
    file: String,
    line: usize,
    text: String,
}

impl UserText {
    fn is_fixed(&self) -> bool {
        FIXED_TEXTS
            .iter()
            .any(|(file, part, _)| *file == self.file && self.text.contains(part))
    }

    fn mistakes(&self) -> impl Iterator<Item = String> {
        // A single word is a name in code or on the wire.
        let found = if self.text.trim().contains(' ') {
            wording::mistakes(&self.text)
        } else {
            Vec::new()
        };
        found
            .into_iter()
            .map(|what| format!("{}:{}: {what}\n    {}", self.file, self.line, self.text))
    }
}

/// The string literals of each source file.
fn messages() -> Vec<Vec<UserText>> {
    let files = sources()
        .into_iter()
        .map(|path| (place(&path).0, source(&path)));
    let files = files.filter(|(file, _)| !file.contains("/tests"));
    files
        .map(|(file, source)| {
            let texts = texts(&source).into_iter();
            texts
                .map(|(line, text)| UserText {
                    file: file.clone(),
                    line,
                    text,
                })
                .collect()
        })
        .collect()
}

/// Texts that are no literals: assets, the help, and the doc comments of MCP arguments, which are
/// descriptions in the tools' schemas.
fn other_texts() -> Vec<UserText> {
    let lines = |file: String, text: &str, start: &str| -> Vec<UserText> {
        let lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| line.trim_start().starts_with(start));
        lines
            .map(|(n, line)| UserText {
                file: file.clone(),
                line: n + 1,
                text: line.to_owned(),
            })
            .collect()
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let assets = TEXT_FILES
        .into_iter()
        .flat_map(|file| lines(file.to_owned(), &source(&root.join(file)), ""));
    let tools = sources()
        .into_iter()
        .map(|path| (place(&path).0, source(&path)));
    let tools = tools.filter(|(file, _)| file.starts_with("mcp/"));
    let tools = tools.flat_map(|(file, source)| lines(file, &source, "///"));
    assets
        .chain(tools)
        .chain(help_texts(&creel::cli::help::command()))
        .collect()
}

#[test]
fn messages_speak_plain_english() {
    let mut wrong = Vec::new();
    for mut texts in messages() {
        texts.retain(|text| !text.is_fixed());
        wrong.extend(texts.iter().flat_map(UserText::mistakes));
        let file = texts
            .first()
            .map(|text| text.file.clone())
            .unwrap_or_default();
        let texts: Vec<(usize, String)> = texts
            .into_iter()
            .map(|text| (text.line, text.text))
            .collect();
        wrong.extend(
            wording::wrong_plurals(&texts)
                .into_iter()
                .map(|(line, what)| format!("{file}:{line}: {what}")),
        );
    }
    wrong.extend(
        other_texts()
            .iter()
            .filter(|text| !text.is_fixed())
            .flat_map(UserText::mistakes),
    );
    for text in messages().into_iter().flatten().filter(|text| {
        ["tui/", "present/"]
            .iter()
            .any(|on| text.file.starts_with(on))
    }) {
        if wording::begins_small(&text.text) {
            wrong.push(format!(
                "{}:{}: a sentence on the screen begins with a capital\n    {}",
                text.file, text.line, text.text
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} mistakes\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn documents_speak_plain_english() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The licenses of others are in their own words.
    let is_ours = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "md")
            && !path.ends_with("THIRD-PARTY.md")
    };
    let folders = ["", "docs", "docs/agents", "contributing", "benches"];
    let files = folders
        .iter()
        .map(|folder| root.join(folder))
        .flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let files = files
        .map(|entry| entry.expect("an entry").path())
        .filter(is_ours);
    let wrong: Vec<String> = files
        .flat_map(|path| {
            let found = wording::banned_in_document(&source(&path));
            found
                .into_iter()
                .map(move |what| format!("{}: {what}", path.display()))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// For `scripts/texts`: read them aloud.
#[test]
#[ignore = "it prints, and checks nothing"]
#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn print_all_texts() {
    for UserText { file, line, text } in messages().into_iter().flatten().chain(other_texts()) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.contains(' ') {
            println!("{file}:{line}: {text}");
        }
    }
}

/// The help of a command and of everything below it.
fn help_texts(command: &clap::Command) -> Vec<UserText> {
    let file = format!("creel {} --help", command.get_name());
    let about = [
        command.get_about(),
        command.get_long_about(),
        command.get_after_help(),
    ]
    .into_iter();
    let arguments = command
        .get_arguments()
        .flat_map(|argument| [argument.get_help(), argument.get_long_help()]);
    let texts = about.chain(arguments).flatten();
    let texts = texts.map(|text| UserText {
        file: file.clone(),
        line: 0,
        text: text.to_string(),
    });
    texts
        .chain(command.get_subcommands().flat_map(help_texts))
        .collect()
}

#[test]
fn the_word_check_sees_every_spelling() {
    let wrong = [
        "creel: the session goes on",
        "nobody has allowed that yet",
        "waits for a person: {why}",
        "Nothing is held.",
        "{} once more gives the session up",
        "as many retries again",
        "it was not let work",
        "`creel show` tells what happened",
        "the agent cannot take up a conversation again",
        "cannot read: cannot read",
        "error: error: {why}",
        "`{0}` is no key",
        "cannot save: could not write {path}",
        "it ended. nothing was sent",
    ];
    for text in wrong {
        assert!(!wording::mistakes(text).is_empty(), "{text}");
    }
    let right = [
        "{whose} processes",
        "Is it still running?",
        "is no longer trusted",
        "take {} up to {} times",
        "{told:>9} ago",
        "It ended. creel sent nothing. Try `x`. {} files, e.g. one",
    ];
    for text in right {
        assert_eq!(wording::mistakes(text), Vec::<String>::new(), "{text}");
    }
    assert_eq!(
        wording::banned_in_document(
            "It goes\non.\n\n```sh\ncreel goes on\n```\n`held` and `goes on`"
        )
        .len(),
        1
    );
    let counts = |texts: &[&str]| {
        wording::wrong_plurals(
            &texts
                .iter()
                .map(|text| (1, (*text).to_owned()))
                .collect::<Vec<_>>(),
        )
        .len()
    };
    assert_eq!(counts(&["1 bytes", "{n} records", "{} files"]), 3);
    assert_eq!(
        counts(&[
            "1 record behind",
            "{n} records behind",
            "at most {LIMIT} bytes",
            "{} of {} there"
        ]),
        0
    );
    assert_eq!(
        texts("fn f() { g(\"one \\\n   two\", r#\"three\"#) }\n#[cfg(test)] mod tests { const A: &str = \"x\"; }")
            .len(),
        2
    );
}

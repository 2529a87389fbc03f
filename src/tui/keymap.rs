//! The key bindings.
//!
//! The defaults are in `assets/keymap.yaml`; a user's file replaces the actions that it names. The
//! help page, the hints and the palette are made from the same list.

use std::{collections::BTreeMap, path::Path};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

macro_rules! actions {
    ($($context:ident $keys:ident { $($action:ident $name:literal $about:literal,)* })*) => {
        /// Something that a key can trigger.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum KeyAction { $(#[doc = "An action of these keys."] $context($keys),)* }

        /// Where a key has its meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum KeyContext { $(#[doc = "Its keys."] $context,)* }

        $(
            /// What keys of this context do.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
            pub enum $keys { $(#[doc = $about] $action,)* }

            impl From<$keys> for KeyAction {
                fn from(key: $keys) -> Self {
                    Self::$context(key)
                }
            }
        )*

        /// All actions: context, action, name and description.
        pub const ACTIONS: &[(KeyContext, KeyAction, &str, &str)] =
            &[$($((KeyContext::$context, KeyAction::$context($keys::$action), $name, $about),)*)*];
    };
}

actions! {
    Global GlobalKey {
        Quit "quit" "leave; asks whether to stop the session",
        Leave "leave" "leave it running; show it again with `creel attach`",
        Help "help" "show all keys",
        Palette "palette" "find a command by its name",
        NextPane "next-pane" "go to the next pane",
        PreviousPane "previous-pane" "go to the previous pane",
        FocusStream "focus-stream" "go to the stream",
        FocusHooks "focus-hooks" "go to the hooks",
        FocusPending "focus-pending" "go to the pending items",
        FocusRetries "focus-retries" "go to the retries",
        FocusTasks "focus-tasks" "go to the tasks",
        Zoom "zoom" "show only this pane, or all panes again",
        Wider "wider" "make the stream wider",
        Narrower "narrower" "make the stream narrower",
        ShowGate "show-gate" "show the open gate",
        Message "message" "write a message; creel sends it when the turn ends",
        MessageNow "message-now" "write a message; creel cancels the turn for it",
        Pause "pause" "pause or unpause the session",
        RetryNow "retry-now" "send the turn that waits for a usage limit now",
        ChooseModel "model" "choose the model of the next prompts",
        SwitchAgent "switch-agent" "switch to another agent during a usage limit",
        Stop "stop" "stop after this iteration",
        CancelTurn "cancel-turn" "cancel the turn, and pause for a message",
        Diff "diff" "show the changes: of the turn, the iteration or the session",
        Submit "submit" "submit the work after this iteration",
        Merge "merge" "merge the work after this iteration",
        Hints "hints" "show or hide the line that explains what happens",
        Redraw "redraw" "redraw the screen",
        Suspend "suspend" "suspend creel; resume it with fg",
    }
    Scroll ScrollKey {
        Up "up" "one line up",
        Down "down" "one line down",
        PageUp "page-up" "one page up",
        PageDown "page-down" "one page down",
        Top "top" "to the beginning",
        Bottom "bottom" "to the end, and follow it",
        Search "search" "search",
        SearchNext "search-next" "next match",
        SearchPrevious "search-previous" "previous match",
        Copy "copy" "copy to the clipboard",
    }
    Stream StreamKey {
        NextIteration "next-iteration" "next iteration",
        PreviousIteration "previous-iteration" "previous iteration",
        NextError "next-error" "next error",
        PreviousError "previous-error" "previous error",
        Fold "fold" "open or close the row under the cursor",
        FoldThoughts "fold-thoughts" "open or close all thoughts",
    }
    Hooks HookKey {
        Open "open" "show the runs of the hook",
        Run "run-hook" "run the hook now; creel only shows its output",
        Switch "switch-hook" "disable or enable the hook",
        Cancel "cancel-hook" "cancel the running hook",
        Stats "stats" "show statistics of the hooks",
    }
    Pending PendingKey {
        Open "open" "show the whole item",
        Edit "edit" "edit the item",
        Skip "skip" "skip or restore the item",
        Preview "preview" "show the next prompt",
    }
    Retries RetryKey {
        Open "open" "show the output of this run, and what changed since the run before",
    }
    Tasks TaskKey {
        Open "open" "show the details of the task",
        Add "add" "add a task",
        Edit "edit" "edit the task's goal, priority and labels",
        Start "start" "start the task",
        Ready "ready" "unblock the task",
        Complete "done" "complete the task; asks for the result",
        Block "block" "block the task; asks for the reason",
        Mark "mark" "mark the task that others should depend on",
        Depend "depend" "add or remove a dependency on the marked task",
        Remove "remove" "remove the task; asks first",
        Filter "filter" "filter: all, open, ready, blocked or done tasks",
        Tree "tree" "show tasks as a tree or as a list",
    }
    Gate GateKey {
        NextChoice "next-choice" "next answer",
        PreviousChoice "previous-choice" "previous answer",
        ItemDown "item-down" "next item; at a gate without items, next answer",
        ItemUp "item-up" "previous item, or previous answer",
        NewerRun "newer-run" "output of the run after; at a gate without runs, next answer",
        OlderRun "older-run" "output of the run before, or previous answer",
        ToggleItem "toggle-item" "approve the item or not",
        Edit "edit" "edit the item",
        EditOutside "edit-outside" "edit the item in $EDITOR",
        Preview "preview" "show the prompt with the ticked items",
        TextDown "text-down" "scroll down",
        TextUp "text-up" "scroll up",
        Answer "answer" "send the chosen answer",
        Later "aside" "close the gate and look around; it stays open",
    }
    Viewer ViewerKey {
        Close "close" "close",
        Wrap "wrap" "wrap long lines or not",
        Mark "mark" "mark lines to copy, from here on; again: unmark them",
        MarkDown "mark-down" "mark this line and the next one",
        MarkUp "mark-up" "mark this line and the one before",
    }
    Diff DiffKey {
        NextPart "next-part" "changes of the iteration, of the session, of the turn",
        NextFile "next-file" "next file",
        PreviousFile "previous-file" "previous file",
    }
    Replay ReplayKey {
        Play "play" "play or pause",
        Step "step" "one record forward",
        StepBack "step-back" "one record back",
        Faster "faster" "twice as fast",
        Slower "slower" "half as fast",
        StepIteration "step-iteration" "to the next iteration",
        StepError "step-error" "to the next error",
    }
    Home HomeKey {
        Open "open" "open a running session, replay an ended one",
        Answer "answer" "answer the gate that the session waits at",
        New "new" "start a new session; asks for prompt, agent and folder",
        Stop "stop" "stop the session; asks first",
        Resume "resume" "resume the session",
        Report "report" "open the session's report in the browser",
        Filter "filter" "show only sessions whose name or project matches",
        Remove "remove" "remove an ended session; asks first",
        Demo "demo" "watch the demo",
        Init "init" "write a config for this folder",
        Quit "quit" "quit; sessions keep running",
    }
    Worker WorkerKey {
        Pause "pause" "take no task for now, or take tasks again",
        Drain "drain" "end when the queue has no task left",
        Hint "hint" "start a blocked task again with a hint for its agent",
        Retry "retry" "start a blocked task again",
        Merge "merge" "merge finished work now",
    }
}

impl ScrollKey {
    /// How far it moves, in rows. The two ends are further away than any text is long. None for the
    /// keys that move nothing.
    pub fn rows(self, page: usize) -> Option<isize> {
        let page = isize::try_from(page).unwrap_or(1);
        match self {
            Self::Up => Some(-1),
            Self::Down => Some(1),
            Self::PageUp => Some(-page),
            Self::PageDown => Some(page),
            Self::Top => Some(isize::MIN / 2),
            Self::Bottom => Some(isize::MAX / 2),
            Self::Search | Self::SearchNext | Self::SearchPrevious | Self::Copy => None,
        }
    }
}

impl KeyContext {
    pub const ALL: [Self; 13] = [
        Self::Global,
        Self::Scroll,
        Self::Stream,
        Self::Hooks,
        Self::Pending,
        Self::Retries,
        Self::Tasks,
        Self::Gate,
        Self::Viewer,
        Self::Diff,
        Self::Replay,
        Self::Home,
        Self::Worker,
    ];

    /// The title of its keys on the help page.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Global => "Everywhere",
            Self::Scroll => "Moving around",
            Self::Stream => "Stream",
            Self::Hooks => "Hooks",
            Self::Pending => "Pending",
            Self::Retries => "Retries",
            Self::Tasks => "Tasks",
            Self::Gate => "Gates",
            Self::Viewer => "Viewer",
            Self::Diff => "Changes",
            Self::Replay => "Replay",
            Self::Home => "Home",
            Self::Worker => "Worker",
        }
    }

    /// The name in the key map file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Scroll => "scroll",
            Self::Stream => "stream",
            Self::Hooks => "hooks",
            Self::Pending => "pending",
            Self::Retries => "retries",
            Self::Tasks => "tasks",
            Self::Gate => "gate",
            Self::Viewer => "viewer",
            Self::Diff => "diff",
            Self::Replay => "replay",
            Self::Home => "home",
            Self::Worker => "worker",
        }
    }
}

/// A key with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyChord {
    code: KeyCode,
    modifiers: KeyModifiers,
}

#[derive(Debug, Clone)]
pub struct Keymap {
    keys: Vec<(KeyContext, KeyChord, KeyAction)>,
}

impl Keymap {
    /// creel's default keys.
    pub fn standard() -> Self {
        Self::parse(include_str!("../../assets/keymap.yaml"), None)
            .expect("the keys that creel brings along are right")
    }

    /// The default keys, overridden by the user's. If the user's file has mistakes, only the
    /// defaults apply, and the mistakes are returned.
    pub fn load(user_file: &Path) -> (Self, Vec<String>) {
        let standard = Self::standard();
        match std::fs::read_to_string(user_file) {
            Err(_) => (standard, Vec::new()),
            Ok(text) => match Self::parse(&text, Some(&standard)) {
                Ok(keymap) => (keymap, Vec::new()),
                Err(mistakes) => (standard, mistakes),
            },
        }
    }

    /// Parses a key map; actions that it does not name keep their keys from `base`. Returns every
    /// mistake, not just the first.
    pub fn parse(text: &str, base: Option<&Self>) -> Result<Self, Vec<String>> {
        let file: BTreeMap<String, BTreeMap<String, Vec<String>>> =
            serde_yaml::from_str(text).map_err(|error| vec![error.to_string()])?;
        let (mut keys, mut named, mut mistakes) = (Vec::new(), Vec::new(), Vec::new());
        for (place, actions) in &file {
            let Some(context) = KeyContext::ALL
                .into_iter()
                .find(|context| context.name() == place)
            else {
                mistakes.push(format!("unknown place `{place}`"));
                continue;
            };
            for (name, list) in actions {
                let known = ACTIONS
                    .iter()
                    .find(|(at, _, known, _)| *at == context && known == name);
                let Some((_, action, ..)) = known else {
                    mistakes.push(format!("unknown action `{name}` in `{place}`"));
                    continue;
                };
                named.push(*action);
                for key in list {
                    match KeyChord::parse(key) {
                        Ok(key) => keys.push((context, key, *action)),
                        Err(why) => mistakes.push(why.to_string()),
                    }
                }
            }
        }
        let kept = base
            .into_iter()
            .flat_map(|base| &base.keys)
            .filter(|(_, _, action)| !named.contains(action));
        keys.extend(kept.copied());
        let keymap = Self { keys };
        mistakes.extend(keymap.conflicts());
        if mistakes.is_empty() {
            Ok(keymap)
        } else {
            Err(mistakes)
        }
    }

    fn conflicts(&self) -> Vec<String> {
        let conflict =
            |(n, (context, key, action)): (usize, &(KeyContext, KeyChord, KeyAction))| {
                let same = |(at, other, meant): &&(KeyContext, KeyChord, KeyAction)| {
                    at == context && other == key && meant != action
                };
                let (_, _, other) = self.keys[..n].iter().find(same)?;
                Some(format!(
                    "`{key}` in `{}` means both `{}` and `{}`",
                    context.name(),
                    name(*other),
                    name(*action)
                ))
            };
        self.keys.iter().enumerate().filter_map(conflict).collect()
    }

    /// The action of a key, from the first of these contexts that knows the key.
    pub fn action(&self, event: KeyEvent, contexts: &[KeyContext]) -> Option<KeyAction> {
        let pressed = KeyChord::of(event);
        contexts.iter().find_map(|context| {
            let meant = self
                .keys
                .iter()
                .find(|(at, key, _)| at == context && *key == pressed);
            meant.map(|(_, _, action)| *action)
        })
    }

    /// What a key does at a gate.
    pub fn gate_key(&self, event: KeyEvent) -> Option<GateKey> {
        match self.action(event, &[KeyContext::Gate]) {
            Some(KeyAction::Gate(key)) => Some(key),
            Some(_) | None => None,
        }
    }

    /// All keys of an action, separated by spaces.
    pub fn keys(&self, action: impl Into<KeyAction>) -> String {
        let action = action.into();
        let keys = self
            .keys
            .iter()
            .filter(|(_, _, meant)| *meant == action)
            .map(|(_, key, _)| key.to_string());
        keys.collect::<Vec<_>>().join(" ")
    }

    /// The first key of an action, or an empty string.
    pub fn key(&self, action: impl Into<KeyAction>) -> String {
        let action = action.into();
        self.keys
            .iter()
            .find(|(_, _, meant)| *meant == action)
            .map(|(_, key, _)| key.to_string())
            .unwrap_or_default()
    }
}

/// What a key does, in everyday words for the last line of the screen.
pub fn short_words(action: KeyAction) -> String {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the other names are everyday words already"
    )]
    let words = match action {
        KeyAction::Global(GlobalKey::Quit) => "leave",
        KeyAction::Global(GlobalKey::Leave) => "leave it running",
        KeyAction::Global(GlobalKey::Help) => "keys",
        KeyAction::Global(GlobalKey::NextPane) => "pane",
        KeyAction::Global(GlobalKey::ShowGate) => "answer",
        KeyAction::Global(GlobalKey::Diff) => "changes",
        KeyAction::Stream(StreamKey::Fold) => "open",
        KeyAction::Hooks(HookKey::Switch) => "disable",
        KeyAction::Hooks(HookKey::Run) => "run now",
        KeyAction::Hooks(HookKey::Cancel) => "cancel",
        KeyAction::Hooks(HookKey::Stats) => "statistics",
        KeyAction::Gate(GateKey::Later) => "look around",
        KeyAction::Tasks(TaskKey::Depend) => "depends on the marked task",
        KeyAction::Tasks(TaskKey::Ready) => "unblock",
        KeyAction::Global(GlobalKey::SwitchAgent) => "other agent",
        _ => name(action),
    };
    words.replace('-', " ")
}

pub fn name(action: KeyAction) -> &'static str {
    ACTIONS
        .iter()
        .find(|(_, known, ..)| *known == action)
        .map_or("", |(_, _, name, _)| name)
}

/// The key with a name as hints show it.
pub fn key_named(name: &str) -> Option<KeyEvent> {
    let name = match name {
        "PgDn" => "page-down",
        "PgUp" => "page-up",
        name => name,
    };
    let KeyChord { code, modifiers } = KeyChord::parse(name).ok()?;
    Some(KeyEvent::new(code, modifiers))
}

/// Why a key in the keymap is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum KeyError {
    #[error("`{0}` is not a key")]
    Unknown(String),
    #[error("terminals do not send `{0}`: write the character that the keys produce together")]
    NotReported(String),
}

impl KeyChord {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the terminal library's enum grows"
    )]
    fn of(event: KeyEvent) -> Self {
        // Terminals differ in whether they report shift for a capital letter; the letter already
        // implies it.
        let shift = match event.code {
            KeyCode::Char(_) | KeyCode::BackTab => KeyModifiers::SHIFT,
            _ => KeyModifiers::NONE,
        };
        Self {
            code: event.code,
            modifiers: event.modifiers - shift,
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the terminal library's enum grows"
    )]
    fn parse(text: &str) -> Result<Self, KeyError> {
        let mut modifiers = KeyModifiers::NONE;
        let mut rest = text;
        loop {
            let (modifier, after) = match rest.split_once('-') {
                Some(("ctrl", after)) if !after.is_empty() => (KeyModifiers::CONTROL, after),
                Some(("alt", after)) if !after.is_empty() => (KeyModifiers::ALT, after),
                Some(("shift", after)) if !after.is_empty() => (KeyModifiers::SHIFT, after),
                Some(_) | None => break,
            };
            modifiers |= modifier;
            rest = after;
        }
        let code = code(rest).ok_or_else(|| KeyError::Unknown(text.to_owned()))?;
        if code == KeyCode::Tab && modifiers.contains(KeyModifiers::SHIFT) {
            return Ok(Self {
                code: KeyCode::BackTab,
                modifiers: modifiers - KeyModifiers::SHIFT,
            });
        }
        match code {
            KeyCode::Char(c) if modifiers.contains(KeyModifiers::SHIFT) => {
                Self::capital(c, modifiers).ok_or_else(|| KeyError::NotReported(text.to_owned()))
            }
            _ => Ok(Self { code, modifiers }),
        }
    }

    /// Shift with a letter is the capital letter, as the terminal reports it. Other characters have
    /// no capital, and terminals do not report shift together with ctrl.
    fn capital(c: char, modifiers: KeyModifiers) -> Option<Self> {
        let mut upper = c.to_uppercase();
        let capital = upper.next().filter(|upper| upper.is_uppercase())?;
        let is_reported = upper.next().is_none() && !modifiers.contains(KeyModifiers::CONTROL);
        is_reported.then_some(Self {
            code: KeyCode::Char(capital),
            modifiers: modifiers - KeyModifiers::SHIFT,
        })
    }
}

const NAMED: [(&str, KeyCode); 15] = [
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("space", KeyCode::Char(' ')),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("page-up", KeyCode::PageUp),
    ("page-down", KeyCode::PageDown),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("insert", KeyCode::Insert),
];

fn code(text: &str) -> Option<KeyCode> {
    if let Some((_, code)) = NAMED.iter().find(|(name, _)| *name == text) {
        return Some(*code);
    }
    let mut chars = text.chars();
    match (chars.next(), chars.as_str()) {
        (Some(c), "") => Some(KeyCode::Char(c)),
        (Some('f'), number) => number
            .parse()
            .ok()
            .filter(|n| (1..=24).contains(n))
            .map(KeyCode::F),
        (Some(_) | None, _) => None,
    }
}

impl std::fmt::Display for KeyChord {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the terminal library's enum grows"
    )]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (modifier, name) in [
            (KeyModifiers::CONTROL, "ctrl-"),
            (KeyModifiers::ALT, "alt-"),
            (KeyModifiers::SHIFT, "shift-"),
        ] {
            if self.modifiers.contains(modifier) {
                f.write_str(name)?;
            }
        }
        if let Some((name, _)) = NAMED.iter().find(|(_, code)| *code == self.code) {
            return f.write_str(name);
        }
        match self.code {
            KeyCode::Char(c) => write!(f, "{c}"),
            KeyCode::F(n) => write!(f, "f{n}"),
            KeyCode::BackTab => f.write_str("shift-tab"),
            _ => f.write_str("a key without a name"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_has_a_key() {
        let keymap = Keymap::standard();
        for (_, action, name, _) in ACTIONS {
            assert!(!keymap.keys(*action).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_users_keys_replace_the_standard_ones() {
        let keymap =
            Keymap::parse("global: { quit: [ctrl-q] }", Some(&Keymap::standard())).expect("right");
        assert_eq!(keymap.keys(GlobalKey::Quit), "ctrl-q");
        assert_eq!(keymap.keys(GlobalKey::Help), "? f1");
        let q = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        assert_eq!(keymap.action(q, &[KeyContext::Global]), None);
    }

    #[test]
    fn a_wrong_keymap_is_reported() {
        let wrong = |text| Keymap::parse(text, Some(&Keymap::standard())).expect_err("wrong");
        assert_eq!(
            wrong("global: { zoom: [q] }"),
            ["`q` in `global` means both `zoom` and `quit`"]
        );
        assert_eq!(
            wrong("global: { zom: [q], zoom: [hyper-x, \"?\"] }\nglobl: {}"),
            [
                "unknown action `zom` in `global`",
                "`hyper-x` is not a key",
                "unknown place `globl`",
                "`?` in `global` means both `zoom` and `help`"
            ]
        );
    }

    #[test]
    fn a_letter_with_shift_is_its_capital() {
        let keymap = Keymap::parse(
            "global: { zoom: [shift-w, alt-shift-w] }",
            Some(&Keymap::standard()),
        )
        .expect("right");
        for modifiers in [KeyModifiers::NONE, KeyModifiers::SHIFT, KeyModifiers::ALT] {
            let key = KeyEvent::new(KeyCode::Char('W'), modifiers);
            assert_eq!(
                keymap.action(key, &[KeyContext::Global]),
                Some(KeyAction::Global(GlobalKey::Zoom))
            );
        }
        assert_eq!(keymap.keys(GlobalKey::Zoom), "W alt-W");
        for key in ["shift-1", "shift-space", "ctrl-shift-w", "shift-ß"] {
            let is_reported = format!(
                "terminals do not send `{key}`: write the character that the keys produce together"
            );
            assert_eq!(
                KeyChord::parse(key).map_err(|error| error.to_string()),
                Err(is_reported)
            );
        }
        assert_eq!(
            KeyChord::parse("shift-up").map(|key| key.to_string()),
            Ok("shift-up".into())
        );
    }

    #[test]
    fn a_capital_is_the_same_with_or_without_a_reported_shift() {
        let keymap = Keymap::standard();
        for modifiers in [KeyModifiers::NONE, KeyModifiers::SHIFT] {
            let key = KeyEvent::new(KeyCode::Char('G'), modifiers);
            assert_eq!(
                keymap.action(key, &[KeyContext::Scroll]),
                Some(KeyAction::Scroll(ScrollKey::Bottom))
            );
        }
        let back = KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT);
        assert_eq!(
            keymap.action(back, &[KeyContext::Global]),
            Some(KeyAction::Global(GlobalKey::PreviousPane))
        );
    }
}

//! What is laid over the panes: gates, the editor, viewers, help, the palette, questions.

pub mod editor;
pub mod gate;
pub mod help;
pub mod palette;
pub mod quit;
pub mod search;
pub mod viewer;

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Block, BorderType, Clear, Widget as _},
};

use super::theme::{Role, Theme};

/// Something over the panes that has the keys.
#[derive(Debug)]
pub enum Modal {
    /// A person is asked.
    Gate(gate::GateModal),
    /// Text is written.
    Editor(Box<editor::EditorModal>),
    /// Text is read.
    Viewer(viewer::ViewerModal),
    /// All keys.
    Help(help::HelpModal),
    /// All commands.
    Palette(palette::PaletteModal),
    /// Something is searched for.
    Search(search::SearchModal),
    /// Whether to leave.
    Quit(quit::QuitModal),
}

/// A frame in the middle of the screen, cleared; gives what is inside.
pub(super) fn framed(area: Rect, title: &str, role: Role, theme: &Theme, buffer: &mut Buffer) -> Rect {
    Clear.render(area, buffer);
    buffer.set_style(area, theme.style(Role::Text));
    let block = Block::bordered()
        .border_type(BorderType::Double)
        .border_style(theme.style(role))
        .title(Line::styled(format!(" {title} "), theme.style(role)));
    let inside = block.inner(area);
    block.render(area, buffer);
    inside
}

/// The middle of an area: a share of it, but all of it where there is little.
pub(super) fn middle(area: Rect, width: u16, height: u16) -> Rect {
    let width = if area.width < 60 { area.width } else { width.min(area.width) };
    let height = if area.height < 16 { area.height } else { height.min(area.height) };
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

//! Colours of what is drawn on a terminal. Used by [`super::drawing`] and the playground.

use anstyle::{AnsiColor, Style};

/// Whether a text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// No colours: files, pipes, terminals that want none.
    Plain,
    /// Colours of a terminal.
    Coloured,
}

/// Colours of holders, in turn, that can be read on light and on dark grounds.
const HOLDERS: [AnsiColor; 5] =
    [AnsiColor::Green, AnsiColor::Cyan, AnsiColor::Magenta, AnsiColor::Blue, AnsiColor::Yellow];

impl Paint {
    /// What standard output takes: colours on a terminal, unless the environment says otherwise (`NO_COLOR`).
    pub fn of_stdout() -> Self {
        match anstream::AutoStream::choice(&std::io::stdout()) {
            anstream::ColorChoice::Never => Paint::Plain,
            _ => Paint::Coloured,
        }
    }

    /// A holder by its place among those of its node.
    pub(crate) fn holder(self, place: usize) -> Style {
        self.only(HOLDERS[place % HOLDERS.len()].on_default())
    }

    /// What nobody holds, and what is said beside the point.
    pub(crate) fn faint(self) -> Style {
        self.only(Style::new().dimmed())
    }

    /// What is wrong.
    pub(crate) fn bad(self) -> Style {
        self.only(AnsiColor::Red.on_default().bold())
    }

    /// Names that begin a part.
    pub(crate) fn heading(self) -> Style {
        self.only(Style::new().bold())
    }

    fn only(self, style: Style) -> Style {
        match self {
            Paint::Plain => Style::new(),
            Paint::Coloured => style,
        }
    }
}

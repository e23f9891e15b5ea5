//! The bar on standard error that shows how far a run is, or lines where no terminal shows a bar. Used by `run`, `fuzz` and
//! `simulate`.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::report::print;

/// Real time between two lines.
const MINUTE: Duration = Duration::from_secs(60);

/// A bar for so many runs; invisible where standard error is no terminal.
pub(super) fn bar(runs: u64) -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}")?);
    Ok(bar)
}

/// Ends the lines when it is dropped.
pub(super) struct Lines {
    _end: Option<SyncSender<()>>,
}

/// Says each minute how far it is, in the words of `say`, where standard error is no terminal and nobody sees the bar.
pub(super) fn lines(bar: &ProgressBar, say: impl Fn(&ProgressBar) -> String + Send + 'static) -> Lines {
    if !bar.is_hidden() {
        return Lines { _end: None };
    }
    let (end, ended) = sync_channel(0);
    let bar = bar.clone();
    let _ends_by_itself = thread::spawn(move || each(MINUTE, &ended, || print::progress(say(&bar))));
    Lines { _end: Some(end) }
}

/// Calls `tell` after each `period` until nobody can send any more.
fn each(period: Duration, ended: &Receiver<()>, mut tell: impl FnMut()) {
    while ended.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
        tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_again_and_again_until_their_end() {
        let (end, ended) = sync_channel(0);
        let (mut end, mut lines) = (Some(end), 0);
        each(Duration::from_millis(1), &ended, || {
            lines += 1;
            if lines == 3 {
                end = None;
            }
        });
        assert_eq!((lines, end.is_none()), (3, true));
    }
}

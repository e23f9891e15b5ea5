//! The bar on standard error that shows how far a run is. Used by `run` and `fuzz`.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar for so many runs; invisible where standard error is no terminal.
pub(super) fn bar(runs: u64) -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}")?);
    Ok(bar)
}

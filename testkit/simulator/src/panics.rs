//! Panics on simulating threads, with the part whose task panicked. Other threads keep their hook.

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::panic::PanicHookInfo;
use std::sync::Once;

use crate::executor::current_part;
use crate::parts::Parts;

/// A panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panic {
    /// The part whose task it was; `simulation` for the main future.
    pub part: String,
    /// Its text.
    pub message: String,
    /// File and line.
    pub location: String,
}

/// A panic by its part's place.
pub(crate) struct Caught {
    part: Option<usize>,
    message: String,
    location: String,
}

thread_local! {
    /// None where panics are not caught.
    static CAUGHT: RefCell<Option<Vec<Caught>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Catches the panics of this thread from now on, in place of printing them.
pub(crate) fn catch_on_this_thread() {
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !note(panic) {
                before(panic);
            }
        }));
    });
    CAUGHT.set(Some(Vec::new()));
}

/// The panics of this thread so far; none is caught any more.
pub(crate) fn caught_on_this_thread() -> Vec<Caught> {
    CAUGHT.take().unwrap_or_default()
}

/// How many panics this thread has caught.
pub(crate) fn count_on_this_thread() -> usize {
    CAUGHT.with_borrow(|caught| caught.as_ref().map_or(0, Vec::len))
}

/// Whether this thread catches its panics.
fn note(panic: &PanicHookInfo<'_>) -> bool {
    let message = panic.payload_as_str().unwrap_or("no text").to_owned();
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    CAUGHT.with_borrow_mut(|caught| match caught {
        Some(caught) => {
            // Only where RUST_BACKTRACE asks for one.
            let backtrace = Backtrace::capture();
            if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
                tracing::error!(%backtrace, "panic");
            }
            caught.push(Caught { part: current_part(), message, location });
            true
        }
        None => false,
    })
}

impl Caught {
    /// The panic with its part's name.
    pub(crate) fn of_part(self, parts: &Parts) -> Panic {
        let Caught { part, message, location } = self;
        let part = part.map_or_else(|| "simulation".to_owned(), |part| parts.name(part).to_string());
        Panic { part, message, location }
    }
}

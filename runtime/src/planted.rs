//! Which planted bug a simulation has chosen. Only in builds with `--cfg planted`: each bug is a wrong line somewhere in the
//! programs, and proves that simulations find what it does (docs/testing.md, "Planted bugs").

use std::cell::RefCell;

thread_local! {
    /// None outside a simulation.
    static PLANTED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Whether this thread's programs have the bug.
pub fn is_planted(bug: &str) -> bool {
    PLANTED.with_borrow(|planted| planted.as_deref() == Some(bug))
}

/// Has this thread's programs have the bug from now on, in place of the one before; none: no bug.
pub fn plant(bug: Option<String>) {
    PLANTED.set(bug);
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test asks the machine itself")]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_bug_that_was_chosen_on_it() {
        assert!(!is_planted("one"));
        plant(Some("one".to_owned()));
        assert!(is_planted("one") && !is_planted("another"));
        assert!(!std::thread::spawn(|| is_planted("one")).join().unwrap());
        plant(None);
        assert!(!is_planted("one"));
    }
}

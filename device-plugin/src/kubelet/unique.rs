//! Parts of file names that no other plugin and no earlier file of this process has. Used by `socket` and `serving_lock`.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Starts at random: two plugins on one node may both be process 1 of their containers, started at one moment.
static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| {
    let [a, b, c, d, ..] = RandomState::new().build_hasher().finish().to_ne_bytes();
    AtomicU32::new(u32::from_ne_bytes([a, b, c, d]))
});

/// Eight hexadecimal digits.
pub(super) fn unique() -> String {
    format!("{:08x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether `text` has the form of [`unique`].
pub(super) fn is_unique(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

//! Looks at files and folders that may hang. Asked by `files`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};

use super::files::{blocking, locked};

/// Most looks at one path that are under way at once: several parts of a program may look at the same moment.
const LOOKS_AT_ONCE: usize = 4;

/// Looks at files and folders that have not ended, by path.
#[derive(Clone, Default)]
pub(super) struct Looks(Arc<Mutex<BTreeMap<PathBuf, usize>>>);

impl Looks {
    /// Looks on a thread that may block. One path that hangs keeps [`LOOKS_AT_ONCE`] threads at most.
    pub(super) fn look<T: Send + 'static>(
        &self,
        path: &Path,
        look: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, io::Result<T>> {
        let (path, under_way) = (path.to_owned(), Arc::clone(&self.0));
        {
            let mut under_way = locked(&under_way);
            let at_once = under_way.entry(path.clone()).or_default();
            if *at_once >= LOOKS_AT_ONCE {
                let why = "earlier looks at this file have not ended";
                return ready(Err(io::Error::new(io::ErrorKind::TimedOut, why))).boxed();
            }
            *at_once += 1;
        }
        blocking(move || {
            let found = look(&path);
            let mut under_way = locked(&under_way);
            if let Some(at_once) = under_way.get_mut(&path) {
                *at_once -= 1;
                if *at_once == 0 {
                    under_way.remove(&path);
                }
            }
            found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_path_that_hangs_keeps_few_threads_and_no_other_path_waits() {
        let (looks, path) = (Looks::default(), Path::new("hangs"));
        let (release, hangs) = std::sync::mpsc::channel::<()>();
        let hangs = Arc::new(Mutex::new(hangs));
        let look = || {
            let hangs = Arc::clone(&hangs);
            tokio::spawn(looks.look(path, move |_| hangs.lock().unwrap().recv().map_err(io::Error::other)))
        };
        let under_way: Vec<_> = (0..LOOKS_AT_ONCE).map(|_| look()).collect();
        assert_eq!(look().await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        looks.look(Path::new("other"), |_| Ok(())).await.unwrap();
        (0..=LOOKS_AT_ONCE).for_each(|_| release.send(()).unwrap());
        for look in under_way {
            look.await.unwrap().unwrap();
        }
        look().await.unwrap().unwrap();
        assert!(locked(&looks.0).is_empty());
    }
}

//! How far one watch has come, and since when it tells nothing. Kept by the index, one for each of its watches.

use runtime::Gap;
use tokio::time::Instant;

/// How far one watch has come.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Whether a list has ever been complete.
    pub(super) is_listed: bool,
    /// When it was disconnected; none while it is not.
    pub(super) disconnected: Option<Instant>,
    /// Says when the API server was heard, and whether its watches begin and say nothing: what is known is as old as the last list then.
    pub(super) gap: Gap,
    /// How far a list has come that somebody asked for while the watch was connected, such as a new leader.
    asked_list: AskedList,
}

/// A list that was asked for. Each of its pages shows that the API server is heard, so it is no silence however long it takes.
#[derive(Clone, Copy, Debug, Default)]
enum AskedList {
    /// None was asked for, or the watch was disconnected since.
    #[default]
    Absent,
    /// It is being read.
    UnderWay,
    /// It was complete then; what follows is told by the next watch.
    Done(Instant),
}

impl Watched {
    /// A list is complete. Whether it ends a disconnection.
    pub(super) fn complete_list(&mut self) -> bool {
        self.is_listed = true;
        if let AskedList::UnderWay = self.asked_list {
            self.asked_list = AskedList::Done(Instant::now());
        }
        self.disconnected.take().is_some()
    }

    /// The watch is given up for a list.
    pub(super) fn ask_for_list(&mut self) {
        let is_connected = self.disconnected.is_none();
        self.asked_list = if is_connected { AskedList::UnderWay } else { AskedList::Absent };
        self.gap.open();
    }

    /// Since when changes may have been missed: when the gap opened, or when the list that was asked for was heard last. None while the gap
    /// is closed.
    pub(super) fn untold_since(&self) -> Option<Instant> {
        let since = self.gap.since()?;
        let heard = match self.asked_list {
            AskedList::Absent => None,
            AskedList::UnderWay => self.gap.heard_at(),
            AskedList::Done(at) => Some(at),
        };
        Some(heard.map_or(since, |heard| heard.max(since)))
    }

    /// It tells nothing from now on.
    pub(super) fn disconnect(&mut self) {
        self.asked_list = AskedList::Absent;
        self.disconnected.get_or_insert_with(Instant::now);
    }

    /// Since when it is disconnected, or known to begin and say nothing; none otherwise. Lists alone, which may succeed meanwhile, are not
    /// enough.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        self.disconnected.into_iter().chain(self.gap.silent_since()).min()
    }

    /// Whether it tells what happens.
    pub(super) fn is_connected(&self) -> bool {
        self.is_listed && self.silent_since().is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    /// A watch of which all is told.
    fn connected() -> Watched {
        let mut watch = Watched::default();
        watch.complete_list();
        watch
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_was_asked_for_is_no_silence_while_its_pages_come_and_when_it_is_complete() {
        let mut watch = connected();
        assert_eq!(watch.untold_since(), None);
        watch.ask_for_list();
        for _ in 0..3 {
            advance(Duration::from_secs(20)).await;
            watch.gap.heard();
            assert_eq!(watch.untold_since(), Some(Instant::now()));
        }
        advance(Duration::from_secs(20)).await;
        watch.complete_list();
        let complete = Instant::now();
        advance(Duration::from_secs(5)).await;
        assert_eq!(watch.untold_since(), Some(complete), "the next watch has told nothing yet");
        watch.gap.close();
        assert_eq!(watch.untold_since(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_was_asked_for_while_the_watch_was_disconnected_ends_no_silence() {
        let mut watch = connected();
        let opened = Instant::now();
        watch.gap.open();
        watch.disconnect();
        advance(Duration::from_secs(20)).await;
        watch.ask_for_list();
        watch.gap.heard();
        assert_eq!(watch.untold_since(), Some(opened));
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_breaks_off_is_a_silence_since_it_was_asked_for() {
        let mut watch = connected();
        let asked = Instant::now();
        watch.ask_for_list();
        advance(Duration::from_secs(20)).await;
        watch.gap.heard();
        watch.disconnect();
        assert_eq!(watch.untold_since(), Some(asked));
    }
}

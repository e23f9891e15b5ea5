//! How far one watch has come, and since when it tells nothing. Kept by the index, one for each of its watches.

use runtime::Gap;
use tokio::time::Instant;

/// How far one watch has come.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) is_listed: bool,
    /// Since when it tells nothing; none while it does.
    pub(super) disconnected: Option<Instant>,
    /// Says when the API server was heard, and whether its watches begin and say nothing: what is known is as old as the last list then.
    pub(super) gap: Gap,
    /// How far a list has come that was asked for, as by a new leader, though the watch told everything.
    asked_list: AskedList,
}

/// A list that was asked for takes the place of a watch. However long it takes, it is no silence while its pages come.
#[derive(Clone, Copy, Debug, Default)]
enum AskedList {
    /// There is none, or something went wrong since.
    #[default]
    Absent,
    UnderWay,
    /// It was complete then, and a watch follows.
    Done(Instant),
}

impl Watched {
    /// A list is complete. Whether it ends a disconnection.
    pub(super) fn listed(&mut self) -> bool {
        self.is_listed = true;
        if let AskedList::UnderWay = self.asked_list {
            self.asked_list = AskedList::Done(Instant::now());
        }
        self.disconnected.take().is_some()
    }

    /// The watch is given up for a list.
    pub(super) fn list_is_asked(&mut self) {
        let is_connected = self.disconnected.is_none();
        self.asked_list = if is_connected { AskedList::UnderWay } else { AskedList::Absent };
        self.gap.open();
    }

    /// Since when what happens is not told; none while it is.
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
    pub(super) fn is_disconnected(&mut self) {
        self.asked_list = AskedList::Absent;
        self.disconnected.get_or_insert_with(Instant::now);
    }

    /// Since when it tells nothing; none while it does. Lists alone, which may succeed meanwhile, are not enough.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        self.disconnected.into_iter().chain(self.gap.silent_since()).min()
    }

    /// Whether it tells what happens.
    pub(super) fn is_connected(&self) -> bool {
        self.is_listed && self.silent_since().is_none()
    }
}

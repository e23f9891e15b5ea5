//! Which events are worth writing: not the same one again and again, and not hundreds of them. Asked by `Events`.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// How long an event stands for the same one again.
const SAME: Duration = Duration::from_secs(60);
/// How many events a plugin writes at most within [`WINDOW`].
const MOST: usize = 100;
/// How many of them about one object for one reason: kubelet asks again and again for a container that it cannot start, each time for other ids. Its
/// own limit is 25 for one object, and one in five minutes after those.
const MOST_OF_OBJECT: usize = 20;
/// The time that [`MOST`] and [`MOST_OF_OBJECT`] are for.
const WINDOW: Duration = Duration::from_secs(300);

/// What makes an event the same as another: the object's UID, the reason and the note.
type Key = (String, String, String);

/// The events of late, oldest first.
#[derive(Debug, Default)]
pub(super) struct EventLimit {
    written: VecDeque<(Instant, Key)>,
}

impl EventLimit {
    /// Takes back that the event was written: it could not be, and the next one like it is tried again.
    pub(super) fn failed(&mut self, uid: &str, reason: &str, note: &str) {
        let is_it = |(_, (of, why, text)): &(Instant, Key)| of == uid && why == reason && text == note;
        if let Some(place) = self.written.iter().rposition(is_it) {
            self.written.remove(place);
        }
    }

    /// Whether the event is to be written, which counts as done until it has [failed](Self::failed).
    pub(super) fn admits(&mut self, uid: &str, reason: &str, note: &str, now: Instant) -> bool {
        while self.written.front().is_some_and(|(at, _)| now > *at + WINDOW) {
            self.written.pop_front();
        }
        let key = (uid.to_owned(), reason.to_owned(), note.to_owned());
        let is_known = self.written.iter().any(|(at, known)| now <= *at + SAME && *known == key);
        let of_object =
            self.written.iter().filter(|(_, (other, why, _))| other == uid && why == reason).count();
        if is_known || of_object == MOST_OF_OBJECT || self.written.len() == MOST {
            return false;
        }
        self.written.push_back((now, key));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_event_is_written_once_a_minute() {
        let (mut limit, began) = (EventLimit::default(), Instant::now());
        let mut admits = |seconds, note| limit.admits("u", "R", note, began + Duration::from_secs(seconds));
        let seen = [admits(0, "a"), admits(0, "b"), admits(60, "a"), admits(61, "a"), admits(62, "b")];
        assert_eq!(seen, [true, true, false, true, true]);
    }

    #[test]
    fn an_event_that_could_not_be_written_is_tried_again() {
        let (mut limit, now) = (EventLimit::default(), Instant::now());
        assert!(limit.admits("u", "R", "a", now) && limit.admits("u", "R", "b", now));
        limit.failed("u", "R", "a");
        assert!(limit.admits("u", "R", "a", now) && !limit.admits("u", "R", "b", now));
    }

    #[test]
    fn a_flood_of_events_is_cut_off_until_it_is_over() {
        let (mut limit, began) = (EventLimit::default(), Instant::now());
        let mut admitted = |second: u64| {
            let now = began + Duration::from_secs(second);
            (0..200).filter(|one| limit.admits(&format!("u{one}"), "R", &second.to_string(), now)).count()
        };
        assert_eq!([admitted(0), admitted(300), admitted(301)], [100, 0, 100]);
    }

    #[test]
    fn one_object_does_not_take_all_events() {
        let (mut limit, now) = (EventLimit::default(), Instant::now());
        let mut admitted = |uid| (0..30).filter(|one| limit.admits(uid, "R", &one.to_string(), now)).count();
        assert_eq!([admitted("one"), admitted("other")], [20, 20]);
        assert!(limit.admits("one", "Another", "0", now), "for another reason");
    }
}

//! Faults that last: each is undone when its time is over, or at once when a rest begins.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::{World, locked};

type Undo = Box<dyn FnOnce(&World) + Send>;

/// The faults that last.
#[derive(Default)]
pub(super) struct Faults {
    lasting: Vec<(u64, Undo)>,
    begun: u64,
    /// Places of nodes that have lost their power for good.
    lost: BTreeSet<usize>,
}

impl World {
    /// Has `undo` called when the fault's time is over.
    pub(super) fn fault_lasts(self: &Arc<Self>, seconds: u32, undo: impl FnOnce(&World) + Send + 'static) {
        let number = {
            let mut faults = locked(&self.faults);
            faults.begun += 1;
            let number = faults.begun;
            faults.lasting.push((number, Box::new(undo)));
            number
        };
        let world = Arc::clone(self);
        self.spawn(async move {
            sleep(Duration::from_secs(seconds.into())).await;
            let undo = {
                let mut faults = locked(&world.faults);
                let place = faults.lasting.iter().position(|(other, _)| *other == number);
                place.map(|place| faults.lasting.remove(place).1)
            };
            if let Some(undo) = undo {
                undo(&world);
            }
        });
    }

    /// A node loses its power until its machine is replaced. Whether it had not lost it so before.
    pub(super) fn lose_node(&self, node: usize) -> bool {
        locked(&self.faults).lost.insert(node)
    }

    /// A lost node gets another machine. Whether it was lost.
    pub(super) fn find_node(&self, node: usize) -> bool {
        locked(&self.faults).lost.remove(&node)
    }

    /// Undoes all faults that last.
    pub(super) fn undo_faults(&self) {
        let lasting = std::mem::take(&mut locked(&self.faults).lasting);
        for (_, undo) in lasting {
            undo(self);
        }
    }
}

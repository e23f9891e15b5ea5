//! What is left of kills and events where a node is left out of a plan. Asked by the shrinker.

use crate::plan::{Place, What, node_name};

/// Whether there is the part of a kill without a node; its name is then that of what is left.
pub(super) fn part_without_node(part: &mut String, gone: usize, nodes: usize) -> bool {
    let Some((kind, node)) = part.split_once('/') else { return true };
    if node == node_name(gone) {
        return false;
    }
    if let Some(after) = (gone + 1..nodes).find(|after| node == node_name(*after)) {
        *part = format!("{kind}/{}", node_name(after - 1));
    }
    true
}

/// Whether the event can happen without a node; its nodes' places are then those of what is left.
pub(super) fn without_node(what: &mut What, gone: usize) -> bool {
    let there = |place: &mut usize| {
        let stays = *place != gone;
        *place -= usize::from(*place > gone);
        stays
    };
    let at = |place: &mut Place| match place {
        Place::Node(place) => there(place),
        Place::ApiServer | Place::Scheduler | Place::Control | Place::SecondControl => true,
    };
    match what {
        What::Kill { on, .. }
        | What::Stop { on, .. }
        | What::Freeze { on, .. }
        | What::Away { on, .. }
        | What::Second { on, .. }
        | What::Skew { on, .. }
        | What::CacheBehind { on, .. }
        | What::WatchLag { on, .. } => at(on),
        What::Cut { from, to, .. } => at(from) & at(to),
        What::ForeignList { node }
        | What::CheckpointLost { node }
        | What::SocketsReset { node }
        | What::CheckpointGarbled { node }
        | What::CheckpointOlder { node, .. }
        | What::PluginFilesRemoved { node }
        | What::CheckpointUnwritable { node, .. }
        | What::CheckpointUnreadable { node, .. }
        | What::PreferencesIgnored { node, .. }
        | What::PowerLoss { node, .. }
        | What::ReplaceNode { node, .. }
        | What::Device { node, .. }
        | What::Machine { node, .. }
        | What::Edit { node, .. } => there(node),
        What::Create { .. }
        | What::Delete { .. }
        | What::Job { .. }
        | What::StatefulSet { .. }
        | What::DeleteOwner { .. }
        | What::ApiDown { .. }
        | What::Compact
        | What::ApiFaults { .. }
        | What::ClusterApiFaults { .. }
        | What::EditPod { .. }
        | What::Rest { .. } => true,
    }
}

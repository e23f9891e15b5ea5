//! NodeResourcesFit: whether a node's reported allocatable still has what a pod asks for.

use std::collections::BTreeSet;

use super::verdict::{Refusal, Refuser};
use crate::amounts::Amounts;

/// Whether `request` goes beside what `used` (by `pods` pods) already takes of `allocatable`. Resources in
/// `ignored` are left to an extender.
pub(super) fn fits(
    request: &Amounts,
    used: &Amounts,
    pods: usize,
    allocatable: &Amounts,
    ignored: &BTreeSet<String>,
) -> Result<(), Refusal> {
    let mut reasons = Vec::new();
    let mut resolvable = true;
    if i64::try_from(pods).unwrap_or(i64::MAX) >= allocatable.get("pods") {
        reasons.push("Too many pods".to_owned());
    }
    for (name, asked) in request.iter() {
        let total = allocatable.get(name);
        if asked > 0 && !ignored.contains(name) && asked > total - used.get(name) {
            reasons.push(format!("Insufficient {name}"));
            resolvable &= asked <= total;
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Refusal { by: Refuser::NodeResourcesFit, resolvable, reasons })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_node_has_at_all_cannot_be_helped_by_preemption() {
        let amounts = |devices: i64| {
            Amounts::from_iter([("pods".to_owned(), 110), ("example.com/device".to_owned(), devices)])
        };
        let ask = |devices| Amounts::from_iter([("example.com/device".to_owned(), devices)]);
        let refusal =
            |asked, used| fits(&ask(asked), &ask(used), 1, &amounts(4), &BTreeSet::new()).unwrap_err();
        assert!(refusal(3, 2).resolvable);
        assert!(!refusal(5, 0).resolvable);
        assert_eq!(refusal(5, 0).reasons, ["Insufficient example.com/device"]);
        let ignored = BTreeSet::from(["example.com/device".to_owned()]);
        assert_eq!(fits(&ask(5), &ask(0), 1, &amounts(4), &ignored), Ok(()));
    }
}

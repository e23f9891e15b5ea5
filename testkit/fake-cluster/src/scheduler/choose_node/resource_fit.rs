//! NodeResourcesFit: whether a node's reported allocatable still covers a pod's request.

use std::collections::BTreeSet;

use super::diagnosis::{Refusal, RefusedBy};
use crate::amounts::Amounts;

/// Whether `request` fits beside what `pods` pods already use of `allocatable`. Resources in `ignored` are left to an
/// extender.
pub(crate) fn fits(
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
    for (name, requested) in request.iter() {
        let total = allocatable.get(name);
        if requested > 0 && !ignored.contains(name) && requested > total - used.get(name) {
            reasons.push(format!("Insufficient {name}"));
            resolvable &= requested <= total;
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Refusal { by: RefusedBy::NodeResourcesFit, resolvable, reasons })
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

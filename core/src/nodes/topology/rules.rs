//! A short text by which two programs see whether they follow the same rules. Written by the device plugin into its report, compared
//! by the extender.

use std::hash::Hasher;

use fnv::FnvHasher;

use super::Policy;
use crate::catalog::{Catalog, SetRule};

/// What a catalog and a policy allow, as 16 hexadecimal digits: equal where every type has the same devices, links and sets, on any
/// machine and in any release; what else a row says does not count.
pub fn rules(catalog: &Catalog, policy: Policy) -> String {
    let mut types: Vec<_> = catalog.types().iter().collect();
    types.sort_by_key(|known| &known.name);
    let mut hasher = FnvHasher::default();
    // Each list is preceded by its length, so that no two catalogs write the same bytes.
    let mut write = |bytes: &[u8]| {
        hasher.write_u64(bytes.len() as u64);
        hasher.write(bytes);
    };
    write(policy.to_string().as_bytes());
    for known in types {
        write(known.name.as_bytes());
        write(&[known.devices, known.cores_per_device, known.default_lnc, set_rule(known.device_sets)]);
        write(&known.device_counts);
        known.links.iter().for_each(|links| write(links));
    }
    format!("{:016x}", hasher.finish())
}

/// A number that never changes.
fn set_rule(rule: SetRule) -> u8 {
    match rule {
        SetRule::One => 0,
        SetRule::Run => 1,
        SetRule::Rows => 2,
        SetRule::Whole => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(from: &str, to: &str) -> String {
        let text = include_str!("../../../data/instance-types.json");
        assert!(text.contains(from), "{from}");
        rules(&Catalog::from_json(&text.replacen(from, to, 1)).unwrap(), Policy::Documented)
    }

    #[test]
    fn it_tells_rules_apart_and_nothing_else() {
        let here = rules(Catalog::embedded(), Policy::Documented);
        assert_eq!(here.len(), 16);
        assert_ne!(here, rules(Catalog::embedded(), Policy::Linked));
        assert_eq!(here, changed("\"vcpus\": 4,", "\"vcpus\": 5,"));
        assert_ne!(here, changed("\"default_lnc\": 2", "\"default_lnc\": 1"));
    }
}

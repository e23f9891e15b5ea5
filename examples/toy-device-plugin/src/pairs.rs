//! The devices: two pairs, `pair0-a` linked with `pair0-b`, `pair1-a` with `pair1-b`.

/// The ids of all devices.
pub const IDS: [&str; 4] = ["pair0-a", "pair0-b", "pair1-a", "pair1-b"];

/// The device that `id` is linked with.
fn partner(id: &str) -> String {
    let (pair, half) = id.split_at(id.len().saturating_sub(1));
    format!("{pair}{}", if half == "a" { "b" } else { "a" })
}

/// The ids that serve a container best: whole pairs, and for the odd one a device whose partner is taken.
pub fn preferred(available: &[String], must_include: &[String], count: usize) -> Vec<String> {
    let mut chosen = must_include.to_vec();
    while chosen.len() < count {
        let is_last = count - chosen.len() == 1;
        let rest: Vec<&String> = available.iter().filter(|id| !chosen.contains(id)).collect();
        let next = rest.iter().min_by_key(|id| {
            let partner = partner(id);
            let partner_is_free = rest.contains(&&partner);
            (!chosen.contains(&partner), partner_is_free == is_last, **id)
        });
        let Some(next) = next else { break };
        chosen.push((*next).clone());
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(available: &[&str], must_include: &[&str], count: usize) -> Vec<String> {
        let owned = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let mut chosen = preferred(&owned(available), &owned(must_include), count);
        chosen.sort();
        chosen
    }

    #[test]
    fn two_devices_are_a_linked_pair() {
        assert_eq!(chosen(&IDS, &[], 2), ["pair0-a", "pair0-b"]);
        assert_eq!(chosen(&["pair0-b", "pair1-a", "pair1-b"], &[], 2), ["pair1-a", "pair1-b"]);
        assert_eq!(chosen(&IDS, &["pair1-b"], 2), ["pair1-a", "pair1-b"]);
    }

    #[test]
    fn one_device_leaves_the_other_pair_whole() {
        assert_eq!(chosen(&["pair0-a", "pair0-b", "pair1-b"], &[], 1), ["pair1-b"]);
        assert_eq!(chosen(&["pair0-b", "pair1-a", "pair1-b"], &[], 3), ["pair0-b", "pair1-a", "pair1-b"]);
    }
}

//! What must hold of every row of a catalog. Called by [`super::Catalog`] when it reads one.

use super::{CatalogError, InstanceType, SetRule, Shape};
use crate::ids::{MAX_CORES, MAX_DEVICES};

/// Whether the row agrees with itself and with the limits of ids.
pub(super) fn row(row: &InstanceType) -> Result<(), CatalogError> {
    let wrong = |problem| Err(CatalogError::Row { name: row.name.clone(), problem });
    let devices = usize::from(row.devices);
    let cores = devices * usize::from(row.cores_per_device);
    if devices == 0 || devices > MAX_DEVICES {
        return wrong(format!("devices is {devices}; it must be 1 to {MAX_DEVICES}"));
    }
    if cores == 0 || cores > MAX_CORES {
        return wrong(format!("devices times cores_per_device is {cores}; it must be 1 to {MAX_CORES}"));
    }
    let lnc = row.default_lnc;
    if !row.generation.logical_core_sizes().contains(&lnc) || !row.cores_per_device.is_multiple_of(lnc) {
        return wrong(format!("default_lnc is {lnc}; it must be 1, or 2 on Trainium2 and Trainium3"));
    }
    if (row.shape == Shape::Single) != (devices == 1) || (row.device_sets == SetRule::One && devices > 1) {
        return wrong(format!("topology single and device_sets one are for one device, not for {devices}"));
    }
    for (key, links) in [("links", &row.links), ("driver_links", &row.driver_links)] {
        if let Some(problem) = bad_links(key, links, devices) {
            return wrong(problem);
        }
    }
    let ascending = row.device_counts.windows(2).all(|pair| pair[0] < pair[1]);
    let in_range = row.device_counts.iter().all(|count| (1..=row.devices).contains(count));
    if row.device_counts.is_empty() || !ascending || !in_range {
        return wrong(format!(
            "device_counts is {:?}; it must ascend from 1 to {devices}",
            row.device_counts
        ));
    }
    Ok(())
}

fn bad_links(key: &str, links: &[Vec<u8>], devices: usize) -> Option<String> {
    if links.len() != devices {
        return Some(format!("{key} has {} entries for {devices} devices", links.len()));
    }
    for (device, linked) in links.iter().enumerate() {
        for (place, &other) in linked.iter().enumerate() {
            let Some(back) = links.get(usize::from(other)) else {
                return Some(format!("{key} of device {device} names device {other}, which does not exist"));
            };
            if usize::from(other) == device || linked[..place].contains(&other) {
                return Some(format!(
                    "{key} of device {device} names device {other} twice or is the device itself"
                ));
            }
            if !back.iter().any(|&id| usize::from(id) == device) {
                return Some(format!(
                    "{key} of device {device} names device {other}, but not the other way round"
                ));
            }
        }
    }
    None
}

//! The host's `/proc/devices` and `/proc/modules` with the driver's line in them. Pure. Called by [`super::real_paths`].

use crate::DRIVER_MAJOR;

/// `/proc/devices` with the driver's major number in its place.
pub(super) fn devices(host: &str) -> String {
    let mut text = String::new();
    let (mut in_characters, mut written) = (false, false);
    let ours = format!("{DRIVER_MAJOR:3} neuron\n");
    for line in host.lines() {
        let mut words = line.split_whitespace();
        let major: Option<u32> = words.next().and_then(|word| word.parse().ok());
        if words.next() == Some("neuron") {
            continue;
        }
        let is_after = in_characters && !written && major.is_none_or(|major| major > DRIVER_MAJOR);
        if is_after {
            text.push_str(&ours);
            written = true;
        }
        in_characters = line == "Character devices:" || (in_characters && !line.is_empty());
        text.push_str(line);
        text.push('\n');
    }
    if in_characters && !written {
        text.push_str(&ours);
    }
    text
}

/// `/proc/modules` with the driver's line first, as the module that was loaded last. `line` has no newline.
pub(super) fn modules(host: &str, line: &str) -> String {
    let others = host.lines().filter(|other| other.split(' ').next() != Some("neuron"));
    std::iter::once(line).chain(others).map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_stands_where_its_number_belongs() {
        let host = "Character devices:\n  1 mem\n119 other\n128 ptm\n\nBlock devices:\n259 blkext\n";
        assert_eq!(
            devices(host),
            "Character devices:\n  1 mem\n119 other\n120 neuron\n128 ptm\n\nBlock devices:\n259 blkext\n"
        );
        let host = "Character devices:\n  1 mem\n250 neuron\n\nBlock devices:\n259 blkext\n";
        assert_eq!(devices(host), "Character devices:\n  1 mem\n120 neuron\n\nBlock devices:\n259 blkext\n");
        assert_eq!(devices("Character devices:\n  1 mem\n"), "Character devices:\n  1 mem\n120 neuron\n");
    }

    #[test]
    fn the_module_is_the_newest() {
        assert_eq!(
            modules("ext4 1 2 - Live 0x0\nneuron 9 0 - Live 0x0\n", "neuron 1 0 - Live 0x0"),
            "neuron 1 0 - Live 0x0\next4 1 2 - Live 0x0\n"
        );
    }
}

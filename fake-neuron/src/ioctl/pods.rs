//! What the driver says of UltraServers, in its `POD_` commands: a host that stands alone, whose election has failed, as it does where the
//! other hosts do not answer. What Trn3's driver says of hosts joined by switches is not known; the same is taken. Called by
//! [`super::driver`].

use neuron_core::driver::Platform;
use rustix::io::Errno;

use super::hardware::Hardware;
use super::layout::{Layout, u16_at, u32_at};

/// `ENOTSUPP` of the kernel, which has no name in user space.
pub(crate) const NOT_SUPPORTED: Errno = Errno::from_raw_os_error(524);

const ALONE: u32 = 4;
const IN_PROGRESS: u32 = 1;
/// The mode of a host by itself, the only one that a failed election leaves.
const MODE_ALONE: u32 = 4;
const MODES: u32 = 1 << MODE_ALONE;

/// The mode that a program has set; 0 none. Gone when the last reserved core is given back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pod {
    pub(crate) mode: u32,
}

pub(crate) fn info(hardware: &Hardware) -> Vec<u8> {
    Layout::default().u16(260).u8(kind(hardware)).zeros(256).u8(0).sized(260)
}

/// With modes where `size` is that of the second version.
pub(crate) fn status(hardware: &Hardware, pod: Pod, size: u16) -> Vec<u8> {
    const NOT_A_MEMBER: u8 = 0xff;
    let (mode, modes) = if hardware.platform == Platform::Standard { (0, 0) } else { (pod.mode, MODES) };
    let start = Layout::default().u16(size).zeros(256).u32(ALONE);
    let start = start.u8(kind(hardware)).u8(0).u8(NOT_A_MEMBER);
    start.u32(mode).u32(modes).sized(usize::from(size))
}

/// Carries a request out; the structure to write back, and how the request ended.
pub(crate) fn control(
    hardware: &Hardware,
    pod: &mut Pod,
    request: &[u8],
    cores_are_reserved: bool,
) -> (Vec<u8>, Result<(), Errno>) {
    let (control, mode) = (u32_at(request, 4), u32_at(request, 16));
    let (state, ended) = match hardware.platform {
        // Trn2's driver leaves the state as it was, the older ones write it.
        Platform::Standard if hardware.architecture >= 3 => (u32_at(request, 12), Ok(())),
        Platform::Standard => (ALONE, Ok(())),
        _ => join(pod, control, mode, cores_are_reserved),
    };
    let mut answer = request.to_vec();
    if let Some(place) = answer.get_mut(12..16) {
        place.copy_from_slice(&state.to_le_bytes());
    }
    (answer, ended)
}

fn join(pod: &mut Pod, control: u32, mode: u32, cores_are_reserved: bool) -> (u32, Result<(), Errno>) {
    const ELECT: u32 = 0;
    const STAND_ALONE: u32 = 1;
    const END_ELECTION: u32 = 2;
    const SET_MODE: u32 = 3;
    let mode = if control == STAND_ALONE { MODE_ALONE } else { mode };
    let ended = match control {
        ELECT if cores_are_reserved => Err(Errno::AGAIN),
        // It begins, and has failed by the next question.
        ELECT => return (IN_PROGRESS, Ok(())),
        END_ELECTION => Ok(()),
        STAND_ALONE | SET_MODE if pod.mode != 0 && pod.mode != mode => Err(Errno::EXIST),
        STAND_ALONE | SET_MODE if mode != MODE_ALONE => Err(NOT_SUPPORTED),
        STAND_ALONE | SET_MODE => {
            pod.mode = mode;
            Ok(())
        }
        _ => Err(Errno::INVAL),
    };
    (ALONE, ended)
}

/// Whether the structure names its own size, as the driver insists.
pub(crate) fn names_its_size(request: &[u8]) -> bool {
    usize::from(u16_at(request, 0)) == request.len()
}

fn kind(hardware: &Hardware) -> u8 {
    match hardware.platform {
        Platform::Standard => 0,
        Platform::Ultraserver => 1,
        Platform::Pds => 2,
    }
}

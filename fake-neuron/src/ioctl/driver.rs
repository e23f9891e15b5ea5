//! The driver's answers to ioctls, in its own order of checks. Knows of processes only who calls. Called by [`super::supervisor`].

use rustix::io::Errno;

use super::caller::Process;
use super::command::Command;
use super::hardware::Hardware;
use super::layout::{u16_at, u32_at, u64_at};
use super::memory::Memory;
use super::opens::{Opened, Opens};
use super::pods::{self, NOT_SUPPORTED, Pod};
use super::reservations::{CORES, Refusal, Reservations};
use super::{answers, core_map};
use crate::fault::Faults;
use crate::machine::pci::PciAddress;
use crate::state::NeuronProcess;

/// The driver of one host.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) hardware: Hardware,
    pub(crate) opens: Opens,
    pub(crate) reservations: Reservations,
    pod: Pod,
    /// Lines for the kernel log, oldest first, until somebody takes them.
    pub(crate) log: Vec<String>,
}

/// One ioctl on an open device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) process: Process,
    pub(crate) opened: Opened,
    pub(crate) command: Command,
    /// The third argument: the address of a structure of the caller.
    pub(crate) argument: u64,
}

/// What the call returns.
type Answer = Result<i64, Errno>;

impl Driver {
    pub(crate) fn new(hardware: Hardware) -> Driver {
        Driver {
            hardware,
            opens: Opens::default(),
            reservations: Reservations::default(),
            pod: Pod::default(),
            log: Vec::new(),
        }
    }

    /// Carries an ioctl out. As the driver does, an answer that cannot be written returns how many bytes were left over.
    ///
    /// # Errors
    /// The driver's error number.
    pub(crate) fn ioctl(&mut self, request: Request, memory: &dyn Memory, faults: &Faults) -> Answer {
        let device = request.opened.device;
        if faults.driver_is_unloaded() || faults.is_lost(device, self.hardware.generation) {
            return Err(Errno::INVAL);
        }
        if request.opened.free_access {
            return self.misc(request, memory, faults);
        }
        let write = |bytes: Vec<u8>| Ok(memory.write(request.argument, &bytes));
        match request.command {
            Command::DRIVER_INFO_SET if !self.opens.is_attached(device, request.process) => {
                Err(Errno::ACCESS)
            }
            Command::DEVICE_INFO => {
                write(answers::device_info(&self.hardware, device, &self.links(device, faults)))
            }
            Command::DEVICE_GET_ALL_APPS_INFO => self.all_apps(request, memory),
            Command::DEVICE_BDF => write(answers::bdf(self.place(u32::from(device))?)),
            Command::HOST_DEVICE_ID => write(answers::host_device_id(device)),
            Command::NC_RESET => {
                let mut reset = memory.read(request.argument, 8)?;
                reset.splice(4.., request.process.id.to_le_bytes());
                write(reset)
            }
            Command::NC_RESET_READY => {
                let mut ready = memory.read(request.argument, 8)?;
                ready.splice(4.., 0_i32.to_le_bytes());
                write(ready)
            }
            _ => self.misc(request, memory, faults),
        }
    }

    /// The commands that free access has too.
    fn misc(&mut self, request: Request, memory: &dyn Memory, faults: &Faults) -> Answer {
        let Request { command, argument, .. } = request;
        let write = |bytes: Vec<u8>| Ok(memory.write(argument, &bytes));
        match command {
            Command::CRWL_NC_RANGE_MARK | Command::CRWL_NC_RANGE_MARK_EXT0 => {
                self.mark(request, memory, faults)
            }
            Command::CRWL_NC_RANGE_UNMARK | Command::CRWL_NC_RANGE_UNMARK_EXT0 => {
                self.unmark(request, memory)
            }
            Command::COMPATIBLE_VERSION => write(answers::compatible_version(&self.hardware)),
            Command::DEVICE_BASIC_INFO => write(answers::basic_info(&self.hardware)),
            Command::DEVICE_BDF_EXT => {
                let index = u32_at(&memory.read(argument, 16)?, 0);
                // Counted from the opened device: in a container that is the first one.
                let device = index.wrapping_add(u32::from(request.opened.device)) & 0xff;
                if faults.is_lost(u8::try_from(device).unwrap_or(u8::MAX), self.hardware.generation) {
                    return Err(Errno::INVAL);
                }
                write(answers::bdf_ext(index, self.place(device)?))
            }
            Command::PRINTK => self.printk(argument, memory),
            Command::GET_LOGICAL_TO_PHYSICAL_NC_MAP => self.core_map(argument, memory),
            // These the driver tells by their number alone.
            _ if command.number() == Command::DRIVER_INFO_GET.number() => {
                if command.is_write() {
                    Err(NOT_SUPPORTED)
                } else if command.is_read() && command.size() >= Command::DRIVER_INFO_GET.size() {
                    write(answers::driver_info(&self.hardware))
                } else {
                    Err(Errno::INVAL)
                }
            }
            _ if command.number() == Command::HOST_DEVICE_ID_TO_RID_MAP.number() => {
                let map = answers::routing_id_map(&self.hardware);
                if command.size() == map.len() { write(map) } else { Err(Errno::INVAL) }
            }
            Command::POD_INFO => {
                self.pod_request(request, memory)?;
                write(pods::info(&self.hardware))
            }
            Command::POD_STATUS | Command::POD_STATUS_V2 => {
                self.pod_request(request, memory)?;
                let size = u16::try_from(command.size()).unwrap_or_default();
                write(pods::status(&self.hardware, self.pod, size))
            }
            Command::POD_CTRL | Command::POD_CTRL_V2 => {
                let asked = self.pod_request(request, memory)?;
                let are_reserved = !self.reservations.is_empty();
                let (answer, ended) = pods::control(&self.hardware, &mut self.pod, &asked, are_reserved);
                match write(answer) {
                    Ok(0) => ended.map(|()| 0),
                    unwritten => unwritten,
                }
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// The devices that this one is linked to, but for links that are down.
    fn links(&self, device: u8, faults: &Faults) -> Vec<u8> {
        let links = self.hardware.links.get(usize::from(device)).map(Vec::as_slice).unwrap_or_default();
        links.iter().copied().filter(|other| !faults.link_is_down(device, *other)).collect()
    }

    fn place(&self, device: u32) -> Result<PciAddress, Errno> {
        let place = usize::try_from(device).ok().and_then(|device| self.hardware.places.get(device));
        place.map(|place| place.address).ok_or(Errno::INVAL)
    }

    fn all_apps(&self, request: Request, memory: &dyn Memory) -> Answer {
        let asked = memory.read(request.argument, 16)?;
        let (flags, capacity) = (u16_at(&asked, 0), u32_at(&asked, 4));
        let attached = self.opens.attached_to(request.opened.device).iter().map(|process| process.id);
        let pids: Vec<u32> = attached.take(usize::try_from(capacity).unwrap_or(usize::MAX)).collect();
        Ok(memory.write(request.argument, &answers::all_apps_info(flags, capacity, &pids)))
    }

    /// The old structure has room for 64 cores, the new one for 512; ids count from the opened device's first core.
    fn mark(&mut self, request: Request, memory: &dyn Memory, faults: &Faults) -> Answer {
        let size = map_size(request.command);
        let asked = memory.read(request.argument, size)?;
        let offset = self.first_core(request);
        let [count, first, last] = [0, 4, 8].map(|place| u32_at(&asked, place));
        let (first, last) = (first.wrapping_add(offset), last.wrapping_add(offset));
        let is_held = |core| u16::try_from(core).is_ok_and(|core| faults.holder_of(core).is_some());
        let marked = self.reservations.mark(request.process, count, first, last, is_held);
        let (longest, cores) = match &marked {
            Ok(cores) => (0, cores.as_slice()),
            Err(Refusal::Busy { longest }) => (*longest, [].as_slice()),
            Err(Refusal::Invalid) => (0, [].as_slice()),
        };
        let mut answer = asked;
        answer.splice(12..16, longest.to_le_bytes());
        answer.splice(16.., bitmap(cores.iter().map(|core| core - offset), size - 16));
        let left_over = memory.write(request.argument, &answer);
        match marked {
            Ok(_) => {
                self.opens.note_reservation(request.process);
                Ok(left_over)
            }
            Err(Refusal::Invalid) => Err(Errno::INVAL),
            Err(Refusal::Busy { .. }) => Err(Errno::BUSY),
        }
    }

    fn unmark(&mut self, request: Request, memory: &dyn Memory) -> Answer {
        let asked = memory.read(request.argument, map_size(request.command))?;
        let offset = self.first_core(request);
        let is_asked_for = |core: &u32| {
            let bit = core.checked_sub(offset).and_then(|bit| usize::try_from(bit).ok());
            bit.is_some_and(|bit| asked.get(16 + bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1))
        };
        self.reservations.unmark(&request.process, (0..CORES).filter(is_asked_for));
        if self.reservations.cores_of(&request.process).next().is_none() {
            self.opens.forget_reservation(request.process);
        }
        self.after_release();
        Ok(0)
    }

    /// The opened device's first core, counted over the host.
    fn first_core(&self, request: Request) -> u32 {
        u32::from(request.opened.device) * u32::from(self.hardware.cores_per_device)
    }

    /// Takes note of what processes have closed: see [`Opens::refresh`].
    pub(crate) fn refresh(&mut self) {
        for process in self.opens.refresh() {
            self.reservations.release(&process);
        }
        self.after_release();
    }

    /// Takes note of a process' end.
    pub(crate) fn let_go(&mut self, process: Process) {
        self.opens.let_go(process);
        self.reservations.release(&process);
        self.after_release();
    }

    /// Who has devices open for use or cores reserved.
    pub(crate) fn processes(&self) -> impl Iterator<Item = NeuronProcess> {
        self.opens.processes().into_iter().map(|(process, devices)| {
            let cores = self.reservations.cores_of(&process).filter_map(|core| u16::try_from(core).ok());
            NeuronProcess { pid: process.id, command: process.command(), devices, cores: cores.collect() }
        })
    }

    fn after_release(&mut self) {
        if self.reservations.is_empty() {
            self.pod = Pod::default();
        }
    }

    fn printk(&mut self, argument: u64, memory: &dyn Memory) -> Answer {
        const MOST: usize = 512;
        let asked = memory.read(argument, 16)?;
        let size = usize::try_from(u32_at(&asked, 8)).unwrap_or(usize::MAX);
        if size > MOST {
            return Err(Errno::FAULT);
        }
        let text = memory.read(u64_at(&asked, 0), size)?;
        // The driver looks before the buffer where the size is 0: what it finds there is anything.
        let Some((0, text)) = text.split_last() else { return Err(Errno::BADMSG) };
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        self.log.push(String::from_utf8_lossy(&text[..end]).into_owned());
        Ok(0)
    }

    fn core_map(&self, argument: u64, memory: &dyn Memory) -> Answer {
        let generation = self.hardware.generation;
        if core_map::physical_core(generation, 0).is_none() {
            return Err(NOT_SUPPORTED);
        }
        let asked = memory.read(argument, 16)?;
        let (map, room, version) = (u64_at(&asked, 0), u32_at(&asked, 8), u32_at(&asked, 12));
        // Newer drivers of Trn2 take version 1 too, which leaves an UltraServer's swap out; which ones is not known.
        if room > core_map::ENTRIES || version != 0 {
            return Err(Errno::INVAL);
        }
        let entries: Vec<(u32, u32)> =
            (0..room).filter_map(|index| core_map::physical_core(generation, index)).collect();
        Ok(memory.write(map, &answers::core_map(&entries, room)))
    }

    /// The structure of a `POD_` command, which must name its own size.
    fn pod_request(&self, request: Request, memory: &dyn Memory) -> Result<Vec<u8>, Errno> {
        let asked = memory.read(request.argument, request.command.size())?;
        if pods::names_its_size(&asked) { Ok(asked) } else { Err(Errno::INVAL) }
    }
}

/// Bytes of the structure of a reservation.
fn map_size(command: Command) -> usize {
    const OLD: usize = 24;
    const NEW: usize = 80;
    if command.size() == NEW { NEW } else { OLD }
}

/// A map of `size` bytes with these bits set; those without room are left out.
fn bitmap(bits: impl Iterator<Item = u32>, size: usize) -> Vec<u8> {
    let mut map = vec![0; size];
    for bit in bits {
        let place = usize::try_from(bit / 8).unwrap_or(usize::MAX);
        if let Some(byte) = map.get_mut(place) {
            *byte |= 1 << (bit % 8);
        }
    }
    map
}

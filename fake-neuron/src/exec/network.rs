//! A network of its own in which the metadata service has its address. Called by [`crate::exec`] in a new network namespace.

use std::io;
use std::net::Ipv4Addr;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// Where EC2's instances find their metadata, on port 80 (docs/reference/neuron.md §6).
pub const METADATA_ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

/// Number of the loopback interface, the first of every network namespace.
const LOOPBACK: u32 = 1;

// Message types, flags and fields of rtnetlink(7).
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const NLM_F_REQUEST_ACK: u16 = 1 | 4;
const NLMSG_ERROR: u16 = 2;
const IFF_UP: u32 = 1;
const IFA_LOCAL: u16 = 2;
const AF_INET: u8 = 2;
const SCOPE_HOST: u8 = 254;
const HEADER: usize = 16;

/// Brings the loopback interface up, with the metadata service's address beside its own.
///
/// # Errors
/// The kernel refuses, as it does outside of a network namespace of one's own without root.
pub(super) fn set_up() -> io::Result<()> {
    let mut link = vec![0; 4];
    link.extend(LOOPBACK.to_ne_bytes());
    // The flag, and the mask of the flags to change.
    link.extend(IFF_UP.to_ne_bytes());
    link.extend(IFF_UP.to_ne_bytes());
    ask(RTM_NEWLINK, &link)?;

    let (all_bits, no_flags) = (32, 0);
    let mut address = vec![AF_INET, all_bits, no_flags, SCOPE_HOST];
    address.extend(LOOPBACK.to_ne_bytes());
    address.extend(8_u16.to_ne_bytes());
    address.extend(IFA_LOCAL.to_ne_bytes());
    address.extend(METADATA_ADDRESS.octets());
    ask(RTM_NEWADDR, &address)
}

/// Sends one request and reads its acknowledgement.
fn ask(kind: u16, body: &[u8]) -> io::Result<()> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(NLM_F_REQUEST_ACK.to_ne_bytes());
    // Sequence and sender are for conversations longer than this one.
    message.extend([0; 8]);
    message.extend(body);
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 512];
    let (_, received) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    let answer = answer.get(..received).unwrap_or_default();
    let (Some([a, b]), Some([c, d, e, f])) = (answer.get(4..6), answer.get(HEADER..HEADER + 4)) else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    match (u16::from_ne_bytes([*a, *b]), i32::from_ne_bytes([*c, *d, *e, *f])) {
        (NLMSG_ERROR, 0) => Ok(()),
        (NLMSG_ERROR, error) => Err(Errno::from_raw_os_error(-error).into()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

//! A supervisor and the programs it answers: files, values, errors, memory, and how it ends.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fake_neuron_seccomp::{
    Call, Event, Filter, Listener, Notification, Stats, Watched, read_path, receive, reserve, send, spawn,
};

const WATCHED: Watched = Watched { ioctl_type: 0x4e, stat: Stats::None, connect: false };

/// A file that `cat` prints.
fn file(text: &str) -> OwnedFd {
    let (mut writer, reader) = UnixStream::pair().unwrap();
    writer.write_all(text.as_bytes()).unwrap();
    reader.into()
}

/// Runs a shell script, each of whose calls `answer` answers, until no process is left; what it printed.
fn run(
    script: &str,
    watched: Watched,
    mut answer: impl FnMut(&Listener, &Notification),
) -> (String, ExitStatus) {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let (mut child, listener) = spawn(&Filter::new(watched), command).unwrap();
    let (stop, _never) = UnixStream::pair().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match listener.wait(stop.as_fd(), Some(deadline - Instant::now())).unwrap() {
            Event::Call => {
                if let Some(call) = listener.receive().unwrap() {
                    answer(&listener, &call);
                }
            }
            Event::Ended => break,
            other => panic!("{other:?} although the program runs"),
        }
    }
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    (printed, child.wait().unwrap())
}

/// The path that a call wants to open.
fn opened(call: &Notification) -> Option<String> {
    let Call::Open { path, .. } = call.call else { return None };
    Some(read_path(call.thread, path).unwrap().into_string().unwrap())
}

#[test]
fn a_path_that_is_nowhere_opens_and_every_other_one_is_the_kernels() {
    let (printed, status) = run("cat /nowhere/at-all; cat /proc/self/comm", WATCHED, |listener, call| {
        if opened(call).as_deref() != Some("/nowhere/at-all") {
            return listener.pass_on(call).unwrap();
        }
        assert!(listener.is_valid(call));
        listener.answer_with_file(call, file("hello\n").as_fd(), true).unwrap();
    });
    assert_eq!((printed.as_str(), status.code()), ("hello\ncat\n", Some(0)));
}

#[test]
fn an_error_reaches_the_program() {
    let (printed, status) = run("cat /etc/passwd 2>&1 || exit 3", WATCHED, |listener, call| {
        if opened(call).as_deref() == Some("/etc/passwd") {
            return listener.refuse(call, libc::EBUSY).unwrap();
        }
        listener.pass_on(call).unwrap();
    });
    assert!(printed.contains("busy"), "{printed}");
    assert_eq!(status.code(), Some(3));
}

#[test]
fn folders_are_opened_without_a_round_trip() {
    let mut seen = Vec::new();
    let (printed, _) =
        run("cd / && ls -d proc && ls /proc/self/task >/dev/null", WATCHED, |listener, call| {
            seen.extend(opened(call));
            listener.pass_on(call).unwrap();
        });
    assert_eq!(printed, "proc\n");
    assert!(!seen.iter().any(|path| path == "/proc/self/task"), "{seen:?}");
}

#[test]
fn stat_is_watched_only_when_asked_for() {
    // `test` looks at a path, `cat` at the file that it has opened.
    let seen = |script, stat| -> Vec<bool> {
        const EMPTY_PATH: i32 = 0x1000;
        let mut of_paths = Vec::new();
        run(script, Watched { stat, ..WATCHED }, |listener, call| {
            if let Call::Stat { path, flags, .. } = call.call {
                of_paths.push(path.is_some() && flags & EMPTY_PATH == 0);
            }
            listener.pass_on(call).unwrap();
        });
        of_paths
    };
    let script = "test -e /etc; cat /proc/self/comm";
    assert!(seen(script, Stats::None).is_empty());
    let of_descriptors = seen(script, Stats::OfDescriptors);
    assert!(!of_descriptors.is_empty() && of_descriptors.iter().all(|path| !path), "{of_descriptors:?}");
    let all = seen(script, Stats::All);
    assert!(all.contains(&true) && all.contains(&false), "{all:?}");
}

#[test]
fn children_are_under_the_filter_and_the_listener_ends_with_the_last_of_them() {
    let mut threads = std::collections::BTreeSet::new();
    let (printed, _) = run("(cat /proc/self/comm) & wait; cat /proc/self/comm", WATCHED, |listener, call| {
        threads.insert(call.thread);
        listener.pass_on(call).unwrap();
    });
    assert_eq!(printed, "cat\ncat\n");
    assert!(threads.len() >= 3, "{threads:?}");
}

#[test]
fn a_supervisor_stops_when_told_and_a_killed_caller_is_no_error() {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "cat /etc/passwd"]).stdout(Stdio::null());
    let (mut child, listener) = spawn(&Filter::new(WATCHED), command).unwrap();
    let (stop, mut teller) = UnixStream::pair().unwrap();
    assert_eq!(listener.wait(stop.as_fd(), Some(Duration::from_secs(60))).unwrap(), Event::Call);
    let call = listener.receive().unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!listener.is_valid(&call));
    assert!(!listener.answer(&call, 7).unwrap());
    listener.answer_with_file(&call, file("").as_fd(), false).unwrap();
    assert_eq!(listener.wait(stop.as_fd(), Some(Duration::from_secs(60))).unwrap(), Event::Ended);
    teller.write_all(b"stop").unwrap();
    assert_eq!(listener.wait(stop.as_fd(), Some(Duration::from_secs(60))).unwrap(), Event::Stopped);
}

#[test]
fn a_program_that_does_not_exist_is_an_error_and_leaves_nothing() {
    let error = spawn(&Filter::new(WATCHED), Command::new("/no/such/program")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

/// What the test below runs under a supervisor: three reservations through one file.
fn reserve_three_times() {
    let file = std::fs::File::open("/nowhere/neuron0").unwrap();
    for cores in [2..=3, 0..=0, 600..=601] {
        let told = reserve(file.as_fd(), cores).map_err(|error| error.raw_os_error());
        println!("reserved: {told:?}");
    }
}

#[test]
fn cores_are_asked_for_in_the_drivers_structure() {
    if std::env::var_os("SUPERVISED").is_some() {
        return reserve_three_times();
    }
    let program = std::env::current_exe().unwrap();
    let name = "cores_are_asked_for_in_the_drivers_structure";
    let script = format!("SUPERVISED=1 '{}' --exact {name} --nocapture", program.display());
    let mut asked = Vec::new();
    let (printed, status) = run(&script, WATCHED, |listener, call| match call.call {
        Call::Ioctl { command: 0x4008_4e55, argument, .. } => {
            let mut range = [0; 24];
            fake_neuron_seccomp::read(call.thread, argument, &mut range).unwrap();
            asked.push(
                range
                    .chunks_exact(4)
                    .map(|part| u32::from_ne_bytes(part.try_into().unwrap()))
                    .collect::<Vec<_>>(),
            );
            match asked.len() {
                1 => drop(listener.answer(call, 0).unwrap()),
                2 => listener.refuse(call, libc::EBUSY).unwrap(),
                _ => listener.refuse(call, libc::EINVAL).unwrap(),
            }
        }
        _ if opened(call).as_deref() == Some("/nowhere/neuron0") => {
            listener.answer_with_file(call, file("").as_fd(), true).unwrap();
        }
        _ => listener.pass_on(call).unwrap(),
    });
    assert!(status.success(), "{printed}");
    let told: Vec<&str> = printed.lines().filter(|line| line.contains("reserved: ")).collect();
    let expected = ["reserved: Ok(())".to_owned(), refused(libc::EBUSY), refused(libc::EINVAL)];
    assert_eq!(told.len(), 3, "{printed}");
    assert!(
        told.iter().zip(&expected).all(|(told, expected)| told.ends_with(expected.as_str())),
        "{printed}"
    );
    // How many, the first, the last, room for the longest free run and a map of 64 bits.
    assert_eq!(asked, [[2, 2, 3, 0, 0, 0], [1, 0, 0, 0, 0, 0], [2, 600, 601, 0, 0, 0]]);
}

fn refused(error: i32) -> String {
    format!("reserved: Err(Some({error}))")
}

#[test]
fn memory_is_read_up_to_where_it_ends() {
    let own = std::process::id();
    let text = b"/dev/neuron0\0rest";
    let at = text.as_ptr().addr() as u64;
    assert_eq!(read_path(own, at).unwrap().to_str().unwrap(), "/dev/neuron0");
    let mut buffer = [0; 8];
    let error = fake_neuron_seccomp::read(own, 8, &mut buffer).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    assert_eq!(fake_neuron_seccomp::write(own, 8, &buffer).unwrap(), 0);
    let endless = vec![b'a'; 5000];
    let error = read_path(own, endless.as_ptr().addr() as u64).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENAMETOOLONG));
}

#[test]
fn a_descriptor_arrives_with_its_message() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    send(&ours, b"{\"pid\": 1}", file("contents").as_fd()).unwrap();
    drop(ours);
    let (bytes, descriptors) = receive(&theirs, 100, |_| false).unwrap();
    assert_eq!(bytes, b"{\"pid\": 1}");
    let [passed]: [OwnedFd; 1] = descriptors.try_into().unwrap();
    let mut contents = String::new();
    std::fs::File::from(passed).read_to_string(&mut contents).unwrap();
    assert_eq!(contents, "contents");
}

#[test]
fn a_message_without_end_is_refused() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(&[b'x'; 200]).unwrap();
    let error = receive(&theirs, 100, |_| false).unwrap_err();
    assert_eq!(error.to_string(), "the message is too long");
}

//! The real machine's files, as programs see them.
#![allow(clippy::disallowed_methods, reason = "a test asks the machine itself")]

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use runtime::System;
use runtime::system::{DeviceNumber, FileKind};
use tokio::time::{Instant, timeout};

/// Linux' flag for a file that is open and neither read nor written, of `open(2)`.
const O_PATH: i32 = 0o10000000;

#[tokio::test]
async fn a_file_is_replaced_read_listed_and_removed() {
    let (system, folder) = (System::real(), tempfile::tempdir().unwrap());
    let path = folder.path().join("deep/er/file");
    system.create_folder(path.parent().unwrap()).await.unwrap();
    system.create_folder(path.parent().unwrap()).await.expect("one that is there is no error");
    for text in ["old", "new"] {
        system.replace(&path, text.into()).await.unwrap();
        assert_eq!(system.read_to_string(&path).await.unwrap(), text);
    }
    assert_eq!(system.names(path.parent().unwrap()).await.unwrap(), ["file"]);
    let renamed = path.with_file_name("renamed");
    system.rename(&path, &renamed).await.unwrap();
    system.remove(&renamed).await.unwrap();
    for gone in [&path, &renamed] {
        assert_eq!(system.read(gone).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(system.status(gone).await.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_file_that_hangs_costs_its_reader_two_seconds_and_others_nothing() {
    let (system, folder) = (System::real(), tempfile::tempdir().unwrap());
    let (hangs, fine) = (folder.path().join("hangs"), folder.path().join("fine"));
    assert!(Command::new("mkfifo").arg(&hangs).status().unwrap().success());
    system.replace(&fine, "text".into()).await.unwrap();
    let began = Instant::now();
    let (late, at_once) =
        tokio::join!(system.read(&hangs), async { (system.read_to_string(&fine).await, began.elapsed()) });
    assert_eq!((at_once.0.unwrap(), at_once.1 < Duration::from_secs(1)), ("text".to_owned(), true));
    assert_eq!(late.unwrap_err().kind(), ErrorKind::TimedOut);
    let again = system.read(&hangs).await.unwrap_err();
    assert_eq!(again.to_string(), "an earlier read of this file has not ended");
    // The thread that reads ends with its writer, so that the test's runtime can end.
    std::fs::write(&hangs, "").unwrap();
}

#[tokio::test]
async fn what_is_at_a_path_is_told_apart() {
    let (system, folder) = (System::real(), tempfile::tempdir().unwrap());
    let in_folder = |name: &str| folder.path().join(name);
    system.replace(&in_folder("file"), Vec::new()).await.unwrap();
    let _socket = UnixListener::bind(in_folder("socket")).unwrap();
    std::os::unix::fs::symlink("file", in_folder("link")).unwrap();
    for (name, kind) in [
        ("file", FileKind::File),
        ("", FileKind::Folder),
        ("socket", FileKind::Socket),
        ("link", FileKind::Other),
    ] {
        assert_eq!(system.status(&in_folder(name)).await.unwrap().kind, kind, "{name}");
    }
}

#[tokio::test]
async fn a_device_is_known_by_its_number_through_links_and_open_files() {
    let (system, folder) = (System::real(), tempfile::tempdir().unwrap());
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    let held = OpenOptions::new().read(true).custom_flags(O_PATH).open(&link).unwrap();
    let open = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), held.as_raw_fd()));
    for path in [Path::new("/dev/null"), &link, &open] {
        let null = Some(DeviceNumber { major: 1, minor: 3 });
        assert_eq!(system.device_number(path).await.unwrap(), null, "{}", path.display());
    }
    assert_eq!(system.device_number(folder.path()).await.unwrap(), None);
    // Not the one that was just closed: another test of this process may have its number by now.
    let closed = format!("/proc/{}/fd/{}", std::process::id(), i32::MAX);
    assert_eq!(system.device_number(Path::new(&closed)).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_locked_file_is_locked_for_others_until_it_is_let_go() {
    let (system, folder) = (System::real(), tempfile::tempdir().unwrap());
    let path = folder.path().join("lock");
    assert!(system.open_lock_file(&path).await.unwrap().is_none());
    let first = system.create_lock_file(&path).await.unwrap();
    assert!(system.create_lock_file(&path).await.is_err(), "it is there already");
    let second = system.open_lock_file(&path).await.unwrap().unwrap();
    assert!(first.try_lock().unwrap() && !second.try_lock().unwrap());
    assert_eq!(first.status().unwrap(), system.status(&path).await.unwrap());
    first.unlock().unwrap();
    assert!(second.try_lock().unwrap());
    drop(second);
    assert!(first.try_lock().unwrap(), "a lock ends with its handle");
}

#[tokio::test]
async fn a_change_in_a_watched_folder_is_told_and_neither_a_read_nor_a_beat_is() {
    let (system, folder) = (System::real(), tempfile::tempdir().unwrap());
    let path = folder.path().join("file");
    system.replace(&path, "old".into()).await.unwrap();
    let mut changes = system.watch_folder(folder.path()).unwrap();
    system.read(&path).await.unwrap();
    let beat = system.open_lock_file(&path).await.unwrap().unwrap();
    beat.set_modified(system.now()).await.unwrap();
    assert!(timeout(Duration::from_millis(100), changes.changed()).await.is_err());
    system.replace(&path, "new".into()).await.unwrap();
    timeout(Duration::from_secs(10), changes.changed()).await.expect("a change");
    assert!(system.watch_folder(&path.join("nowhere")).is_err());
}

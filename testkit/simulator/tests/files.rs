//! A simulated host's files, as programs see them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use runtime::system::{Address, FileKind};
use simulator::{Options, Simulation, run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, timeout};

fn simulate(work: impl AsyncFnOnce(Simulation) + Send + 'static) {
    run(Options::new(1), move |simulation| async move { work(simulation).await }).result.unwrap();
}

#[test]
fn a_program_sees_what_the_machine_has_and_others_write() {
    simulate(async |simulation| {
        let host = simulation.host("h");
        let (writer, reader) = (host.process("writer").system(), host.process("reader").system());
        host.files().write(Path::new("/sys/count"), "8").unwrap();
        assert_eq!(reader.read_to_string(Path::new("/sys/count")).await.unwrap(), "8");
        let path = Path::new("/var/state");
        assert_eq!(writer.replace(path, Vec::new()).await.unwrap_err().kind(), ErrorKind::NotFound);
        writer.create_folder(Path::new("/var")).await.unwrap();
        let mut changes = reader.watch_folder(Path::new("/var")).unwrap();
        assert!(timeout(Duration::from_secs(1), changes.changed()).await.is_err());
        writer.replace(path, "one".into()).await.unwrap();
        timeout(Duration::from_secs(1), changes.changed()).await.unwrap();
        let before = reader.status(path).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        writer.replace(path, "two".into()).await.unwrap();
        let after = reader.status(path).await.unwrap();
        assert!(before.inode != after.inode && before.modified < after.modified);
        assert_eq!((after.kind, reader.names(Path::new("/var")).await.unwrap().len()), (FileKind::File, 1));
        writer.rename(path, Path::new("/var/other")).await.unwrap();
        writer.remove(Path::new("/var/other")).await.unwrap();
        assert_eq!(reader.read(path).await.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_file_for_which_there_is_no_space_stays_as_it_was() {
    simulate(async |simulation| {
        let host = simulation.host("h");
        let (system, path) = (host.process("p").system(), Path::new("/state"));
        host.files().write(path, "one").unwrap();
        host.files().fill_up(path);
        assert_eq!(system.replace(path, "two".into()).await.unwrap_err().kind(), ErrorKind::StorageFull);
        system.replace(Path::new("/other"), "two".into()).await.unwrap();
        assert_eq!(system.read_to_string(path).await.unwrap(), "one");
        assert!(host.files().make_room(path), "a write has failed");
        system.replace(path, "two".into()).await.unwrap();
        assert_eq!(system.read_to_string(path).await.unwrap(), "two");
        host.files().fill_up(path);
        assert!(!host.files().make_room(path), "nothing was written meanwhile");
    });
}

#[test]
fn a_file_that_hangs_is_given_up_and_read_again_when_it_answers() {
    simulate(async |simulation| {
        let host = simulation.host("h");
        let system = host.process("p").system();
        let (path, fine) = (Path::new("/sys/neuron0/count"), Path::new("/sys/neuron1/count"));
        host.files().write(path, "8").unwrap();
        host.files().write(fine, "8").unwrap();
        host.files().set_hung(Path::new("/sys/neuron0"), true);
        let began = Instant::now();
        assert_eq!(system.read(path).await.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), runtime::system::FILE_TIMEOUT);
        system.read(fine).await.unwrap();
        let late = async {
            sleep(Duration::from_secs(1)).await;
            host.files().set_hung(Path::new("/sys/neuron0"), false);
        };
        let (read, ()) = tokio::join!(system.read(path), late);
        assert_eq!(read.unwrap(), b"8");
        // What comes in place of a file that hangs is another one.
        host.files().set_hung(Path::new("/sys/neuron0"), true);
        host.files().remove_all(Path::new("/sys"));
        host.files().write(path, "9").unwrap();
        assert_eq!(system.read(path).await.unwrap(), b"9");
    });
}

#[test]
fn a_file_whose_bytes_cannot_be_read_is_there_and_can_be_replaced() {
    simulate(async |simulation| {
        let host = simulation.host("h");
        let (system, path) = (host.process("p").system(), Path::new("/state"));
        host.files().write(path, "one").unwrap();
        host.files().set_unreadable(path, true);
        let told = system.read(path).await.unwrap_err().to_string();
        assert_eq!(told, "Input/output error (os error 5)");
        let before = system.status(path).await.unwrap();
        system.replace(path, "two".into()).await.unwrap();
        assert_ne!(system.status(path).await.unwrap().inode, before.inode);
        assert!(system.read(path).await.is_err(), "until the disk is well");
        host.files().set_unreadable(path, false);
        assert_eq!(system.read_to_string(path).await.unwrap(), "two");
        // What comes in place of a file that is removed is another one.
        host.files().set_unreadable(path, true);
        host.files().remove_all(path);
        host.files().write(path, "three").unwrap();
        assert_eq!(system.read_to_string(path).await.unwrap(), "three");
    });
}

#[test]
fn a_lock_ends_with_its_process() {
    simulate(async |simulation| {
        let host = simulation.host("h");
        host.files().make_folder(Path::new("/locks")).unwrap();
        let (first, second) = (host.process("first"), host.process("second"));
        let path = Path::new("/locks/a");
        let (lock, told) = (first.system().create_lock_file(path).await.unwrap(), first.system());
        let other = second.system().open_lock_file(path).await.unwrap().unwrap();
        assert!(lock.try_lock().unwrap() && !other.try_lock().unwrap());
        assert_eq!(lock.status().unwrap(), second.system().status(path).await.unwrap());
        told.spawn(async move {
            let _held = lock;
            std::future::pending::<()>().await;
        });
        sleep(Duration::from_secs(1)).await;
        assert!(!other.try_lock().unwrap());
        first.kill();
        sleep(Duration::from_secs(1)).await;
        assert!(other.try_lock().unwrap());
    });
}

#[test]
fn a_socket_is_a_file_that_outlives_who_listened() {
    simulate(async |simulation| {
        let host = simulation.host("h");
        host.files().make_folder(Path::new("/run")).unwrap();
        let (server, client) = (host.process("server"), host.process("client").system());
        let address = Address::Unix("/run/s.sock".into());
        let refused = |kind| move |error: std::io::Error| assert_eq!(error.kind(), kind);
        client.connect(&address).await.map(drop).map_err(refused(ErrorKind::NotFound)).unwrap_err();
        let mut listener = server.system().listen(&address).unwrap();
        let mut near = client.connect(&address).await.unwrap();
        let mut far = listener.accept().await.unwrap();
        near.write_all(b"hello").await.unwrap();
        let mut text = [0; 5];
        far.read_exact(&mut text).await.unwrap();
        assert_eq!(
            (&text, client.status(Path::new("/run/s.sock")).await.unwrap().kind),
            (b"hello", FileKind::Socket)
        );
        server.kill();
        drop(listener);
        client.connect(&address).await.map(drop).map_err(refused(ErrorKind::ConnectionRefused)).unwrap_err();
        assert!(host.process("server").system().listen(&address).is_err(), "the file is in the way");
    });
}
